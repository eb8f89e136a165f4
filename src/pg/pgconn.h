/* pgconn: one connection to PostgreSQL, without blocking; the only place that knows libpq */
#ifndef PENSTOCK_PG_PGCONN_H
#define PENSTOCK_PG_PGCONN_H

#include <poll.h>

#include "base/error.h"
#include "base/guard.h"
#include "base/option.h"
#include "base/span.h"
#include "pg/param.h"

/* Of connections: NAME: postgresql: */
struct pgconn_options {
    char *conninfo; /* everything libpq honours; never logged (may hold a password) */
    struct secret password;
    int64_t connect_timeout_us;
    int64_t statement_timeout_us; /* our own deadline per statement */
};

extern const struct option pgconn_options_table[];
/* libpq's own parser on conninfo. 0; -EINVAL with *reterr; -ENOMEM. */
int pgconn_check_options(const struct pgconn_options *options, struct error *reterr) MUST_CHECK;

struct pgconn;

/* `what` ("keep", "tail") and `forwarder` make the application_name. Borrowed. No connection yet. */
int pgconn_new(const struct pgconn_options *options, const char *connection_name, const char *forwarder,
               const char *what, struct guard *guard, struct pgconn **ret_conn) MUST_CHECK;
void pgconn_free(struct pgconn *c);

/* Has each connection that is made from now on listen on that channel (LISTEN); borrowed. */
void pgconn_listen(struct pgconn *c, const char *channel);
/* Has a notification come since the last call? One that is lost costs time, never an event. */
bool pgconn_notified(struct pgconn *c);

enum pgconn_state { PGCONN_CLOSED, PGCONN_DIALING, PGCONN_IDLE, PGCONN_BUSY };

enum pgconn_state pgconn_state(const struct pgconn *c);
/* Starts one attempt in a dialer (PQconnectdb: several hosts, target_session_attrs,
 * connect_timeout, tcp_user_timeout and keepalives are set). 0; -EAGAIN. */
int pgconn_dial(struct pgconn *c, int64_t now_us) MUST_CHECK;
/* Drops the connection or the attempt, without waiting. */
void pgconn_close(struct pgconn *c);

/* One entry for poll(2); fd -1 when there is nothing to wait for. */
void pgconn_poll(const struct pgconn *c, struct pollfd *ret_fd);
int64_t pgconn_deadline_us(const struct pgconn *c);
/* When the outstanding statement was sent; CLOCK_NEVER without one. */
int64_t pgconn_busy_since_us(const struct pgconn *c);
/* Looks at what has come. 0; PGCONN_E_LOST with *reterr (dial failed, server
 * gone, deadline passed): the state is CLOSED then. */
#define PGCONN_E_LOST 1
int pgconn_work(struct pgconn *c, int64_t now_us, struct error *reterr) MUST_CHECK;

/* Who we are talking to; valid while connected. */
int pgconn_backend_pid(const struct pgconn *c);
int pgconn_server_version(const struct pgconn *c); /* 150004 */

/* Statements: one outstanding. ------------------------------------------ */

#define PGCONN_PARAMS_MAX 16

/* Sends. `name` non-NULL: prepared once per connection under that name (sql must
 * be the same each time). Results in binary form if asked. Single-row mode
 * always. Several statements at once only without name, parameters and binary form.
 * 0; PGCONN_E_LOST. Asserts IDLE. */
int pgconn_send(struct pgconn *c, const char *name, const char *sql, const struct pgconn_param *params, size_t count,
                bool binary, int64_t now_us, struct error *reterr) MUST_CHECK;

/* SQL: the n-th parameter of a statement that is sent by pgconn_copy; text. */
#define PGCONN_SETTING(n) "current_setting('penstock.p" #n "')"
/* The same by COPY (sql) TO STDOUT in binary form: there libpq makes no result of each row. But COPY takes no
 * parameters (they become settings of its transaction) and is planned anew each time: for thousands of rows. */
int pgconn_copy(struct pgconn *c, const char *sql, const struct span *params, size_t count, int64_t now_us,
                struct error *reterr) MUST_CHECK;

#define PGCONN_COLUMNS_MAX 96 /* of a row */

#define PGCONN_E_AGAIN 2  /* nothing yet: poll */
#define PGCONN_E_DONE 3   /* the statement has ended well; state IDLE */
#define PGCONN_E_FAILED 4 /* the server refused it: *reterr and pgconn_sqlstate; state IDLE */

/* The next row of the outstanding statement: 0 (read it by pgconn_value), or
 * PGCONN_E_AGAIN, _DONE, _FAILED, _LOST. */
int pgconn_fetch(struct pgconn *c, struct error *reterr) MUST_CHECK;
/* Of the current row; borrowed until the next fetch. Absent span: NULL. */
struct span pgconn_value(const struct pgconn *c, int column);
/* All of them; pgconn_columns many. */
const struct span *pgconn_values(const struct pgconn *c);
int pgconn_columns(const struct pgconn *c);
/* Five characters; "" if there is none. */
const char *pgconn_sqlstate(const struct pgconn *c);

/* SQL: which server is this? Identifier, start time and address as one text;
 * connections that agree on it reached the same run of the same server. */
#define PGCONN_SERVER_SQL                                                                          \
    "((SELECT system_identifier FROM pg_control_system()) || ' started ' || "                      \
    "pg_postmaster_start_time() || ' at ' || coalesce(host(inet_server_addr()) || ' port ' || "    \
    "inet_server_port(), 'its socket'))"
#define PGCONN_SERVER_MAX 160 /* bytes, with a NUL */

/* Appends the identifier quoted for SQL ("Event Log"). 0; -ENOMEM; -EMSGSIZE. */
int pgconn_quote_identifier(struct span name, struct buf *b) MUST_CHECK;
int pgconn_quote_literal(struct span text, struct buf *b) MUST_CHECK;

#endif
