/* dialer: opens a connection to PostgreSQL in a thread that may hang; private to pg/ */
#include "pg/dialer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>

#include "base/clock.h"

/* A link that is cut while a statement is out is noticed by tcp_user_timeout,
 * one that is cut while idle by keepalives; neither notices both. */
#define TCP_USER_TIMEOUT_MS "5000"
#define KEEPALIVES_IDLE_S "2"
#define KEEPALIVES_INTERVAL_S "1"
#define KEEPALIVES_COUNT "3"

#define LISTEN_MAX_BYTES 512
#define ADDRESSES_PER_HOST 2 /* of IPv4 and IPv6 */
#define SETTLE_US (5 * CLOCK_US_PER_S) /* name lookup, login, the session's settings */

/* Texts of columns must not depend on the role's settings. Rows that a policy
 * hides would look like rows that are not there: row_security = off makes them
 * an error. Plans are made once, often while the table is still empty, and must
 * be right when it has grown: so by index and in its order, never by a sort of
 * what happens to be little. */
static const char session_sql[] = "SET synchronous_commit = on;"
                                  "SET row_security = off;"
                                  "SET plan_cache_mode = force_generic_plan;"
                                  "SET enable_seqscan = off;"
                                  "SET enable_bitmapscan = off;"
                                  "SET enable_sort = off;"
                                  "SET jit = off;"
                                  "SET max_parallel_workers_per_gather = 0;"
                                  "SET default_transaction_isolation = 'read committed';"
                                  "SET timezone = 'UTC';"
                                  "SET datestyle = 'ISO';"
                                  "SET intervalstyle = 'iso_8601';"
                                  "SET bytea_output = 'hex';"
                                  "SET extra_float_digits = 1;"
                                  "SET client_min_messages = warning";
/* A server whose client went away stops working for it (14 and later, not on every system). */
static const char check_interval_sql[] = "SET client_connection_check_interval = '2s'";

struct dialer_argument {
    char *conninfo, *connection_name, *application_name;
    struct buf listen_sql; /* terminated; empty: none */
    struct secret password;
    int64_t connect_timeout_us, statement_timeout_us;
};

static void argument_free(void *argument) {
    struct dialer_argument *a = argument;
    if (!a)
        return;
    if (a->conninfo)
        explicit_bzero(a->conninfo, strlen(a->conninfo));
    free(a->conninfo);
    free(a->connection_name);
    free(a->application_name);
    buf_done(&a->listen_sql);
    secret_done(&a->password);
    free(a);
}

static int write_listen(struct buf *sql, const char *channel) {
    *sql = BUF_INIT(LISTEN_MAX_BYTES);
    if (!channel)
        return 0;
    int r = buf_addf(sql, "LISTEN ");
    if (r == 0)
        r = pgconn_quote_identifier(span_of(channel), sql);
    return r ? r : buf_terminate(sql);
}

int dialer_argument_new(const struct pgconn_options *options, const char *connection_name, const char *application_name,
                        const char *channel, struct dialer_argument **ret_argument) {
    struct dialer_argument *a = calloc(1, sizeof *a);
    if (!a)
        return -ENOMEM;
    int r = write_listen(&a->listen_sql, channel);
    a->conninfo = strdup(options->conninfo ? options->conninfo : "");
    a->connection_name = strdup(connection_name);
    a->application_name = strdup(application_name);
    a->password.kind = options->password.kind;
    a->password.value = options->password.value ? strdup(options->password.value) : NULL;
    a->connect_timeout_us = options->connect_timeout_us;
    a->statement_timeout_us = options->statement_timeout_us;
    if (r || !a->conninfo || !a->connection_name || !a->application_name ||
        (options->password.value && !a->password.value)) {
        argument_free(a);
        return r ? r : -ENOMEM;
    }
    *ret_argument = a;
    return 0;
}

static int count_hosts(const char *conninfo) {
    int count = 1;
    PQconninfoOption *options = PQconninfoParse(conninfo ? conninfo : "", NULL);
    for (PQconninfoOption *o = options; o && o->keyword; o++) {
        if (!o->val || (strcmp(o->keyword, "host") != 0 && strcmp(o->keyword, "hostaddr") != 0))
            continue;
        int hosts = 1;
        for (const char *p = o->val; *p; p++)
            hosts += *p == ',';
        if (hosts > count)
            count = hosts;
    }
    PQconninfoFree(options);
    return count;
}

int64_t dialer_timeout_us(const struct pgconn_options *options) {
    return count_hosts(options->conninfo) * ADDRESSES_PER_HOST * options->connect_timeout_us + SETTLE_US;
}

static void ignore_notice(void *arg, const char *message) {
    (void)arg;
    (void)message;
}

static bool run(PGconn *pg, const char *sql) {
    PGresult *result = PQexec(pg, sql);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return ok;
}

static bool set_session(PGconn *pg, const struct dialer_argument *a, struct error *reterr) {
    /* Our own deadline comes first; this one only ends what goes on without us. */
    char timeout_sql[80];
    snprintf(timeout_sql, sizeof timeout_sql, "SET statement_timeout = %" PRId64,
             (a->statement_timeout_us + CLOCK_US_PER_S) / CLOCK_US_PER_MS);
    if (!run(pg, session_sql) || !run(pg, timeout_sql) || (a->listen_sql.len > 0 && !run(pg, a->listen_sql.data))) {
        error_set(reterr, ERROR_RETRY, "database '%s': the session can't be set up: %s", a->connection_name,
                  PQerrorMessage(pg));
        return false;
    }
    if (PQserverVersion(pg) >= 140000 && !run(pg, check_interval_sql) && PQstatus(pg) == CONNECTION_BAD) {
        error_set(reterr, ERROR_RETRY, "database '%s': %s", a->connection_name, PQerrorMessage(pg));
        return false;
    }
    if (PQsetnonblocking(pg, 1) == 0)
        return true;
    error_set(reterr, ERROR_RETRY, "database '%s': the connection can't be made non-blocking", a->connection_name);
    return false;
}

static void finish(void *handle) {
    PQfinish(handle);
}

static void close_connection(PGconn **pg) {
    PQfinish(*pg);
}

/* What stands before dbname can be overridden by the conninfo, what stands behind it can't. */
static PGconn *connect_with(const struct dialer_argument *a, const char *password) {
    char timeout_s[24];
    snprintf(timeout_s, sizeof timeout_s, "%" PRId64, (a->connect_timeout_us + CLOCK_US_PER_S - 1) / CLOCK_US_PER_S);
    const char *const keywords[] = {
        "connect_timeout", "target_session_attrs", "tcp_user_timeout", "keepalives", "keepalives_idle",
        "keepalives_interval", "keepalives_count", "application_name", "dbname", "client_encoding",
        password ? "password" : NULL, NULL};
    const char *const values[] = {timeout_s, "read-write", TCP_USER_TIMEOUT_MS, "1", KEEPALIVES_IDLE_S,
                                  KEEPALIVES_INTERVAL_S, KEEPALIVES_COUNT, a->application_name, a->conninfo, "UTF8",
                                  password, NULL};
    static_assert(ARRAY_LENGTH(keywords) == ARRAY_LENGTH(values), "each keyword has its value");
    return PQconnectdbParams(keywords, values, 1);
}

/* 0: it can't be asked. */
static int backend_of(PGconn *pg) {
    PGresult *result = PQexec(pg, "SELECT pg_backend_pid()");
    int pid = PQresultStatus(result) == PGRES_TUPLES_OK ? (int)strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return pid;
}

/* A pooler gives its own number for the backend's. Whether it lends a backend for
 * the session or only for a transaction shows when another connection keeps a
 * transaction open: ours still has the backend it had, or that one was lent on. */
static bool is_lent(PGconn *pg, int backend, const struct dialer_argument *a, const char *password) {
    CLEANUP(close_connection) PGconn *other = connect_with(a, password);
    if (PQstatus(other) != CONNECTION_OK)
        return true; /* who can't tell doesn't rely on it; asked again with the next attempt */
    PQsetNoticeProcessor(other, ignore_notice, NULL);
    return !run(other, "BEGIN") || backend_of(other) == backend || backend_of(pg) != backend;
}

/* Settings, prepared statements, LISTEN and cancelling are a backend's; and that the server has not restarted between
 * read and save is proven by one that lived all the time. */
static bool keeps_backend(PGconn *pg, const struct dialer_argument *a, const char *password, struct error *reterr) {
    int backend = backend_of(pg);
    if (backend == PQbackendPID(pg))
        return true;
    if (backend == 0) {
        error_set(reterr, ERROR_RETRY, "database '%s': %s", a->connection_name, PQerrorMessage(pg));
        return false;
    }
    if (!is_lent(pg, backend, a, password))
        return true;
    error_set(reterr, ERROR_CONFIG, "database '%s': a pooler stands in between that lends a backend for one transaction only "
              "(PgBouncer's pool_mode transaction or statement); needed is one for the session: connect to the server itself, or "
              "give this user pool_mode=session (pgbouncer.ini, section [users]: \"%s = pool_mode=session\") and at least 3 "
              "connections for each forwarder", a->connection_name, PQuser(pg));
    return false;
}

static void *connect(void *argument, struct error *reterr) {
    const struct dialer_argument *a = argument;
    CLEANUP(secret_wipe) struct buf password = BUF_INIT(SECRET_MAX_BYTES + 1);
    if (a->password.kind != SECRET_NONE && secret_read(&a->password, &password, reterr) != 0) {
        error_prefix(reterr, "database '%s': password", a->connection_name);
        return NULL;
    }
    const char *word = a->password.kind != SECRET_NONE ? password.data : NULL;
    PGconn *pg = connect_with(a, word);
    if (!pg) {
        error_set(reterr, ERROR_RETRY, "database '%s': out of memory", a->connection_name);
        return NULL;
    }
    PQsetNoticeProcessor(pg, ignore_notice, NULL);
    if (PQstatus(pg) != CONNECTION_OK) {
        error_set(reterr, ERROR_RETRY, "database '%s': %s", a->connection_name, PQerrorMessage(pg));
        finish(pg);
        return NULL;
    }
    if (keeps_backend(pg, a, word, reterr) && set_session(pg, a, reterr))
        return pg;
    finish(pg);
    return NULL;
}

const struct dial_ops dialer_ops = {.connect = connect, .close = finish, .free_argument = argument_free};
