/* reader: drives one source and its keep connection for the C tests against a real server */
#ifndef PENSTOCK_TESTS_READER_H
#define PENSTOCK_TESTS_READER_H

#include <check.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "source/source.h"

/* The server is where libpq's environment variables point. */
struct reader {
    struct pgconn_options database;
    struct source_options options;
    struct guard *guard;
    struct pgconn *keep, *tail;
    struct source *source;
    struct error error;
    uint64_t cancels;
};

#define PATIENCE_US (60 * CLOCK_US_PER_S)

static inline void reader_set(char **place, const char *text) {
    free(*place);
    *place = text ? strdup(text) : NULL;
}

/* Defaults for `table`; change options before reader_open. */
static inline void reader_init(struct reader *r, const char *table) {
    *r = (struct reader){.options = {.max_message_bytes = 64 << 20}};
    r->database.connect_timeout_us = 5 * CLOCK_US_PER_S;
    r->database.statement_timeout_us = 30 * CLOCK_US_PER_S;
    reader_set(&r->options.table, table);
    if (guard_new(&r->guard) != 0)
        ck_abort_msg("no guard");
}

static inline void reader_close(struct reader *r) {
    source_free(r->source);
    pgconn_free(r->keep);
    pgconn_free(r->tail);
    r->source = NULL;
    r->keep = r->tail = NULL;
}

static inline void reader_done(struct reader *r) {
    reader_close(r);
    free(r->database.conninfo);
    source_options_done(&r->options);
    guard_free(r->guard);
}

static inline void wait_for(struct pgconn *c) {
    struct pollfd fd;
    pgconn_poll(c, &fd);
    poll(&fd, 1, clock_poll_timeout(clock_now_us(), pgconn_deadline_us(c)));
}

static inline bool dial(struct reader *r, struct pgconn *c) {
    ck_assert_int_eq(pgconn_dial(c, clock_now_us()), 0);
    while (pgconn_state(c) == PGCONN_DIALING) {
        wait_for(c);
        if (pgconn_work(c, clock_now_us(), &r->error) != 0)
            return false;
    }
    return true;
}

/* pg_cancel_backend through keep, as the checkpoint does it. */
static inline void cancel(struct reader *r) {
    char pid[24];
    int len = snprintf(pid, sizeof pid, "%d", source_cancel_pid(r->source));
    struct pgconn_param param = {{pid, (size_t)len}, 23};
    int got;
    ck_assert_int_eq(pgconn_send(r->keep, "cancel", "SELECT pg_cancel_backend($1)", &param, 1, false, clock_now_us(),
                                 &r->error), 0);
    while ((got = pgconn_fetch(r->keep, &r->error)) != PGCONN_E_DONE) {
        ck_assert_msg(got == 0 || got == PGCONN_E_AGAIN, "%s", r->error.text);
        if (got == PGCONN_E_AGAIN)
            wait_for(r->keep);
        ck_assert_int_eq(pgconn_work(r->keep, clock_now_us(), &r->error), 0);
    }
    r->cancels++;
    source_cancelled(r->source);
}

/* The next signal other than SOURCE_NONE; cancels what is to be cancelled. */
static inline enum source_signal reader_next(struct reader *r) {
    int64_t deadline = clock_now_us() + PATIENCE_US;
    for (;;) {
        ck_assert_msg(clock_now_us() < deadline, "the source says nothing");
        enum source_signal signal = source_next(r->source, clock_now_us(), &r->error);
        if (signal == SOURCE_CANCEL)
            cancel(r);
        else if (signal != SOURCE_NONE)
            return signal;
        else
            wait_for(r->tail);
        if (pgconn_work(r->tail, clock_now_us(), &r->error) != 0)
            return SOURCE_LOST;
    }
}

/* Connects and inspects: SOURCE_INSPECTED, SOURCE_REFUSED … */
static inline enum source_signal reader_inspect(struct reader *r) {
    reader_close(r);
    ck_assert_int_eq(pgconn_new(&r->database, "db", "test", "keep", r->guard, &r->keep), 0);
    ck_assert_int_eq(pgconn_new(&r->database, "db", "test", "tail", r->guard, &r->tail), 0);
    ck_assert_int_eq(source_new(&r->options, r->tail, &r->source), 0);
    if (!dial(r, r->keep) || !dial(r, r->tail))
        return SOURCE_LOST;
    ck_assert_int_eq(source_inspect(r->source, clock_now_us()), 0);
    return reader_next(r);
}

/* reader_inspect, then opens at the cursor (NULL: the start of the options). */
static inline enum source_signal reader_open(struct reader *r, const char *cursor) {
    enum source_signal signal = reader_inspect(r);
    if (signal != SOURCE_INSPECTED)
        return signal;
    if (source_open(r->source, cursor ? span_of(cursor) : SPAN_ABSENT, clock_now_us(), &r->error) != 0)
        return SOURCE_FAILED;
    return reader_next(r);
}

/* A direct connection; fails the test on any error. */
static inline PGconn *direct_open(void) {
    PGconn *pg = PQconnectdb("");
    ck_assert_msg(PQstatus(pg) == CONNECTION_OK, "%s", PQerrorMessage(pg));
    PQclear(PQexec(pg, "SET client_min_messages = error"));
    return pg;
}

static inline PGresult *run(PGconn *pg, const char *format, va_list args) {
    char *sql;
    ck_assert_int_ge(vasprintf(&sql, format, args), 0);
    PGresult *result = PQexec(pg, sql);
    ExecStatusType status = PQresultStatus(result);
    ck_assert_msg(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK, "%s: %s", sql, PQerrorMessage(pg));
    free(sql);
    return result;
}

static inline void direct_run(PGconn *pg, const char *format, ...) {
    va_list args;
    va_start(args, format);
    PQclear(run(pg, format, args));
    va_end(args);
}

static inline int64_t direct_number(PGconn *pg, const char *format, ...) {
    va_list args;
    va_start(args, format);
    PGresult *result = run(pg, format, args);
    va_end(args);
    ck_assert_int_eq(PQntuples(result), 1);
    int64_t number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return number;
}

#endif
