/* inspect: is the event table fit to be tailed, and what would mend it? */
#include "source/inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"

void inspect_init(struct inspect *in, struct pgconn *tail, struct table *table) {
    *in = (struct inspect){.tail = tail, .table = table, .step = INSPECT_ENDED, .note = BUF_INIT(INSPECT_NOTE_MAX)};
}

void inspect_done(struct inspect *in) {
    buf_done(&in->note);
}

/* Findings. ----------------------------------------------------------------- */

enum severity { WARNS, REFUSES };

/* One line of the note. What no longer fits is left out: the first ones say enough. */
static void find(struct inspect *in, enum severity severity, const char *format, ...) PRINTF_LIKE(3, 4);

static void find(struct inspect *in, enum severity severity, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (severity == REFUSES && !in->refused)
        error_set(&in->first, ERROR_CONFIG, "%s", text);
    in->refused |= severity == REFUSES;
    in->findings++;
    size_t before = in->note.len;
    int r = buf_addf(&in->note, "%s%s", in->note.len ? "\n" : "", text);
    if (r == 0)
        r = buf_terminate(&in->note);
    if (r)
        in->note.len = before;
    if (r == -ENOMEM)
        in->failure = r;
}

#define WORD_MAX_BYTES 4096 /* a name of 1,000 bytes, all of them quotes */

/* The pieces that the statements of a mend are made of. */
struct words {
    struct buf table, schema, role, position, xid;
};

static void words_done(struct words *w) {
    buf_done(&w->table);
    buf_done(&w->schema);
    buf_done(&w->role);
    buf_done(&w->position);
    buf_done(&w->xid);
}

static int find_words(struct inspect *in, struct words *w) {
    const struct {
        struct buf *to;
        struct span name;
    } names[] = {
        {&w->schema, span_of(in->table->name.schema ? in->table->name.schema : "public")},
        {&w->role, span_of(in->role)},
        {&w->position, span_of(table_column(in->table, ROW_POSITION)->column)},
        {&w->xid, span_of(table_column(in->table, TABLE_TRANSACTION_ID)->column)},
    };
    w->table = BUF_INIT(WORD_MAX_BYTES);
    int r = table_name_quote(&in->table->name, &w->table);
    if (r == 0)
        r = buf_terminate(&w->table);
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(names); i++) {
        *names[i].to = BUF_INIT(WORD_MAX_BYTES);
        r = pgconn_quote_identifier(names[i].name, names[i].to);
        if (r == 0)
            r = buf_terminate(names[i].to);
    }
    if (r)
        in->failure = r;
    return r;
}

/* An index on a partitioned table can't be made concurrently. */
static const char *create_index(const struct inspect *in) {
    return in->table->partitioned ? "CREATE INDEX ON" : "CREATE INDEX CONCURRENTLY ON";
}

/* Steps. -------------------------------------------------------------------- */

static const char relation_sql[] =
    "SELECT pg_is_in_recovery(), (SELECT system_identifier FROM pg_control_system()), " PGCONN_SERVER_SQL
    ", current_user, c.oid, c.relkind, has_schema_privilege(c.relnamespace, 'USAGE'), row_security_active(c.oid),"
    " (SELECT string_agg(format('%I.%I', o.relnamespace::regnamespace, o.relname), ', ') FROM pg_class o"
    " WHERE lower(o.relname) = lower($2) AND o.relkind IN ('r', 'p') AND c.oid IS NULL),"
    " EXISTS (SELECT FROM pg_subscription_rel s WHERE s.srrelid = c.oid) AND NOT EXISTS (SELECT FROM pg_trigger g"
    " WHERE g.tgrelid = c.oid AND g.tgenabled = 'A' AND NOT g.tgisinternal)"
    " FROM (SELECT) AS one LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace)"
    " ON c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    " AND CASE WHEN $1::text IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = $1 END";

#define RELATION_FACTS 10

static const char columns_sql[] =
    "SELECT a.attname, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END,"
    " format_type(a.atttypid, a.atttypmod), a.attnotnull, has_column_privilege(a.attrelid, a.attnum, 'SELECT'),"
    " a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval(%', false),"
    " coalesce(pg_get_expr(d.adbin, d.adrelid) ~ 'pg_current_xact_id\\(|txid_current\\(', false)"
    " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
    " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
    " WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped";

/* k: the names of an index's columns in their order, NULL for an expression. */
static const char indexes_sql[] =
    "SELECT coalesce(bool_or(k[1] = $3 AND k[2] = $2), false), coalesce(bool_or(k[1] = $2), false),"
    " coalesce(bool_or(k[1] = $2 AND array_length(k, 1) = 1 AND indisunique), false)"
    " FROM (SELECT i.indisunique, ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS c (number, place)"
    " LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = c.number AND c.number > 0"
    " WHERE place <= i.indnkeyatts ORDER BY place) AS k"
    " FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam"
    " WHERE i.indrelid = $1 AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree') AS indexes";

#define OID_OID 26

static struct pgconn_param oid_param(uint32_t oid, char text[16]) {
    int len = snprintf(text, 16, "%" PRIu32, oid);
    return (struct pgconn_param){{text, (size_t)len}, OID_OID};
}

static struct pgconn_param text_param(const char *text) {
    return (struct pgconn_param){span_of(text), TABLE_OID_TEXT};
}

static int send_rows(struct inspect *in, int64_t now_us, struct error *reterr) {
    CLEANUP(words_done) struct words w = {0};
    CLEANUP(buf_done) struct buf sql = BUF_INIT(4096);
    bool bigint = table_column(in->table, TABLE_TRANSACTION_ID)->oid == TABLE_OID_INT8;
    int r = find_words(in, &w);
    if (r == 0)
        r = buf_addf(&sql, "SELECT EXISTS (SELECT FROM %s WHERE %s >= pg_snapshot_xmax(pg_current_snapshot())%s)",
                     w.table.data, w.xid.data, bigint ? "::text::bigint" : "");
    if (r == 0)
        r = buf_terminate(&sql);
    return r ? r : pgconn_send(in->tail, NULL, sql.data, NULL, 0, false, now_us, reterr);
}

static int send_step(struct inspect *in, int64_t now_us, struct error *reterr) {
    char oid[16];
    const struct table_name *name = &in->table->name;
    struct pgconn_param relation[] = {text_param(name->schema), text_param(name->table)};
    struct pgconn_param table[] = {oid_param(in->oid, oid), text_param(table_column(in->table, ROW_POSITION)->column),
                                   text_param(table_column(in->table, TABLE_TRANSACTION_ID)->column)};
    switch (in->step) {
    case INSPECT_RELATION:
        return pgconn_send(in->tail, NULL, relation_sql, relation, 2, false, now_us, reterr);
    case INSPECT_COLUMNS:
        return pgconn_send(in->tail, NULL, columns_sql, table, 1, false, now_us, reterr);
    case INSPECT_INDEXES:
        return pgconn_send(in->tail, NULL, indexes_sql, table, 3, false, now_us, reterr);
    case INSPECT_ROWS:
        return send_rows(in, now_us, reterr);
    case INSPECT_ENDED:
        break;
    }
    return 0;
}

int inspect_start(struct inspect *in, int64_t now_us, struct error *reterr) {
    in->findings = 0;
    in->failure = 0;
    in->refused = false;
    buf_clear(&in->note);
    table_forget(in->table);
    int version = pgconn_server_version(in->tail);
    if (version < INSPECT_SERVER_VERSION_MIN) {
        find(in, REFUSES, "the server is PostgreSQL %d; needed is 13 or later", version / 10000);
        in->step = INSPECT_ENDED;
        return 0;
    }
    in->step = INSPECT_RELATION;
    return send_step(in, now_us, reterr);
}

static bool is_true(struct span value) {
    return span_is(value, "t");
}

static void copy(char *to, size_t size, struct span value) {
    snprintf(to, size, "%.*s", SPAN_ARGS(value));
}

static void look_at_relation(struct inspect *in) {
    struct span v[RELATION_FACTS];
    for (int i = 0; i < RELATION_FACTS; i++)
        v[i] = pgconn_value(in->tail, i);
    copy(in->system_identifier, sizeof in->system_identifier, v[1]);
    copy(in->server, sizeof in->server, v[2]);
    copy(in->role, sizeof in->role, v[3]);
    in->oid = (uint32_t)strtoul(span_absent(v[4]) ? "0" : v[4].data, NULL, 10);
    in->table->partitioned = span_is(v[5], "p");

    CLEANUP(words_done) struct words w = {0};
    if (find_words(in, &w) != 0)
        return;
    if (is_true(v[0]))
        find(in, REFUSES, "the server is in recovery (a standby): its snapshots do not list running transactions, so rows "
             "would be lost; connect to the primary");
    if (in->oid == 0) {
        find(in, REFUSES, "there is no table %s%s%.*s%s; make it (penstock schema --event-table prints one) or name another",
             w.table.data, v[8].len ? " (but there is " : "", SPAN_ARGS(v[8]),
             v[8].len ? ": names with upper case need double quotes, other schemas their name)" : "");
        return;
    }
    if (!span_is(v[5], "r") && !span_is(v[5], "p"))
        find(in, REFUSES, "%s is no table but a view or a foreign table; name the table itself", w.table.data);
    if (!is_true(v[6]))
        find(in, REFUSES, "role %s may not use the schema: GRANT USAGE ON SCHEMA %s TO %s;", w.role.data, w.schema.data,
             w.role.data);
    if (is_true(v[7]))
        find(in, REFUSES, "row-level security of %s would hide rows from role %s: ALTER ROLE %s BYPASSRLS;", w.table.data,
             w.role.data, w.role.data);
    in->subscribed = is_true(v[9]);
}

enum source_mode inspect_mode(const struct inspect *in) {
    if (in->table->mode != SOURCE_MODE_DEFAULT)
        return in->table->mode;
    return table_column(in->table, TABLE_TRANSACTION_ID)->found ? SOURCE_MODE_SNAPSHOT : SOURCE_MODE_GAPS;
}

static bool in_snapshot_mode(const struct inspect *in) {
    return inspect_mode(in) == SOURCE_MODE_SNAPSHOT;
}

static void look_at_column(struct inspect *in) {
    struct span oid = pgconn_value(in->tail, 1);
    struct table_fact fact = {
        .name = pgconn_value(in->tail, 0),
        .oid = (uint32_t)strtoul(oid.data, NULL, 10),
        .type = pgconn_value(in->tail, 2),
        .not_null = is_true(pgconn_value(in->tail, 3)),
        .readable = is_true(pgconn_value(in->tail, 4)),
        .from_sequence = is_true(pgconn_value(in->tail, 5)),
        .from_transaction = is_true(pgconn_value(in->tail, 6)),
    };
    table_found(in->table, &fact);
}

static const char *key_of(const struct table_column *c) {
    static const char *const keys[] = {
        [ROW_POSITION] = "position",
        [ROW_ID] = "id",
        [ROW_SOURCE] = "source",
        [ROW_TYPE] = "type",
        [ROW_DATA] = "data",
        [ROW_SUBJECT] = "subject",
        [ROW_TIME] = "time",
        [ROW_DATACONTENTTYPE] = "datacontenttype",
        [ROW_DATASCHEMA] = "dataschema",
        [ROW_STREAM_ID] = "stream_id",
        [ROW_STREAM_VERSION] = "stream_version",
        [ROW_RECORDED] = "recorded",
        [ROW_EXTENSIONS] = "extensions",
        [ROW_EXTENSION] = "extensions",
        [TABLE_TRANSACTION_ID] = "transaction_id",
    };
    return keys[c->role] ? keys[c->role] : "?";
}

static void judge_transaction_id(struct inspect *in, const struct table_column *c, const struct words *w) {
    if (!c->not_null)
        find(in, REFUSES, "column %s may be NULL, and rows without it would be passed over: ALTER TABLE %s ALTER COLUMN %s SET "
             "NOT NULL;", w->xid.data, w->table.data, w->xid.data);
    if (!c->from_transaction)
        find(in, WARNS, "column %s does not default to the transaction's id; that is only right if each writer sets it to "
             "pg_current_xact_id(): ALTER TABLE %s ALTER COLUMN %s SET DEFAULT pg_current_xact_id()%s;", w->xid.data,
             w->table.data, w->xid.data, c->oid == TABLE_OID_INT8 ? "::text::bigint" : "");
}

static void judge_absent(struct inspect *in, const struct table_column *c, const struct words *w) {
    if (c->role == TABLE_TRANSACTION_ID && c->needed)
        find(in, REFUSES, "%s has no transaction-id column %s, which mode snapshot needs (mode gaps does not): "
             "ALTER TABLE %s ADD COLUMN %s xid8 NOT NULL DEFAULT pg_current_xact_id(); %s %s (%s, %s);",
             w->table.data, w->xid.data, w->table.data, w->xid.data, create_index(in), w->table.data, w->xid.data,
             w->position.data);
    else if (c->needed)
        find(in, REFUSES, "%s has no column \"%s\"; set columns: {%s: NAME} to the one it has%s", w->table.data, c->column,
             key_of(c), c->role == ROW_SOURCE || c->role == ROW_TYPE ? ", or to {value: …}" : "");
}

static void judge_column(struct inspect *in, const struct table_column *c, const struct words *w) {
    if (!c->found) {
        judge_absent(in, c, w);
        return;
    }
    if (c->role == TABLE_TRANSACTION_ID && !in_snapshot_mode(in))
        return;
    const char *allowed = table_unfit(c->role, c->oid);
    if (allowed)
        find(in, REFUSES, "column \"%s\" of %s is of type %s; as %s it must be %s", c->column, w->table.data, c->type, key_of(c),
             allowed);
    else if (c->role == TABLE_TRANSACTION_ID)
        judge_transaction_id(in, c, w);
    else if (c->role == ROW_POSITION && !c->not_null)
        find(in, REFUSES, "column %s may be NULL, and rows without it would be passed over: ALTER TABLE %s ALTER COLUMN %s SET "
             "NOT NULL;", w->position.data, w->table.data, w->position.data);
}

static void judge_columns(struct inspect *in) {
    CLEANUP(words_done) struct words w = {0};
    if (find_words(in, &w) != 0)
        return;
    bool readable = true;
    for (size_t i = 0; i < in->table->count; i++) {
        const struct table_column *c = &in->table->columns[i];
        judge_column(in, c, &w);
        readable &= !c->found || c->readable;
    }
    if (in->subscribed && in_snapshot_mode(in))
        find(in, REFUSES, "%s is filled by a subscription (logical replication), so its rows carry the publisher's transaction "
             "ids and would be passed over: set %s to pg_current_xact_id() in a BEFORE INSERT trigger and ALTER TABLE %s ENABLE "
             "ALWAYS TRIGGER it", w.table.data, w.xid.data, w.table.data);
    if (!readable)
        find(in, REFUSES, "role %s may not read %s: GRANT SELECT ON %s TO %s;", w.role.data, w.table.data, w.table.data,
             w.role.data);
}

static void look_at_indexes(struct inspect *in) {
    CLEANUP(words_done) struct words w = {0};
    const struct table_column *position = table_column(in->table, ROW_POSITION);
    const struct table_column *xid = table_column(in->table, TABLE_TRANSACTION_ID);
    if (find_words(in, &w) != 0)
        return;
    if (in_snapshot_mode(in) && xid->found && position->found && !is_true(pgconn_value(in->tail, 0)))
        find(in, WARNS, "%s has no index on (%s, %s), so each read looks at all rows: %s %s (%s, %s);", w.table.data, w.xid.data,
             w.position.data, create_index(in), w.table.data, w.xid.data, w.position.data);
    if (position->found && !is_true(pgconn_value(in->tail, 1)))
        find(in, WARNS, "%s has no index on %s, so reading a backlog looks at all rows for each page: %s %s (%s);", w.table.data,
             w.position.data, create_index(in), w.table.data, w.position.data);
    bool unique = is_true(pgconn_value(in->tail, 2));
    if (position->found && !unique && !position->from_sequence)
        find(in, REFUSES, "column %s is neither unique nor from a sequence, and of two rows with one position the second can be "
             "passed over: ALTER TABLE %s ADD UNIQUE (%s);", w.position.data, w.table.data, w.position.data);
}

static void look_at_rows(struct inspect *in) {
    CLEANUP(words_done) struct words w = {0};
    if (find_words(in, &w) != 0 || !is_true(pgconn_value(in->tail, 0)))
        return;
    /* 3 is the first ordinary id (FirstNormalTransactionId): older than any snapshot. */
    find(in, REFUSES, "%s holds rows with transaction ids that this server has not reached (restored or replicated from another "
         "server): make them old: UPDATE %s SET %s = '3' WHERE %s::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot()); "
         "those that were not sent yet are sent by a new start (delete the checkpoint row, set start: {position: N})",
         w.table.data, w.table.data, w.xid.data, w.xid.data);
}

static void look_at_row(struct inspect *in) {
    switch (in->step) {
    case INSPECT_RELATION:
        look_at_relation(in);
        break;
    case INSPECT_COLUMNS:
        look_at_column(in);
        break;
    case INSPECT_INDEXES:
        look_at_indexes(in);
        break;
    case INSPECT_ROWS:
        look_at_rows(in);
        break;
    case INSPECT_ENDED:
        break;
    }
}

/* What is left to find after a step. */
static enum inspect_step step_after(struct inspect *in) {
    switch (in->step) {
    case INSPECT_RELATION:
        return in->oid ? INSPECT_COLUMNS : INSPECT_ENDED;
    case INSPECT_COLUMNS:
        judge_columns(in);
        return INSPECT_INDEXES;
    case INSPECT_INDEXES:
        return in->refused || !in_snapshot_mode(in) ? INSPECT_ENDED : INSPECT_ROWS;
    case INSPECT_ROWS:
    case INSPECT_ENDED:
        break;
    }
    return INSPECT_ENDED;
}

static int end(const struct inspect *in, struct error *reterr) {
    if (!in->refused)
        return 0;
    *reterr = in->first;
    if (in->findings > 1)
        error_prefix(reterr, "%u findings, the first", in->findings);
    return INSPECT_E_REFUSED;
}

int inspect_next(struct inspect *in, int64_t now_us, struct error *reterr) {
    while (in->step != INSPECT_ENDED) {
        int r = pgconn_fetch(in->tail, reterr);
        if (r == 0)
            look_at_row(in);
        if (in->failure)
            return in->failure;
        if (r == 0)
            continue;
        if (r == PGCONN_E_AGAIN)
            return INSPECT_E_AGAIN;
        if (r != PGCONN_E_DONE)
            return r == PGCONN_E_LOST ? INSPECT_E_LOST : INSPECT_E_FAILED;
        in->step = step_after(in);
        if (in->failure)
            return in->failure;
        r = send_step(in, now_us, reterr);
        if (r)
            return r < 0 ? r : INSPECT_E_LOST;
    }
    return end(in, reterr);
}
