/* columns: the wanted columns of an event table: as SQL, and in which form each comes back */
#include "source/columns.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"

int columns_add_name(struct buf *b, const char *before, const struct table_column *column) {
    int r = buf_addf(b, "%s", before);
    return r ? r : pgconn_quote_identifier(span_of(column->column), b);
}

/* Is octet_length known without loading a value of that type? */
static bool has_stored_length(uint32_t oid) {
    return oid == TABLE_OID_TEXT || oid == TABLE_OID_VARCHAR || oid == TABLE_OID_BPCHAR || oid == TABLE_OID_BYTEA;
}

static bool is_converted(const struct table_column *column) {
    return column->role == ROW_DATA && !has_stored_length(column->oid);
}

static int add_out(struct columns *c, enum row_role role, enum row_form form, struct span name, const char *expression) {
    c->list[c->count++] = (struct row_column){role, form, name};
    int r = buf_addf(&c->out, ", %s", expression);
    return r ? r : buf_addf(&c->nulls, ", NULL");
}

/* The data itself if it isn't too large, and its size. */
static int add_data(struct columns *c, const struct table_column *column, size_t index, int64_t max_data_bytes) {
    char value[32], expression[160];
    bool cast;
    enum row_form form = table_form(column->oid, &cast);
    int r = 0;
    if (!is_converted(column)) {
        snprintf(value, sizeof value, "q.c%zu", index);
    } else {
        snprintf(value, sizeof value, "q.t");
        r = buf_addf(&c->texts, ", q.c%zu::text AS t", index);
        form = form == ROW_FORM_JSONB ? ROW_FORM_JSON : form;
    }
    snprintf(expression, sizeof expression, "CASE WHEN octet_length(%s) <= %" PRId64 " THEN %s END", value, max_data_bytes,
             value);
    if (r == 0)
        r = add_out(c, ROW_DATA, form, SPAN_ABSENT, expression);
    snprintf(expression, sizeof expression, "octet_length(%s)", value);
    return r ? r : add_out(c, ROW_DATA_BYTES, ROW_FORM_INT4, SPAN_ABSENT, expression);
}

static int add_value(struct columns *c, const struct table_column *column, size_t index, int64_t max_data_bytes) {
    char expression[48];
    bool cast;
    enum row_form form = table_form(column->oid, &cast);
    int r = columns_add_name(&c->stored, ", e.", column);
    if (r == 0)
        r = buf_addf(&c->stored, " AS c%zu", index);
    if (r == 0)
        r = columns_add_name(&c->walked, ", e.", column);
    if (r == 0)
        r = is_converted(column) ? buf_addf(&c->walked, "::text AS t") : buf_addf(&c->walked, " AS c%zu", index);
    if (r == 0)
        r = buf_addf(&c->names, ", c%zu", index);
    if (r)
        return r;
    if (column->role == ROW_DATA)
        return add_data(c, column, index, max_data_bytes);
    snprintf(expression, sizeof expression, "q.c%zu%s", index, cast ? "::text" : "");
    return add_out(c, (enum row_role)column->role, form, column->attribute, expression);
}

static int add_position(struct columns *c, const struct table_column *column) {
    c->position_at = c->count;
    int r = columns_add_name(&c->position, "e.", column);
    if (r == 0)
        r = buf_addf(&c->stored, "%.*s AS p", SPAN_ARGS(buf_span(&c->position)));
    if (r == 0)
        r = buf_addf(&c->walked, "%.*s AS p", SPAN_ARGS(buf_span(&c->position)));
    if (r == 0)
        r = buf_addf(&c->names, "p");
    return r ? r : add_out(c, ROW_POSITION, ROW_FORM_INT8, SPAN_ABSENT, "q.p::int8");
}

static int add_recorded(struct columns *c, const struct table_column *column) {
    int r = buf_addf(&c->recorded, "%.*s AS p, ", SPAN_ARGS(buf_span(&c->position)));
    if (r == 0)
        r = column && column->found ? columns_add_name(&c->recorded, "e.", column) : buf_addf(&c->recorded, "NULL::timestamptz");
    return r ? r : buf_addf(&c->recorded, " AS t");
}

/* The age goes through epochs, which every type of a time has. One that lies in the future is none; nor is infinity. */
int columns_add_look(const struct columns *c, struct span first, struct buf *b) {
    return buf_addf(b,
                    "SELECT %.*s, w.p::text, NULL::bool, CASE WHEN isfinite(w.t) THEN"
                    " greatest(0, ((extract(epoch FROM clock_timestamp()) - extract(epoch FROM w.t)) * 1000000)::int8) END"
                    " FROM (SELECT) AS one LEFT JOIN LATERAL (SELECT u.p, u.t FROM (%.*s) AS u ORDER BY p LIMIT 1) AS w ON true",
                    SPAN_ARGS(buf_span(&c->pid)), SPAN_ARGS(first));
}

/* A name may stand for several roles. */
static bool is_new(const struct table *t, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (t->columns[k].found && strcmp(t->columns[k].column, t->columns[i].column) == 0)
            return false;
    return true;
}

/* A name and the type that it is declared with (ALTER DOMAIN can't put another type under a domain). */
static int add_expected(struct columns *c, const struct table_column *column) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(COLUMNS_SQL_MAX);
    int r = buf_addf(&text, "%" PRIu32 " %s", column->declared, column->column);
    return r ? r : pgconn_quote_literal(buf_span(&text), &c->pid);
}

/* One that was dropped and made anew, or put in its place, has another oid. A value that is asked for ::text, or copied,
 * would come in any type: nothing else notices that it was changed. It is asked with every statement, and planned with
 * every copied page: a list of texts is planned in a fifth of the time that pairs take. */
static int add_pid(struct columns *c, const struct table *t) {
    CLEANUP(buf_done) struct buf name = BUF_INIT(COLUMNS_SQL_MAX);
    size_t count = 0;
    int r = table_name_quote(&t->name, &name);
    if (r == 0)
        r = buf_addf(&c->pid, "CASE WHEN ");
    if (r == 0)
        r = pgconn_quote_literal(buf_span(&name), &c->pid);
    if (r == 0)
        r = buf_addf(&c->pid,
                     "::regclass::oid = %" PRIu32 "::oid AND (SELECT count(*) FROM pg_attribute a"
                     " WHERE a.attrelid = %" PRIu32 "::oid AND a.attnum > 0 AND NOT a.attisdropped"
                     " AND a.atttypid::text || ' ' || a.attname::text = ANY (ARRAY[", t->oid, t->oid);
    for (size_t i = 0; r == 0 && i < t->count; i++) {
        const struct table_column *column = &t->columns[i];
        if (!column->found || !is_new(t, i))
            continue;
        r = count++ ? buf_addf(&c->pid, ", ") : 0;
        if (r == 0)
            r = add_expected(c, column);
    }
    return r ? r : buf_addf(&c->pid, "])) = %zu THEN pg_backend_pid() ELSE 0 END", count);
}

int columns_init(struct columns *c, const struct table *table, int64_t max_data_bytes) {
    ASSERT(table_column(table, ROW_POSITION)->found);
    ASSERT(max_data_bytes > 0);
    *c = (struct columns){0};
    struct buf *all[] = {&c->pid,   &c->from, &c->position, &c->stored, &c->names,
                         &c->nulls, &c->out,  &c->texts,    &c->walked, &c->recorded};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        *all[i] = BUF_INIT(COLUMNS_SQL_MAX);
    int r = add_pid(c, table);
    if (r == 0)
        r = table_name_quote(&table->name, &c->from);
    if (r == 0)
        r = buf_addf(&c->from, " AS e");
    if (r == 0)
        r = add_position(c, table_column(table, ROW_POSITION));
    if (r == 0)
        r = add_recorded(c, table_column(table, ROW_RECORDED));
    for (size_t i = 0; r == 0 && i < table->count; i++) {
        const struct table_column *column = &table->columns[i];
        if (column->found && column->role != ROW_POSITION && column->role != TABLE_TRANSACTION_ID)
            r = add_value(c, column, i, max_data_bytes);
    }
    if (r)
        columns_done(c);
    return r;
}

void columns_done(struct columns *c) {
    struct buf *all[] = {&c->pid,   &c->from, &c->position, &c->stored, &c->names,
                         &c->nulls, &c->out,  &c->texts,    &c->walked, &c->recorded};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        buf_done(all[i]);
}
