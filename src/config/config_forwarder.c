/* config_forwarder: forwarders: NAME: {…} -> struct config_forwarder */
#include "config/config_forwarder.h"

#include <errno.h>

#include "config/config_connection.h"
#include "config/config_keys.h"
#include "config/config_rules.h"
#include "config/config_source.h"
#include "config/nearest.h"
#include "config/writer.h"

struct reader {
    const struct config_forwarder_peers *peers;
    struct diag *diag;
    struct config_forwarder *f;
    const struct yaml_node *node; /* the forwarder's mapping */
};

/* The value's place, or the mapping's if it has no such key. */
static struct diag_place place_of(const struct yaml_node *mapping, const char *key) {
    const struct yaml_node *value = mapping->kind == YAML_MAPPING ? yaml_find(mapping, key, NULL) : NULL;
    return value ? value->place : mapping->place;
}

/* A section without which nothing works. NULL: there is a finding. */
static const struct yaml_node *find_needed(const struct reader *r, const char *key, const char *what) {
    const struct yaml_node *node = yaml_find(r->node, key, NULL);
    if (!node)
        diag_add(r->diag, DIAG_ERROR, r->node->place, "forwarder %s: \"%s\" is missing; it is needed: %s", r->f->name,
                 key, what);
    return node;
}

/* Connections ------------------------------------------------------------ */

static void report_connection(const struct reader *r, const struct yaml_node *name) {
    struct nearest nearest = {.word = yaml_text(name)};
    for (size_t i = 0; i < r->peers->count; i++)
        nearest_try(&nearest, span_of(r->peers->connections[i].name));
    if (span_absent(nearest.found))
        diag_add(r->diag, DIAG_ERROR, name->place,
                 "connection: there is no \"%.100s\" under connections; it must be described there", name->text);
    else
        diag_add(r->diag, DIAG_ERROR, name->place,
                 "connection: there is no \"%.100s\" under connections; did you mean \"%.*s\"?", name->text,
                 SPAN_ARGS(nearest.found));
}

static bool fits(const struct config_connection *c, bool sink) {
    return (c->sink != NULL) == sink;
}

/* NULL: there is a finding. */
static const struct config_connection *find_connection(const struct reader *r, const struct yaml_node *section,
                                                       bool sink) {
    const struct yaml_node *name = section->kind == YAML_MAPPING ? yaml_find(section, "connection", NULL) : NULL;
    if (!name && section->kind != YAML_REFUSED)
        diag_add(r->diag, DIAG_ERROR, section->place, "\"connection\" is missing; it is needed: %s",
                 sink ? "the broker, by its name under connections" : "the database, by its name under connections");
    if (!name || !schema_is_text(name, "connection", r->diag))
        return NULL;
    for (size_t i = 0; i < r->peers->count; i++) {
        const struct config_connection *c = &r->peers->connections[i];
        if (strcmp(c->name, name->text) != 0)
            continue;
        if (!r->peers->kind_known[i])
            return NULL;
        if (fits(c, sink))
            return c;
        diag_add(r->diag, DIAG_ERROR, name->place, "connection: \"%s\" is of kind %s; %s is expected here", c->name,
                 config_connection_kind(c), sink ? "a broker" : "postgresql");
        return NULL;
    }
    report_connection(r, name);
    return NULL;
}

/* Where the name is wrong but all brokers are of one kind, what else stands here
 * is looked at as if it were for that kind: all findings come in one run. */
static const struct config_connection *stand_in(const struct reader *r) {
    const struct config_connection *found = NULL;
    for (size_t i = 0; i < r->peers->count; i++) {
        const struct config_connection *c = &r->peers->connections[i];
        if (!r->peers->kind_known[i] || !c->sink)
            continue;
        if (found && found->sink != c->sink)
            return NULL;
        found = c;
    }
    return found;
}

/* Sink ------------------------------------------------------------------- */

static void template_cleanup(struct template **t) {
    template_free(*t);
}

static int read_idempotency_key(const struct reader *r, const struct yaml_node *node) {
    int result = config_keys_read(&config_keys_idempotency, node, NULL, r->diag);
    if (result != 0 || node->kind != YAML_MAPPING)
        return result;
    const struct yaml_node *header = yaml_find(node, "header", NULL), *value = yaml_find(node, "value", NULL);
    if (!header || !value) {
        diag_add(r->diag, DIAG_ERROR, node->place, "idempotency_key: {header: NAME, value: TEMPLATE} is expected");
        return 0;
    }
    CLEANUP(template_cleanup) struct template *t = NULL;
    result = config_rules_compile(value, "value", r->diag, &t);
    bool usable = schema_is_text(header, "header", r->diag) && config_rules_is_header(header, r->diag);
    if (result != 0 || !usable || !t)
        return result;
    r->f->idempotency_header = strdup(header->text);
    r->f->idempotency_value = strdup(value->text);
    return r->f->idempotency_header && r->f->idempotency_value ? 0 : -ENOMEM;
}

static const char *text_of(const struct option *o, const void *options) {
    return *(char *const *)((const char *)options + o->offset);
}

/* What only one may have at a broker: the second would wait for the first for ever. */
static void check_unique(const struct reader *r, const struct yaml_node *node, const struct option *o) {
    const char *text = text_of(o, r->f->sink_options);
    for (size_t i = 0; text && i < r->peers->forwarder_count; i++) {
        const struct config_forwarder *other = &r->peers->forwarders[i];
        if (other->sink_connection != r->f->sink_connection || !other->sink_options)
            continue;
        const char *others = text_of(o, other->sink_options);
        if (!others || strcmp(others, text) != 0)
            continue;
        const struct yaml_node *value = schema_find(node, o->key);
        diag_add(r->diag, DIAG_ERROR, value ? value->place : node->place,
                 "%s: forwarder %s has \"%.100s\" too, over the same connection; each needs one of its own", o->key, other->name,
                 text);
    }
}

static int read_sink_options(const struct reader *r, const struct yaml_node *node) {
    const struct sink_kind *kind = r->f->sink_connection->sink;
    struct sink_options *options = calloc(1, kind->options_size);
    if (!options)
        return -ENOMEM;
    r->f->sink_options = options;
    struct schema_part parts[] = {
        {sink_options_table, options}, {binding_options_table, &options->binding}, {kind->options_table, options}};
    struct schema schema = {.name = "sink",
                            .parts = parts,
                            .part_count = ARRAY_LENGTH(parts),
                            .others = config_keys_sink.others};
    struct error error;
    int result = schema_read(&schema, node, r->diag);
    if (result == 0 && binding_options_check(&options->binding, &error) != 0)
        diag_add(r->diag, DIAG_ERROR, place_of(node, "mark_empty_data"), "sink: %s", error.text);
    r->f->source.max_message_bytes = options->max_message_bytes;
    for (const struct option *o = kind->options_table; result == 0 && o->key; o++)
        if (o->unique)
            check_unique(r, node, o);
    return result;
}

static int read_sink(const struct reader *r) {
    const struct yaml_node *node = find_needed(r, "sink", "where the events go");
    if (!node || !schema_is_mapping(node, "sink", r->diag))
        return 0;
    const struct yaml_node *key = node->kind == YAML_MAPPING ? yaml_find(node, "idempotency_key", NULL) : NULL;
    r->f->sink_connection = find_connection(r, node, true);
    if (!r->f->sink_connection)
        r->f->sink_connection = stand_in(r); /* there is a finding: nothing is ever sent there */
    int result = key ? read_idempotency_key(r, key) : 0;
    return result != 0 || !r->f->sink_connection ? result : read_sink_options(r, node);
}

/* Window, order, retry --------------------------------------------------- */

static int read_section(const struct reader *r, const struct config_keys *keys) {
    return config_keys_read(keys, yaml_find(r->node, keys->name, NULL), r->f, r->diag);
}

/* Half of the window by default, so that reading ahead never eats what may be on the wire. */
static void check_window(const struct reader *r) {
    struct config_forwarder *f = r->f;
    struct sink_options *sink = f->sink_options;
    if (!sink)
        return;
    if (f->window_events == 0)
        f->window_events = f->sink_connection->sink->default_window_events;
    if (sink->in_flight == 0)
        sink->in_flight = (f->window_events + 1) / 2;
    if (sink->in_flight > f->window_events)
        diag_add(r->diag, DIAG_ERROR, place_of(yaml_find(r->node, "sink", NULL), "in_flight"),
                 "in_flight: %jd is more than the window holds; at most window.events (%jd) is allowed",
                 (intmax_t)sink->in_flight, (intmax_t)f->window_events);
}

static int read_order(const struct reader *r) {
    struct config_forwarder *f = r->f;
    int result = read_section(r, &config_keys_order);
    if (result != 0)
        return result;
    const struct yaml_node *node = yaml_find(r->node, "order", NULL);
    const struct sink_options *sink = f->sink_options;
    f->order = FLOW_BY_KEY;
    if (strcmp(f->order_attribute, "none") == 0)
        f->order = FLOW_BY_NONE;
    else if (strcmp(f->order_attribute, "all") == 0)
        f->order = FLOW_BY_ALL;
    if (f->order != FLOW_BY_KEY) {
        free(f->order_attribute);
        f->order_attribute = NULL;
        if (node->kind == YAML_MAPPING && yaml_find(node, "in_flight", NULL))
            diag_add(r->diag, DIAG_ERROR, place_of(node, "in_flight"),
                     "in_flight: counts events of one key; it goes with by: ATTRIBUTE only");
    } else if (node && sink && f->order_in_flight > sink->in_flight) {
        diag_add(r->diag, DIAG_ERROR, place_of(node, "in_flight"),
                 "in_flight: %jd of one key is more than all may be; at most the sink's in_flight (%jd) is allowed",
                 (intmax_t)f->order_in_flight, (intmax_t)sink->in_flight);
    }
    return 0;
}

static int read_retry(const struct reader *r) {
    int result = read_section(r, &config_keys_retry);
    if (result == 0 && r->f->retry.initial_us > r->f->retry.max_us)
        diag_add(r->diag, DIAG_ERROR, place_of(yaml_find(r->node, "retry", NULL), "initial"),
                 "retry: initial is longer than max; initial may be at most max");
    return result;
}

/* The whole -------------------------------------------------------------- */

static int read_source(const struct reader *r) {
    const struct yaml_node *node = find_needed(r, "source", "the database and its event table");
    if (!node || !schema_is_mapping(node, "source", r->diag))
        return 0;
    r->f->source_connection = find_connection(r, node, false);
    int result = config_source_read(node, r->diag, r->f);
    r->f->source.text_typed = r->f->default_text_type != NULL;
    return result;
}

static int read_rules(const struct reader *r) {
    const struct yaml_node *node = find_needed(r, "rules", "which event goes where; at least one rule");
    const struct config_connection *c = r->f->sink_connection;
    return node ? config_rules_read(node, c ? c->sink : NULL, r->diag, r->f) : 0;
}

static int take_text(struct buf *b, char **ret_text) {
    int r = buf_terminate(b);
    if (r != 0)
        return r;
    *ret_text = TAKE(b->data);
    *b = BUF_INIT(b->max);
    return 0;
}

#define PRINTED_MAX (16 * YAML_BYTES_MAX) /* indentation and escapes make it longer than it was */

/* What only the tree knows by now, as config_print wants it. */
static int keep_texts(const struct reader *r) {
    CLEANUP(buf_done) struct buf rules = BUF_INIT(PRINTED_MAX), filter = BUF_INIT(PRINTED_MAX);
    struct writer w = {.out = &filter, .level = 3};
    const struct yaml_node *filter_node = yaml_find(yaml_find(r->node, "source", NULL), "filter", NULL);
    int result = config_rules_print(yaml_find(r->node, "rules", NULL), 2, &rules);
    if (result == 0)
        result = take_text(&rules, &r->f->rules_text);
    if (result != 0 || !filter_node)
        return result;
    writer_node(&w, "filter", filter_node);
    return w.result != 0 ? w.result : take_text(&filter, &r->f->filter_text);
}

int config_forwarder_read(const struct yaml_node *key, const struct yaml_node *node,
                          const struct config_forwarder_peers *peers, struct diag *diag, struct config_forwarder *f) {
    struct yaml_node nothing = {.kind = YAML_MAPPING, .place = node->place};
    struct reader r = {peers, diag, f, yaml_empty(node) ? &nothing : node};
    size_t errors = diag_count(diag, DIAG_ERROR);
    f->name = strdup(key->text);
    if (!f->name)
        return -ENOMEM;
    int result = config_keys_read(&config_keys_forwarder, r.node, f, diag);
    if (result != 0 || r.node->kind != YAML_MAPPING)
        return result;
    result = read_source(&r);
    if (result == 0)
        result = read_section(&r, &config_keys_window);
    if (result == 0)
        result = read_sink(&r);
    check_window(&r);
    if (result == 0)
        result = read_order(&r);
    if (result == 0)
        result = read_retry(&r);
    if (result == 0)
        result = read_rules(&r);
    return result != 0 || diag_count(diag, DIAG_ERROR) > errors ? result : keep_texts(&r);
}

static void sink_done(struct config_forwarder *f) {
    struct sink_options *options = f->sink_options;
    if (options) {
        option_release(sink_options_table, options);
        option_release(binding_options_table, &options->binding);
        option_release(f->sink_connection->sink->options_table, options);
    }
    free(options);
    free(f->idempotency_header);
    free(f->idempotency_value);
}

void config_forwarder_done(struct config_forwarder *f) {
    config_source_done(f);
    config_rules_done(f);
    sink_done(f);
    free(f->order_attribute);
    free(f->filter_text);
    free(f->rules_text);
    free(f->name);
    *f = (struct config_forwarder){0};
}
