/* source: the contract of everything that tails an event table */
#include "source/source.h"

#include <errno.h>
#include <inttypes.h>

#include "base/log.h"
#include "source/inspect.h"
#include "source/plan.h"
#include "source/snapshot.h"

#define QUERY_CANCELED "57014" /* SQLSTATE */

enum state {
    STATE_CLOSED,
    STATE_INSPECTING,
    STATE_FIT,      /* source_open may be called */
    STATE_STARTING, /* the start statement is out */
    STATE_OPEN,     /* source_want may be called */
    STATE_READING,  /* a statement of the plan is out */
    STATE_DRAINED,  /* it has ended; its cancelling is still to be confirmed */
    STATE_ENDING,   /* the read has ended; the place is to be told */
};

/* Rows that no longer fit are not read to their end: that could take long and hold a snapshot. */
enum cancel {
    CANCEL_NONE,
    CANCEL_DUE,   /* a row did not fit; the statement still has rows to come */
    CANCEL_ASKED, /* SOURCE_CANCEL was said; source_cancelled must come before the next statement */
    CANCEL_SENT,  /* it has come: PostgreSQL has the signal */
};

struct source {
    const struct source_options *options;
    struct pgconn *tail;
    struct table table;
    struct inspect inspect;
    struct snapshot_sql sql;
    struct plan *plan;
    enum state state;

    struct buf cursor; /* the text that source_open was given */
    bool have_cursor;
    struct source_mark opened;
    int backend_pid; /* that answered the start; another one means a pooler between us */

    enum plan_kind asked;
    bool answered; /* its head has come */
    enum cancel cancel;
    bool row_pending; /* source_row is valid, to be told */
    uint64_t dropped;
    struct source_mark told; /* the last place that the forwarder knows of */
    struct span values[TABLE_COLUMNS_MAX];
    struct row row;
};

/* Making. ------------------------------------------------------------------- */

int source_new(const struct source_options *options, struct pgconn *tail, struct source **ret_source) {
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    s->options = options;
    s->tail = tail;
    s->state = STATE_CLOSED;
    s->cursor = BUF_INIT(CURSOR_TEXT_MAX);
    int r = table_init(&s->table, options);
    inspect_init(&s->inspect, tail, &s->table);
    if (r == 0)
        r = plan_new(&s->plan);
    if (r < 0) {
        source_free(s);
        return r;
    }
    *ret_source = s;
    return 0;
}

void source_free(struct source *s) {
    if (!s)
        return;
    snapshot_done(&s->sql);
    inspect_done(&s->inspect);
    table_done(&s->table);
    plan_free(s->plan);
    buf_done(&s->cursor);
    free(s);
}

void source_reset(struct source *s) {
    s->state = STATE_CLOSED;
    s->cancel = CANCEL_NONE;
    s->row_pending = false;
}

/* Inspecting and opening. --------------------------------------------------- */

int source_inspect(struct source *s, int64_t now_us) {
    ASSERT(s->state == STATE_CLOSED);
    struct error ignored;
    int r = inspect_start(&s->inspect, now_us, &ignored);
    if (r == 0)
        s->state = STATE_INSPECTING;
    return r;
}

static enum source_signal failed(int r, struct error *reterr) {
    error_set(reterr, ERROR_RETRY, "reading the event table: %s", strerrordesc_np(-r));
    return SOURCE_FAILED;
}

static enum source_signal next_inspecting(struct source *s, int64_t now_us, struct error *reterr) {
    int r = inspect_next(&s->inspect, now_us, reterr);
    switch (r) {
    case INSPECT_E_AGAIN:
        return SOURCE_NONE;
    case INSPECT_E_REFUSED:
        return SOURCE_REFUSED;
    case INSPECT_E_FAILED:
        return SOURCE_FAILED;
    case INSPECT_E_LOST:
        return SOURCE_LOST;
    default:
        break;
    }
    if (r == 0) {
        snapshot_done(&s->sql);
        r = snapshot_init(&s->sql, &s->table, s->options->max_message_bytes);
    }
    if (r < 0)
        return failed(r, reterr);
    s->state = STATE_FIT;
    return SOURCE_INSPECTED;
}

static struct span latest_snapshot(const struct cursor *c) {
    return span_absent(c->n) ? c->s : c->n;
}

int source_open(struct source *s, struct span cursor, int64_t now_us, struct error *reterr) {
    ASSERT(s->state == STATE_FIT);
    struct cursor parsed = {0};
    s->have_cursor = !span_absent(cursor);
    buf_clear(&s->cursor);
    if (s->have_cursor) {
        if (cursor_parse(cursor, &parsed, reterr) != 0)
            return SOURCE_E_CURSOR;
        int r = buf_add_span(&s->cursor, cursor);
        if (r)
            return r;
    }
    s->state = STATE_STARTING;
    return snapshot_send_start(&s->sql, s->tail, latest_snapshot(&parsed), now_us, reterr);
}

static int64_t read_int8(struct span value) {
    uint64_t bits = 0;
    ASSERT(value.len == 8);
    for (size_t i = 0; i < 8; i++)
        bits = bits << 8 | (unsigned char)value.data[i];
    return (int64_t)bits;
}

static int read_int4(struct span value) {
    uint32_t bits = 0;
    ASSERT(value.len == 4);
    for (size_t i = 0; i < 4; i++)
        bits = bits << 8 | (unsigned char)value.data[i];
    return (int)bits;
}

static bool read_bool(struct span value) {
    return value.len == 1 && value.data[0] == 1;
}

/* What the configured start means now: rows that are visible at this moment and
 * stand below the first wanted position are done. */
static struct cursor start_cursor(const struct source *s, struct span now, struct span highest) {
    struct cursor beginning = {.s = CURSOR_BEGINNING}, all_done = {.s = now};
    switch (s->options->start) {
    case SOURCE_START_BEGINNING:
        return beginning;
    case SOURCE_START_NOW:
        return all_done;
    case SOURCE_START_POSITION:
        break;
    }
    if (s->options->start_position == INT64_MIN)
        return beginning;
    int64_t position = s->options->start_position - 1;
    if (span_absent(highest) || position >= read_int8(highest))
        return all_done;
    return (struct cursor){.s = CURSOR_BEGINNING, .n = now, .position = position, .end = read_int8(highest)};
}

static int open_plan(struct source *s, struct span now, struct span highest) {
    struct cursor at;
    struct error ignored;
    if (s->have_cursor)
        ASSERT(cursor_parse(buf_span(&s->cursor), &at, &ignored) == 0);
    else
        at = start_cursor(s, now, highest);
    int r = plan_open(s->plan, &at);
    if (r)
        return r;
    struct plan_mark mark = plan_mark(s->plan);
    s->opened = s->told = (struct source_mark){mark.position, mark.target};
    return 0;
}

static enum source_signal on_start(struct source *s, struct error *reterr) {
    struct span now = pgconn_value(s->tail, SNAPSHOT_N);
    s->backend_pid = read_int4(pgconn_value(s->tail, SNAPSHOT_PID));
    if (read_bool(pgconn_value(s->tail, SNAPSHOT_FLAG))) {
        error_set(reterr, ERROR_CONFIG,
                  "the checkpoint lies beyond this server: its cursor %.*s knows of transactions that the server, now at "
                  "%.*s, has not reached (restored from a backup?); what was sent since can't be known: delete the "
                  "checkpoint's row to begin anew from the configured start",
                  (int)(s->cursor.len < 200 ? s->cursor.len : 200), s->cursor.data, (int)(now.len < 100 ? now.len : 100),
                  now.data);
        return SOURCE_AHEAD;
    }
    if (!cursor_check_snapshot(now)) {
        error_set(reterr, ERROR_RETRY, "the server's snapshot is over %d bytes long: too many transactions are running",
                  CURSOR_SNAPSHOT_MAX);
        return SOURCE_FAILED;
    }
    int r = open_plan(s, now, pgconn_value(s->tail, SNAPSHOT_NUMBER));
    return r ? failed(r, reterr) : SOURCE_NONE;
}

static enum source_signal next_starting(struct source *s, struct error *reterr) {
    for (;;) {
        int r = pgconn_fetch(s->tail, reterr);
        enum source_signal signal = SOURCE_NONE;
        if (r == PGCONN_E_AGAIN)
            return SOURCE_NONE;
        if (r == PGCONN_E_LOST)
            return SOURCE_LOST;
        if (r == PGCONN_E_FAILED)
            return SOURCE_FAILED;
        if (r == 0)
            signal = on_start(s, reterr);
        if (signal != SOURCE_NONE)
            return signal;
        if (r == PGCONN_E_DONE) {
            s->state = STATE_OPEN;
            return SOURCE_OPENED;
        }
    }
}

/* Reading. ------------------------------------------------------------------ */

static struct source_mark reached(const struct source *s) {
    struct plan_mark mark = plan_mark(s->plan);
    return (struct source_mark){mark.position, mark.target};
}

/* Sends what the plan asks next; without that the read has ended. 0; PGCONN_E_LOST. */
static int go_on(struct source *s, int64_t now_us, struct error *reterr) {
    struct plan_statement statement;
    s->cancel = CANCEL_NONE;
    s->answered = false;
    if (!plan_next(s->plan, &statement)) {
        s->state = STATE_ENDING;
        return 0;
    }
    s->asked = statement.kind;
    s->state = STATE_READING;
    return snapshot_send(&s->sql, s->tail, &statement, now_us, reterr);
}

int source_want(struct source *s, uint32_t events, uint64_t bytes, int64_t now_us) {
    ASSERT(s->state == STATE_OPEN);
    struct error ignored;
    plan_want(s->plan, events, bytes);
    return go_on(s, now_us, &ignored);
}

static enum source_signal misfit(struct error *reterr) {
    error_set(reterr, ERROR_RETRY, "the database's answer does not fit what was asked (two rows with one position, or too "
              "many transactions running?): connecting again");
    return SOURCE_FAILED;
}

/* The head of an answer says whose answer it is. */
static enum source_signal on_head(struct source *s, struct error *reterr) {
    struct span number = pgconn_value(s->tail, SNAPSHOT_NUMBER);
    int64_t value = span_absent(number) ? INT64_MIN : read_int8(number);
    s->answered = true;
    if (read_int4(pgconn_value(s->tail, SNAPSHOT_PID)) != s->backend_pid) {
        error_set(reterr, ERROR_RETRY, "another backend answers on this connection (a pooler in transaction mode?), and what "
                  "happened between is not known: loading the checkpoint again");
        return SOURCE_LOST;
    }
    if (s->asked == PLAN_FIRST)
        plan_first(s->plan, !span_absent(number), value);
    if (s->asked != PLAN_SMALL)
        return SOURCE_NONE;
    int r = plan_small(s->plan, pgconn_value(s->tail, SNAPSHOT_N), read_bool(pgconn_value(s->tail, SNAPSHOT_FLAG)), value);
    if (r < 0)
        return failed(r, reterr);
    return r == 0 ? SOURCE_NONE : misfit(reterr);
}

/* The inspection has seen NOT NULL, but a table can be altered, and its children too. */
static enum source_signal no_position(struct error *reterr) {
    error_set(reterr, ERROR_CONFIG, "a row has no position (NULL): looking at the table again");
    return SOURCE_FAILED;
}

static enum source_signal on_data(struct source *s, struct error *reterr) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->sql.count; i++) {
        s->values[i] = pgconn_value(s->tail, SNAPSHOT_HEAD_COLUMNS + (int)i);
        bytes += s->values[i].len;
    }
    if (span_absent(s->values[s->sql.position]))
        return no_position(reterr);
    bool keep;
    int r = plan_row(s->plan, read_int8(s->values[s->sql.position]), bytes, &keep);
    if (r < 0)
        return failed(r, reterr);
    if (r > 0)
        return misfit(reterr);
    s->row = (struct row){s->sql.columns, s->values, s->sql.count};
    s->row_pending = keep;
    if (!keep && s->cancel == CANCEL_NONE)
        s->cancel = CANCEL_DUE;
    return SOURCE_NONE;
}

static enum source_signal on_answer(struct source *s, struct error *reterr) {
    bool head = !span_absent(pgconn_value(s->tail, SNAPSHOT_PID));
    if (head == s->answered)
        return misfit(reterr);
    return head ? on_head(s, reterr) : on_data(s, reterr);
}

static enum source_signal on_end(struct source *s, int64_t now_us, struct error *reterr) {
    if (!s->answered)
        return misfit(reterr);
    plan_end(s->plan);
    if (s->cancel == CANCEL_ASKED) {
        s->state = STATE_DRAINED;
        return SOURCE_NONE;
    }
    return go_on(s, now_us, reterr) == 0 ? SOURCE_NONE : SOURCE_LOST;
}

/* The statement says nothing for now. */
static enum source_signal on_silence(struct source *s) {
    if (s->cancel != CANCEL_DUE)
        return SOURCE_NONE;
    s->cancel = CANCEL_ASKED;
    return SOURCE_CANCEL;
}

static enum source_signal on_failure(struct source *s, int64_t now_us, struct error *reterr) {
    bool asked_for = s->cancel == CANCEL_ASKED || s->cancel == CANCEL_SENT;
    if (asked_for && strcmp(pgconn_sqlstate(s->tail), QUERY_CANCELED) == 0)
        return on_end(s, now_us, reterr);
    return SOURCE_FAILED;
}

static enum source_signal next_reading(struct source *s, int64_t now_us, struct error *reterr) {
    while (s->state == STATE_READING) {
        /* Before the row that follows: a place that is gone must not be saved. */
        if (plan_dropped(s->plan, &s->dropped))
            return SOURCE_DROPPED;
        if (s->row_pending) {
            s->row_pending = false;
            s->told = reached(s);
            return SOURCE_ROW;
        }
        enum source_signal signal;
        switch (pgconn_fetch(s->tail, reterr)) {
        case 0:
            signal = on_answer(s, reterr);
            break;
        case PGCONN_E_AGAIN:
            return on_silence(s);
        case PGCONN_E_DONE:
            signal = on_end(s, now_us, reterr);
            break;
        case PGCONN_E_FAILED:
            signal = on_failure(s, now_us, reterr);
            break;
        default:
            return SOURCE_LOST;
        }
        if (signal != SOURCE_NONE)
            return signal;
    }
    return SOURCE_NONE;
}

static enum source_signal next_ending(struct source *s) {
    struct source_mark mark = reached(s);
    if (mark.target != s->told.target || mark.position != s->told.position) {
        s->told = mark;
        return SOURCE_MARK;
    }
    s->state = STATE_OPEN;
    return SOURCE_DONE;
}

enum source_signal source_next(struct source *s, int64_t now_us, struct error *reterr) {
    if (s->state == STATE_DRAINED && s->cancel == CANCEL_SENT && go_on(s, now_us, reterr) != 0)
        return SOURCE_LOST;
    switch (s->state) {
    case STATE_INSPECTING:
        return next_inspecting(s, now_us, reterr);
    case STATE_STARTING:
        return next_starting(s, reterr);
    case STATE_READING: {
        enum source_signal signal = next_reading(s, now_us, reterr);
        return signal == SOURCE_NONE && s->state == STATE_ENDING ? next_ending(s) : signal;
    }
    case STATE_ENDING:
        return next_ending(s);
    case STATE_CLOSED:
    case STATE_FIT:
    case STATE_OPEN:
    case STATE_DRAINED:
        break;
    }
    return SOURCE_NONE;
}

int source_cancel_pid(const struct source *s) {
    return s->backend_pid;
}

void source_cancelled(struct source *s) {
    if (s->cancel == CANCEL_ASKED)
        s->cancel = CANCEL_SENT;
}

/* Seeing. ------------------------------------------------------------------- */

const struct row *source_row(const struct source *s) {
    return &s->row;
}

struct source_mark source_row_mark(const struct source *s) {
    return s->told;
}

struct source_mark source_opened_mark(const struct source *s) {
    return s->opened;
}

bool source_caught_up(const struct source *s) {
    return plan_caught_up(s->plan);
}

uint64_t source_dropped(const struct source *s) {
    return s->dropped;
}

int source_print_cursor(const struct source *s, struct source_mark mark, struct buf *b) {
    struct cursor cursor, again;
    struct error ignored;
    size_t start = b->len;
    if (plan_cursor(s->plan, (struct plan_mark){mark.position, mark.target}, &cursor) != 0)
        return SOURCE_E_GONE;
    int r = cursor_print(&cursor, b);
    if (r)
        return r;
    ASSERT(cursor_parse((struct span){b->data + start, b->len - start}, &again, &ignored) == 0);
    ASSERT(cursor_equal(&cursor, &again));
    return 0;
}

void source_release(struct source *s, uint64_t oldest_target) {
    if (s->state != STATE_CLOSED)
        plan_release(s->plan, oldest_target);
}

const char *source_note(const struct source *s) {
    return inspect_note(&s->inspect);
}

const char *source_mode(const struct source *s) {
    (void)s;
    return "snapshot";
}

const char *source_system_identifier(const struct source *s) {
    return s->inspect.system_identifier;
}

const char *source_server(const struct source *s) {
    return s->inspect.server;
}
