/* quantity: whole numbers, decimals, durations and sizes: text <-> value */
#ifndef PENSTOCK_CONFIG_QUANTITY_H
#define PENSTOCK_CONFIG_QUANTITY_H

#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

/* YAML readers differ on 010, 1_000 and 12:30; here there is one way to write
 * a number: digits, no leading zero, no sign but '-'. */

#define QUANTITY_E_FORM 1  /* not written like that */
#define QUANTITY_E_UNIT 2  /* a number, but its unit is missing or unknown */
#define QUANTITY_E_RANGE 3 /* does not fit in 64 bits */

int quantity_read_integer(struct span text, int64_t *ret_value) MUST_CHECK;
/* µs, from a whole number with one of us ms s min h; 0 needs no unit. */
int quantity_read_duration(struct span text, int64_t *ret_us) MUST_CHECK;
/* Bytes, from a whole number with one of KiB MiB GiB kB MB GB B or none. */
int quantity_read_size(struct span text, int64_t *ret_bytes) MUST_CHECK;
/* Digits, perhaps with a fraction: 2.0 */
int quantity_read_decimal(struct span text, double *ret_value) MUST_CHECK;

/* Append the shortest text that reads back to the same. */
int quantity_add_duration(struct buf *b, int64_t us) MUST_CHECK;
int quantity_add_size(struct buf *b, int64_t bytes) MUST_CHECK;
int quantity_add_decimal(struct buf *b, double value) MUST_CHECK;

#endif
