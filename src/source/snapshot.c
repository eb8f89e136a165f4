/* snapshot: the statements of mode snapshot, as SQL for one table */
#include "source/snapshot.h"

#include <errno.h>
#include <inttypes.h>

#include "base/log.h"

/* What this mode needs beyond the columns. */
struct pieces {
    const struct columns *c;
    struct buf xid;        /* e."xid", as it is indexed */
    struct buf filled;     /* has each row a transaction id? */
    const char *xid8;      /* format of a column -> xid8 */
    const char *from_xid8; /* cast of an xid8 to the column's type */
};

/* A row without one would never be found. Whoever sees such rows sees the change that let them in. */
static int make_filled(struct pieces *p, const struct table *t, const struct table_column *xid) {
    int r = buf_addf(&p->filled, "EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = %" PRIu32 "::oid AND a.attname = ", t->oid);
    if (r == 0)
        r = pgconn_quote_literal(span_of(xid->column), &p->filled);
    return r ? r : buf_addf(&p->filled, " AND a.attnotnull)");
}

static int make_pieces(struct pieces *p, const struct columns *columns, const struct table *t) {
    const struct table_column *xid = table_column(t, TABLE_TRANSACTION_ID);
    bool bigint = xid->oid == TABLE_OID_INT8;
    p->c = columns;
    p->xid8 = bigint ? "::text::xid8" : "";
    p->from_xid8 = bigint ? "::text::bigint" : "";
    int r = columns_add_name(&p->xid, "e.", xid);
    return r ? r : make_filled(p, t, xid);
}

#define TEXT(b) SPAN_ARGS(buf_span(&(b)))
#define LOWEST "'-9223372036854775808'::int8"
#define HIGHEST "9223372036854775807"

/* Taken once per statement; it is the statement's own snapshot. */
#define NOW "(SELECT pg_current_snapshot())"

static int make_start(struct snapshot_sql *s, const struct pieces *p) {
    return buf_addf(&s->start,
                    "SELECT pg_backend_pid(), pg_current_snapshot()::text,"
                    " pg_snapshot_xmax($1) > pg_snapshot_xmax(pg_current_snapshot()),"
                    " (SELECT max(%.*s)::int8 FROM %.*s)",
                    TEXT(p->c->position), TEXT(p->c->from));
}

/* Appends the rows of the transactions that ran in $1 and no longer run in `n`,
 * between two positions. Whole rows are compared, which only the index on both
 * columns can answer: otherwise a walk over all positions may seem cheap. */
static int add_ended(struct buf *b, const struct pieces *p, const char *n, const char *above, const char *upto,
                     const char *limit) {
    struct span xid = buf_span(&p->xid), position = buf_span(&p->c->position);
    return buf_addf(b,
                    "SELECT r.* FROM (SELECT x%s AS x FROM pg_snapshot_xip($1) AS ran(x)"
                    " EXCEPT SELECT x%s FROM pg_snapshot_xip(%s) AS runs(x)) AS ended"
                    " CROSS JOIN LATERAL (SELECT %.*s FROM %.*s WHERE (%.*s, %.*s) > (ended.x, %s)"
                    " AND (%.*s, %.*s) <= (ended.x, %s) ORDER BY %.*s, %.*s LIMIT %s) r",
                    p->from_xid8, p->from_xid8, n, TEXT(p->c->stored), TEXT(p->c->from), SPAN_ARGS(xid), SPAN_ARGS(position), above,
                    SPAN_ARGS(xid), SPAN_ARGS(position), upto, SPAN_ARGS(xid), SPAN_ARGS(position), limit);
}

/* $1 S, $2 limit. */
static int make_small(struct snapshot_sql *s, const struct pieces *p) {
    struct buf *b = &s->small;
    int r = buf_addf(b,
                     "WITH found AS MATERIALIZED ((SELECT %.*s FROM %.*s"
                     " WHERE %.*s >= pg_snapshot_xmax($1)%s AND %.*s < pg_snapshot_xmax(" NOW ")%s"
                     " AND pg_visible_in_snapshot(%.*s%s, " NOW ")"
                     " ORDER BY %.*s, %.*s LIMIT $2 + 1) UNION ALL (",
                     TEXT(p->c->stored), TEXT(p->c->from), TEXT(p->xid), p->from_xid8, TEXT(p->xid), p->from_xid8, TEXT(p->xid),
                     p->xid8, TEXT(p->xid), TEXT(p->c->position));
    if (r == 0)
        r = add_ended(b, p, NOW, LOWEST, HIGHEST, "$2 + 1");
    if (r)
        return r;
    return buf_addf(b,
                    " LIMIT $2 + 1)),"
                    " head AS MATERIALIZED (SELECT count(*) > $2 AS overflow, max(p) AS last FROM found)"
                    " SELECT %.*s, pg_current_snapshot()::text, CASE WHEN %.*s THEN overflow END,"
                    " CASE WHEN overflow THEN (SELECT max(%.*s) FROM %.*s) ELSE last END::int8%.*s FROM head"
                    " UNION ALL SELECT NULL, NULL, NULL, NULL%.*s FROM (SELECT q.*%.*s FROM"
                    " (SELECT %.*s FROM found WHERE NOT (SELECT overflow FROM head) ORDER BY p OFFSET 0) q OFFSET 0) q",
                    TEXT(p->c->pid), TEXT(p->filled), TEXT(p->c->position), TEXT(p->c->from), TEXT(p->c->nulls), TEXT(p->c->out),
                    TEXT(p->c->texts), TEXT(p->c->names));
}

/* $1 S, $2 N, $3 position. The fence keeps the planner from walking all positions
 * to find the first, and so does the sum, for which no index is of use. */
static int make_first(struct snapshot_sql *s, const struct pieces *p) {
    return buf_addf(&s->first,
                    "SELECT pg_backend_pid(), NULL::text, NULL::bool, (SELECT min(p)::int8 FROM (SELECT %.*s AS p FROM %.*s"
                    " WHERE %.*s >= pg_snapshot_xmax($1)%s AND %.*s < pg_snapshot_xmax($2)%s AND %.*s + 0 > $3 OFFSET 0) r)",
                    TEXT(p->c->position), TEXT(p->c->from), TEXT(p->xid), p->from_xid8, TEXT(p->xid), p->from_xid8,
                    TEXT(p->c->position));
}

/* $1 S, $2 N, $3 position, $4 end, $5 first, $6 limit. */
struct walk_params {
    const char *s, *n, *position, *end, *first, *limit;
};

static const struct walk_params sent_params = {"$1", "$2", "$3", "$4", "$5", "$6"};
#define SETTING(n, type) "(SELECT " PGCONN_SETTING(n) "::" type ")"
static const struct walk_params copy_params = {SETTING(1, "pg_snapshot"), SETTING(2, "pg_snapshot"), SETTING(3, "int8"),
                                               SETTING(4, "int8"), SETTING(5, "int8"), SETTING(6, "int8")};

/* Rows with a transaction at or above xmax(S), by position. Such a one can't be
 * visible in S, so one test is enough. */
static int add_walk(struct buf *b, const struct pieces *p, struct span stored, const struct walk_params *params) {
    return buf_addf(b,
                    "SELECT %.*s FROM %.*s WHERE %.*s >= %s AND %.*s > %s AND %.*s <= %s"
                    " AND %.*s >= (SELECT pg_snapshot_xmax(%s)%s) AND pg_visible_in_snapshot(%.*s%s, %s)"
                    " ORDER BY %.*s LIMIT %s",
                    SPAN_ARGS(stored), TEXT(p->c->from), TEXT(p->c->position), params->first, TEXT(p->c->position),
                    params->position, TEXT(p->c->position), params->end, TEXT(p->xid), params->s, p->from_xid8, TEXT(p->xid),
                    p->xid8, params->n, TEXT(p->c->position), params->limit);
}

static int begin_page(struct buf *b, const struct pieces *p) {
    return buf_addf(b, "SELECT %.*s%.*s UNION ALL SELECT NULL%.*s FROM (SELECT q.*%.*s FROM (", TEXT(p->c->pid),
                    TEXT(p->c->nulls), TEXT(p->c->out), TEXT(p->c->texts));
}

static int end_page(struct buf *b) {
    return buf_addf(b, " OFFSET 0) q OFFSET 0) q");
}

/* $1 S, $2 N, $3 position, $4 end, $5 first, $6 limit. Both branches are sorted,
 * so that they can be merged: no row waits for the others of its page. */
static int make_page(struct snapshot_sql *s, const struct pieces *p) {
    struct buf *b = &s->page;
    int r = begin_page(b, p);
    if (r == 0)
        r = buf_addf(b, "SELECT %.*s FROM ((", TEXT(p->c->names));
    if (r == 0)
        r = add_ended(b, p, "$2", "$3", "$4", "$6");
    if (r == 0)
        r = buf_addf(b, " ORDER BY p LIMIT $6) UNION ALL (");
    if (r == 0)
        r = add_walk(b, p, buf_span(&p->c->stored), &sent_params);
    if (r == 0)
        r = buf_addf(b, ")) u ORDER BY p LIMIT $6");
    return r ? r : end_page(b);
}

/* The same when nothing ran in S: a partitioned table has an index less to open for each partition. */
static int make_walk(struct buf *b, const struct pieces *p) {
    int r = begin_page(b, p);
    if (r == 0)
        r = add_walk(b, p, buf_span(&p->c->stored), &sent_params);
    return r ? r : end_page(b);
}

/* Of one index, which gives the rows in their order until the limit ends it: what is converted there is needed, and passes
 * one level less. (Of partitions each has a row ready that may never be taken.) */
static int make_straight_walk(struct buf *b, const struct pieces *p, const struct walk_params *params) {
    int r = buf_addf(b, "SELECT %.*s%.*s UNION ALL SELECT NULL%.*s FROM (", TEXT(p->c->pid), TEXT(p->c->nulls), TEXT(p->c->out));
    if (r == 0)
        r = add_walk(b, p, buf_span(&p->c->walked), params);
    return r ? r : buf_addf(b, " OFFSET 0) q");
}

/* A row that can be seen, above $2, and that S did not see. Within a backlog everything below is done and the next one is
 * near; without, what is done lies below xmax(S). */
static int make_look(struct buf *b, const struct pieces *p, bool by_position) {
    CLEANUP(buf_done) struct buf first = BUF_INIT(COLUMNS_SQL_MAX);
    struct span xid = buf_span(&p->xid), position = buf_span(&p->c->position);
    int r = buf_addf(&first,
                     "(SELECT %.*s FROM %.*s WHERE %.*s >= (SELECT pg_snapshot_xmax($1)%s) AND %.*s > $2 ORDER BY ",
                     TEXT(p->c->recorded), TEXT(p->c->from), SPAN_ARGS(xid), p->from_xid8, SPAN_ARGS(position));
    if (r == 0 && !by_position)
        r = buf_addf(&first, "%.*s, ", SPAN_ARGS(xid));
    if (r == 0)
        r = buf_addf(&first,
                     "%.*s LIMIT 1) UNION ALL (SELECT r.* FROM (SELECT x%s AS x FROM pg_snapshot_xip($1) AS ran(x)"
                     " EXCEPT SELECT x%s FROM pg_snapshot_xip(" NOW ") AS runs(x)) AS ended"
                     " CROSS JOIN LATERAL (SELECT %.*s FROM %.*s WHERE (%.*s, %.*s) > (ended.x, $2)"
                     " AND (%.*s, %.*s) <= (ended.x, " HIGHEST ") ORDER BY %.*s, %.*s LIMIT 1) r ORDER BY p LIMIT 1)",
                     SPAN_ARGS(position), p->from_xid8, p->from_xid8, TEXT(p->c->recorded), TEXT(p->c->from), SPAN_ARGS(xid),
                     SPAN_ARGS(position), SPAN_ARGS(xid), SPAN_ARGS(position), SPAN_ARGS(xid), SPAN_ARGS(position));
    return r ? r : columns_add_look(p->c, buf_span(&first), b);
}

int snapshot_init(struct snapshot_sql *s, const struct table *table, int64_t max_data_bytes) {
    ASSERT(table_column(table, ROW_POSITION)->found);
    ASSERT(table_column(table, TABLE_TRANSACTION_ID)->found);
    *s = (struct snapshot_sql){.start = BUF_INIT(COLUMNS_SQL_MAX),
                               .small = BUF_INIT(COLUMNS_SQL_MAX),
                               .first = BUF_INIT(COLUMNS_SQL_MAX),
                               .page = BUF_INIT(COLUMNS_SQL_MAX),
                               .walk = BUF_INIT(COLUMNS_SQL_MAX),
                               .copy = BUF_INIT(COLUMNS_SQL_MAX),
                               .look = BUF_INIT(COLUMNS_SQL_MAX),
                               .look_within = BUF_INIT(COLUMNS_SQL_MAX)};
    struct pieces p = {.xid = BUF_INIT(COLUMNS_SQL_MAX), .filled = BUF_INIT(COLUMNS_SQL_MAX)};
    int r = columns_init(&s->columns, table, max_data_bytes);
    if (r == 0)
        r = make_pieces(&p, &s->columns, table);
    if (r == 0)
        r = make_start(s, &p);
    if (r == 0)
        r = make_small(s, &p);
    if (r == 0)
        r = make_first(s, &p);
    if (r == 0)
        r = make_page(s, &p);
    if (r == 0)
        r = make_look(&s->look, &p, false);
    if (r == 0)
        r = make_look(&s->look_within, &p, true);
    if (r == 0)
        r = table->partitioned ? make_walk(&s->walk, &p) : make_straight_walk(&s->walk, &p, &sent_params);
    if (r == 0 && !table->partitioned)
        r = make_straight_walk(&s->copy, &p, &copy_params);
    buf_done(&p.xid);
    buf_done(&p.filled);
    struct buf *all[] = {&s->start, &s->small, &s->first, &s->page, &s->walk, &s->copy, &s->look, &s->look_within};
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(all); i++)
        r = buf_terminate(all[i]);
    if (r)
        snapshot_done(s);
    return r;
}

void snapshot_done(struct snapshot_sql *s) {
    struct buf *all[] = {&s->start, &s->small, &s->first, &s->page, &s->walk, &s->copy, &s->look, &s->look_within};
    columns_done(&s->columns);
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        buf_done(all[i]);
}

/* Prepared, as they will be: a generic plan is one without values. No bound cuts a partition off. */
int snapshot_add_explain_sql(const struct snapshot_sql *s, struct buf *b) {
    const struct {
        const struct buf *sql;
        const char *types, *values;
    } statements[] = {
        {&s->small, "pg_snapshot, int8", "'1:1:', 1000"},
        {&s->first, "pg_snapshot, pg_snapshot, int8", "'1:1:', '1:1:', " LOWEST},
        {&s->page, "pg_snapshot, pg_snapshot, int8, int8, int8, int8",
         "'1:1:', '1:1:', " LOWEST ", " HIGHEST ", " LOWEST ", 1000"},
        {&s->walk, "pg_snapshot, pg_snapshot, int8, int8, int8, int8",
         "'1:1:', '1:1:', " LOWEST ", " HIGHEST ", " LOWEST ", 1000"},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(statements); i++)
        r = buf_addf(b,
                     "PREPARE penstock_explain (%s) AS %.*s; EXPLAIN (COSTS OFF) EXECUTE penstock_explain (%s);"
                     " DEALLOCATE penstock_explain;",
                     statements[i].types, TEXT(*statements[i].sql), statements[i].values);
    if (r == 0 && s->copy.len > 0)
        r = buf_addf(b, "EXPLAIN (COSTS OFF) %.*s", TEXT(s->copy));
    return r;
}

/* Sending. ------------------------------------------------------------------ */

static struct pgconn_param snapshot_param(struct span text) {
    return (struct pgconn_param){text, PARAM_PG_SNAPSHOT};
}

int snapshot_send_start(const struct snapshot_sql *s, struct pgconn *tail, struct span cursor_snapshot, int64_t now_us,
                        struct error *reterr) {
    struct pgconn_param params[] = {snapshot_param(cursor_snapshot)};
    return pgconn_send(tail, NULL, s->start.data, params, ARRAY_LENGTH(params), true, now_us, reterr);
}

int snapshot_send_look(const struct snapshot_sql *s, struct pgconn *tail, const struct cursor *at, int64_t now_us,
                       struct error *reterr) {
    char position[PARAM_NUMBER_SIZE];
    bool within = !span_absent(at->n);
    struct pgconn_param params[] = {snapshot_param(at->s), param_number(within ? at->position : INT64_MIN, position)};
    return pgconn_send(tail, within ? "look within" : "look", within ? s->look_within.data : s->look.data, params,
                       ARRAY_LENGTH(params), true, now_us, reterr);
}

static int send_small(const struct snapshot_sql *s, struct pgconn *tail, const struct plan_statement *st, int64_t now_us,
                      struct error *reterr) {
    char limit[PARAM_NUMBER_SIZE];
    struct pgconn_param params[] = {snapshot_param(st->s), param_number(st->limit, limit)};
    return pgconn_send(tail, "small", s->small.data, params, ARRAY_LENGTH(params), true, now_us, reterr);
}

static int send_first(const struct snapshot_sql *s, struct pgconn *tail, const struct plan_statement *st, int64_t now_us,
                      struct error *reterr) {
    char position[PARAM_NUMBER_SIZE];
    struct pgconn_param params[] = {snapshot_param(st->s), snapshot_param(st->n), param_number(st->position, position)};
    return pgconn_send(tail, "first", s->first.data, params, ARRAY_LENGTH(params), true, now_us, reterr);
}

static int copy_page(const struct snapshot_sql *s, struct pgconn *tail, const struct pgconn_param params[6], int64_t now_us,
                     struct error *reterr) {
    struct span settings[6];
    for (size_t i = 0; i < ARRAY_LENGTH(settings); i++)
        settings[i] = params[i].value;
    return pgconn_copy(tail, s->copy.data, settings, ARRAY_LENGTH(settings), now_us, reterr);
}

/* xmin:xmax:list */
static bool lists_nobody(struct span snapshot) {
    return snapshot.len > 0 && snapshot.data[snapshot.len - 1] == ':';
}

static int send_page(const struct snapshot_sql *s, struct pgconn *tail, const struct plan_statement *st, int64_t now_us,
                     struct error *reterr) {
    char position[PARAM_NUMBER_SIZE], end[PARAM_NUMBER_SIZE], first[PARAM_NUMBER_SIZE], limit[PARAM_NUMBER_SIZE];
    struct pgconn_param params[] = {snapshot_param(st->s),         snapshot_param(st->n),
                                    param_number(st->position, position), param_number(st->end, end),
                                    param_number(st->first, first),       param_number(st->limit, limit)};
    bool walk = lists_nobody(st->s);
    if (walk && s->copy.len > 0 && st->limit >= COLUMNS_COPY_LEAST)
        return copy_page(s, tail, params, now_us, reterr);
    return pgconn_send(tail, walk ? "walk" : "page", walk ? s->walk.data : s->page.data, params, ARRAY_LENGTH(params), true,
                       now_us, reterr);
}

int snapshot_send(const struct snapshot_sql *s, struct pgconn *tail, const struct plan_statement *statement,
                  int64_t now_us, struct error *reterr) {
    switch (statement->kind) {
    case PLAN_SMALL:
        return send_small(s, tail, statement, now_us, reterr);
    case PLAN_FIRST:
        return send_first(s, tail, statement, now_us, reterr);
    case PLAN_PAGE:
        return send_page(s, tail, statement, now_us, reterr);
    }
    return -EINVAL;
}
