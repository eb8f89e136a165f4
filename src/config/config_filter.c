/* config_filter: filter: {exact | prefix | suffix | all | any | not: …} -> struct filter */
#include "config/config_filter.h"

#include <errno.h>

#include "base/log.h"
#include "config/config_keys.h"
#include "event/attribute.h"

static void filter_cleanup(struct filter **f) {
    filter_free(*f);
}

/* -EINVAL is a finding, not a failure. */
static int as_finding(int r, const struct yaml_node *node, const struct error *error, struct diag *diag) {
    if (r != -EINVAL)
        return r;
    diag_add(diag, DIAG_ERROR, node->place, "filter: %s", error->text);
    return 0;
}

static int finish(struct filter *f, const struct yaml_node *node, struct diag *diag) {
    struct error error;
    return as_finding(filter_finish(f, &error), node, &error, diag);
}

/* exact, prefix, suffix: {attribute: value, …} */
static int read_matches(struct filter *f, const struct yaml_node *key, const struct yaml_node *node,
                        struct diag *diag) {
    if (!schema_is_mapping(node, key->text, diag))
        return 0;
    for (size_t i = 0; node->kind == YAML_MAPPING && i < yaml_pairs(node); i++) {
        const struct yaml_node *name = yaml_key(node, i), *value = yaml_value(node, i);
        if (name->kind != YAML_SCALAR || !schema_is_text(value, name->text, diag))
            continue;
        struct error error;
        int r = filter_add_match(f, yaml_text(name), yaml_text(value), &error);
        r = as_finding(r, attribute_name_valid(yaml_text(name)) ? value : name, &error, diag);
        if (r != 0)
            return r;
    }
    return node->kind != YAML_MAPPING || yaml_pairs(node) == 0 ? finish(f, node, diag) : 0;
}

static int read_child(struct filter *f, const struct yaml_node *node, struct diag *diag) {
    struct filter *child;
    int r = config_filter_read(node, diag, &child); /* as deep as the tree: YAML_DEPTH_MAX */
    if (r != 0 || !child)
        return r;
    struct error error;
    return as_finding(filter_add_child(f, child, &error), node, &error, diag);
}

/* all, any: [filter, …] */
static int read_list(struct filter *f, const struct yaml_node *key, const struct yaml_node *node, struct diag *diag) {
    if (!schema_is_list(node, key->text, diag))
        return 0;
    for (size_t i = 0; i < node->count; i++) {
        int r = read_child(f, node->children[i], diag);
        if (r != 0)
            return r;
    }
    return node->count == 0 ? finish(f, node, diag) : 0;
}

static int read_dialect(enum filter_dialect dialect, struct filter *f, const struct yaml_node *key,
                        const struct yaml_node *value, struct diag *diag) {
    switch (dialect) {
    case FILTER_EXACT:
    case FILTER_PREFIX:
    case FILTER_SUFFIX:
        return read_matches(f, key, value, diag);
    case FILTER_ALL:
    case FILTER_ANY:
        return read_list(f, key, value, diag);
    case FILTER_NOT:
        return read_child(f, value, diag);
    }
    log_bug(__FILE__, __LINE__, "unknown dialect");
}

/* The key that names the dialect; NULL: there is a finding, or out of memory. */
static int find_dialect(const struct yaml_node *node, struct diag *diag, const struct yaml_node **ret_key) {
    size_t errors = diag_count(diag, DIAG_ERROR);
    *ret_key = NULL;
    int r = config_keys_read(&config_keys_filter, node, NULL, diag);
    if (r != 0 || node->kind == YAML_REFUSED || diag_count(diag, DIAG_ERROR) > errors)
        return r;
    if (node->kind == YAML_MAPPING && yaml_pairs(node) == 1 && yaml_key(node, 0)->kind == YAML_SCALAR)
        *ret_key = yaml_key(node, 0);
    else
        diag_add(diag, DIAG_ERROR, node->place,
                 "filter: exactly one of exact, prefix, suffix, all, any or not is expected; all: [ … ] takes several");
    return 0;
}

int config_filter_read(const struct yaml_node *node, struct diag *diag, struct filter **ret_filter) {
    size_t errors = diag_count(diag, DIAG_ERROR);
    const struct yaml_node *key;
    *ret_filter = NULL;
    int r = find_dialect(node, diag, &key);
    if (r != 0 || !key)
        return r;
    int dialect = filter_dialect_by_name(yaml_text(key));
    ASSERT(dialect >= 0); /* config_keys_filter and the room rule know the same */
    CLEANUP(filter_cleanup) struct filter *f = NULL;
    r = filter_new((enum filter_dialect)dialect, &f);
    if (r == 0)
        r = read_dialect((enum filter_dialect)dialect, f, key, yaml_value(node, 0), diag);
    if (r == 0 && diag_count(diag, DIAG_ERROR) == errors)
        *ret_filter = TAKE(f);
    return r;
}
