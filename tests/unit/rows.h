/* rows: rows as PostgreSQL would send them, made by hand */
#ifndef PENSTOCK_TESTS_ROWS_H
#define PENSTOCK_TESTS_ROWS_H

#include <check.h>
#include <stdint.h>

#include "base/log.h"
#include "event/row.h"

#define ROWS_COLUMNS_MAX 128

/* Plain data; values point into bytes or at what the caller gave. */
struct rows {
    struct row_column columns[ROWS_COLUMNS_MAX];
    struct span values[ROWS_COLUMNS_MAX];
    size_t count;
    char bytes[ROWS_COLUMNS_MAX * 16];
    size_t bytes_len;
};

static inline struct row rows_view(const struct rows *r) {
    return (struct row){r->columns, r->values, r->count};
}

static inline void rows_add(struct rows *r, enum row_role role, enum row_form form, struct span value) {
    ASSERT(r->count < ROWS_COLUMNS_MAX);
    r->columns[r->count] = (struct row_column){.role = role, .form = form};
    r->values[r->count++] = value;
}

static inline void rows_text(struct rows *r, enum row_role role, const char *text) {
    rows_add(r, role, ROW_FORM_TEXT, span_of(text));
}

/* Big-endian, as many bytes as the form has. */
static inline void rows_integer(struct rows *r, enum row_role role, enum row_form form, int64_t value) {
    size_t len = form == ROW_FORM_INT2 ? 2 : form == ROW_FORM_INT4 || form == ROW_FORM_DATE ? 4 : 8;
    char *at = r->bytes + r->bytes_len;
    for (size_t i = 0; i < len; i++)
        at[i] = (char)((uint64_t)value >> 8 * (len - 1 - i));
    r->bytes_len += len;
    rows_add(r, role, form, (struct span){at, len});
}

/* Names the extension of the column that was added last. */
static inline void rows_name(struct rows *r, const char *name) {
    r->columns[r->count - 1].name = span_of(name);
}

/* Replaces the value of the column with that role. */
static inline void rows_set(struct rows *r, enum row_role role, enum row_form form, struct span value) {
    for (size_t i = 0; i < r->count; i++)
        if (r->columns[i].role == role) {
            r->columns[i].form = form;
            r->values[i] = value;
        }
}

/* position 7, id e-1, source /orders, type com.acme.order.created */
static inline void rows_minimal(struct rows *r) {
    r->count = 0;
    r->bytes_len = 0;
    rows_integer(r, ROW_POSITION, ROW_FORM_INT8, 7);
    rows_text(r, ROW_ID, "e-1");
    rows_text(r, ROW_SOURCE, "/orders");
    rows_text(r, ROW_TYPE, "com.acme.order.created");
}

/* µs since 2000 of 2026-01-02T03:04:05.678901Z */
#define ROWS_TIME INT64_C(820638245678901)

#endif
