/* fit: pure: does a column suit its role, by what event/row makes of its values? */
#include "source/fit.h"

#include <errno.h>

#include "event/canonical.h"

#define SAMPLE_MAX_BYTES 4096

/* A value of each type whose values all look alike, as PostgreSQL sends it; or its text, where table_form has it cast. */
static const struct {
    uint32_t oid;
    struct span value;
} SAMPLES[] = {
    {TABLE_OID_BOOL, SPAN_LITERAL("\1")},
    {TABLE_OID_BYTEA, SPAN_LITERAL("\1\2\3")},
    {TABLE_OID_INT2, SPAN_LITERAL("\0\1")},
    {TABLE_OID_INT4, SPAN_LITERAL("\0\0\0\1")},
    {TABLE_OID_INT8, SPAN_LITERAL("\0\0\0\0\0\0\0\1")},
    {TABLE_OID_UUID, SPAN_LITERAL("0123456789abcdef")},
    {TABLE_OID_TIMESTAMPTZ, SPAN_LITERAL("\0\0\0\0\0\0\0\0")},
    {TABLE_OID_TIMESTAMP, SPAN_LITERAL("\0\0\0\0\0\0\0\0")},
    {TABLE_OID_DATE, SPAN_LITERAL("\0\0\0\0")},
    {TABLE_OID_JSON, SPAN_LITERAL("\"a\"")},
    {TABLE_OID_JSONB, SPAN_LITERAL("\1\"a\"")},
    {TABLE_OID_XML, SPAN_LITERAL("<a/>")},
    {TABLE_OID_TIME, SPAN_LITERAL("03:04:05")},
    {TABLE_OID_TIMETZ, SPAN_LITERAL("03:04:05+00")},
    {TABLE_OID_INTERVAL, SPAN_LITERAL("1 day")},
    {TABLE_OID_NUMERIC, SPAN_LITERAL("1")},
    {TABLE_OID_FLOAT4, SPAN_LITERAL("1")},
    {TABLE_OID_FLOAT8, SPAN_LITERAL("1")},
    {TABLE_OID_XID8, SPAN_LITERAL("1")},
};

static struct span sample_of(uint32_t oid) {
    for (size_t i = 0; i < ARRAY_LENGTH(SAMPLES); i++)
        if (SAMPLES[i].oid == oid)
            return SAMPLES[i].value;
    return SPAN_ABSENT;
}

/* By table_unfit alone; or nothing of it is ever refused. */
static bool has_types_of_its_own(int role) {
    return role == ROW_POSITION || role == TABLE_TRANSACTION_ID || role == ROW_DATA || role == ROW_DATA_BYTES ||
           role == ROW_EXTENSIONS || role == ROW_RECORDED;
}

bool fit_is_needed(int role) {
    return role == ROW_ID || role == ROW_SOURCE || role == ROW_TYPE;
}

bool fit_is_wall(uint32_t oid) {
    const char *fault;
    int64_t us;
    bool cast;
    struct span sample = sample_of(oid);
    return !span_absent(sample) && canonical_wall_us(table_form(oid, &cast), sample, &us, &fault) == 0;
}

int fit_try(const struct table_column *c, struct error *reterr) {
    struct row_column columns[5] = {{.role = ROW_POSITION, .form = ROW_FORM_INT8}};
    struct span values[5] = {sample_of(TABLE_OID_INT8), sample_of(c->oid)};
    bool json = c->oid == TABLE_OID_JSON || c->oid == TABLE_OID_JSONB, cast;
    if (has_types_of_its_own(c->role) || span_absent(values[1]) || (c->role == ROW_EXTENSION && json))
        return 0;
    columns[1] = (struct row_column){(enum row_role)c->role, table_form(c->oid, &cast), c->attribute};
    struct row row = {columns, values, 2};
    static const enum row_role needed[] = {ROW_ID, ROW_SOURCE, ROW_TYPE};
    for (size_t i = 0; i < ARRAY_LENGTH(needed); i++) {
        if (needed[i] == (enum row_role)c->role)
            continue;
        columns[row.count] = (struct row_column){.role = needed[i], .form = ROW_FORM_TEXT};
        values[row.count++] = SPAN_LITERAL("a");
    }
    struct row_options options = {.emit_position = true};
    struct event event;
    event_init(&event, SAMPLE_MAX_BYTES);
    int r = row_to_event(&row, &options, &event, reterr);
    event_done(&event);
    return r == ROW_E_REJECTED ? FIT_E_NEVER : r;
}
