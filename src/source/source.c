/* source: the contract of everything that tails an event table */
#include "source/source.h"

#include <errno.h>

#include "base/log.h"
#include "source/cursor.h"
#include "source/inspect.h"
#include "source/mode.h"

#define QUERY_CANCELED "57014" /* SQLSTATE */

enum state {
    STATE_CLOSED,
    STATE_INSPECTING,
    STATE_FIT,      /* source_open may be called */
    STATE_STARTING, /* the start statement is out */
    STATE_OPEN,     /* source_want may be called */
    STATE_LOOKING,  /* source_look's statement is out */
    STATE_READING,  /* a statement of the mode is out */
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
    const struct mode_kind *chosen; /* by options and table; a cursor may choose otherwise */
    struct mode *mode;              /* of the cursor; NULL before the first source_open */
    enum state state;

    struct source_mark opened;
    enum cancel cancel;
    bool row_pending; /* source_row is valid, to be told */
    uint64_t dropped;
    bool looked;
    struct source_waiting waiting; /* if looked */
    struct source_mark told; /* the last place that the forwarder knows of */
};

/* Making. ------------------------------------------------------------------- */

int source_new(const struct source_options *options, struct pgconn *tail, struct source **ret_source) {
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    s->options = options;
    s->tail = tail;
    s->state = STATE_CLOSED;
    s->chosen = options->mode == SOURCE_MODE_GAPS ? &mode_gaps : &mode_snapshot;
    int r = table_init(&s->table, options);
    inspect_init(&s->inspect, tail, &s->table);
    if (r < 0) {
        source_free(s);
        return r;
    }
    *ret_source = s;
    return 0;
}

static void free_mode(struct source *s) {
    if (s->mode)
        s->mode->kind->free(s->mode);
    s->mode = NULL;
}

void source_free(struct source *s) {
    if (!s)
        return;
    free_mode(s);
    inspect_done(&s->inspect);
    table_done(&s->table);
    free(s);
}

void source_reset(struct source *s) {
    s->state = STATE_CLOSED;
    s->looked = false;
    s->cancel = CANCEL_NONE;
    s->row_pending = false;
}

/* Inspecting and opening. --------------------------------------------------- */

int source_inspect(struct source *s, struct span cursor, int64_t now_us) {
    ASSERT(s->state == STATE_CLOSED);
    struct error ignored;
    enum source_mode written;
    if (span_absent(cursor) || cursor_mode(cursor, &written, &ignored) != 0)
        written = SOURCE_MODE_DEFAULT; /* source_open says what is wrong with it */
    int r = inspect_start(&s->inspect, written, now_us, &ignored);
    if (r == 0)
        s->state = STATE_INSPECTING;
    return r;
}

static const struct mode_kind *kind_of(enum source_mode mode) {
    switch (mode) {
    case SOURCE_MODE_GAPS:
        return &mode_gaps;
    case SOURCE_MODE_SNAPSHOT:
    case SOURCE_MODE_DEFAULT:
        break;
    }
    return &mode_snapshot;
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
    if (r < 0) {
        mode_failed(r, reterr);
        return SOURCE_FAILED;
    }
    s->chosen = kind_of(inspect_mode(&s->inspect));
    s->state = STATE_FIT;
    return SOURCE_INSPECTED;
}

/* A checkpoint stays in its mode: a table that gets its column later is read on as it was. */
static int choose(struct source *s, struct span cursor, const struct mode_kind **ret_kind, struct error *reterr) {
    enum source_mode written;
    *ret_kind = s->chosen;
    if (span_absent(cursor))
        return 0;
    if (cursor_mode(cursor, &written, reterr) != 0)
        return SOURCE_E_CURSOR;
    *ret_kind = kind_of(written);
    bool possible = written != SOURCE_MODE_SNAPSHOT || table_column(&s->table, TABLE_TRANSACTION_ID)->found;
    if (*ret_kind == s->chosen || (s->options->mode == SOURCE_MODE_DEFAULT && possible))
        return 0;
    error_set(reterr, ERROR_CONFIG, "the checkpoint was written in mode %s and can't be read in mode %s%s: set source: {mode: "
              "%s}, or say by penstock rebase where to go on", (*ret_kind)->name,
              s->chosen->name, possible ? "" : " (the table's transaction-id column is gone)", (*ret_kind)->name);
    return SOURCE_E_CURSOR;
}

static int take_mode(struct source *s, const struct mode_kind *kind) {
    int r = 0;
    if (s->mode && s->mode->kind != kind)
        free_mode(s);
    if (!s->mode)
        r = kind->make(&s->mode);
    if (r)
        return r;
    s->mode->kind = kind;
    s->mode->options = s->options;
    s->mode->tail = s->tail;
    return kind->prepare(s->mode, &s->table);
}

int source_open(struct source *s, struct span cursor, const struct source_retained *retained, int64_t now_us,
                struct error *reterr) {
    ASSERT(s->state == STATE_FIT);
    const struct mode_kind *kind;
    int r = choose(s, cursor, &kind, reterr);
    if (r == 0)
        r = take_mode(s, kind);
    if (r)
        return r;
    s->state = STATE_STARTING;
    return kind->open(s->mode, cursor, retained, now_us, reterr);
}

/* NONE: nothing to tell. */
static enum source_signal signal_of(enum mode_answer answer) {
    switch (answer) {
    case MODE_AHEAD:
        return SOURCE_AHEAD;
    case MODE_FAILED:
        return SOURCE_FAILED;
    case MODE_LOST:
        return SOURCE_LOST;
    case MODE_GO_ON:
    case MODE_ROW:
    case MODE_CUT:
    case MODE_AGAIN:
        break;
    }
    return SOURCE_NONE;
}

static enum source_signal next_starting(struct source *s, int64_t now_us, struct error *reterr) {
    for (;;) {
        int r = pgconn_fetch(s->tail, reterr);
        if (r == PGCONN_E_AGAIN)
            return SOURCE_NONE;
        if (r == PGCONN_E_LOST)
            return SOURCE_LOST;
        if (r == PGCONN_E_FAILED)
            return SOURCE_FAILED;
        enum mode_answer answer = r == 0 ? s->mode->kind->start(s->mode, reterr)
                                         : s->mode->kind->started(s->mode, now_us, reterr);
        enum source_signal signal = signal_of(answer);
        if (signal != SOURCE_NONE)
            return signal;
        if (r == PGCONN_E_DONE && answer != MODE_AGAIN) {
            s->opened = s->told = s->mode->kind->mark(s->mode);
            s->state = STATE_OPEN;
            return SOURCE_OPENED;
        }
    }
}

/* Reading. ------------------------------------------------------------------ */

/* Sends what the mode asks next; without that the read has ended. 0; PGCONN_E_LOST; -ENOMEM. */
static int go_on(struct source *s, int64_t now_us, struct error *reterr) {
    s->cancel = CANCEL_NONE;
    s->mode->answered = false;
    int r = s->mode->kind->next(s->mode, now_us, reterr);
    if (r == MODE_E_END) {
        s->state = STATE_ENDING;
        return 0;
    }
    s->state = STATE_READING;
    return r;
}

int source_want(struct source *s, uint32_t events, uint64_t bytes, int64_t now_us) {
    ASSERT(s->state == STATE_OPEN);
    struct error ignored;
    s->mode->kind->want(s->mode, events, bytes);
    return go_on(s, now_us, &ignored);
}

/* The head of an answer says whose answer it is. */
static enum mode_answer check_head(struct source *s, struct error *reterr) {
    int pid = mode_int4(pgconn_value(s->tail, MODE_PID));
    if (pid == s->mode->backend_pid)
        return MODE_GO_ON;
    if (pid == 0) {
        error_set(reterr, ERROR_RETRY, "the event table is no longer what was looked at (dropped and made anew, or a column "
                  "of it changed or taken away): looking at it again");
        return MODE_FAILED;
    }
    error_set(reterr, ERROR_RETRY, "another backend answers on this connection (a pooler in transaction mode?), and what "
              "happened between is not known: loading the checkpoint again");
    return MODE_LOST;
}

static enum mode_answer on_head(struct source *s, struct error *reterr) {
    s->mode->answered = true;
    enum mode_answer answer = check_head(s, reterr);
    return answer == MODE_GO_ON ? s->mode->kind->head(s->mode, reterr) : answer;
}

static enum source_signal on_answer(struct source *s, struct error *reterr) {
    struct mode *m = s->mode;
    bool head = !span_absent(pgconn_value(s->tail, MODE_PID));
    if (head == m->answered)
        return signal_of(mode_misfit(reterr));
    enum mode_answer answer = head ? on_head(s, reterr) : m->kind->data(m, reterr);
    s->row_pending = answer == MODE_ROW;
    if (answer == MODE_CUT && s->cancel == CANCEL_NONE)
        s->cancel = CANCEL_DUE;
    return signal_of(answer);
}

static enum source_signal on_end(struct source *s, int64_t now_us, struct error *reterr) {
    if (!s->mode->answered)
        return signal_of(mode_misfit(reterr));
    enum source_signal signal = signal_of(s->mode->kind->end(s->mode, now_us, reterr));
    if (signal != SOURCE_NONE)
        return signal;
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
        if (s->mode->kind->dropped(s->mode, &s->dropped))
            return SOURCE_DROPPED;
        if (s->row_pending) {
            s->row_pending = false;
            s->told = s->mode->kind->mark(s->mode);
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
    struct source_mark mark = s->mode->kind->mark(s->mode);
    if (mark.target != s->told.target || mark.position != s->told.position) {
        s->told = mark;
        return SOURCE_MARK;
    }
    s->state = STATE_OPEN;
    return SOURCE_DONE;
}

/* Looking. ------------------------------------------------------------------ */

bool source_is_free(const struct source *s) {
    return s->state == STATE_OPEN;
}

int source_look(struct source *s, int64_t now_us) {
    ASSERT(s->state == STATE_OPEN);
    struct error ignored;
    s->looked = false;
    s->state = STATE_LOOKING;
    return s->mode->kind->look(s->mode, now_us, &ignored);
}

static enum mode_answer on_look(struct source *s, struct error *reterr) {
    struct span position = pgconn_value(s->tail, MODE_TEXT), age = pgconn_value(s->tail, MODE_NUMBER);
    bool any = !span_absent(position), recorded = !span_absent(age);
    s->waiting = (struct source_waiting){any, any ? strtoll(position.data, NULL, 10) : 0, recorded, recorded ? mode_int8(age) : 0};
    enum mode_answer answer = check_head(s, reterr);
    s->looked = answer == MODE_GO_ON;
    return answer;
}

/* One that is refused, as by a timeout, tells nothing; reading finds out whether that is serious. */
static enum source_signal next_looking(struct source *s, struct error *reterr) {
    int r;
    while ((r = pgconn_fetch(s->tail, reterr)) == 0) {
        enum source_signal signal = signal_of(on_look(s, reterr));
        if (signal != SOURCE_NONE)
            return signal;
    }
    if (r != PGCONN_E_DONE && r != PGCONN_E_FAILED)
        return r == PGCONN_E_AGAIN ? SOURCE_NONE : SOURCE_LOST;
    s->state = STATE_OPEN;
    return SOURCE_LOOKED;
}

const struct source_waiting *source_waiting(const struct source *s) {
    return s->looked ? &s->waiting : NULL;
}

enum source_signal source_next(struct source *s, int64_t now_us, struct error *reterr) {
    if (s->state == STATE_DRAINED && s->cancel == CANCEL_SENT && go_on(s, now_us, reterr) != 0)
        return SOURCE_LOST;
    switch (s->state) {
    case STATE_INSPECTING:
        return next_inspecting(s, now_us, reterr);
    case STATE_STARTING:
        return next_starting(s, now_us, reterr);
    case STATE_LOOKING:
        return next_looking(s, reterr);
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
    return s->mode->backend_pid;
}

void source_cancelled(struct source *s) {
    if (s->cancel == CANCEL_ASKED)
        s->cancel = CANCEL_SENT;
}

/* Seeing. ------------------------------------------------------------------- */

const struct row *source_row(const struct source *s) {
    return &s->mode->row;
}

struct source_mark source_row_mark(const struct source *s) {
    return s->told;
}

struct source_mark source_opened_mark(const struct source *s) {
    return s->opened;
}

bool source_mark_counts(const struct source *s) {
    return s->mode->rewrite;
}

bool source_caught_up(const struct source *s) {
    return s->mode && s->mode->kind->caught_up(s->mode);
}

uint64_t source_dropped(const struct source *s) {
    return s->dropped;
}

int source_print_cursor(const struct source *s, struct source_mark mark, struct buf *b) {
    return s->mode->kind->print(s->mode, mark, b);
}

int source_changes(struct source *s, struct source_mark mark, int64_t now_us, struct source_changes *ret_changes) {
    return s->mode->kind->changes(s->mode, mark, now_us, ret_changes);
}

void source_saved(struct source *s, struct source_mark mark) {
    s->mode->kind->saved(s->mode, mark);
}

void source_release(struct source *s, uint64_t oldest_target) {
    if (s->state >= STATE_OPEN)
        s->mode->kind->release(s->mode, oldest_target);
}

bool source_culprit(const struct source *s, int64_t now_us, struct source_culprit *ret_culprit) {
    bool any = s->state >= STATE_STARTING && s->mode->kind->culprit(s->mode, now_us, ret_culprit);
    return any && (s->state >= STATE_OPEN || ret_culprit->starts);
}

bool source_gaps(const struct source *s, struct source_gaps *ret_gaps) {
    return s->state >= STATE_OPEN && s->mode->kind->gaps(s->mode, ret_gaps);
}

bool source_given_out_again(const struct source *s) {
    return s->mode && s->mode->given_out_again;
}

const char *source_note(const struct source *s) {
    return inspect_note(&s->inspect);
}

bool source_note_refuses(const struct source *s, unsigned line) {
    return inspect_note_refuses(&s->inspect, line);
}

const char *source_mode(const struct source *s) {
    return s->mode && s->state > STATE_FIT ? s->mode->kind->name : s->chosen->name;
}

const char *source_system_identifier(const struct source *s) {
    return s->inspect.system_identifier;
}

const char *source_server(const struct source *s) {
    return s->inspect.server;
}
