/* config_connection: connections: NAME: {KIND: {…}} -> struct config_connection */
#include "config/config_connection.h"

#include <errno.h>

#include "config/mask.h"
#include "config/nearest.h"
#include "config/schema.h"

#define POSTGRESQL "postgresql"

const char *config_connection_kind(const struct config_connection *c) {
    return c->sink ? c->sink->name : POSTGRESQL;
}

static int report_kind(const struct yaml_node *kind, struct diag *diag) {
    CLEANUP(buf_done) struct buf kinds = BUF_INIT(1024);
    struct nearest nearest = {.word = yaml_text(kind)};
    nearest_try(&nearest, SPAN_LITERAL(POSTGRESQL));
    int r = buf_addf(&kinds, POSTGRESQL);
    for (size_t i = 0; r == 0 && sink_kind_at(i); i++) {
        nearest_try(&nearest, span_of(sink_kind_at(i)->name));
        r = buf_addf(&kinds, ", %s", sink_kind_at(i)->name);
    }
    if (r == 0)
        r = buf_terminate(&kinds);
    if (r != 0)
        return r;
    if (span_absent(nearest.found))
        diag_add(diag, DIAG_ERROR, kind->place, "\"%.100s\" is no kind of connection; allowed: %s", kind->text,
                 kinds.data);
    else
        diag_add(diag, DIAG_ERROR, kind->place, "\"%.100s\" is no kind of connection; did you mean \"%.*s\"?",
                 kind->text, SPAN_ARGS(nearest.found));
    return 0;
}

/* The one key below the name. NULL: there is a finding. */
static const struct yaml_node *find_kind(const struct yaml_node *name, const struct yaml_node *value,
                                         struct diag *diag) {
    if (!schema_is_mapping(value, name->text, diag))
        return NULL;
    if (value->kind != YAML_MAPPING || yaml_pairs(value) != 1) {
        diag_add(diag, DIAG_ERROR, value->place,
                 "%s: a connection has exactly one kind below its name, as in %s: {postgresql: {conninfo: …}}",
                 name->text, name->text);
        return NULL;
    }
    return yaml_key(value, 0)->kind == YAML_SCALAR ? yaml_key(value, 0) : NULL;
}

/* A password inside a connection string: allowed as an inline secret is, and warned about alike. */
static int warn_of_passwords(const struct option *table, const void *options, const struct yaml_node *mapping,
                             struct diag *diag) {
    for (const struct option *o = table; o->key; o++) {
        const struct yaml_node *value = schema_find(mapping, o->key);
        char *text = o->kind == OPTION_TEXT ? *(char *const *)((const char *)options + o->offset) : NULL;
        if (!value || !text)
            continue;
        CLEANUP(buf_done) struct buf masked = BUF_INIT(2 * YAML_BYTES_MAX);
        bool was_masked;
        int r = mask_add(span_of(text), &masked, &was_masked);
        if (r != 0)
            return r;
        if (was_masked)
            diag_add(diag, DIAG_WARNING, value->place,
                     "%s: a password stands in it; the key password keeps it out of here", o->key);
    }
    return 0;
}

/* Where that key stands; of one with a dot that stands for a mapping, its value. */
static struct diag_place place_of(const struct yaml_node *mapping, const char *key) {
    const struct yaml_node *node = NULL, *value = key ? yaml_find(mapping, key, &node) : NULL;
    if (key && !value)
        node = schema_find(mapping, key);
    return node ? node->place : mapping->place;
}

static int read_options(struct config_connection *c, const struct yaml_node *mapping, struct diag *diag) {
    const struct option *table = c->sink ? c->sink->connection_table : pgconn_options_table;
    void *options = c->sink ? c->sink_connection : &c->postgresql;
    struct schema_part part = {table, options};
    struct schema schema = {.name = config_connection_kind(c), .parts = &part, .part_count = 1};
    size_t errors = diag_count(diag, DIAG_ERROR);
    int r = schema_read(&schema, mapping, diag);
    if (r == 0)
        r = warn_of_passwords(table, options, mapping, diag);
    if (r != 0 || diag_count(diag, DIAG_ERROR) > errors)
        return r;
    struct error error;
    const char *key = NULL;
    if (c->sink)
        r = c->sink->check_connection ? c->sink->check_connection(options, &key, &error) : 0;
    else
        r = pgconn_check_options(options, &error);
    if (r != -EINVAL)
        return r;
    diag_add(diag, DIAG_ERROR, place_of(mapping, key), "%s: %s", schema.name, error.text);
    return 0;
}

int config_connection_read(const struct yaml_node *key, const struct yaml_node *value, struct diag *diag,
                           struct config_connection *c, bool *ret_kind_known) {
    *ret_kind_known = false;
    c->name = strdup(key->text);
    if (!c->name)
        return -ENOMEM;
    const struct yaml_node *kind = find_kind(key, value, diag);
    if (!kind)
        return 0;
    if (strcmp(kind->text, POSTGRESQL) != 0) {
        c->sink = sink_kind_find(yaml_text(kind));
        if (!c->sink)
            return report_kind(kind, diag);
        c->sink_connection = calloc(1, c->sink->connection_size ? c->sink->connection_size : 1);
        if (!c->sink_connection)
            return -ENOMEM;
    }
    *ret_kind_known = true;
    return read_options(c, yaml_value(value, 0), diag);
}

void config_connection_done(struct config_connection *c) {
    if (c->sink_connection)
        option_release(c->sink->connection_table, c->sink_connection);
    free(c->sink_connection);
    option_release(pgconn_options_table, &c->postgresql);
    free(c->name);
    *c = (struct config_connection){0};
}
