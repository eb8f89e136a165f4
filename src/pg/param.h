/* param: values as a statement's parameters, in PostgreSQL's text form and typed */
#ifndef PENSTOCK_PG_PARAM_H
#define PENSTOCK_PG_PARAM_H

#include "base/buf.h"

/* Types by their oids in pg_type.dat, which never change. */
enum {
    PARAM_BOOL = 16,
    PARAM_INT8 = 20,
    PARAM_INT4 = 23,
    PARAM_TEXT = 25,
    PARAM_OID = 26,
    PARAM_INT8_ARRAY = 1016,
    PARAM_JSONB = 3802,
    PARAM_PG_SNAPSHOT = 5038,
};

/* Borrows its text. */
struct pgconn_param {
    struct span value; /* text form; absent: NULL */
    uint32_t oid;      /* type; 0: the server decides. Untyped, a cast in SQL may be evaluated for each row */
};

#define PARAM_NUMBER_SIZE 24

static inline struct pgconn_param param_text(struct span text) {
    return (struct pgconn_param){text, PARAM_TEXT};
}

/* Written into `text`, which has to live as long. */
struct pgconn_param param_number_of(uint32_t oid, int64_t number, char text[PARAM_NUMBER_SIZE]);
/* bigint */
struct pgconn_param param_number(int64_t number, char text[PARAM_NUMBER_SIZE]);

/* An array of numbers: add to an empty *b, then end it ("{5,7}"). 0; -ENOMEM; -EMSGSIZE. */
int param_array_add(struct buf *b, int64_t number) MUST_CHECK;
/* Without a number it is "{}". */
int param_array_end(struct buf *b) MUST_CHECK;

#endif
