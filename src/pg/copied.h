/* copied: pure: a message of COPY … TO STDOUT in binary form -> the values of a row; private to pg/ */
#ifndef PENSTOCK_PG_COPIED_H
#define PENSTOCK_PG_COPIED_H

#include "base/cleanup.h"
#include "base/span.h"
#include "pg/pgconn.h"

/* One message is one row; the header stands before the first, the trailer alone
 * behind the last. The values are borrowed from the message; absent: NULL.
 * Number of columns; 0: no row in it; -EINVAL: it can't be read. */
int copied_read(struct span message, bool first, struct span ret_values[PGCONN_COLUMNS_MAX]) MUST_CHECK;

#endif
