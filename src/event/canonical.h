/* canonical: a column's bytes -> the text of an attribute (spec.md "Type System") */
#ifndef PENSTOCK_EVENT_CANONICAL_H
#define PENSTOCK_EVENT_CANONICAL_H

#include "event/row.h"

/* *ret_fault says what is wrong with the bytes, to stand behind a column's name. */
#define CANONICAL_E_FAULT 1

/* Appends the text: integers in decimal, uuid in lower case, timestamps as RFC
 * 3339 in UTC, a date as in ISO 8601, bytea as base64; text and JSON as they
 * are. 0; CANONICAL_E_FAULT; -ENOMEM; -EMSGSIZE. */
int canonical_add(enum row_form form, struct span bytes, struct buf *b, const char **ret_fault) MUST_CHECK;

/* As canonical_add, but a date is the midnight in UTC that it begins with. */
int canonical_add_time(enum row_form form, struct span bytes, struct buf *b, const char **ret_fault) MUST_CHECK;

int canonical_add_integer(int64_t value, struct buf *b) MUST_CHECK;

/* Of int2, int4, int8, or of decimal text. 0; CANONICAL_E_FAULT. */
int canonical_integer(enum row_form form, struct span bytes, int64_t *ret_value, const char **ret_fault) MUST_CHECK;

/* Of timestamptz, timestamp, date: µs since 1970. 0; CANONICAL_E_FAULT (infinity, other forms). */
int canonical_wall_us(enum row_form form, struct span bytes, int64_t *ret_us, const char **ret_fault) MUST_CHECK;

#endif
