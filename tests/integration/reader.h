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
    /* The table gap beside the checkpoint, as reader_save left it. */
    struct reader_gap {
        int64_t first, last, until_us;
    } *gaps;
    size_t gap_count;
};

#define PATIENCE_US (60 * CLOCK_US_PER_S)

static inline void reader_set(char **place, const char *text) {
    free(*place);
    *place = text ? strdup(text) : NULL;
}

/* Defaults for `table`; change options before reader_open. */
static inline void reader_init(struct reader *r, const char *table) {
    *r = (struct reader){.options = {.max_message_bytes = 64 << 20,
                                      .text_typed = true,
                                      .gaps_max = 100000,
                                      .gaps_retention_us = 600 * CLOCK_US_PER_S}};
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
    free(r->gaps);
    free(r->database.conninfo);
    source_options_done(&r->options);
    guard_free(r->guard);
}

static inline void wait_for(struct pgconn *c) {
    struct pollfd fd;
    pgconn_poll(c, &fd);
    clock_poll(&fd, 1, pgconn_deadline_us(c));
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
    ck_assert_int_eq(source_inspect(r->source, SPAN_ABSENT, clock_now_us()), 0);
    return reader_next(r);
}

/* The numbers of an array as PostgreSQL writes it; count is what there are. */
static inline int64_t *reader_numbers(struct span array, size_t *ret_count) {
    int64_t *numbers = calloc(array.len + 1, sizeof *numbers);
    size_t count = 0;
    const char *at = array.data, *end = at + array.len;
    while (at < end && (*at == '{' || *at == ','))
        numbers[count++] = strtoll(at + 1, (char **)&at, 10);
    *ret_count = count;
    return numbers;
}

static inline void reader_remove_gap(struct reader *r, int64_t first) {
    for (size_t i = 0; i < r->gap_count; i++) {
        if (r->gaps[i].first != first)
            continue;
        memmove(&r->gaps[i], &r->gaps[i + 1], (--r->gap_count - i) * sizeof *r->gaps);
        return;
    }
    ck_abort_msg("a gap leaves that was not there: %lld", (long long)first);
}

/* What a save does: the cursor into *b, and the table gap follows. */
static inline void reader_save(struct reader *r, struct source_mark mark, struct buf *b) {
    struct source_changes c;
    size_t count, ends, times, gone;
    ck_assert_int_eq(source_print_cursor(r->source, mark, b), 0);
    ck_assert_int_eq(source_changes(r->source, mark, clock_now_us(), &c), 0);
    int64_t *firsts = reader_numbers(c.more.first, &count), *lasts = reader_numbers(c.more.last, &ends);
    int64_t *lefts = reader_numbers(c.more.left_us, &times), *gones = reader_numbers(c.gone, &gone);
    ck_assert_uint_eq(count, ends);
    ck_assert_uint_eq(count, times);
    for (size_t i = 0; i < gone; i++)
        reader_remove_gap(r, gones[i]);
    r->gaps = realloc(r->gaps, (r->gap_count + count + 1) * sizeof *r->gaps);
    for (size_t i = 0; i < count; i++)
        r->gaps[r->gap_count++] = (struct reader_gap){firsts[i], lasts[i], clock_now_us() + lefts[i]};
    source_saved(r->source, mark);
    free(firsts);
    free(lasts);
    free(lefts);
    free(gones);
}

static inline int reader_compare_gaps(const void *a, const void *b) {
    const struct reader_gap *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* As the checkpoint loads them: by position, NULL without any. */
static inline void reader_write_gaps(struct reader *r, struct buf b[3], struct source_retained *ret_retained) {
    *ret_retained = (struct source_retained){0};
    if (r->gap_count == 0)
        return;
    qsort(r->gaps, r->gap_count, sizeof *r->gaps, reader_compare_gaps);
    for (size_t i = 0; i < r->gap_count; i++) {
        char before = i > 0 ? ',' : '{';
        ck_assert_int_eq(buf_addf(&b[0], "%c%lld", before, (long long)r->gaps[i].first), 0);
        ck_assert_int_eq(buf_addf(&b[1], "%c%lld", before, (long long)r->gaps[i].last), 0);
        ck_assert_int_eq(buf_addf(&b[2], "%c%lld", before, (long long)(r->gaps[i].until_us - clock_now_us())), 0);
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(buf_add_char(&b[i], '}'), 0);
    *ret_retained = (struct source_retained){buf_span(&b[0]), buf_span(&b[1]), buf_span(&b[2])};
}

/* reader_inspect, then opens at the cursor (NULL: the start of the options). */
static inline enum source_signal reader_open(struct reader *r, const char *cursor) {
    enum source_signal signal = reader_inspect(r);
    if (signal != SOURCE_INSPECTED)
        return signal;
    struct buf b[3] = {BUF_INIT(8 << 20), BUF_INIT(8 << 20), BUF_INIT(8 << 20)};
    struct source_retained retained;
    reader_write_gaps(r, b, &retained);
    int opened = source_open(r->source, cursor ? span_of(cursor) : SPAN_ABSENT, &retained, clock_now_us(), &r->error);
    for (int i = 0; i < 3; i++)
        buf_done(&b[i]);
    return opened == 0 ? reader_next(r) : SOURCE_FAILED;
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

/* Of an integer column of any width. */
static inline int64_t reader_integer(const struct row *row, enum row_role role) {
    for (size_t i = 0; i < row->count; i++) {
        if (row->columns[i].role != role)
            continue;
        uint64_t bits = 0;
        for (size_t b = 0; b < row->values[i].len; b++)
            bits = bits << 8 | (unsigned char)row->values[i].data[b];
        return (int64_t)bits;
    }
    ck_abort_msg("no such column");
}

#endif
