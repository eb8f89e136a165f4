/* gaps_sql: the statements of mode gaps, as SQL for one table */
#include "source/gaps_sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"

#define TEXT(b) SPAN_ARGS(buf_span(&(b)))

/* Opening. ------------------------------------------------------------------ */

/* The sequence that the position comes from: owned by an identity, or named in the default.
 * Reading it is a privilege of its own. */
static const char sequence_sql[] =
    "WITH seq AS (SELECT s.oid, s.relfilenode, format('%%I.%%I', n.nspname, s.relname) AS name,"
    " q.seqincrement > 0 AND NOT q.seqcycle AND has_sequence_privilege(s.oid, 'SELECT') AS fit"
    " FROM pg_attribute a JOIN pg_depend d ON"
    " (d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid"
    " AND d.refobjsubid = a.attnum AND d.deptype = 'i')"
    " OR (d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass"
    " AND d.objid = (SELECT f.oid FROM pg_attrdef f WHERE f.adrelid = a.attrelid AND f.adnum = a.attnum))"
    " JOIN pg_class s ON s.relkind = 'S' AND s.oid = CASE WHEN d.deptype = 'i' THEN d.objid ELSE d.refobjid END"
    " JOIN pg_namespace n ON n.oid = s.relnamespace JOIN pg_sequence q ON q.seqrelid = s.oid"
    " WHERE a.attrelid = %.*s::regclass AND a.attname = %.*s ORDER BY s.oid LIMIT 1)"
    " SELECT pg_backend_pid(), %.*s, EXISTS (SELECT FROM seq WHERE fit),"
    " (SELECT pg_sequence_last_value(oid) FROM seq WHERE fit)"
    " UNION ALL SELECT NULL, name, NULL, NULL FROM seq WHERE fit";

/* Of the start, which finds what the pages look at again. */
static int add_facts(const struct gaps_sql *s, struct buf *b) {
    return buf_addf(b, "(SELECT concat_ws('/', '%.*s', coalesce((SELECT relfilenode FROM seq), 0),"
                    " coalesce((SELECT oid FROM seq), 0), coalesce((SELECT f.oid FROM pg_attrdef f"
                    " WHERE f.adrelid = a.attrelid AND f.adnum = a.attnum), 0), a.attnum)"
                    " FROM pg_attribute a WHERE a.attrelid = %.*s::oid AND a.attname = %.*s)",
                    TEXT(s->of_table), TEXT(s->of_table), TEXT(s->of_position));
}

/* The same text as long as nothing has changed, read with the snapshot that the rows come from: what the catalog's
 * cache says may be of before. By what each index finds at once: it is asked with each page. */
static int add_facts_again(const struct gaps_sql *s, const struct gaps_sql_facts *f, struct buf *b) {
    return buf_addf(b, "concat_ws('/', '%.*s', coalesce((SELECT s.relfilenode FROM pg_class s WHERE s.oid = %" PRIu32 "::oid), 0),"
                    " '%" PRIu32 "', coalesce((SELECT f.oid FROM pg_attrdef f WHERE f.adrelid = %.*s::oid AND f.adnum = %" PRIu32
                    "::int2), 0), '%" PRIu32 "')", TEXT(s->of_table), f->sequence, f->sequence, TEXT(s->of_table), f->number,
                    f->number);
}

/* From the lowest row on; what lies below it is a gap without an end. */
static const char visible_sql[] =
    " UNION ALL SELECT NULL, (SELECT max(%.*s) FROM %.*s)::text, true, max(%.*s)::int8 FROM %.*s WHERE %.*s <= $2"
    " UNION ALL (SELECT NULL, g.text, false, g.count FROM"
    " (SELECT p, count(*) OVER () AS count,"
    " CASE WHEN before IS NULL THEN '<' || p ELSE (before + 1)::int8 || '-' || (p - 1)::int8 END AS text"
    " FROM (SELECT %.*s AS p, lag(%.*s) OVER (ORDER BY %.*s) AS before FROM %.*s WHERE %.*s <= $2) AS o"
    " WHERE before IS NULL OR before + 1 < p) AS g ORDER BY g.p DESC LIMIT $1)";

static int make_start(struct gaps_sql *s) {
    CLEANUP(buf_done) struct buf facts = BUF_INIT(COLUMNS_SQL_MAX);
    const struct columns *c = &s->columns;
    int r = add_facts(s, &facts);
    if (r == 0)
        r = buf_addf(&s->start, sequence_sql, TEXT(s->table), TEXT(s->of_position), TEXT(facts));
    if (r == 0)
        r = buf_add_span(&s->start_now, buf_span(&s->start));
    return r ? r : buf_addf(&s->start_now, visible_sql, TEXT(c->position), TEXT(c->from), TEXT(c->position), TEXT(c->from),
                            TEXT(c->position), TEXT(c->position), TEXT(c->position), TEXT(c->position), TEXT(c->from),
                            TEXT(c->position));
}

bool gaps_sql_read_facts(struct span text, struct gaps_sql_facts *ret_facts) {
    char copy[GAPS_SQL_FACTS_MAX];
    struct gaps_sql_facts f;
    if (span_absent(text) || text.len >= sizeof copy)
        return false;
    span_copy(copy, sizeof copy, text);
    if (sscanf(copy, "%" SCNu32 "/%" SCNu32 "/%" SCNu32 "/%" SCNu32 "/%" SCNu32, &f.origin.table, &f.origin.sequence,
               &f.sequence, &f.from, &f.number) != 5)
        return false;
    *ret_facts = f;
    return true;
}

/* Reading. ------------------------------------------------------------------ */

/* Rows in the ranges $1 to $2, by an index condition for each. */
static int add_ranges(struct buf *b, const struct columns *c, const char *limit) {
    return buf_addf(b, "(SELECT r.* FROM unnest($1, $2) AS g(first, last) CROSS JOIN LATERAL (SELECT %.*s FROM %.*s"
                    " WHERE %.*s >= g.first AND %.*s <= g.last ORDER BY %.*s LIMIT %s) r ORDER BY p LIMIT %s)",
                    TEXT(c->stored), TEXT(c->from), TEXT(c->position), TEXT(c->position), TEXT(c->position), limit, limit);
}

/* A sequence is read as it is, whatever the snapshot: this value is of now. */
static int add_drawn(struct buf *b, struct span sequence) {
    if (span_absent(sequence))
        return buf_addf(b, "false, NULL::int8");
    return buf_addf(b, "true, (SELECT CASE WHEN is_called THEN last_value END FROM %.*s)", SPAN_ARGS(sequence));
}

static int add_head(struct gaps_sql *s, const struct gaps_sql_facts *facts, struct buf *b) {
    buf_clear(b);
    int r = buf_addf(b, "SELECT %.*s, ", TEXT(s->columns.pid));
    if (r == 0)
        r = add_facts_again(s, facts, b);
    return r ? r : buf_addf(b, ", ");
}

static int begin_page(struct gaps_sql *s, struct span sequence, const struct gaps_sql_facts *facts, struct buf *b) {
    const struct columns *c = &s->columns;
    int r = add_head(s, facts, b);
    if (r == 0)
        r = add_drawn(b, sequence);
    return r ? r : buf_addf(b, "%.*s UNION ALL SELECT NULL, NULL, NULL, NULL%.*s FROM (SELECT q.*%.*s FROM (", TEXT(c->nulls),
                            TEXT(c->out), TEXT(c->texts));
}

static int add_above(struct buf *b, const struct columns *c, const char *position, const char *limit) {
    return buf_addf(b, "SELECT %.*s FROM %.*s WHERE %.*s > %s ORDER BY %.*s LIMIT %s", TEXT(c->stored), TEXT(c->from),
                    TEXT(c->position), position, TEXT(c->position), limit);
}

/* $3 position, $4 limit. */
static int make_page(struct gaps_sql *s, struct span sequence, const struct gaps_sql_facts *facts) {
    struct buf *b = &s->page;
    const struct columns *c = &s->columns;
    int r = begin_page(s, sequence, facts, b);
    if (r == 0)
        r = buf_addf(b, "SELECT %.*s FROM (", TEXT(c->names));
    if (r == 0)
        r = add_ranges(b, c, "$4");
    if (r == 0)
        r = buf_addf(b, " UNION ALL (");
    if (r == 0)
        r = add_above(b, c, "$3", "$4");
    if (r == 0)
        r = buf_addf(b, ")) u ORDER BY p LIMIT $4 OFFSET 0) q OFFSET 0) q");
    return r ? r : buf_terminate(b);
}

#define SETTING(n) "(SELECT " PGCONN_SETTING(n) "::int8)"

static int make_copy(struct gaps_sql *s, struct span sequence, const struct gaps_sql_facts *facts) {
    struct buf *b = &s->copy;
    int r = begin_page(s, sequence, facts, b);
    if (r == 0)
        r = add_above(b, &s->columns, SETTING(1), SETTING(2));
    if (r == 0)
        r = buf_addf(b, " OFFSET 0) q OFFSET 0) q");
    return r ? r : buf_terminate(b);
}

/* $3 limit. */
static int make_dead(struct gaps_sql *s, const struct gaps_sql_facts *facts) {
    struct buf *b = &s->dead;
    const struct columns *c = &s->columns;
    int r = add_head(s, facts, b);
    if (r == 0)
        r = buf_addf(b, "NULL::bool, NULL::int8%.*s UNION ALL SELECT NULL, NULL, NULL, NULL%.*s FROM (SELECT q.*%.*s FROM"
                     " (SELECT %.*s FROM ", TEXT(c->nulls), TEXT(c->out), TEXT(c->texts), TEXT(c->names));
    if (r == 0)
        r = add_ranges(b, c, "$3");
    if (r == 0)
        r = buf_addf(b, " u ORDER BY p LIMIT $3 OFFSET 0) q OFFSET 0) q");
    return r ? r : buf_terminate(b);
}

int gaps_sql_make_pages(struct gaps_sql *s, struct span sequence, const struct gaps_sql_facts *facts) {
    int r = make_page(s, sequence, facts);
    if (r == 0)
        r = make_dead(s, facts);
    return r == 0 && s->copies ? make_copy(s, sequence, facts) : r;
}

/* A row above $3, or one that has come into a gap. */
static int make_look(struct gaps_sql *s) {
    const struct columns *c = &s->columns;
    CLEANUP(buf_done) struct buf first = BUF_INIT(COLUMNS_SQL_MAX);
    int r = buf_addf(&first,
                     "(SELECT %.*s FROM %.*s WHERE %.*s > $3 ORDER BY %.*s LIMIT 1) UNION ALL (SELECT r.* FROM unnest($1, $2)"
                     " AS g(first, last) CROSS JOIN LATERAL (SELECT %.*s FROM %.*s WHERE %.*s >= g.first AND %.*s <= g.last"
                     " ORDER BY %.*s LIMIT 1) r ORDER BY p LIMIT 1)",
                     TEXT(c->recorded), TEXT(c->from), TEXT(c->position), TEXT(c->position), TEXT(c->recorded), TEXT(c->from),
                     TEXT(c->position), TEXT(c->position), TEXT(c->position));
    return r ? r : columns_add_look(c, buf_span(&first), &s->look);
}

/* An insert locks the table, its partition, or only the partition. Children count
 * that are just being detached, or inherit in the old way. A backend that runs
 * VACUUM or builds an index concurrently is no writer: neither can be in a
 * transaction with anything else. */
static int make_list(struct gaps_sql *s) {
    return buf_addf(&s->list,
                    "WITH RECURSIVE part AS (SELECT %.*s::regclass::oid AS oid"
                    " UNION SELECT i.inhrelid FROM pg_inherits i JOIN part ON i.inhparent = part.oid)"
                    " SELECT pg_backend_pid(), NULL::text, NULL::bool, NULL::int8"
                    " UNION ALL SELECT NULL, w.id, NULL, NULL FROM (SELECT DISTINCT l.virtualtransaction AS id"
                    " FROM pg_locks l JOIN part ON l.relation = part.oid"
                    " WHERE l.locktype = 'relation' AND l.granted"
                    " AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
                    " AND l.mode IN ('RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock',"
                    " 'ExclusiveLock', 'AccessExclusiveLock')"
                    " AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = l.pid)"
                    " AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index i WHERE i.pid = l.pid"
                    " AND i.command IN ('CREATE INDEX CONCURRENTLY', 'REINDEX CONCURRENTLY'))) AS w",
                    TEXT(s->table));
}

/* $1: a holder. A prepared transaction has no process; it is known by the id that it holds locked. */
static int make_who(struct gaps_sql *s) {
    return buf_addf(&s->who,
                    "SELECT pg_backend_pid(), NULL::text, NULL::bool, NULL::int8, NULL::int4, NULL::text, NULL::text, NULL::text,"
                    " NULL::text, NULL::int8, NULL::text"
                    " UNION ALL SELECT NULL, NULL, NULL, NULL, coalesce(l.pid, 0), p.gid, a.application_name,"
                    " coalesce(a.usename, p.owner)::text, a.state,"
                    " (extract(epoch FROM coalesce(a.xact_start, p.prepared)) * 1000000)::int8,"
                    " CASE WHEN a.pid IS NOT NULL AND NOT (pg_has_role('pg_read_all_stats', 'USAGE')"
                    " OR pg_has_role(a.usesysid, 'USAGE'))"
                    " THEN format('GRANT pg_read_all_stats TO %%I;', current_user) END"
                    " FROM (SELECT k.pid FROM pg_locks k WHERE k.virtualtransaction = $1 LIMIT 1) AS l"
                    " LEFT JOIN pg_stat_activity a ON a.pid = l.pid"
                    " LEFT JOIN LATERAL (SELECT t.gid, t.owner, t.prepared FROM pg_locks x JOIN pg_prepared_xacts t"
                    " ON t.transaction = x.transactionid WHERE x.virtualtransaction = $1 AND x.locktype = 'transactionid'"
                    " AND l.pid IS NULL LIMIT 1) AS p ON true");
}

int gaps_sql_init(struct gaps_sql *s, const struct table *table, int64_t max_data_bytes) {
    ASSERT(table_column(table, ROW_POSITION)->found);
    *s = (struct gaps_sql){0};
    struct buf *all[] = {&s->start, &s->start_now, &s->page, &s->dead, &s->list, &s->who, &s->copy, &s->look};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        *all[i] = BUF_INIT(COLUMNS_SQL_MAX);
    s->copies = !table->partitioned;
    s->table = BUF_INIT(16384);
    s->of_table = s->of_position = BUF_INIT(4096);
    s->first = s->last = BUF_INIT(SOURCE_ARRAY_MAX);
    CLEANUP(buf_done) struct buf name = BUF_INIT(8192);
    int r = columns_init(&s->columns, table, max_data_bytes);
    if (r == 0)
        r = table_name_quote(&table->name, &name);
    if (r == 0)
        r = pgconn_quote_literal(buf_span(&name), &s->table);
    if (r == 0)
        r = pgconn_quote_literal(span_of(table_column(table, ROW_POSITION)->column), &s->of_position);
    if (r == 0)
        r = buf_addf(&s->of_table, "%" PRIu32, table->oid);
    if (r == 0)
        r = make_start(s);
    if (r == 0)
        r = make_look(s);
    if (r == 0)
        r = make_list(s);
    if (r == 0)
        r = make_who(s);
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(all); i++)
        r = buf_terminate(all[i]);
    if (r)
        gaps_sql_done(s);
    return r;
}

void gaps_sql_done(struct gaps_sql *s) {
    struct buf *all[] = {&s->start, &s->start_now, &s->page, &s->dead, &s->list, &s->who, &s->copy, &s->look, &s->table,
                         &s->of_table, &s->of_position, &s->first, &s->last};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        buf_done(all[i]);
    columns_done(&s->columns);
}

/* Prepared, as they will be: a generic plan is one without values. No bound cuts a partition off. */
int gaps_sql_add_explain(struct gaps_sql *s, struct buf *b) {
    const struct gaps_sql_facts none = {0};
    int r = gaps_sql_make_pages(s, SPAN_ABSENT, &none);
    if (r)
        return r;
    r = buf_addf(b,
                    "PREPARE penstock_explain (int8[], int8[], int8, int8) AS %.*s;"
                    " EXPLAIN (COSTS OFF) EXECUTE penstock_explain ('{}', '{}', '%" PRId64 "', 1000); DEALLOCATE penstock_explain;"
                    "PREPARE penstock_explain (int8[], int8[], int8) AS %.*s;"
                    " EXPLAIN (COSTS OFF) EXECUTE penstock_explain ('{}', '{}', 1000); DEALLOCATE penstock_explain",
                    TEXT(s->page), INT64_MIN, TEXT(s->dead));
    return r == 0 && s->copies ? buf_addf(b, "; EXPLAIN (COSTS OFF) %.*s", TEXT(s->copy)) : r;
}

/* Sending. ------------------------------------------------------------------ */

static int write_arrays(struct gaps_sql *s, const struct ranges *ranges) {
    buf_clear(&s->first);
    buf_clear(&s->last);
    int r = 0;
    for (size_t i = 0; r == 0 && i < ranges->count; i++) {
        r = param_array_add(&s->first, ranges->items[i].first);
        if (r == 0)
            r = param_array_add(&s->last, ranges->items[i].last);
    }
    if (r == 0)
        r = param_array_end(&s->first);
    return r ? r : param_array_end(&s->last);
}

int gaps_sql_send_start(const struct gaps_sql *s, struct pgconn *tail, bool now, int64_t upto, int64_t max, int64_t now_us,
                        struct error *reterr) {
    char limit[PARAM_NUMBER_SIZE], last[PARAM_NUMBER_SIZE];
    struct pgconn_param params[] = {param_number(max, limit), param_number(upto, last)};
    size_t count = now ? ARRAY_LENGTH(params) : 0;
    return pgconn_send(tail, NULL, now ? s->start_now.data : s->start.data, params, count, true, now_us, reterr);
}

static int copy_page(const struct gaps_sql *s, struct pgconn *tail, const struct gaps_statement *statement, int64_t now_us,
                     struct error *reterr) {
    char position[PARAM_NUMBER_SIZE], limit[PARAM_NUMBER_SIZE];
    struct span settings[] = {param_number(statement->position, position).value, param_number(statement->limit, limit).value};
    return pgconn_copy(tail, s->copy.data, settings, ARRAY_LENGTH(settings), now_us, reterr);
}

int gaps_sql_send_look(struct gaps_sql *s, struct pgconn *tail, const struct cursor_gaps *at, int64_t now_us,
                       struct error *reterr) {
    char position[PARAM_NUMBER_SIZE];
    int r = write_arrays(s, &at->open);
    if (r)
        return r;
    struct pgconn_param params[] = {{buf_span(&s->first), PARAM_INT8_ARRAY}, {buf_span(&s->last), PARAM_INT8_ARRAY},
                                    param_number(at->position, position)};
    return pgconn_send(tail, "look", s->look.data, params, ARRAY_LENGTH(params), true, now_us, reterr);
}

int gaps_sql_send(struct gaps_sql *s, struct pgconn *tail, const struct gaps_statement *statement, int64_t now_us,
                  struct error *reterr) {
    char position[PARAM_NUMBER_SIZE], limit[PARAM_NUMBER_SIZE];
    int r = write_arrays(s, statement->ranges);
    if (r)
        return r;
    struct pgconn_param first = {buf_span(&s->first), PARAM_INT8_ARRAY}, last = {buf_span(&s->last), PARAM_INT8_ARRAY};
    switch (statement->kind) {
    case GAPS_PAGE: {
        if (s->copies && statement->ranges->count == 0 && statement->limit >= COLUMNS_COPY_LEAST)
            return copy_page(s, tail, statement, now_us, reterr);
        struct pgconn_param params[] = {first, last, param_number(statement->position, position),
                                        param_number(statement->limit, limit)};
        return pgconn_send(tail, "page", s->page.data, params, ARRAY_LENGTH(params), true, now_us, reterr);
    }
    case GAPS_DEAD: {
        struct pgconn_param params[] = {first, last, param_number(statement->limit, limit)};
        return pgconn_send(tail, "dead", s->dead.data, params, ARRAY_LENGTH(params), true, now_us, reterr);
    }
    case GAPS_LIST:
        return pgconn_send(tail, "list", s->list.data, NULL, 0, true, now_us, reterr);
    case GAPS_WHO: {
        struct pgconn_param params[] = {param_text(span_of(statement->holder))};
        return pgconn_send(tail, "who", s->who.data, params, ARRAY_LENGTH(params), true, now_us, reterr);
    }
    }
    return -EINVAL;
}
