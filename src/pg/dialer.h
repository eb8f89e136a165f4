/* dialer: opens a connection to PostgreSQL in a thread that may hang; private to pg/ */
#ifndef PENSTOCK_PG_DIALER_H
#define PENSTOCK_PG_DIALER_H

#include "base/dial.h"
#include "pg/pgconn.h"

/* For dial_new. The argument is a struct dialer_argument, the handle a PGconn
 * that does not block and has the session's settings. */
extern const struct dial_ops dialer_ops;

/* Owns copies of all it needs: an attempt that was given up outlives the options. */
struct dialer_argument;
/* `channel`: of LISTEN; NULL: none. */
int dialer_argument_new(const struct pgconn_options *options, const char *connection_name, const char *application_name,
                        const char *channel, struct dialer_argument **ret_argument) MUST_CHECK;

/* How long an attempt may take: libpq tries several hosts, and several addresses of each. */
int64_t dialer_timeout_us(const struct pgconn_options *options);

#endif
