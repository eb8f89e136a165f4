/* fit: pure: does a column suit its role, by what event/row makes of its values? */
#ifndef PENSTOCK_SOURCE_FIT_H
#define PENSTOCK_SOURCE_FIT_H

#include "source/table.h"

#define FIT_E_NEVER 1
/* Sends a value of the column's type the way of every row. Of text, and of types that PostgreSQL doesn't bring, each
 * value decides for itself. 0; FIT_E_NEVER (no value can become part of an event: *reterr says why); -ENOMEM. */
int fit_try(const struct table_column *c, struct error *reterr) MUST_CHECK;

/* Is an event without a value there held? (The position has rules of its own.) */
bool fit_is_needed(int role);
/* Can lag be counted from it? */
bool fit_is_wall(uint32_t oid);

#endif
