/* config_keys: the tables of what the configuration itself reads, and a walk over every key there is */
#include "config/config_keys.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/address.h"
#include "base/clock.h"
#include "event/attribute.h"

/* Rules of single texts -------------------------------------------------- */

static int refuse(struct error *reterr, const char *sentence) {
    error_set(reterr, ERROR_CONFIG, "%s", sentence);
    return -EINVAL;
}

static int check_socket(struct span text, struct error *reterr) {
    size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    if (text.len > 0 && text.data[0] == '/' && text.len <= max)
        return 0;
    return refuse(reterr, "not a socket's path; an absolute path of at most 107 bytes is allowed (unix(7))");
}

static int check_group(struct span text, struct error *reterr) {
    return text.len > 0 ? 0 : refuse(reterr, "not a group; the name of one is allowed");
}

static int check_metrics(struct span text, struct error *reterr) {
    struct sockaddr_storage address;
    socklen_t len;
    return address_parse(text, &address, &len, reterr);
}

/* PostgreSQL cuts longer identifiers in silence (NAMEDATALEN). */
int config_keys_check_column(struct span text, struct error *reterr) {
    if (text.len >= 1 && text.len <= 63)
        return 0;
    return refuse(reterr, "not a name in PostgreSQL; 1 to 63 bytes are allowed, written without quotes around them");
}

static int check_media_type(struct span text, struct error *reterr) {
    return attribute_check_core(EVENT_DATACONTENTTYPE, text, reterr);
}

static int check_attribute(struct span text, struct error *reterr) {
    if (attribute_name_valid(text))
        return 0;
    return refuse(reterr, "not an attribute's name; a-z and 0-9 are allowed");
}

static int check_order(struct span text, struct error *reterr) {
    if (attribute_name_valid(text))
        return 0;
    return refuse(reterr, "not an order; an attribute's name (a-z, 0-9), none or all is allowed");
}

static int check_policy(struct span text, struct error *reterr) {
    if (!span_is(text, "park"))
        return 0;
    return refuse(reterr, "parking does not exist yet; hold keeps the event until an operator acts");
}

static int check_rule_name(struct span text, struct error *reterr) {
    if (text.len >= 1 && text.len <= SCHEMA_NAME_MAX && attribute_string_valid(text, false))
        return 0;
    return refuse(reterr, "not a rule's name; 1 to 64 bytes without control characters are allowed");
}

/* The file --------------------------------------------------------------- */

#define OF_CONFIG(member) .offset = offsetof(struct config, member)

static const struct option file_table[] = {
    {.key = "stop_timeout", .kind = OPTION_DURATION, OF_CONFIG(stop_timeout_us), .fallback = "20s",
     .min = 100 * CLOCK_US_PER_MS, .max = 3600 * CLOCK_US_PER_S,
     .summary = "how long a stop waits for what is in flight"},
    OPTION_END,
};
static const char *const file_others[] = {"connections", "forwarders", "status", "health", "checkpoint", NULL};
static const char *const added_file_others[] = {"connections", "forwarders", NULL};
static const struct schema_later added_file_later[] = {
    {"status", "belongs in the main file; a file in conf.d adds connections and forwarders"},
    {"health", "belongs in the main file; a file in conf.d adds connections and forwarders"},
    {"checkpoint", "belongs in the main file; a file in conf.d adds connections and forwarders"},
    {"stop_timeout", "belongs in the main file; a file in conf.d adds connections and forwarders"},
    {NULL, NULL},
};
const struct config_keys config_keys_file = {"", "the file", file_table, file_others, NULL};
const struct config_keys config_keys_added_file = {"", "a file in conf.d", NULL, added_file_others, added_file_later};

static const char *const socket_modes[] = {"0660", "0600", NULL};
static const struct option status_table[] = {
    {.key = "socket", .kind = OPTION_TEXT, OF_CONFIG(status_socket), .fallback = CONFIG_DEFAULT_SOCKET,
     .summary = "where penstock status and probes ask", .check = check_socket},
    {.key = "mode", .kind = OPTION_CHOICE, OF_CONFIG(status_socket_owner_only), .fallback = "0660", .choices = socket_modes,
     .summary = "who may connect there: owner and group, or the owner alone"},
    {.key = "group", .kind = OPTION_TEXT, OF_CONFIG(status_group),
     .summary = "the group that the socket belongs to, if not the daemon's own", .check = check_group},
    {.key = "metrics", .kind = OPTION_TEXT, OF_CONFIG(status_metrics),
     .summary = "where metrics and status can be read over TCP too, without commands", .check = check_metrics},
    OPTION_END,
};
const struct config_keys config_keys_status = {"status", "status", status_table, NULL, NULL};

static const struct option health_table[] = {
    {.key = "max_age", .kind = OPTION_DURATION, OF_CONFIG(health_max_age_us), .fallback = "60s",
     .min = CLOCK_US_PER_S, .max = 86400 * CLOCK_US_PER_S,
     .summary = "an event that waits longer makes its forwarder unhealthy"},
    OPTION_END,
};
const struct config_keys config_keys_health = {"health", "health", health_table, NULL, NULL};

static const struct option checkpoint_table[] = {
    {.key = "schema", .kind = OPTION_TEXT, OF_CONFIG(checkpoint_schema), .fallback = "penstock",
     .summary = "the schema of our own tables", .check = config_keys_check_column},
    {.key = "create", .kind = OPTION_BOOLEAN, OF_CONFIG(checkpoint_create), .fallback = "false",
     .summary = "whether the daemon creates them"},
    {.key = "lease", .kind = OPTION_DURATION, OF_CONFIG(checkpoint_lease_us), .fallback = "20s",
     .min = CLOCK_US_PER_S, .max = 3600 * CLOCK_US_PER_S,
     .summary = "of two instances with the same forwarder one is active; after it dies the other waits for so long at most"},
    OPTION_END,
};
const struct config_keys config_keys_checkpoint = {"checkpoint", "checkpoint", checkpoint_table, NULL, NULL};

/* A forwarder ------------------------------------------------------------ */

#define OF_FORWARDER(member) .offset = offsetof(struct config_forwarder, member)

static const char *const policies[] = {"hold", "skip", NULL};
static const char *const rejected_policies[] = {"hold", NULL};
static const struct option forwarder_table[] = {
    {.key = "on_unmatched", .kind = OPTION_CHOICE, OF_FORWARDER(on_unmatched), .fallback = "hold", .choices = policies,
     .check = check_policy,
     .summary = "what becomes of an event that no rule matches"},
    {.key = "on_rejected", .kind = OPTION_CHOICE, OF_FORWARDER(on_rejected), .fallback = "hold",
     .choices = rejected_policies, .check = check_policy,
     .summary = "what becomes of an event that can never be delivered as it is"},
    OPTION_END,
};
static const char *const forwarder_others[] = {"source", "window", "order", "sink", "rules", "retry", NULL};
static const struct schema_later forwarder_later[] = {
    {"resolver", "the ready-made resolvers do not exist yet; write rules"},
    {NULL, NULL},
};
const struct config_keys config_keys_forwarder = {"forwarders.NAME", "the forwarder", forwarder_table,
                                                  forwarder_others, forwarder_later};

static const char *const invalid_json_choices[] = {"reject", "base64", NULL};
static const char *const mode_choices[] = {
    [SOURCE_MODE_DEFAULT] = "auto", [SOURCE_MODE_SNAPSHOT] = "snapshot", [SOURCE_MODE_GAPS] = "gaps", NULL};
static const struct option source_table[] = {
    {.key = "table", .kind = OPTION_TEXT, OF_FORWARDER(source.table), .required = true,
     .summary = "the event table, as table or schema.table", .check = source_check_table},
    {.key = "mode", .kind = OPTION_CHOICE, OF_FORWARDER(source.mode), .fallback = "auto", .choices = mode_choices,
     .summary = "how late commits are found: by the transaction-id column, or by watching the gaps between positions"},
    {.key = "default_text_type", .kind = OPTION_TEXT, OF_FORWARDER(default_text_type),
     .summary = "the datacontenttype of text data that has none", .check = check_media_type},
    {.key = "invalid_json", .kind = OPTION_CHOICE, OF_FORWARDER(invalid_json_as_base64), .fallback = "reject",
     .choices = invalid_json_choices, .summary = "what becomes of text that is called JSON and is none"},
    {.key = "listen", .kind = OPTION_TEXT, OF_FORWARDER(listen),
     .summary = "a channel of NOTIFY, by which an idle table is asked at once", .check = config_keys_check_column},
    {.key = "allow_control_characters", .kind = OPTION_TEXTS, OF_FORWARDER(control_characters),
     .summary = "extension attributes that may hold control characters", .check = check_attribute},
    OPTION_END,
};
static const char *const source_others[] = {"connection", "columns", "start", "filter", "poll", "gaps", "emit", NULL};
const struct config_keys config_keys_source = {"forwarders.NAME.source", "source", source_table, source_others, NULL};

#define COLUMN(name, role, does)                                                          \
    {.key = (name), .kind = OPTION_TEXT, OF_FORWARDER(source.columns[role]), .summary = (does), \
     .check = config_keys_check_column}
static const struct option columns_table[] = {
    COLUMN("position", ROW_POSITION, "bigint from a sequence: the row's number"),
    COLUMN("id", ROW_ID, "the event's id"),
    COLUMN("data", ROW_DATA, "the payload"),
    COLUMN("subject", ROW_SUBJECT, "the event's subject"),
    COLUMN("time", ROW_TIME, "when it happened"),
    COLUMN("datacontenttype", ROW_DATACONTENTTYPE, "the media type of the payload"),
    COLUMN("dataschema", ROW_DATASCHEMA, "the URI of the payload's schema"),
    COLUMN("stream_id", ROW_STREAM_ID, "the aggregate that the event belongs to"),
    COLUMN("stream_version", ROW_STREAM_VERSION, "its number there"),
    COLUMN("recorded", ROW_RECORDED, "when the row was written: lag is counted from it"),
    {.key = "transaction_id", .kind = OPTION_TEXT, OF_FORWARDER(source.transaction_id),
     .summary = "xid8 default pg_current_xact_id(): by it no late commit is passed over",
     .check = config_keys_check_column},
    OPTION_END,
};
#undef COLUMN
static const char *const columns_others[] = {"source", "type", "extensions", NULL};
const struct config_keys config_keys_columns = {"forwarders.NAME.source.columns", "columns", columns_table,
                                                columns_others, NULL};

static const char *const constant_others[] = {"value", NULL};
const struct config_keys config_keys_constant = {"forwarders.NAME.source.columns.source", "a constant", NULL,
                                                 constant_others, NULL};
static const char *const start_others[] = {"position", NULL};
const struct config_keys config_keys_start = {"forwarders.NAME.source.start", "start", NULL, start_others, NULL};

static const struct option poll_table[] = {
    {.key = "min", .kind = OPTION_DURATION, OF_FORWARDER(poll_min_us), .fallback = "1ms", .min = 100,
     .max = 60 * CLOCK_US_PER_S, .summary = "the shortest wait before the table is asked again"},
    {.key = "max", .kind = OPTION_DURATION, OF_FORWARDER(poll_max_us), .fallback = "1s", .min = CLOCK_US_PER_MS,
     .max = 60 * CLOCK_US_PER_S, .summary = "the longest"},
    OPTION_END,
};
const struct config_keys config_keys_poll = {"forwarders.NAME.source.poll", "poll", poll_table, NULL, NULL};

static const struct option gaps_table[] = {
    {.key = "retention", .kind = OPTION_DURATION, OF_FORWARDER(source.gaps_retention_us), .fallback = "10min",
     .max = INT64_C(86400) * 30 * CLOCK_US_PER_S,
     .summary = "how long a gap that no transaction fills any more is looked at; longer than the longest writer"},
    {.key = "max", .kind = OPTION_INTEGER, OF_FORWARDER(source.gaps_max), .fallback = "100000", .min = 100, .max = SOURCE_GAPS_MAX,
     .summary = "gaps in memory; if so many can still be filled nothing more is read"},
    OPTION_END,
};
const struct config_keys config_keys_gaps = {"forwarders.NAME.source.gaps", "gaps", gaps_table, NULL, NULL};

static const struct option window_table[] = {
    {.key = "events", .kind = OPTION_INTEGER, OF_FORWARDER(window_events), .min = 1, .max = 1000000,
     .summary = "events read and not settled; by default what suits the sink's kind"},
    {.key = "bytes", .kind = OPTION_SIZE, OF_FORWARDER(window_bytes), .fallback = "16MiB", .min = 65536,
     .max = INT64_C(4) << 30, .summary = "their bytes together"},
    {.key = "unsaved", .kind = OPTION_INTEGER, OF_FORWARDER(window_unsaved), .fallback = "10000", .min = 1,
     .max = 10000000, .summary = "events settled and not yet behind the saved checkpoint"},
    OPTION_END,
};
static const struct schema_later window_later[] = {
    {"ahead", "is called unsaved"},
    {NULL, NULL},
};
const struct config_keys config_keys_window = {"forwarders.NAME.window", "window", window_table, NULL, window_later};

static const struct option order_table[] = {
    {.key = "by", .kind = OPTION_TEXT, OF_FORWARDER(order_attribute), .fallback = "streamid",
     .summary = "the attribute that is the ordering key, or none, or all", .check = check_order},
    {.key = "in_flight", .kind = OPTION_INTEGER, OF_FORWARDER(order_in_flight), .fallback = "1", .min = 1,
     .max = 1000000, .summary = "events of one key on the wire at once"},
    OPTION_END,
};
const struct config_keys config_keys_order = {"forwarders.NAME.order", "order", order_table, NULL, NULL};

static const struct option retry_table[] = {
    {.key = "initial", .kind = OPTION_DURATION, OF_FORWARDER(retry.initial_us), .fallback = "100ms",
     .min = CLOCK_US_PER_MS, .max = 3600 * CLOCK_US_PER_S, .summary = "the wait before the second attempt"},
    {.key = "max", .kind = OPTION_DURATION, OF_FORWARDER(retry.max_us), .fallback = "2s", .min = CLOCK_US_PER_MS,
     .max = 3600 * CLOCK_US_PER_S, .summary = "the longest wait"},
    {.key = "multiplier", .kind = OPTION_DECIMAL, OF_FORWARDER(retry.multiplier), .fallback = "2.0", .min = 1,
     .max = 10, .summary = "by how much each wait is longer than the one before"},
    OPTION_END,
};
const struct config_keys config_keys_retry = {"forwarders.NAME.retry", "retry", retry_table, NULL, NULL};

/* Sink and rules --------------------------------------------------------- */

static const char *const sink_others[] = {"connection", "idempotency_key", NULL};
const struct config_keys config_keys_sink = {"forwarders.NAME.sink", "sink", NULL, sink_others, NULL};

static const char *const idempotency_others[] = {"header", "value", NULL};
const struct config_keys config_keys_idempotency = {"forwarders.NAME.sink.idempotency_key", "idempotency_key", NULL,
                                                    idempotency_others, NULL};

static const struct option rule_table[] = {
    {.key = "name", .kind = OPTION_TEXT, .offset = offsetof(struct config_rule_keys, name),
     .summary = "for messages and counts; by default rule-N", .check = check_rule_name},
    {.key = "skip", .kind = OPTION_BOOLEAN, .offset = offsetof(struct config_rule_keys, skip), .fallback = "false",
     .summary = "the event goes nowhere and counts as settled"},
    {.key = "continue", .kind = OPTION_BOOLEAN, .offset = offsetof(struct config_rule_keys, go_on),
     .fallback = "false", .summary = "later rules are tried too"},
    OPTION_END,
};
static const char *const rule_others[] = {"filter", "to", NULL};
const struct config_keys config_keys_rule = {"forwarders.NAME.rules", "the rule", rule_table, rule_others, NULL};

static const char *const destination_others[] = {"headers", NULL};
const struct config_keys config_keys_destination = {"forwarders.NAME.rules.to", "the destination", NULL,
                                                    destination_others, NULL};

static const char *const filter_others[] = {"exact", "prefix", "suffix", "all", "any", "not", NULL};
static const struct schema_later filter_later[] = {
    {"sql", "CloudEvents SQL does not exist yet; exact, prefix, suffix, all, any and not do"},
    {NULL, NULL},
};
const struct config_keys config_keys_filter = {"forwarders.NAME.rules.filter", "the filter", NULL, filter_others,
                                               filter_later};

int config_keys_read(const struct config_keys *keys, const struct yaml_node *mapping, void *options,
                     struct diag *diag) {
    struct schema_part part = {keys->table, options};
    struct schema schema = {.name = keys->name,
                            .parts = &part,
                            .part_count = keys->table ? 1 : 0,
                            .others = keys->others,
                            .later = keys->later};
    return schema_read(&schema, mapping, diag);
}

/* Every key -------------------------------------------------------------- */

static int visit_table(const char *place, const struct option *table, config_keys_visitor visit, void *context) {
    int r = 0;
    for (const struct option *o = table; r == 0 && o && o->key; o++)
        r = visit(context, place, o->key, o);
    return r;
}

static int visit_keys(const struct config_keys *keys, config_keys_visitor visit, void *context) {
    int r = visit_table(keys->place, keys->table, visit, context);
    for (const char *const *other = keys->others; r == 0 && other && *other; other++)
        r = visit(context, keys->place, *other, NULL);
    return r;
}

static int visit_connection(const char *kind, const struct option *table, config_keys_visitor visit, void *context) {
    char place[64];
    snprintf(place, sizeof(place), "connections.NAME.%s", kind);
    int r = visit(context, "connections.NAME", kind, NULL);
    return r != 0 ? r : visit_table(place, table, visit, context);
}

static int visit_sink_kind(const struct sink_kind *kind, config_keys_visitor visit, void *context) {
    int r = visit_connection(kind->name, kind->connection_table, visit, context);
    if (r == 0)
        r = visit_table(config_keys_sink.place, kind->options_table, visit, context);
    if (r == 0)
        r = visit_table(config_keys_destination.place, kind->destination_options_table, visit, context);
    for (const struct destination_field *f = kind->fields; r == 0 && f && f->key; f++)
        r = visit(context, config_keys_destination.place, f->key, NULL);
    return r;
}

int config_keys_visit(config_keys_visitor visit, void *context) {
    static const struct config_keys *const all[] = {
        &config_keys_file,    &config_keys_status,   &config_keys_health, &config_keys_checkpoint,
        &config_keys_forwarder, &config_keys_source, &config_keys_columns, &config_keys_constant,
        &config_keys_start,   &config_keys_poll,     &config_keys_gaps,   &config_keys_window, &config_keys_order,
        &config_keys_retry,   &config_keys_sink,     &config_keys_idempotency, &config_keys_rule,
        &config_keys_destination, &config_keys_filter,
    };
    int r = visit_connection("postgresql", pgconn_options_table, visit, context);
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(all); i++)
        r = visit_keys(all[i], visit, context);
    if (r == 0)
        r = visit_table(config_keys_sink.place, sink_options_table, visit, context);
    if (r == 0)
        r = visit_table(config_keys_sink.place, binding_options_table, visit, context);
    for (size_t i = 0; r == 0 && sink_kind_at(i); i++)
        r = visit_sink_kind(sink_kind_at(i), visit, context);
    return r;
}
