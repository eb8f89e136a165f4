/* config_print: the effective configuration as text that loads again */
#include <inttypes.h>

#include "config/config_connection.h"
#include "config/config_keys.h"
#include "config/writer.h"

static void print_connection(struct writer *w, const struct config_connection *c) {
    writer_open_mapping(w, c->name);
    writer_open_mapping(w, config_connection_kind(c));
    if (c->sink)
        writer_table(w, c->sink->connection_table, c->sink_connection, true);
    else
        writer_table(w, pgconn_options_table, &c->postgresql, true);
    writer_close_mapping(w);
    writer_close_mapping(w);
}

static void print_section(struct writer *w, const struct config_keys *keys, const void *options) {
    writer_open_mapping(w, keys->name);
    writer_table(w, keys->table, options, false);
    writer_close_mapping(w);
}

/* Source ----------------------------------------------------------------- */

static void print_constant(struct writer *w, const char *key, const char *column, const char *constant) {
    if (column)
        writer_text(w, key, span_of(column));
    if (!constant)
        return;
    writer_open_mapping(w, key);
    writer_text(w, "value", span_of(constant));
    writer_close_mapping(w);
}

static void print_extensions(struct writer *w, const struct source_options *s) {
    if (s->columns[ROW_EXTENSIONS])
        writer_text(w, "extensions", span_of(s->columns[ROW_EXTENSIONS]));
    if (s->extension_count == 0)
        return;
    writer_open_mapping(w, "extensions");
    for (size_t i = 0; i < s->extension_count; i++)
        writer_text(w, s->extensions[i].attribute, span_of(s->extensions[i].column));
    writer_close_mapping(w);
}

/* Only what was named: a default column may be missing in the table, a named one may not. */
static void print_columns(struct writer *w, const struct config_forwarder *f) {
    const struct source_options *s = &f->source;
    writer_open_mapping(w, "columns");
    writer_table(w, config_keys_columns.table, f, false);
    print_constant(w, "source", s->columns[ROW_SOURCE], s->constant_source);
    print_constant(w, "type", s->columns[ROW_TYPE], s->constant_type);
    print_extensions(w, s);
    writer_close_mapping(w);
}

static void print_start(struct writer *w, const struct source_options *s) {
    char position[32];
    switch (s->start) {
    case SOURCE_START_BEGINNING:
        writer_text(w, "start", SPAN_LITERAL("beginning"));
        return;
    case SOURCE_START_NOW:
        writer_text(w, "start", SPAN_LITERAL("now"));
        return;
    case SOURCE_START_POSITION:
        snprintf(position, sizeof(position), "%" PRId64, s->start_position);
        writer_open_mapping(w, "start");
        writer_plain(w, "position", span_of(position));
        writer_close_mapping(w);
        return;
    }
}

static void print_emit(struct writer *w, const struct config_forwarder *f) {
    writer_open_list(w, "emit");
    if (f->emit_streamid)
        writer_text(w, NULL, SPAN_LITERAL("streamid"));
    if (f->emit_streamversion)
        writer_text(w, NULL, SPAN_LITERAL("streamversion"));
    if (f->emit_position)
        writer_text(w, NULL, SPAN_LITERAL("position"));
    writer_close_list(w);
}

static void print_kept(struct writer *w, const char *text) {
    if (text && w->result == 0)
        w->result = buf_add_span(w->out, span_of(text));
}

static void print_source(struct writer *w, const struct config_forwarder *f) {
    writer_open_mapping(w, "source");
    writer_text(w, "connection", span_of(f->source_connection->name));
    writer_table(w, config_keys_source.table, f, false);
    print_columns(w, f);
    print_start(w, &f->source);
    print_kept(w, f->filter_text);
    print_section(w, &config_keys_poll, f);
    print_section(w, &config_keys_gaps, f);
    print_emit(w, f);
    writer_close_mapping(w);
}

/* Order, sink ------------------------------------------------------------ */

static void print_order(struct writer *w, const struct config_forwarder *f) {
    writer_open_mapping(w, "order");
    switch (f->order) {
    case FLOW_BY_KEY:
        writer_table(w, config_keys_order.table, f, false);
        break;
    case FLOW_BY_NONE:
        writer_text(w, "by", SPAN_LITERAL("none"));
        break;
    case FLOW_BY_ALL:
        writer_text(w, "by", SPAN_LITERAL("all"));
        break;
    }
    writer_close_mapping(w);
}

static void print_sink(struct writer *w, const struct config_forwarder *f) {
    const struct sink_options *options = f->sink_options;
    writer_open_mapping(w, "sink");
    writer_text(w, "connection", span_of(f->sink_connection->name));
    writer_table(w, sink_options_table, options, false);
    writer_table(w, binding_options_table, &options->binding, false);
    writer_table(w, f->sink_connection->sink->options_table, options, false);
    if (f->idempotency_header) {
        writer_open_mapping(w, "idempotency_key");
        writer_text(w, "header", span_of(f->idempotency_header));
        writer_text(w, "value", span_of(f->idempotency_value));
        writer_close_mapping(w);
    }
    writer_close_mapping(w);
}

static void print_forwarder(struct writer *w, const struct config_forwarder *f) {
    writer_open_mapping(w, f->name);
    print_source(w, f);
    print_section(w, &config_keys_window, f);
    print_order(w, f);
    print_sink(w, f);
    print_kept(w, f->rules_text);
    writer_table(w, config_keys_forwarder.table, f, false);
    print_section(w, &config_keys_retry, f);
    writer_close_mapping(w);
}

int config_print_forwarder(const struct config *c, const struct config_forwarder *f, const struct hash_key *fingerprints,
                           struct buf *b) {
    struct writer w = {.out = b, .fingerprints = fingerprints};
    print_connection(&w, f->source_connection);
    print_connection(&w, f->sink_connection);
    print_forwarder(&w, f);
    print_section(&w, &config_keys_checkpoint, c);
    return w.result;
}

int config_print(const struct config *c, struct buf *b) {
    struct writer w = {.out = b};
    writer_open_mapping(&w, "connections");
    for (size_t i = 0; i < c->connection_count; i++)
        print_connection(&w, &c->connections[i]);
    writer_close_mapping(&w);
    writer_open_mapping(&w, "forwarders");
    for (size_t i = 0; i < c->forwarder_count; i++)
        print_forwarder(&w, &c->forwarders[i]);
    writer_close_mapping(&w);
    print_section(&w, &config_keys_status, c);
    print_section(&w, &config_keys_health, c);
    print_section(&w, &config_keys_checkpoint, c);
    writer_table(&w, config_keys_file.table, c, false);
    return w.result;
}
