/* pgconn: one connection to PostgreSQL, without blocking; the only place that knows libpq */
#include "pg/pgconn.h"

#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "pg/copied.h"
#include "pg/dialer.h"

#define STATEMENTS_MAX 16      /* prepared on one connection */
#define STATEMENT_NAME_MAX 32  /* bytes, with the NUL */
#define PARAMS_MAX_BYTES (24 << 20) /* two cursors and the gaps of a checkpoint at its largest */
#define PARAMS_KEEP_BYTES 16384 /* what a page needs when it is copied */
#define SQLSTATE_SIZE 6

enum phase {
    PHASE_PREPARING, /* the parameters wait until the statement is known to the server */
    PHASE_RUNNING,
};

struct pgconn {
    const struct pgconn_options *options;
    char *connection_name, *application_name;
    const char *channel; /* NULL: listens on none */
    bool notified;
    struct guard *guard;
    struct dial *dial;
    PGconn *pg; /* while IDLE or BUSY */
    int watched_fd; /* its socket as the guard knows it: libpq forgets the number when the server hangs up */
    enum pgconn_state state;
    int64_t deadline_us;
    int64_t sent_us; /* the outstanding statement */
    bool unflushed;

    char prepared[STATEMENTS_MAX][STATEMENT_NAME_MAX];
    size_t prepared_count;

    /* The outstanding statement. */
    enum phase phase;
    const char *name; /* NULL: not prepared; else of prepared[] */
    bool binary;
    struct buf params; /* the values, each with its NUL */
    const char *values[PGCONN_PARAMS_MAX];
    int value_count;
    bool copying, copy_begun; /* its rows are to come; its header was there */
    PGresult *row; /* the current one: as a result, or as a message of COPY */
    char *copied;
    int row_columns;
    struct span row_values[PGCONN_COLUMNS_MAX];
    bool failed;
    struct error failure;
    char sqlstate[SQLSTATE_SIZE];
};

/* Connecting. --------------------------------------------------------------- */

int pgconn_new(const struct pgconn_options *options, const char *connection_name, const char *forwarder,
               const char *what, struct guard *guard, struct pgconn **ret_conn) {
    struct pgconn *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->options = options;
    c->guard = guard;
    c->state = PGCONN_CLOSED;
    c->deadline_us = CLOCK_NEVER;
    c->params = BUF_INIT(PARAMS_MAX_BYTES);
    c->connection_name = strdup(connection_name);
    if (asprintf(&c->application_name, "penstock/%s/%s", forwarder, what) < 0)
        c->application_name = NULL;
    int r = c->connection_name && c->application_name ? dial_new(&dialer_ops, &c->dial) : -ENOMEM;
    if (r < 0) {
        pgconn_free(c);
        return r;
    }
    *ret_conn = c;
    return 0;
}

void pgconn_free(struct pgconn *c) {
    if (!c)
        return;
    pgconn_close(c);
    if (c->dial)
        dial_free(c->dial);
    buf_done(&c->params);
    free(c->connection_name);
    free(c->application_name);
    free(c);
}

void pgconn_listen(struct pgconn *c, const char *channel) {
    c->channel = channel;
}

bool pgconn_notified(struct pgconn *c) {
    bool notified = c->notified;
    c->notified = false;
    return notified;
}

enum pgconn_state pgconn_state(const struct pgconn *c) {
    return c->state;
}

int pgconn_dial(struct pgconn *c, int64_t now_us) {
    ASSERT(c->state == PGCONN_CLOSED);
    struct dialer_argument *argument;
    int r = dialer_argument_new(c->options, c->connection_name, c->application_name, c->channel, &argument);
    if (r == 0)
        r = dial_start(c->dial, argument);
    if (r < 0)
        return -EAGAIN;
    c->state = PGCONN_DIALING;
    c->deadline_us = now_us + dialer_timeout_us(c->options);
    return 0;
}

static void drop_row(struct pgconn *c) {
    PQclear(c->row);
    c->row = NULL;
    PQfreemem(c->copied);
    c->copied = NULL;
    c->row_columns = 0;
}

void pgconn_close(struct pgconn *c) {
    if (c->state == PGCONN_DIALING)
        dial_abandon(c->dial);
    drop_row(c);
    if (c->pg) {
        if (c->guard)
            guard_forget(c->guard, c->watched_fd);
        PQfinish(c->pg);
        c->pg = NULL;
    }
    c->state = PGCONN_CLOSED;
    c->deadline_us = CLOCK_NEVER;
    c->unflushed = false;
    c->prepared_count = 0;
}

void pgconn_poll(const struct pgconn *c, struct pollfd *ret_fd) {
    *ret_fd = (struct pollfd){.fd = -1, .events = POLLIN};
    if (c->state == PGCONN_DIALING)
        ret_fd->fd = dial_fd(c->dial);
    if (!c->pg)
        return;
    ret_fd->fd = PQsocket(c->pg);
    if (c->unflushed)
        ret_fd->events |= POLLOUT;
}

int64_t pgconn_deadline_us(const struct pgconn *c) {
    return c->deadline_us;
}

int64_t pgconn_busy_since_us(const struct pgconn *c) {
    return c->state == PGCONN_BUSY ? c->sent_us : CLOCK_NEVER;
}

/* The connection is gone; what libpq says about it comes first. */
static int lose(struct pgconn *c, const char *what, struct error *reterr) {
    const char *words = c->pg ? PQerrorMessage(c->pg) : "";
    if (c->failed)
        *reterr = c->failure;
    else
        error_set(reterr, ERROR_RETRY, "database '%s': %s%s%s", c->connection_name, what, words[0] ? ": " : "", words);
    reterr->class = ERROR_RETRY;
    pgconn_close(c);
    return PGCONN_E_LOST;
}

static int flush(struct pgconn *c, struct error *reterr) {
    int r = PQflush(c->pg);
    if (r < 0)
        return lose(c, "the connection broke while sending", reterr);
    c->unflushed = r > 0;
    return 0;
}

static int work_dialing(struct pgconn *c, int64_t now_us, struct error *reterr) {
    void *handle;
    int r = dial_take(c->dial, &handle, reterr);
    if (r == DIAL_E_RUNNING)
        return now_us < c->deadline_us ? 0 : lose(c, "no answer in time while connecting", reterr);
    if (r != 0) {
        c->state = PGCONN_CLOSED;
        c->deadline_us = CLOCK_NEVER;
        return PGCONN_E_LOST;
    }
    c->pg = handle;
    c->watched_fd = PQsocket(c->pg);
    if (c->guard)
        guard_watch(c->guard, c->watched_fd);
    c->state = PGCONN_IDLE;
    c->deadline_us = CLOCK_NEVER;
    c->failed = false;
    return 0;
}

/* libpq keeps what came between other messages. */
static void take_notifications(struct pgconn *c) {
    PGnotify *notify;
    while ((notify = PQnotifies(c->pg))) {
        c->notified = true;
        PQfreemem(notify);
    }
}

/* Parses what has come while idle; a message of the server before it hangs up is kept by libpq. */
static int work_idle(struct pgconn *c, struct error *reterr) {
    take_notifications(c);
    return PQstatus(c->pg) == CONNECTION_OK ? 0 : lose(c, "the connection broke", reterr);
}

int pgconn_work(struct pgconn *c, int64_t now_us, struct error *reterr) {
    if (c->state == PGCONN_CLOSED)
        return 0;
    if (c->state == PGCONN_DIALING)
        return work_dialing(c, now_us, reterr);
    if (!PQconsumeInput(c->pg))
        return lose(c, "the connection broke", reterr);
    if (c->state == PGCONN_IDLE)
        return work_idle(c, reterr);
    if (now_us >= c->deadline_us)
        return lose(c, "no answer in time to a statement", reterr);
    return flush(c, reterr);
}

int pgconn_backend_pid(const struct pgconn *c) {
    ASSERT(c->pg);
    return PQbackendPID(c->pg);
}

int pgconn_server_version(const struct pgconn *c) {
    ASSERT(c->pg);
    return PQserverVersion(c->pg);
}

/* Statements. --------------------------------------------------------------- */

static const char *find_prepared(const struct pgconn *c, const char *name) {
    for (size_t i = 0; i < c->prepared_count; i++) {
        if (strcmp(c->prepared[i], name) == 0)
            return c->prepared[i];
    }
    return NULL;
}

/* libpq wants each value with a NUL behind it. */
static int copy_params(struct pgconn *c, const struct pgconn_param *params, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += params[i].value.len + 1;
    buf_clear(&c->params);
    buf_shrink(&c->params, PARAMS_KEEP_BYTES);
    int r = buf_reserve(&c->params, bytes); /* so that it stays where it is */
    for (size_t i = 0; r == 0 && i < count; i++) {
        bool null = span_absent(params[i].value);
        ASSERT(null || !memchr(params[i].value.data, '\0', params[i].value.len));
        c->values[i] = null ? NULL : c->params.data + c->params.len;
        if (!null)
            r = buf_add_span(&c->params, params[i].value);
        if (r == 0 && !null)
            r = buf_add_char(&c->params, '\0');
    }
    c->value_count = (int)count;
    return r;
}

static int started(struct pgconn *c, int sent, bool by_rows, struct error *reterr) {
    if (!sent || (by_rows && !PQsetSingleRowMode(c->pg)))
        return lose(c, "a statement can't be sent", reterr);
    return flush(c, reterr);
}

static int send_prepared(struct pgconn *c, struct error *reterr) {
    c->phase = PHASE_RUNNING;
    return started(c, PQsendQueryPrepared(c->pg, c->name, c->value_count, c->values, NULL, NULL, c->binary), true,
                   reterr);
}

static int prepare(struct pgconn *c, const char *name, const char *sql, const Oid *types, struct error *reterr) {
    ASSERT(c->prepared_count < STATEMENTS_MAX);
    ASSERT(strlen(name) < STATEMENT_NAME_MAX);
    char *place = c->prepared[c->prepared_count];
    memcpy(place, name, strlen(name) + 1);
    c->name = place;
    c->phase = PHASE_PREPARING;
    return started(c, PQsendPrepare(c->pg, name, sql, c->value_count, types), false, reterr);
}

static void begin(struct pgconn *c, bool binary, int64_t now_us) {
    c->state = PGCONN_BUSY;
    c->phase = PHASE_RUNNING;
    c->sent_us = now_us;
    c->deadline_us = now_us + c->options->statement_timeout_us;
    c->failed = false;
    c->sqlstate[0] = '\0';
    c->binary = binary;
    c->name = NULL;
    c->copying = c->copy_begun = false;
}

int pgconn_send(struct pgconn *c, const char *name, const char *sql, const struct pgconn_param *params, size_t count,
                bool binary, int64_t now_us, struct error *reterr) {
    ASSERT(c->state == PGCONN_IDLE);
    ASSERT(count <= PGCONN_PARAMS_MAX);
    if (copy_params(c, params, count) < 0)
        return lose(c, "a statement is too large to be sent", reterr);
    Oid types[PGCONN_PARAMS_MAX] = {0};
    for (size_t i = 0; i < count; i++)
        types[i] = params[i].oid;

    begin(c, binary, now_us);
    c->name = name ? find_prepared(c, name) : NULL;
    if (c->name)
        return send_prepared(c, reterr);
    if (name)
        return prepare(c, name, sql, types, reterr);
    /* Without parameters the simple protocol, which takes several statements at once. */
    int sent = count == 0 && !binary ? PQsendQuery(c->pg, sql)
                                     : PQsendQueryParams(c->pg, sql, (int)count, types, c->values, NULL, NULL, binary);
    return started(c, sent, true, reterr);
}

/* The settings are gone with the transaction that both statements are. The text of COPY is always the same: what
 * counts statements (pg_stat_statements) counts one. */
static int write_copy(struct buf *b, const char *sql, const struct span *params, size_t count) {
    buf_clear(b);
    buf_shrink(b, PARAMS_KEEP_BYTES);
    int r = buf_addf(b, "SELECT");
    for (size_t i = 0; r == 0 && i < count; i++) {
        r = buf_addf(b, "%s set_config('penstock.p%zu', ", i ? "," : "", i + 1);
        if (r == 0)
            r = pgconn_quote_literal(params[i], b);
        if (r == 0)
            r = buf_addf(b, ", true)");
    }
    if (r == 0)
        r = buf_addf(b, "; COPY (%s) TO STDOUT (FORMAT binary)", sql);
    return r ? r : buf_terminate(b);
}

int pgconn_copy(struct pgconn *c, const char *sql, const struct span *params, size_t count, int64_t now_us,
                struct error *reterr) {
    ASSERT(c->state == PGCONN_IDLE);
    if (write_copy(&c->params, sql, params, count) < 0)
        return lose(c, "a statement is too large to be sent", reterr);
    begin(c, true, now_us);
    return started(c, PQsendQuery(c->pg, c->params.data), false, reterr);
}

static enum error_class class_of(const char *sqlstate) {
    /* Appendix A of PostgreSQL's manual: data, authorization, missing objects, rights and syntax need a
     * person; everything else may pass. 42P10 and the like are ours, but a person must see them too. */
    static const char *const config[] = {"0A", "22", "23", "28", "2B", "2F", "38", "39", "3B", "3D", "3F", "42", "44"};
    for (size_t i = 0; i < ARRAY_LENGTH(config); i++) {
        if (strncmp(sqlstate, config[i], 2) == 0)
            return ERROR_CONFIG;
    }
    return ERROR_RETRY;
}

/* The primary message only: details and context may quote the row. */
static void note_failure(struct pgconn *c, const PGresult *result) {
    if (c->failed)
        return;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    snprintf(c->sqlstate, sizeof c->sqlstate, "%s", state ? state : "");
    error_set(&c->failure, class_of(c->sqlstate), "database '%s': %s%s%s%s", c->connection_name,
              primary ? primary : PQresultErrorMessage(result), state ? " (SQLSTATE " : "", state ? state : "",
              state ? ")" : "");
    c->failed = true;
}

/* The statement has no more results: it has ended, or was only prepared. */
static int finish_statement(struct pgconn *c, struct error *reterr) {
    if (PQstatus(c->pg) != CONNECTION_OK)
        return lose(c, "the connection broke", reterr);
    if (!c->failed && c->phase == PHASE_PREPARING) {
        c->prepared_count++;
        int r = send_prepared(c, reterr);
        return r ? r : PGCONN_E_AGAIN;
    }
    c->state = PGCONN_IDLE;
    c->deadline_us = CLOCK_NEVER;
    take_notifications(c); /* the socket has nothing more to say of those that came with the answer */
    if (!c->failed)
        return PGCONN_E_DONE;
    c->failed = false; /* said: a connection that breaks later has words of its own */
    *reterr = c->failure;
    return PGCONN_E_FAILED;
}

/* Of each column of each row: libpq looks at its arguments in every call, and only an empty value can be NULL. */
static bool read_row(struct pgconn *c) {
    c->row_columns = PQnfields(c->row);
    if (c->row_columns > PGCONN_COLUMNS_MAX)
        return false;
    for (int i = 0; i < c->row_columns; i++) {
        int len = PQgetlength(c->row, 0, i);
        bool null = len == 0 && PQgetisnull(c->row, 0, i);
        c->row_values[i] = null ? SPAN_ABSENT : (struct span){PQgetvalue(c->row, 0, i), (size_t)len};
    }
    return true;
}

/* Beside what a fetch returns. */
#define LOOK_ON 5

static int next_result(struct pgconn *c, struct error *reterr) {
    PGresult *result = PQgetResult(c->pg);
    if (!result) {
        int r = finish_statement(c, reterr);
        return r == PGCONN_E_AGAIN ? LOOK_ON : r;
    }
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_SINGLE_TUPLE) {
        c->row = result;
        return read_row(c) ? 0 : lose(c, "a row has too many columns", reterr);
    }
    if (status == PGRES_COPY_OUT)
        c->copying = true;
    else if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        note_failure(c, result);
    PQclear(result);
    return LOOK_ON;
}

static int next_copied(struct pgconn *c, struct error *reterr) {
    int len = PQgetCopyData(c->pg, &c->copied, true);
    if (len == 0)
        return PGCONN_E_AGAIN;
    if (len < -1)
        return lose(c, "the connection broke", reterr);
    if (len == -1) { /* at its end, or for an error: the next result says so */
        c->copying = false;
        return LOOK_ON;
    }
    c->row_columns = copied_read((struct span){c->copied, (size_t)len}, !c->copy_begun, c->row_values);
    c->copy_begun = true;
    if (c->row_columns > 0)
        return 0;
    if (c->row_columns < 0)
        return lose(c, "a copied row can't be read", reterr);
    drop_row(c);
    return LOOK_ON;
}

int pgconn_fetch(struct pgconn *c, struct error *reterr) {
    if (c->state == PGCONN_CLOSED)
        return lose(c, "there is no connection", reterr);
    ASSERT(c->state == PGCONN_BUSY);
    drop_row(c);
    int r = LOOK_ON;
    while (r == LOOK_ON) {
        if (c->copying)
            r = next_copied(c, reterr);
        else
            r = PQisBusy(c->pg) ? PGCONN_E_AGAIN : next_result(c, reterr);
    }
    return r;
}

struct span pgconn_value(const struct pgconn *c, int column) {
    ASSERT(column < c->row_columns);
    return c->row_values[column];
}

const struct span *pgconn_values(const struct pgconn *c) {
    return c->row_values;
}

int pgconn_columns(const struct pgconn *c) {
    ASSERT(c->row_columns > 0);
    return c->row_columns;
}

const char *pgconn_sqlstate(const struct pgconn *c) {
    return c->sqlstate;
}
