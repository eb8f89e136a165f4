/* param: values as a statement's parameters, in PostgreSQL's text form and typed */
#include "pg/param.h"

#include <inttypes.h>
#include <stdio.h>

struct pgconn_param param_number_of(uint32_t oid, int64_t number, char text[PARAM_NUMBER_SIZE]) {
    int len = snprintf(text, PARAM_NUMBER_SIZE, "%" PRId64, number);
    return (struct pgconn_param){{text, (size_t)len}, oid};
}

struct pgconn_param param_number(int64_t number, char text[PARAM_NUMBER_SIZE]) {
    return param_number_of(PARAM_INT8, number, text);
}

int param_array_add(struct buf *b, int64_t number) {
    return buf_addf(b, "%c%" PRId64, b->len ? ',' : '{', number);
}

int param_array_end(struct buf *b) {
    return buf_addf(b, "%s}", b->len ? "" : "{");
}
