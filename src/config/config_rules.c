/* config_rules: forwarders: NAME: rules: [ … ] -> struct rule_set */
#include "config/config_rules.h"

#include <errno.h>

#include "base/log.h"
#include "config/config_filter.h"
#include "config/config_keys.h"
#include "config/writer.h"
#include "event/attribute.h"

struct reader {
    struct diag *diag;
    struct config_forwarder *f;
    const struct sink_kind *kind;          /* NULL: unknown */
    const struct yaml_node *everything;    /* the first rule that lets nothing past; NULL: none yet */
    size_t destinations;
};

static void template_cleanup(struct template **t) {
    template_free(*t);
}

/* The set's own maximum is a finding. */
static int as_finding(struct reader *r, int result, const struct yaml_node *node) {
    if (result != -EMSGSIZE)
        return result;
    diag_add(r->diag, DIAG_ERROR, node->place, "rules: too many; %d rules and %d destinations are allowed",
             RULE_SET_RULES_MAX, RULE_SET_DESTINATIONS_MAX);
    return 0;
}

/* Templates -------------------------------------------------------------- */

int config_rules_compile(const struct yaml_node *node, const char *key, struct diag *diag,
                         struct template **ret_template) {
    struct error error;
    size_t column;
    *ret_template = NULL;
    if (!schema_is_text(node, key, diag))
        return 0;
    int r = template_compile(yaml_text(node), ret_template, &error, &column);
    if (r != -EINVAL)
        return r;
    *ret_template = NULL;
    diag_add(diag, DIAG_ERROR, yaml_place_at(node, column), "%s: %s", key, error.text);
    return 0;
}

/* What is literal can be checked once and for all. */
static void check_literal(const struct destination_field *field, const struct template *t,
                          const struct yaml_node *node, struct diag *diag) {
    struct error error;
    struct span literal = template_literal(t);
    if (!span_absent(literal) && field->check && field->check(literal, &error) != 0)
        diag_add(diag, DIAG_ERROR, node->place, "%s: %s", field->key, error.text);
}

static int read_field(struct reader *r, size_t index, const struct yaml_node *to) {
    const struct destination_field *field = &r->kind->fields[index];
    const struct yaml_node *node = yaml_find(to, field->key, NULL);
    if (!node) {
        if (field->required)
            diag_add(r->diag, DIAG_ERROR, to->place, "to: \"%s\" is missing; it is needed: %s", field->key,
                     field->summary);
        return 0;
    }
    CLEANUP(template_cleanup) struct template *t = NULL;
    int result = config_rules_compile(node, field->key, r->diag, &t);
    if (result != 0 || !t)
        return result;
    check_literal(field, t, node, r->diag);
    return as_finding(r, rule_set_add_field(r->f->rules, index, TAKE(t)), node);
}

/* Headers ---------------------------------------------------------------- */

#define HEADER_NAME_MAX 255 /* AMQP 0-9-1 4.2.5.5: the length of a field's name is one byte */

bool config_rules_is_header(const struct yaml_node *name, struct diag *diag) {
    if (name->kind != YAML_SCALAR)
        return false;
    struct span text = yaml_text(name);
    if (binding_header_reserved(text)) {
        diag_add(diag, DIAG_ERROR, name->place,
                 "header \"%.100s\" is reserved; names that begin with cloudEvents_, cloudEvents:, ce_, ce- or "
                 "x-penstock-, and content-type, are set by Penstock",
                 name->text);
        return false;
    }
    if (text.len >= 1 && text.len <= HEADER_NAME_MAX && attribute_string_valid(text, false))
        return true;
    diag_add(diag, DIAG_ERROR, name->place,
             "not a header's name; 1 to %d bytes without control characters are allowed", HEADER_NAME_MAX);
    return false;
}

static int read_header(struct reader *r, const struct yaml_node *name, const struct yaml_node *value) {
    if (!config_rules_is_header(name, r->diag))
        return 0;
    if (r->f->idempotency_header && strcmp(name->text, r->f->idempotency_header) == 0) {
        diag_add(r->diag, DIAG_ERROR, name->place, "header \"%s\" is the sink's idempotency_key; give one another name",
                 name->text);
        return 0;
    }
    CLEANUP(template_cleanup) struct template *t = NULL;
    int result = config_rules_compile(value, name->text, r->diag, &t);
    if (result != 0 || !t)
        return result;
    return as_finding(r, rule_set_add_header(r->f->rules, yaml_text(name), TAKE(t)), name);
}

/* A header of every destination; its template was compiled once without findings. */
static int add_idempotency_key(struct reader *r, const struct yaml_node *to) {
    CLEANUP(template_cleanup) struct template *t = NULL;
    struct error error;
    size_t column;
    if (!r->f->idempotency_header)
        return 0;
    int result = template_compile(span_of(r->f->idempotency_value), &t, &error, &column);
    ASSERT(result != -EINVAL);
    if (result != 0)
        return result;
    return as_finding(r, rule_set_add_header(r->f->rules, span_of(r->f->idempotency_header), TAKE(t)), to);
}

static int read_headers(struct reader *r, const struct yaml_node *to) {
    const struct yaml_node *headers = yaml_find(to, "headers", NULL);
    int result = add_idempotency_key(r, to);
    if (result != 0 || !headers || !schema_is_mapping(headers, "headers", r->diag) || yaml_empty(headers))
        return result;
    size_t max = DESTINATION_HEADERS_MAX - (r->f->idempotency_header ? 1 : 0);
    if (yaml_pairs(headers) > max) {
        diag_add(r->diag, DIAG_ERROR, headers->place, "headers: %zu of them; %zu are allowed", yaml_pairs(headers),
                 max);
        return 0;
    }
    for (size_t i = 0; result == 0 && i < yaml_pairs(headers); i++)
        result = read_header(r, yaml_key(headers, i), yaml_value(headers, i));
    return result;
}

/* Destinations ----------------------------------------------------------- */

/* Every destination has options of its own, the sink's where it says nothing; owned by the forwarder. */
static int new_options(struct reader *r, void **ret_options) {
    struct config_forwarder *f = r->f;
    *ret_options = NULL;
    if (r->kind->destination_options_size == 0)
        return 0;
    void **more = reallocarray(f->destination_options, f->destination_options_count + 1, sizeof(*more));
    if (!more)
        return -ENOMEM;
    f->destination_options = more;
    *ret_options = calloc(1, r->kind->destination_options_size);
    if (!*ret_options)
        return -ENOMEM;
    f->destination_options[f->destination_options_count++] = *ret_options;
    return 0;
}

/* Unknown keys, and the options. */
static int read_options(struct reader *r, const struct yaml_node *to, void *options) {
    const char *others[DESTINATION_FIELDS_MAX + 2] = {NULL};
    size_t count = 0;
    struct sink_options *sink = r->f->sink_options;
    for (const struct destination_field *field = r->kind->fields; field && field->key; field++)
        others[count++] = field->key;
    others[count] = config_keys_destination.others[0];
    struct schema_part part = {r->kind->destination_options_table, options};
    struct schema_part inherit[] = {{binding_options_table, &sink->binding}, {r->kind->options_table, sink}};
    struct schema schema = {.name = config_keys_destination.name,
                            .parts = &part,
                            .part_count = options ? 1 : 0,
                            .inherit = inherit,
                            .inherit_count = ARRAY_LENGTH(inherit),
                            .others = others};
    return schema_read(&schema, to, r->diag);
}

/* What the tables can't say of values that stand side by side. */
static void check_options(struct reader *r, const struct yaml_node *to, const void *options) {
    struct error error;
    if (!options || r->kind->destination_options_table != binding_options_table)
        return;
    const struct yaml_node *mark = yaml_find(to, "mark_empty_data", NULL);
    if (binding_options_check(options, &error) != 0)
        diag_add(r->diag, DIAG_ERROR, mark ? mark->place : to->place, "to: %s", error.text);
}

static int read_destination(struct reader *r, const struct yaml_node *to) {
    struct yaml_node nothing = {.kind = YAML_MAPPING, .place = to->place};
    if (!schema_is_mapping(to, "to", r->diag))
        return 0;
    if (yaml_empty(to))
        to = &nothing;
    if (++r->destinations > RULE_SET_DESTINATIONS_MAX)
        return as_finding(r, -EMSGSIZE, to);
    void *options = NULL;
    int result = new_options(r, &options);
    if (result == 0)
        result = read_options(r, to, options);
    check_options(r, to, options);
    if (result == 0)
        result = rule_set_add_destination(r->f->rules, options);
    for (size_t i = 0; result == 0 && r->kind->fields && r->kind->fields[i].key; i++)
        result = read_field(r, i, to);
    return result != 0 ? result : read_headers(r, to);
}

static int read_destinations(struct reader *r, const struct yaml_node *to) {
    if (!r->kind)
        return 0;
    if (to->kind != YAML_SEQUENCE)
        return read_destination(r, to);
    if (to->count == 0 || to->count > RULE_DESTINATIONS_MAX) {
        diag_add(r->diag, DIAG_ERROR, to->place, "to: a list of %zu; 1 to %d destinations are allowed", to->count,
                 RULE_DESTINATIONS_MAX);
        return 0;
    }
    int result = 0;
    for (size_t i = 0; result == 0 && i < to->count; i++)
        result = read_destination(r, to->children[i]);
    return result;
}

/* Rules ------------------------------------------------------------------ */

static void check_shape(struct reader *r, const struct yaml_node *node, const struct config_rule_keys *keys) {
    const struct yaml_node *to = yaml_find(node, "to", NULL), *go_on = yaml_find(node, "continue", NULL);
    const struct yaml_node *skip = yaml_find(node, "skip", NULL);
    bool says_no = !skip || (skip->kind == YAML_SCALAR && strcmp(skip->text, "false") == 0);
    if (to && keys->skip)
        diag_add(r->diag, DIAG_ERROR, to->place, "to: the rule skips; either to or skip: true is allowed");
    if (!to && says_no)
        diag_add(r->diag, DIAG_ERROR, node->place, "the rule says neither to nor skip: true; one of them is expected");
    if (keys->skip && keys->go_on)
        diag_add(r->diag, DIAG_ERROR, go_on->place,
                 "continue: a rule that skips ends the search; continue goes with to");
}

/* Rules behind one without a filter are never asked. */
static void check_reachable(struct reader *r, const struct yaml_node *node, const struct config_rule_keys *keys) {
    if (r->everything)
        diag_add(r->diag, DIAG_WARNING, node->place,
                 "the rule can never match: the one in line %u takes every event that comes so far",
                 r->everything->place.line);
    else if (!yaml_find(node, "filter", NULL) && !keys->go_on)
        r->everything = node;
}

static int name_rule(const struct config_rule_keys *keys, size_t number, char **ret_name) {
    int len = keys->name ? asprintf(ret_name, "%s", keys->name) : asprintf(ret_name, "rule-%zu", number);
    return len < 0 ? -ENOMEM : 0;
}

static void check_name(struct reader *r, const struct yaml_node *node, const char *name) {
    const struct yaml_node *key = yaml_find(node, "name", NULL);
    for (size_t i = 0; i < rule_set_count(r->f->rules); i++)
        if (span_is(rule_name(r->f->rules, i), name))
            diag_add(r->diag, DIAG_ERROR, key ? key->place : node->place,
                     "rule \"%s\" is there twice (rule %zu is the first); give one another name", name, i + 1);
}

static int read_rule_body(struct reader *r, const struct yaml_node *node, const struct config_rule_keys *keys) {
    CLEANUP(cleanup_free) char *name = NULL;
    struct filter *filter = NULL;
    int result = name_rule(keys, rule_set_count(r->f->rules) + 1, &name);
    if (result != 0)
        return result;
    check_name(r, node, name);
    check_shape(r, node, keys);
    check_reachable(r, node, keys);
    const struct yaml_node *filter_node = yaml_find(node, "filter", NULL), *to = yaml_find(node, "to", NULL);
    if (filter_node)
        result = config_filter_read(filter_node, r->diag, &filter);
    if (result == 0)
        result = rule_set_add_rule(r->f->rules, span_of(name), filter, keys->skip && !to, keys->go_on);
    return result != 0 || !to ? result : read_destinations(r, to);
}

static int read_rule(struct reader *r, const struct yaml_node *node) {
    struct config_rule_keys keys = {0};
    if (yaml_empty(node)) {
        diag_add(r->diag, DIAG_ERROR, node->place, "rules: nothing stands here; a rule is expected");
        return 0;
    }
    int result = config_keys_read(&config_keys_rule, node, &keys, r->diag);
    if (result == 0 && node->kind == YAML_MAPPING)
        result = read_rule_body(r, node, &keys);
    option_release(config_keys_rule.table, &keys);
    return result;
}

int config_rules_read(const struct yaml_node *node, const struct sink_kind *kind, struct diag *diag,
                      struct config_forwarder *f) {
    struct reader r = {.diag = diag, .f = f, .kind = kind};
    int result = rule_set_new(&f->rules);
    if (result != 0)
        return result;
    if (yaml_empty(node) || (node->kind == YAML_SEQUENCE && node->count == 0)) {
        diag_add(diag, DIAG_ERROR, node->place, "rules: empty; at least one is needed, else no event goes anywhere");
        return 0;
    }
    if (!schema_is_list(node, "rules", diag))
        return 0;
    if (node->count > RULE_SET_RULES_MAX)
        return as_finding(&r, -EMSGSIZE, node);
    for (size_t i = 0; result == 0 && i < node->count; i++)
        result = read_rule(&r, node->children[i]);
    return result;
}

void config_rules_done(struct config_forwarder *f) {
    const struct sink_kind *kind = f->sink_connection ? f->sink_connection->sink : NULL;
    rule_set_free(f->rules);
    for (size_t i = 0; i < f->destination_options_count; i++) {
        option_release(kind->destination_options_table, f->destination_options[i]);
        free(f->destination_options[i]);
    }
    free(f->destination_options);
}

/* Printing --------------------------------------------------------------- */

static void print_key(struct writer *w, const struct yaml_node *rule, const char *key) {
    const struct yaml_node *value = yaml_find(rule, key, NULL);
    if (value)
        writer_node(w, key, value);
}

static int print_rule(struct writer *w, const struct yaml_node *rule, size_t number) {
    struct config_rule_keys keys = {0};
    const struct yaml_node *given = yaml_find(rule, "name", NULL);
    CLEANUP(cleanup_free) char *name = NULL;
    keys.name = given ? given->text : NULL;
    int r = name_rule(&keys, number, &name);
    if (r != 0)
        return r;
    writer_open_item(w);
    writer_text(w, "name", span_of(name));
    print_key(w, rule, "filter");
    print_key(w, rule, "to");
    print_key(w, rule, "skip");
    print_key(w, rule, "continue");
    writer_close_item(w);
    return w->result;
}

int config_rules_print(const struct yaml_node *node, unsigned level, struct buf *b) {
    struct writer w = {.out = b, .level = level};
    int r = 0;
    writer_open_list(&w, "rules");
    for (size_t i = 0; r == 0 && i < node->count; i++)
        r = print_rule(&w, node->children[i], i + 1);
    writer_close_list(&w);
    return r != 0 ? r : w.result;
}
