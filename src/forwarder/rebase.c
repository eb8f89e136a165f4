/* rebase: moves a checkpoint where only an operator can decide, and writes that down */
#include "forwarder/rebase.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "forwarder/checkpoint.h"
#include "forwarder/lines.h"

#define SQL_MAX_BYTES 16384
#define TEXT_MAX_BYTES (2 * CHECKPOINT_CURSOR_MAX)
#define ANSWERS_MAX 3
/* A daemon that is refused looks at the database every now and then, for a moment. */
#define LOOKS_MAX 20
#define LOOK_PAUSE_MS 200

/* One connection, one thing after the other. */
struct work {
    const struct rebase *rebase;
    struct source_options source_options;
    struct pgconn *conn;
    struct source *source;
    struct buf schema; /* quoted, terminated */
    struct buf cursor, old_cursor;
    char old_position[24];
    struct error error;
    bool unfit; /* the source's note says why */
    bool any_row; /* of the last statement; its first row: */
    struct buf answers[ANSWERS_MAX];
    bool null[ANSWERS_MAX];
};

void rebase_result_done(struct rebase_result *r) {
    buf_done(&r->before);
    buf_done(&r->after);
}

static void work_done(struct work *w) {
    source_free(w->source);
    pgconn_free(w->conn);
    buf_done(&w->schema);
    buf_done(&w->cursor);
    buf_done(&w->old_cursor);
    for (size_t i = 0; i < ANSWERS_MAX; i++)
        buf_done(&w->answers[i]);
}

static int work_init(struct work *w, const struct rebase *rebase) {
    *w = (struct work){.rebase = rebase, .source_options = *rebase->source, .schema = BUF_INIT(1024),
                       .cursor = BUF_INIT(CHECKPOINT_CURSOR_MAX), .old_cursor = BUF_INIT(CHECKPOINT_CURSOR_MAX)};
    for (size_t i = 0; i < ANSWERS_MAX; i++)
        w->answers[i] = BUF_INIT(TEXT_MAX_BYTES);
    w->source_options.start = SOURCE_START_POSITION;
    w->source_options.start_position = rebase->position + 1;
    w->source_options.take_over = rebase->upgraded;
    int r = pgconn_new(rebase->database, rebase->connection_name, rebase->forwarder, "rebase", NULL, &w->conn);
    if (r == 0)
        r = source_new(&w->source_options, w->conn, &w->source);
    if (r == 0)
        r = pgconn_quote_identifier(span_of(rebase->schema), &w->schema);
    return r ? r : buf_terminate(&w->schema);
}

/* Waiting. ------------------------------------------------------------------ */

static int wait_for_server(struct work *w) {
    struct pollfd fd;
    pgconn_poll(w->conn, &fd);
    clock_poll(&fd, 1, pgconn_deadline_us(w->conn));
    return pgconn_work(w->conn, clock_now_us(), &w->error) == 0 ? 0 : REBASE_E_REFUSED;
}

static int dial(struct work *w) {
    int r = pgconn_dial(w->conn, clock_now_us());
    while (r == 0 && pgconn_state(w->conn) == PGCONN_DIALING)
        r = wait_for_server(w);
    return r;
}

static int take_row(struct work *w) {
    int count = pgconn_columns(w->conn), r = 0;
    ASSERT(count <= ANSWERS_MAX);
    for (int i = 0; r == 0 && i < count && !w->any_row; i++) {
        struct span value = pgconn_value(w->conn, i);
        w->null[i] = span_absent(value);
        buf_clear(&w->answers[i]);
        r = buf_add_span(&w->answers[i], value);
        if (r == 0)
            r = buf_terminate(&w->answers[i]);
    }
    w->any_row = true;
    return r;
}

/* Statements. --------------------------------------------------------------- */

static struct pgconn_param text_param(const char *text) {
    return param_text(span_of(text));
}

static int ask(struct work *w, const char *sql, const struct pgconn_param *params, size_t count) {
    w->any_row = false;
    int r = pgconn_send(w->conn, NULL, sql, params, count, false, clock_now_us(), &w->error);
    while (r == 0) {
        int got = pgconn_fetch(w->conn, &w->error);
        if (got == PGCONN_E_DONE)
            return 0;
        if (got == 0)
            r = take_row(w);
        else
            r = got == PGCONN_E_AGAIN ? wait_for_server(w) : REBASE_E_REFUSED;
    }
    return r < 0 ? r : REBASE_E_REFUSED;
}

static int refuse(struct work *w, const char *format, ...) PRINTF_LIKE(2, 3);

static int refuse(struct work *w, const char *format, ...) {
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_set(&w->error, ERROR_CONFIG, "%s", text);
    return REBASE_E_REFUSED;
}

static int load(struct work *w) {
    CLEANUP(buf_done) struct buf sql = BUF_INIT(SQL_MAX_BYTES);
    struct pgconn_param params[] = {text_param(w->rebase->forwarder)};
    int r = buf_addf(&sql, "SELECT cursor, position FROM %s.checkpoint WHERE forwarder = $1", w->schema.data);
    if (r == 0)
        r = buf_terminate(&sql);
    if (r == 0)
        r = ask(w, sql.data, params, ARRAY_LENGTH(params));
    if (r)
        return r;
    if (!w->any_row)
        return refuse(w, "there is no checkpoint of forwarder '%s' to rebase: a new one begins at the configured start",
                      w->rebase->forwarder);
    snprintf(w->old_position, sizeof w->old_position, "%s", w->answers[1].len ? w->answers[1].data : "0");
    r = buf_add_span(&w->old_cursor, buf_span(&w->answers[0]));
    return r ? r : buf_terminate(&w->old_cursor);
}

/* The row's new cursor. ----------------------------------------------------- */

static enum source_signal next_signal(struct work *w) {
    for (;;) {
        enum source_signal signal = source_next(w->source, clock_now_us(), &w->error);
        if (signal != SOURCE_NONE)
            return signal;
        if (wait_for_server(w) != 0)
            return SOURCE_LOST;
    }
}

/* Absent: another one will be made. */
static struct span kept_cursor(const struct work *w) {
    return w->rebase->upgraded ? buf_span(&w->old_cursor) : SPAN_ABSENT;
}

static int inspect(struct work *w) {
    int r = source_inspect(w->source, kept_cursor(w), clock_now_us());
    if (r)
        return r < 0 ? r : REBASE_E_REFUSED;
    enum source_signal signal = next_signal(w);
    w->unfit = signal == SOURCE_REFUSED;
    return signal == SOURCE_INSPECTED ? 0 : REBASE_E_REFUSED;
}

/* That the source can begin there is the proof that the cursor is of this server. */
static int find_cursor(struct work *w) {
    struct span from = kept_cursor(w);
    int r = source_open(w->source, from, NULL, clock_now_us(), &w->error);
    if (r)
        return r < 0 ? r : REBASE_E_REFUSED;
    if (next_signal(w) != SOURCE_OPENED)
        return REBASE_E_REFUSED;
    /* The place that was opened is the one it had; what it says of the table is what is there now. */
    r = source_print_cursor(w->source, source_opened_mark(w->source), &w->cursor);
    ASSERT(r <= 0);
    return r ? r : buf_terminate(&w->cursor);
}

/* $1 forwarder, $2 the cursor as it was read, $3 the new one, $4 position, $5 system identifier, $6 who, $7 the
 * daemon's application name, $8 reason. The new owner and epoch shut out whoever has loaded the row before. Gaps
 * that stand beside a cursor belong to it. */
static int write_sql(struct work *w, struct buf *sql) {
    const char *schema = w->schema.data;
    int r = buf_addf(sql,
                     "WITH open AS MATERIALIZED (SELECT string_agg(pid::text, ', ' ORDER BY pid) AS pids FROM pg_stat_activity"
                     " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = left($7, 63)),"
                     " old AS MATERIALIZED (SELECT * FROM %s.checkpoint WHERE forwarder = $1 AND cursor = $2 FOR UPDATE),"
                     " moved AS (UPDATE %s.checkpoint c SET cursor = $3, position = $4, system_identifier = $5, owner = $6,"
                     " lease_until = NULL, epoch = c.epoch + 1, updated = now() FROM old, open"
                     " WHERE c.forwarder = old.forwarder AND open.pids IS NULL RETURNING",
                     schema, schema);
    static const char *const rows[] = {"old", "c"};
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(rows); i++)
        r = buf_addf(sql,
                     "%s jsonb_build_object('cursor', %s.cursor, 'position', %s.position, 'system_identifier',"
                     " %s.system_identifier, 'owner', %s.owner, 'epoch', %s.epoch) AS %s",
                     i ? "," : "", rows[i], rows[i], rows[i], rows[i], rows[i], i ? "new" : "was");
    if (r == 0 && !w->rebase->upgraded)
        r = buf_addf(sql, "), gone AS (DELETE FROM %s.gap WHERE forwarder = $1 AND EXISTS (SELECT FROM moved)", schema);
    return r ? r : buf_addf(sql,
                            "), noted AS (INSERT INTO %s.journal (forwarder, command, who, reason, before, after)"
                            " SELECT $1, 'rebase', $6, $8, was, new FROM moved)"
                            " SELECT pids, was, new FROM open LEFT JOIN moved ON true",
                            schema);
}

static int move(struct work *w, const char *sql) {
    char position[24], daemon[512];
    snprintf(position, sizeof position, "%" PRId64, w->rebase->position);
    snprintf(daemon, sizeof daemon, "penstock/%s/keep", w->rebase->forwarder);
    struct pgconn_param params[] = {
        text_param(w->rebase->forwarder),
        text_param(w->old_cursor.data),
        text_param(w->cursor.data),
        {span_of(w->rebase->upgraded ? w->old_position : position), PARAM_INT8},
        text_param(source_system_identifier(w->source)),
        text_param(w->rebase->who),
        text_param(daemon),
        text_param(w->rebase->reason),
    };
    return ask(w, sql, params, ARRAY_LENGTH(params));
}

static int move_when_free(struct work *w) {
    CLEANUP(buf_done) struct buf sql = BUF_INIT(SQL_MAX_BYTES);
    int r = write_sql(w, &sql);
    if (r == 0)
        r = buf_terminate(&sql);
    for (int looks = 0; r == 0 && looks < LOOKS_MAX; looks++) {
        if (looks > 0)
            poll(NULL, 0, LOOK_PAUSE_MS);
        r = move(w, sql.data);
        if (r || w->null[0]) /* no daemon has it open */
            break;
    }
    if (r)
        return r;
    if (!w->null[0])
        return refuse(w, "a daemon has forwarder '%s' open (backend %s): stop it first", w->rebase->forwarder, w->answers[0].data);
    if (w->null[1])
        return refuse(w, "the checkpoint of forwarder '%s' was changed by another meanwhile: look at it and try again",
                      w->rebase->forwarder);
    return 0;
}

/* ------------------------------------------------------------------------- */

static int run(struct work *w) {
    int r = dial(w);
    if (r == 0)
        r = load(w);
    if (r == 0)
        r = inspect(w);
    if (r == 0)
        r = find_cursor(w);
    return r ? r : move_when_free(w);
}

static int say_why(struct work *w, struct buf *why) {
    int r = w->unfit ? lines_add_note(why, w->source) : buf_addf(why, "%s", w->error.text);
    return r ? r : buf_terminate(why);
}

int rebase_run(const struct rebase *rebase, struct rebase_result *ret_result, struct buf *ret_why) {
    CLEANUP(work_done) struct work w = {0};
    int r = work_init(&w, rebase);
    if (r == 0)
        r = run(&w);
    if (r < 0)
        return r;
    if (r > 0) {
        r = say_why(&w, ret_why);
        return r ? r : REBASE_E_REFUSED;
    }
    ret_result->before = w.answers[1];
    ret_result->after = w.answers[2];
    w.answers[1] = w.answers[2] = (struct buf){0};
    return 0;
}
