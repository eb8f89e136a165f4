/* inspect: is the event table fit to be tailed, and what would mend it? */
#include "source/inspect.h"

#include <errno.h>

#include "base/log.h"
#include "source/gaps_sql.h"
#include "source/snapshot.h"

void inspect_init(struct inspect *in, struct pgconn *tail, struct table *table) {
    *in = (struct inspect){.tail = tail, .table = table, .step = INSPECT_ENDED, .findings = FINDINGS_INIT};
}

void inspect_done(struct inspect *in) {
    findings_done(&in->findings);
}

const char *inspect_note(const struct inspect *in) {
    return in->findings.note.len ? in->findings.note.data : "";
}

bool inspect_note_refuses(const struct inspect *in, unsigned line) {
    return findings_refuses(&in->findings, line);
}

enum source_mode inspect_mode(const struct inspect *in) {
    if (in->table->mode != SOURCE_MODE_DEFAULT)
        return in->table->mode;
    /* A checkpoint of mode gaps stays one when its table gets the column later. */
    bool gaps = in->written == SOURCE_MODE_GAPS || !table_column(in->table, TABLE_TRANSACTION_ID)->found;
    return gaps ? SOURCE_MODE_GAPS : SOURCE_MODE_SNAPSHOT;
}

/* Questions. ---------------------------------------------------------------- */

static const char relation_sql[] =
    "SELECT pg_is_in_recovery(), (SELECT system_identifier FROM pg_control_system()), " PGCONN_SERVER_SQL
    ", current_user, c.oid, c.relkind, has_schema_privilege(c.relnamespace, 'USAGE'), row_security_active(c.oid),"
    " (SELECT string_agg(format('%I.%I', o.relnamespace::regnamespace, o.relname), ', ' ORDER BY o.oid) FROM pg_class o"
    " WHERE lower(o.relname) = lower($2) AND o.relkind IN ('r', 'p') AND c.oid IS NULL),"
    " EXISTS (SELECT FROM pg_subscription_rel s WHERE s.srrelid = c.oid) AND NOT EXISTS (SELECT FROM pg_trigger g"
    " WHERE g.tgrelid = c.oid AND g.tgenabled = 'A' AND NOT g.tgisinternal),"
    " (SELECT string_agg(format('%I.%I', f.relnamespace::regnamespace, f.relname), ', ' ORDER BY f.oid)"
    " FROM pg_partition_tree(c.oid) t"
    " JOIN pg_class f ON f.oid = t.relid WHERE f.relkind = 'f'),"
    " (SELECT string_agg(DISTINCT format('%I.%I', b.relnamespace::regnamespace, b.relname), ', ')"
    " FROM pg_rewrite w JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid"
    " AND d.refclassid = 'pg_class'::regclass JOIN pg_class b ON b.oid = d.refobjid AND b.relkind IN ('r', 'p')"
    " WHERE w.ev_class = c.oid AND c.relkind IN ('v', 'm')), c.relpersistence = 'u'"
    " FROM (SELECT) AS one LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace)"
    " ON c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    " AND CASE WHEN $1::text IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = $1 END";

#define RELATION_FACTS 13

static const char columns_sql[] =
    "SELECT a.attname, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END,"
    " format_type(a.atttypid, a.atttypmod), a.attnotnull, has_column_privilege(a.attrelid, a.attnum, 'SELECT'),"
    " a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval(%', false),"
    " coalesce(pg_get_expr(d.adbin, d.adrelid) ~ 'pg_current_xact_id\\(|txid_current\\(', false), a.atttypid"
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

/* An identity's sequence depends on its column; else the column's default depends on its sequence. With it the partitions
 * that have another one, and what gives them this one. */
static const char sequence_sql[] =
    "SELECT format('%I.%I', c.relnamespace::regnamespace, c.relname), s.seqcache, s.seqincrement, s.seqcycle,"
    " has_sequence_privilege(s.seqrelid, 'SELECT'), others.names, others.mend"
    " FROM pg_attribute a JOIN pg_sequence s ON s.seqrelid IN ("
    "SELECT d.objid FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass"
    " AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype = 'i'"
    " UNION SELECT d.refobjid FROM pg_attrdef f JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid"
    " AND d.refclassid = 'pg_class'::regclass WHERE f.adrelid = a.attrelid AND f.adnum = a.attnum)"
    " JOIN pg_class c ON c.oid = s.seqrelid CROSS JOIN LATERAL (SELECT string_agg(o.name, ', ') AS names, string_agg(format("
    "'ALTER TABLE %s ALTER COLUMN %I SET DEFAULT nextval(%L);', o.name, $2, format('%I.%I', c.relnamespace::regnamespace,"
    " c.relname)), ' ') AS mend FROM (SELECT DISTINCT format('%I.%I', p.relnamespace::regnamespace, p.relname) AS name"
    " FROM pg_partition_tree($1) t JOIN pg_class p ON p.oid = t.relid AND p.oid <> $1"
    " JOIN pg_attribute pa ON pa.attrelid = p.oid AND pa.attname = $2"
    " JOIN pg_attrdef pf ON pf.adrelid = p.oid AND pf.adnum = pa.attnum"
    " JOIN pg_depend pd ON pd.classid = 'pg_attrdef'::regclass AND pd.objid = pf.oid"
    " AND pd.refclassid = 'pg_class'::regclass JOIN pg_class ps ON ps.oid = pd.refobjid AND ps.relkind = 'S'"
    " AND ps.oid <> c.oid) o) others"
    " WHERE a.attrelid = $1 AND a.attname = $2";

static struct pgconn_param text_param(const char *text) {
    return param_text(span_of(text));
}

#define SQL_MAX_BYTES (1 << 20)

static int send_rows(struct inspect *in, int64_t now_us, struct error *reterr) {
    CLEANUP(buf_done) struct buf table = BUF_INIT(SQL_MAX_BYTES), xid = BUF_INIT(SQL_MAX_BYTES), sql = BUF_INIT(SQL_MAX_BYTES);
    const struct table_column *c = table_column(in->table, TABLE_TRANSACTION_ID);
    int r = table_name_quote(&in->table->name, &table);
    if (r == 0)
        r = pgconn_quote_identifier(span_of(c->column), &xid);
    if (r == 0)
        r = buf_addf(&sql, "SELECT EXISTS (SELECT FROM %.*s WHERE %.*s >= pg_snapshot_xmax(pg_current_snapshot())%s)",
                     SPAN_ARGS(buf_span(&table)), SPAN_ARGS(buf_span(&xid)), c->oid == TABLE_OID_INT8 ? "::text::bigint" : "");
    if (r == 0)
        r = buf_terminate(&sql);
    return r ? r : pgconn_send(in->tail, NULL, sql.data, NULL, 0, false, now_us, reterr);
}

/* How much of the data is loaded is all the same to a plan. */
#define NO_DATA 1

static int explain_snapshot(const struct table *table, struct buf *sql) {
    CLEANUP(snapshot_done) struct snapshot_sql statements = {0};
    int r = snapshot_init(&statements, table, NO_DATA);
    return r ? r : snapshot_add_explain_sql(&statements, sql);
}

static int explain_gaps(const struct table *table, struct buf *sql) {
    CLEANUP(gaps_sql_done) struct gaps_sql statements = {0};
    int r = gaps_sql_init(&statements, table, NO_DATA);
    return r ? r : gaps_sql_add_explain(&statements, sql);
}

static int send_plans(struct inspect *in, int64_t now_us, struct error *reterr) {
    CLEANUP(buf_done) struct buf sql = BUF_INIT(SQL_MAX_BYTES);
    in->explain = (struct explain){0};
    int r = in->judge.by_gaps ? explain_gaps(in->table, &sql) : explain_snapshot(in->table, &sql);
    if (r == 0)
        r = buf_terminate(&sql);
    return r ? r : pgconn_send(in->tail, NULL, sql.data, NULL, 0, false, now_us, reterr);
}

static int send_step(struct inspect *in, int64_t now_us, struct error *reterr) {
    char oid[PARAM_NUMBER_SIZE];
    const struct table_name *name = &in->table->name;
    struct pgconn_param relation[] = {text_param(name->schema), text_param(name->table)};
    struct pgconn_param table[] = {param_number_of(PARAM_OID, in->table->oid, oid),
                                   text_param(table_column(in->table, ROW_POSITION)->column),
                                   text_param(table_column(in->table, TABLE_TRANSACTION_ID)->column)};
    switch (in->step) {
    case INSPECT_RELATION:
        return pgconn_send(in->tail, NULL, relation_sql, relation, 2, false, now_us, reterr);
    case INSPECT_COLUMNS:
        return pgconn_send(in->tail, NULL, columns_sql, table, 1, false, now_us, reterr);
    case INSPECT_INDEXES:
        return pgconn_send(in->tail, NULL, indexes_sql, table, 3, false, now_us, reterr);
    case INSPECT_SEQUENCE:
        return pgconn_send(in->tail, NULL, sequence_sql, table, 2, false, now_us, reterr);
    case INSPECT_ROWS:
        return send_rows(in, now_us, reterr);
    case INSPECT_PLANS:
        return send_plans(in, now_us, reterr);
    case INSPECT_ENDED:
        break;
    }
    return 0;
}

int inspect_start(struct inspect *in, enum source_mode written, int64_t now_us, struct error *reterr) {
    in->written = written;
    findings_clear(&in->findings);
    table_forget(in->table);
    in->judge = (struct judge){.table = in->table, .findings = &in->findings};
    in->any_sequence = false;
    int version = pgconn_server_version(in->tail);
    if (version < INSPECT_SERVER_VERSION_MIN) {
        findings_add(&in->findings, FINDINGS_REFUSE, "the server is PostgreSQL %d; needed is 13 or later", version / 10000);
        in->step = INSPECT_ENDED;
        return 0;
    }
    in->step = INSPECT_RELATION;
    return send_step(in, now_us, reterr);
}

/* Answers. ------------------------------------------------------------------ */

static bool is_true(struct span value) {
    return span_is(value, "t");
}

static uint32_t read_oid(struct span value) {
    return span_absent(value) ? 0 : (uint32_t)strtoul(value.data, NULL, 10);
}

static int64_t read_number(struct span value) {
    return span_absent(value) ? 0 : strtoll(value.data, NULL, 10);
}

static void look_at_relation(struct inspect *in) {
    struct span v[RELATION_FACTS];
    for (int i = 0; i < RELATION_FACTS; i++)
        v[i] = pgconn_value(in->tail, i);
    span_copy(in->system_identifier, sizeof in->system_identifier, v[1]);
    span_copy(in->server, sizeof in->server, v[2]);
    span_copy(in->judge.role, sizeof in->judge.role, v[3]);
    in->table->oid = read_oid(v[4]);
    in->table->partitioned = span_is(v[5], "p");
    struct judge_relation relation = {
        .found = in->table->oid != 0,
        .in_recovery = is_true(v[0]),
        .kind = span_absent(v[5]) ? '\0' : v[5].data[0],
        .schema_usable = is_true(v[6]),
        .hides_rows = is_true(v[7]),
        .look_alikes = v[8],
        .fed_by_subscription = is_true(v[9]),
        .foreign_partitions = v[10],
        .behind = v[11],
        .unlogged = is_true(v[12]),
    };
    judge_relation(&in->judge, &relation);
}

static void look_at_column(struct inspect *in) {
    struct table_fact fact = {
        .name = pgconn_value(in->tail, 0),
        .oid = read_oid(pgconn_value(in->tail, 1)),
        .type = pgconn_value(in->tail, 2),
        .not_null = is_true(pgconn_value(in->tail, 3)),
        .readable = is_true(pgconn_value(in->tail, 4)),
        .from_sequence = is_true(pgconn_value(in->tail, 5)),
        .from_transaction = is_true(pgconn_value(in->tail, 6)),
        .declared = read_oid(pgconn_value(in->tail, 7)),
    };
    table_found(in->table, &fact);
}

static void look_at_indexes(struct inspect *in) {
    struct judge_indexes indexes = {
        .xid_position = is_true(pgconn_value(in->tail, 0)),
        .position = is_true(pgconn_value(in->tail, 1)),
        .unique = is_true(pgconn_value(in->tail, 2)),
    };
    judge_indexes(&in->judge, &indexes);
}

static void look_at_sequence(struct inspect *in) {
    struct judge_sequence sequence = {
        .name = pgconn_value(in->tail, 0),
        .cache = read_number(pgconn_value(in->tail, 1)),
        .increment = read_number(pgconn_value(in->tail, 2)),
        .cycles = is_true(pgconn_value(in->tail, 3)),
        .readable = is_true(pgconn_value(in->tail, 4)),
        .other_partitions = pgconn_value(in->tail, 5),
        .other_mend = pgconn_value(in->tail, 6),
    };
    in->any_sequence = true;
    judge_sequence(&in->judge, &sequence);
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
    case INSPECT_SEQUENCE:
        look_at_sequence(in);
        break;
    case INSPECT_ROWS:
        judge_rows(&in->judge, is_true(pgconn_value(in->tail, 0)));
        break;
    case INSPECT_PLANS:
        explain_line(&in->explain, pgconn_value(in->tail, 0));
        break;
    case INSPECT_ENDED:
        break;
    }
}

/* A step has ended. */
static void conclude(struct inspect *in) {
    switch (in->step) {
    case INSPECT_COLUMNS:
        in->judge.by_gaps = inspect_mode(in) == SOURCE_MODE_GAPS;
        judge_columns(&in->judge);
        break;
    case INSPECT_SEQUENCE:
        if (!in->any_sequence)
            judge_sequence(&in->judge, NULL);
        if (!in->judge.readable)
            judge_without_plans(&in->judge);
        break;
    case INSPECT_PLANS:
        judge_plans(&in->judge, explain_bad(&in->explain));
        break;
    case INSPECT_RELATION:
    case INSPECT_INDEXES:
    case INSPECT_ROWS:
    case INSPECT_ENDED:
        break;
    }
}

static enum inspect_step step_after(const struct inspect *in) {
    const struct judge *j = &in->judge;
    switch (in->step) {
    case INSPECT_RELATION:
        return j->is_table ? INSPECT_COLUMNS : INSPECT_ENDED;
    case INSPECT_COLUMNS:
        return INSPECT_INDEXES;
    case INSPECT_INDEXES:
        return INSPECT_SEQUENCE;
    case INSPECT_SEQUENCE:
        return !j->readable ? INSPECT_ENDED : j->by_gaps ? INSPECT_PLANS : INSPECT_ROWS;
    case INSPECT_ROWS:
        return INSPECT_PLANS;
    case INSPECT_PLANS:
    case INSPECT_ENDED:
        break;
    }
    return INSPECT_ENDED;
}

static int end(const struct inspect *in, struct error *reterr) {
    if (!in->findings.refused)
        return 0;
    findings_sum_up(&in->findings, reterr);
    return INSPECT_E_REFUSED;
}

int inspect_next(struct inspect *in, int64_t now_us, struct error *reterr) {
    while (in->step != INSPECT_ENDED) {
        int r = pgconn_fetch(in->tail, reterr);
        if (r == 0)
            look_at_row(in);
        if (in->findings.failure)
            return in->findings.failure;
        if (r == 0)
            continue;
        if (r == PGCONN_E_AGAIN)
            return INSPECT_E_AGAIN;
        if (r != PGCONN_E_DONE)
            return r == PGCONN_E_LOST ? INSPECT_E_LOST : INSPECT_E_FAILED;
        conclude(in);
        in->step = step_after(in);
        if (in->findings.failure)
            return in->findings.failure;
        r = send_step(in, now_us, reterr);
        if (r)
            return r < 0 ? r : INSPECT_E_LOST;
    }
    return end(in, reterr);
}
