/* schema: reads a mapping of the tree into structs, by tables of options */
#include "config/schema.h"

#include <errno.h>

#include "base/log.h"
#include "config/mask.h"
#include "config/nearest.h"
#include "config/property.h"
#include "config/scalar.h"

static void *member_of(const struct option *o, void *options) {
    return (char *)options + o->offset;
}

/* Kinds of nodes --------------------------------------------------------- */

static bool is_kind(const struct yaml_node *node, enum yaml_kind kind, const char *name, const char *expected,
                    struct diag *diag) {
    if (node->kind == kind && !yaml_empty(node))
        return true;
    if (node->kind != YAML_REFUSED)
        diag_add(diag, DIAG_ERROR, node->place, "%s: %s stands here; %s is expected", name, yaml_kind_name(node),
                 expected);
    return false;
}

bool schema_is_mapping(const struct yaml_node *node, const char *name, struct diag *diag) {
    return yaml_empty(node) || is_kind(node, YAML_MAPPING, name, "a mapping (key: value)", diag);
}

bool schema_is_list(const struct yaml_node *node, const char *name, struct diag *diag) {
    return is_kind(node, YAML_SEQUENCE, name, "a list", diag);
}

bool schema_is_text(const struct yaml_node *node, const char *name, struct diag *diag) {
    return is_kind(node, YAML_SCALAR, name, "one value", diag);
}

static bool name_character(char c, bool first) {
    bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return alphanumeric || (!first && (c == '-' || c == '_' || c == '.'));
}

bool schema_is_name(const struct yaml_node *node, const char *what, struct diag *diag) {
    if (!schema_is_text(node, what, diag))
        return false;
    struct span name = yaml_text(node);
    bool valid = name.len > 0 && name.len <= SCHEMA_NAME_MAX;
    for (size_t i = 0; valid && i < name.len; i++)
        valid = name_character(name.data[i], i == 0);
    if (!valid)
        diag_add(diag, DIAG_ERROR, node->place,
                 "\"%.100s\" is no name for a %s; 1 to %d letters, digits, '-', '_', '.' are allowed, a letter or "
                 "digit first",
                 name.data, what, SCHEMA_NAME_MAX);
    return valid;
}

/* Values ----------------------------------------------------------------- */

static int read_text_list(const struct option *o, const struct yaml_node *node, struct option_texts *texts,
                          struct diag *diag) {
    bool single = node->kind == YAML_SCALAR && !yaml_empty(node);
    if (!single && !schema_is_list(node, o->key, diag))
        return 0;
    const struct yaml_node *const *items = single ? &node : (const struct yaml_node *const *)node->children;
    size_t count = single ? 1 : node->count;
    texts->items = calloc(count + 1, sizeof(*texts->items));
    if (!texts->items)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct error error;
        if (!schema_is_text(items[i], o->key, diag))
            continue;
        int r = o->check ? o->check(yaml_text(items[i]), &error) : 0;
        if (r == -EINVAL) {
            diag_add(diag, DIAG_ERROR, items[i]->place, "%s: %s", o->key, error.text);
            continue;
        }
        texts->items[texts->count] = r == 0 ? strdup(items[i]->text) : NULL;
        if (!texts->items[texts->count])
            return -ENOMEM;
        texts->count++;
    }
    return 0;
}

static int set_secret(struct secret *secret, enum secret_kind kind, const char *value) {
    secret->value = strdup(value);
    secret->kind = kind;
    return secret->value ? 0 : -ENOMEM;
}

static int read_inline_secret(const struct yaml_node *node, const char *name, struct secret *ret_secret,
                              struct diag *diag) {
    if (strcmp(node->text, MASK_TEXT) == 0)
        diag_add(diag, DIAG_WARNING, node->place,
                 "%s: this is the mask that a printed configuration shows; put the secret here, better as "
                 "{credential: NAME}, {file: PATH} or {env: NAME}",
                 name);
    else
        diag_add(diag, DIAG_WARNING, node->place,
                 "%s: the secret itself stands in this file; {credential: NAME}, {file: PATH} or {env: NAME} keep it "
                 "out of here",
                 name);
    return set_secret(ret_secret, SECRET_INLINE, node->text);
}

/* NULL, or what is allowed. */
static const char *check_secret_value(enum secret_kind kind, struct span value) {
    if (value.len == 0)
        return "a name is expected";
    if (kind == SECRET_CREDENTIAL && (memchr(value.data, '/', value.len) || value.data[0] == '.'))
        return "the name of a credential is expected (systemd's LoadCredential=), not a path";
    if (kind == SECRET_FILE && value.data[0] != '/')
        return "an absolute path is expected";
    if (kind == SECRET_ENV && memchr(value.data, '=', value.len))
        return "the name of an environment variable is expected";
    return NULL;
}

int schema_read_secret(const struct yaml_node *node, const char *name, struct secret *ret_secret, struct diag *diag) {
    static const struct {
        const char *key;
        enum secret_kind kind;
    } places[] = {{"credential", SECRET_CREDENTIAL}, {"file", SECRET_FILE}, {"env", SECRET_ENV}};
    if (node->kind == YAML_SCALAR && !yaml_empty(node))
        return read_inline_secret(node, name, ret_secret, diag);
    if (!is_kind(node, YAML_MAPPING, name, "a secret: {credential: NAME}, {file: PATH} or {env: NAME}", diag))
        return 0;
    for (size_t i = 0; i < ARRAY_LENGTH(places) && yaml_pairs(node) == 1; i++) {
        const struct yaml_node *value = yaml_find(node, places[i].key, NULL);
        if (!value)
            continue;
        if (!schema_is_text(value, places[i].key, diag))
            return 0;
        const char *allowed = check_secret_value(places[i].kind, yaml_text(value));
        if (!allowed)
            return set_secret(ret_secret, places[i].kind, value->text);
        diag_add(diag, DIAG_ERROR, value->place, "%s: \"%.100s\" does not say where it is; %s", name, value->text,
                 allowed);
        return 0;
    }
    diag_add(diag, DIAG_ERROR, node->place,
             "%s: not a secret; exactly one of {credential: NAME}, {file: PATH} or {env: NAME} is allowed", name);
    return 0;
}

static int read_fallback(const struct option *o, void *options) {
    struct error error;
    if (!o->fallback)
        return 0;
    int r = scalar_read(o, span_of(o->fallback), options, &error);
    ASSERT(r != -EINVAL); /* a table's own default */
    return r;
}

static int read_value(const struct option *o, const struct yaml_node *node, void *options, struct diag *diag) {
    if (o->kind == OPTION_SECRET)
        return schema_read_secret(node, o->key, member_of(o, options), diag);
    if (o->kind == OPTION_TEXTS)
        return read_text_list(o, node, member_of(o, options), diag);
    if (!schema_is_text(node, o->key, diag))
        return read_fallback(o, options);
    struct error error;
    int r = scalar_read(o, yaml_text(node), options, &error);
    if (r != -EINVAL)
        return r;
    diag_add(diag, DIAG_ERROR, node->place, "%s: %s", o->key, error.text);
    return read_fallback(o, options); /* so that no further finding follows from this one */
}

/* Keys with a dot -------------------------------------------------------- */

/* "tls" of "tls.ca_file"; absent without a dot. */
static struct span group_of(const char *key) {
    const char *dot = strchr(key, '.');
    return dot ? (struct span){key, (size_t)(dot - key)} : SPAN_ABSENT;
}

/* Outside of groups: the key; of a group: its name. */
static struct span outer_name(const char *key) {
    struct span group = group_of(key);
    return span_absent(group) ? span_of(key) : group;
}

static const struct yaml_node *find_outer(const struct yaml_node *mapping, struct span name) {
    for (size_t i = 0; mapping->kind == YAML_MAPPING && i < yaml_pairs(mapping); i++)
        if (yaml_key(mapping, i)->kind == YAML_SCALAR && span_equal(yaml_text(yaml_key(mapping, i)), name))
            return yaml_value(mapping, i);
    return NULL;
}

const struct yaml_node *schema_find(const struct yaml_node *mapping, const char *key) {
    struct span group = group_of(key);
    const struct yaml_node *outer = find_outer(mapping, outer_name(key));
    if (!outer || span_absent(group))
        return outer;
    return find_outer(outer, span_of(key + group.len + 1));
}

/* What is not given ------------------------------------------------------ */

static int copy_value(const struct option *from, const void *from_options, const struct option *to, void *options) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(YAML_BYTES_MAX);
    struct error error;
    int r = scalar_add(from, from_options, &text);
    if (r != 0)
        return r;
    r = scalar_read(to, buf_span(&text), options, &error);
    return r == -EINVAL ? 0 : r; /* the destination's table may be narrower: its own default then */
}

static int read_absent(const struct schema *s, const struct option *o, void *options) {
    int r = read_fallback(o, options);
    for (size_t i = 0; r == 0 && i < s->inherit_count; i++)
        for (const struct option *from = s->inherit[i].table; from->key; from++)
            if (strcmp(from->key, o->key) == 0 && from->kind == o->kind)
                return copy_value(from, s->inherit[i].options, o, options);
    return r;
}

static int read_part(const struct schema *s, const struct schema_part *part, const struct yaml_node *mapping,
                     struct diag *diag) {
    for (const struct option *o = part->table; o->key; o++) {
        if (o->kind == OPTION_PROPERTIES)
            continue;
        const struct yaml_node *value = mapping ? schema_find(mapping, o->key) : NULL;
        int r = value ? read_value(o, value, part->options, diag) : read_absent(s, o, part->options);
        if (r != 0)
            return r;
        if (mapping && !value && o->required)
            diag_add(diag, DIAG_ERROR, mapping->place, "%s: \"%s\" is missing; it is needed: %s", s->name, o->key,
                     o->summary);
    }
    return 0;
}

/* Other keys ------------------------------------------------------------- */

/* Of the mapping itself (group absent) or of one group in it. */
struct keys {
    const struct schema *schema;
    struct span group;
};

/* The name that the option has there; absent if it is elsewhere. */
static struct span name_in(const struct keys *k, const char *key) {
    struct span group = group_of(key);
    if (span_absent(k->group))
        return outer_name(key);
    return span_equal(group, k->group) ? span_of(key + group.len + 1) : SPAN_ABSENT;
}

static bool known(const struct keys *k, struct span key, struct nearest *nearest) {
    const struct schema *s = k->schema;
    for (size_t i = 0; i < s->part_count; i++)
        for (const struct option *o = s->parts[i].table; o->key; o++) {
            struct span name = o->kind == OPTION_PROPERTIES ? SPAN_ABSENT : name_in(k, o->key);
            if (!span_absent(name) && span_equal(name, key))
                return true;
            if (!span_absent(name))
                nearest_try(nearest, name);
        }
    for (const char *const *other = s->others; span_absent(k->group) && other && *other; other++) {
        if (span_is(key, *other))
            return true;
        nearest_try(nearest, span_of(*other));
    }
    return false;
}

static int add_key_list(const struct keys *k, struct buf *b) {
    const struct schema *s = k->schema;
    struct span last = SPAN_ABSENT; /* a group's options follow each other */
    int r = 0;
    for (const char *const *other = s->others; r == 0 && span_absent(k->group) && other && *other; other++)
        r = buf_addf(b, "%s%s", b->len > 0 ? ", " : "", *other);
    for (size_t i = 0; i < s->part_count; i++)
        for (const struct option *o = s->parts[i].table; r == 0 && o->key; o++) {
            struct span name = name_in(k, o->key);
            if (!span_absent(name) && !span_equal(name, last))
                r = buf_addf(b, "%s%.*s", b->len > 0 ? ", " : "", SPAN_ARGS(name));
            last = name;
        }
    return r != 0 ? r : buf_terminate(b);
}

static const char *find_later(const struct keys *k, struct span key) {
    for (const struct schema_later *l = k->schema->later; span_absent(k->group) && l && l->key; l++)
        if (span_is(key, l->key))
            return l->sentence;
    return NULL;
}

static int report_unknown(const struct keys *k, const struct yaml_node *key, struct span meant, struct diag *diag) {
    struct span name = span_absent(k->group) ? span_of(k->schema->name) : k->group;
    const char *later = find_later(k, yaml_text(key));
    if (later) {
        diag_add(diag, DIAG_ERROR, key->place, "%s: %s", key->text, later);
        return 0;
    }
    if (!span_absent(meant)) {
        diag_add(diag, DIAG_ERROR, key->place, "\"%.100s\" is no key of %.*s; did you mean \"%.*s\"?", key->text,
                 SPAN_ARGS(name), SPAN_ARGS(meant));
        return 0;
    }
    CLEANUP(buf_done) struct buf list = BUF_INIT(4096);
    int r = add_key_list(k, &list);
    if (r == 0)
        diag_add(diag, DIAG_ERROR, key->place, "\"%.100s\" is no key of %.*s; %s%s", key->text, SPAN_ARGS(name),
                 list.len > 0 ? "allowed: " : "it has no keys", list.data);
    return r;
}

/* NULL: there is nothing that takes the keys that none of the others has. */
static const struct option *find_properties(const struct schema *s, struct option_properties **ret_properties) {
    for (size_t i = 0; i < s->part_count; i++)
        for (const struct option *o = s->parts[i].table; o->key; o++)
            if (o->kind == OPTION_PROPERTIES) {
                *ret_properties = member_of(o, s->parts[i].options);
                return o;
            }
    return NULL;
}

/* Reports every other key, or reads it if it may be a property. */
static int read_other_keys(const struct keys *k, const struct yaml_node *mapping, struct diag *diag) {
    struct option_properties *properties = NULL;
    const struct option *taker = span_absent(k->group) ? find_properties(k->schema, &properties) : NULL;
    if (taker) {
        properties->items = calloc(mapping->count + 1, sizeof(*properties->items));
        if (!properties->items)
            return -ENOMEM;
    }
    for (size_t i = 0; mapping->kind == YAML_MAPPING && i < yaml_pairs(mapping); i++) {
        const struct yaml_node *key = yaml_key(mapping, i);
        if (key->kind != YAML_SCALAR)
            continue;
        struct nearest nearest = {.word = yaml_text(key)};
        if (known(k, yaml_text(key), &nearest))
            continue;
        int r = taker ? property_read(taker, k->schema->name, key, yaml_value(mapping, i), diag, properties)
                      : report_unknown(k, key, nearest.found, diag);
        if (r != 0)
            return r;
    }
    return 0;
}

/* The groups of one table, each once. */
static int check_groups(const struct schema *s, const struct option *table, const struct yaml_node *mapping,
                        struct diag *diag) {
    struct span last = SPAN_ABSENT;
    for (const struct option *o = table; o->key; o++) {
        struct keys keys = {s, group_of(o->key)};
        bool again = span_equal(keys.group, last);
        last = keys.group;
        const struct yaml_node *value = span_absent(keys.group) || again ? NULL : find_outer(mapping, keys.group);
        if (!value)
            continue;
        char name[64];
        snprintf(name, sizeof(name), "%.*s", SPAN_ARGS(keys.group));
        if (!schema_is_mapping(value, name, diag))
            continue;
        int r = read_other_keys(&keys, value, diag);
        if (r != 0)
            return r;
    }
    return 0;
}

int schema_read(const struct schema *s, const struct yaml_node *mapping, struct diag *diag) {
    struct yaml_node without_keys = {.kind = YAML_MAPPING};
    if (mapping && !schema_is_mapping(mapping, s->name, diag)) {
        mapping = NULL;
    } else if (mapping && yaml_empty(mapping)) {
        without_keys.place = mapping->place;
        mapping = &without_keys;
    }
    struct keys all = {s, SPAN_ABSENT};
    int r = mapping ? read_other_keys(&all, mapping, diag) : 0;
    for (size_t i = 0; r == 0 && mapping && i < s->part_count; i++)
        r = check_groups(s, s->parts[i].table, mapping, diag);
    for (size_t i = 0; r == 0 && i < s->part_count; i++)
        r = read_part(s, &s->parts[i], mapping, diag);
    return r;
}
