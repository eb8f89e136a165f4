/* database: the two connections, the checkpoint row and the source of one forwarder, brought up in order */
#include "forwarder/database.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "forwarder/database_state.h"
#include "forwarder/lines.h"
#include "forwarder/words.h"

/* How often a refusal that only an operator can end is looked at again. */
#define LOOK_AGAIN_US (30 * CLOCK_US_PER_S)
#define SAVE_AGAIN_US (1 * CLOCK_US_PER_S)
/* How often an instance that stands by looks at the lease: so soon it takes over from one that has yielded it. */
#define WATCHES_PER_LEASE 20
#define WATCH_MAX_US (500 * CLOCK_US_PER_MS)
#define NOTE_MAX_BYTES 65536
/* Connections that have lived so long were no failed attempt: waits begin at their
 * least again. Else what fails with each read would be read, and sent, ten times a second. */
#define STEADY_US (5 * CLOCK_US_PER_S)

static const struct backoff_options reconnect_backoff = {
    .initial_us = 100 * CLOCK_US_PER_MS, .max_us = 10 * CLOCK_US_PER_S, .multiplier = 2.0};

int database_new(const struct forwarder_options *o, struct guard *guard, uint64_t seed, struct database **ret_database) {
    struct database *d = calloc(1, sizeof *d);
    if (!d)
        return -ENOMEM;
    d->options = o;
    d->checkpoint_position = INT64_MIN;
    d->cursor = BUF_INIT(CHECKPOINT_CURSOR_MAX);
    d->note = BUF_INIT(NOTE_MAX_BYTES);
    backoff_init(&d->backoff, &reconnect_backoff, seed);
    int r = pgconn_new(o->database, o->source_connection_name, o->name, "keep", guard, &d->keep);
    if (r == 0)
        r = pgconn_new(o->database, o->source_connection_name, o->name, "tail", guard, &d->tail);
    if (r == 0)
        r = checkpoint_new(o->name, o->checkpoint_schema, o->checkpoint_create, o->owner, o->lease_us, d->keep, &d->checkpoint);
    if (r == 0)
        r = source_new(o->source, d->tail, &d->source);
    if (r < 0) {
        database_free(d);
        return r;
    }
    d->blocker.tail = d->tail;
    pgconn_listen(d->keep, o->listen);
    *ret_database = d;
    return 0;
}

bool database_notified(struct database *d) {
    return pgconn_notified(d->keep);
}

void database_free(struct database *d) {
    if (!d)
        return;
    source_free(d->source);
    checkpoint_free(d->checkpoint);
    pgconn_free(d->tail);
    pgconn_free(d->keep);
    buf_done(&d->cursor);
    buf_done(&d->note);
    free(d);
}

int database_poll(const struct database *d, bool rows_wait, struct pollfd fds[DATABASE_POLL_MAX]) {
    pgconn_poll(d->keep, &fds[0]);
    pgconn_poll(d->tail, &fds[1]);
    if (rows_wait)
        fds[1].fd = -1; /* poll(2) passes it over */
    return DATABASE_POLL_MAX;
}

void database_polled(struct database *d, const struct pollfd fds[DATABASE_POLL_MAX]) {
    d->keep_due |= fds[0].revents != 0;
    d->tail_due |= fds[1].revents != 0 || fds[1].fd < 0;
}

int64_t database_deadline_us(const struct database *d) {
    if (d->lost || d->save_gone)
        return 0;
    if (d->phase == PHASE_CLOSED)
        return d->retry_at_us;
    int64_t keep_us = pgconn_deadline_us(d->keep), tail_us = pgconn_deadline_us(d->tail);
    int64_t deadline_us = keep_us < tail_us ? keep_us : tail_us;
    int64_t blocker_us = database_blocker_deadline_us(d);
    if (blocker_us < deadline_us)
        deadline_us = blocker_us;
    bool free = !checkpoint_busy(d->checkpoint);
    if (free && d->phase == PHASE_STANDBY && d->watch_us < deadline_us)
        deadline_us = d->watch_us;
    return free && d->save_wanted && d->save_after_us < deadline_us ? d->save_after_us : deadline_us;
}

/* Both connections go, whichever died. */
static void close_both(struct database *d, int64_t retry_at_us) {
    pgconn_close(d->tail);
    pgconn_close(d->keep);
    source_reset(d->source);
    blocker_reset(&d->blocker);
    checkpoint_reset(d->checkpoint);
    d->phase = PHASE_CLOSED;
    d->retry_at_us = retry_at_us;
    d->save_wanted = d->save_gone = d->saving = d->extend_wanted = d->extending = d->yield_wanted = false;
    d->want_waits = false;
    d->look_us = 0;
    d->waiting.known = false;
    d->command = NULL;
    d->cancel_pid = 0;
    d->lost = false;
}

static enum database_signal go_down(struct database *d, int64_t now_us) {
    if (d->phase == PHASE_UP && now_us - d->up_since_us >= STEADY_US)
        backoff_reset(&d->backoff);
    close_both(d, now_us + backoff_next_us(&d->backoff));
    return DATABASE_DOWN;
}

/* One report of everything that only an operator can mend: `words`, then what the event table lacks, then warnings. */
static enum database_signal refuse(struct database *d, const char *words, bool inspected, int64_t now_us) {
    buf_clear(&d->note);
    int r = buf_addf(&d->note, "%s", words);
    if (r == 0 && inspected)
        r = lines_add_note(&d->note, d->source);
    if (r != 0 || buf_terminate(&d->note) != 0)
        buf_clear(&d->note);
    close_both(d, now_us + LOOK_AGAIN_US);
    return DATABASE_REFUSED;
}

static enum database_signal refuse_missing(struct database *d, int64_t now_us, struct error *reterr) {
    *reterr = d->missing_error;
    return refuse(d, checkpoint_note(d->checkpoint), true, now_us);
}

/* keep and tail may have reached two servers of a pool or a fail-over. */
static bool same_server(const struct database *d, struct error *reterr) {
    if (strcmp(checkpoint_server(d->checkpoint), source_server(d->source)) == 0)
        return true;
    error_set(reterr, ERROR_RETRY, "the two connections reached different servers (%s and %s): connecting again",
              checkpoint_server(d->checkpoint), source_server(d->source));
    return false;
}

static enum database_signal print_and_create(struct database *d, int64_t now_us, struct error *reterr) {
    buf_clear(&d->cursor);
    int r = source_print_cursor(d->source, source_opened_mark(d->source), &d->cursor);
    if (r != 0) {
        error_set(reterr, ERROR_RETRY, "the start position can't be written down: %s", strerror(r < 0 ? -r : EINVAL));
        return go_down(d, now_us);
    }
    d->asked_us = now_us;
    database_note_failure(d, checkpoint_create(d->checkpoint, buf_span(&d->cursor), 0,
                                      span_of(source_system_identifier(d->source)), now_us),
                 "creating the checkpoint row");
    d->phase = PHASE_CREATE;
    return DATABASE_NONE;
}

static enum database_signal take(struct database *d, int64_t now_us) {
    d->asked_us = now_us;
    database_note_failure(d, checkpoint_take(d->checkpoint, now_us), "taking the lease");
    d->phase = PHASE_TAKE;
    return DATABASE_NONE;
}

/* Another instance is active: said once of each, then its lease is watched. */
static enum database_signal stand_by(struct database *d, int64_t now_us, struct error *reterr) {
    struct span owner = checkpoint_row(d->checkpoint)->owner;
    bool new = d->phase != PHASE_STANDBY || !span_is(owner, d->active);
    span_copy(d->active, sizeof d->active, owner);
    int64_t pause_us = d->options->lease_us / WATCHES_PER_LEASE;
    d->phase = PHASE_STANDBY;
    d->checkpoint_position = checkpoint_row(d->checkpoint)->position;
    d->watch_us = now_us + (pause_us < WATCH_MAX_US ? pause_us : WATCH_MAX_US);
    if (!new)
        return DATABASE_NONE;
    words_another(reterr, owner, span_of(d->options->owner));
    return DATABASE_STANDBY;
}

static enum database_signal come_up(struct database *d, int64_t now_us) {
    d->phase = PHASE_UP;
    d->leased_us = d->asked_us;
    d->up_since_us = now_us;
    d->ups++;
    d->checkpoint_position = checkpoint_row(d->checkpoint)->position;
    return DATABASE_UP;
}

static enum database_signal load(struct database *d, int64_t now_us) {
    d->watched_us = now_us;
    database_note_failure(d, checkpoint_load(d->checkpoint, now_us), "loading the checkpoint");
    d->phase = PHASE_LOAD;
    return DATABASE_NONE;
}

/* Another instance made the row first: the row wins, start over from it. */
static enum database_signal on_created(struct database *d, int64_t now_us, struct error *reterr) {
    if (!checkpoint_is_taken(d->checkpoint)) {
        error_set(reterr, ERROR_RETRY, "another instance has made the checkpoint row: starting from it");
        return go_down(d, now_us);
    }
    d->new_checkpoint = true;
    return come_up(d, now_us);
}

static enum database_signal on_loaded(struct database *d, struct span cursor, int64_t now_us, struct error *reterr) {
    const struct source_retained *retained = span_absent(cursor) ? NULL : &checkpoint_row(d->checkpoint)->retained;
    int r = source_open(d->source, cursor, retained, now_us, reterr);
    if (r == SOURCE_E_CURSOR)
        return refuse(d, reterr->text, true, now_us);
    database_note_failure(d, r, "opening the event table");
    d->phase = PHASE_OPEN;
    return DATABASE_NONE;
}

static enum database_signal on_saved(struct database *d) {
    d->leased_us = d->asked_us;
    source_saved(d->source, d->save_mark);
    d->saving = false;
    d->writes++;
    d->checkpoint_position = d->save_position;
    return DATABASE_SAVED;
}

static enum database_signal on_checkpoint(struct database *d, enum checkpoint_signal signal, int64_t now_us,
                                          struct error *reterr) {
    switch (signal) {
    case CHECKPOINT_NONE:
        return DATABASE_NONE;
    case CHECKPOINT_INSPECTED:
    case CHECKPOINT_MISSING:
        d->missing = signal == CHECKPOINT_MISSING;
        d->missing_error = *reterr;
        if (d->phase != PHASE_KEEP_INSPECT) /* the row itself, looked at last */
            return refuse_missing(d, now_us, reterr);
        database_note_failure(d, pgconn_dial(d->tail, now_us), "connecting");
        d->phase = PHASE_TAIL_DIAL;
        return DATABASE_NONE;
    case CHECKPOINT_LOADED:
        if (d->phase == PHASE_CREATE)
            return on_created(d, now_us, reterr);
        if (!checkpoint_is_free(d->checkpoint))
            return stand_by(d, now_us, reterr);
        return on_loaded(d, checkpoint_row(d->checkpoint)->cursor, now_us, reterr);
    case CHECKPOINT_ABSENT:
        return on_loaded(d, SPAN_ABSENT, now_us, reterr);
    case CHECKPOINT_WATCHED:
        return checkpoint_is_free(d->checkpoint) ? load(d, now_us) : stand_by(d, now_us, reterr);
    case CHECKPOINT_TAKEN:
        return come_up(d, now_us);
    case CHECKPOINT_EXTENDED:
        d->extending = false;
        d->leased_us = d->asked_us;
        return DATABASE_EXTENDED;
    case CHECKPOINT_YIELDED:
        return DATABASE_YIELDED;
    case CHECKPOINT_SAVED:
        return on_saved(d);
    case CHECKPOINT_REFUSED:
        /* Another instance, or an operator, has moved the row: what we know is not the truth any more. */
        return go_down(d, now_us);
    case CHECKPOINT_CANCELLED:
        source_cancelled(d->source);
        return DATABASE_NONE;
    case CHECKPOINT_FAILED:
        if (d->extending) {
            d->extending = false;
            return DATABASE_EXTEND_FAILED;
        }
        if (!d->saving)
            return go_down(d, now_us);
        d->saving = false;
        d->save_after_us = now_us + SAVE_AGAIN_US;
        return DATABASE_SAVE_FAILED;
    case CHECKPOINT_COMMANDED:
        return DATABASE_COMMANDED;
    case CHECKPOINT_COMMAND_FAILED:
        return DATABASE_COMMAND_FAILED;
    case CHECKPOINT_LOST:
        return go_down(d, now_us);
    }
    return DATABASE_NONE;
}

static enum database_signal on_source(struct database *d, enum source_signal signal, int64_t now_us, struct error *reterr) {
    switch (signal) {
    case SOURCE_NONE:
        return DATABASE_NONE;
    case SOURCE_INSPECTED:
        if (d->missing)
            return refuse_missing(d, now_us, reterr);
        if (!same_server(d, reterr))
            return go_down(d, now_us);
        return load(d, now_us);
    case SOURCE_REFUSED:
        return refuse(d, d->missing ? checkpoint_note(d->checkpoint) : "", true, now_us);
    case SOURCE_AHEAD:
        close_both(d, now_us + LOOK_AGAIN_US);
        return DATABASE_AHEAD;
    case SOURCE_OPENED:
        if (!checkpoint_has_row(d->checkpoint))
            return print_and_create(d, now_us, reterr);
        return take(d, now_us);
    case SOURCE_ROW:
        d->tail_due = true; /* where one was, there are more: asking costs less than poll(2) */
        return DATABASE_ROW;
    case SOURCE_MARK:
        return DATABASE_MARK;
    case SOURCE_CANCEL:
        d->cancel_pid = source_cancel_pid(d->source);
        return DATABASE_NONE;
    case SOURCE_DONE:
        return DATABASE_READ_DONE;
    case SOURCE_LOOKED:
        database_note_look(d, now_us);
        database_go_on(d, now_us);
        return DATABASE_NONE;
    case SOURCE_DROPPED:
        return DATABASE_DROPPED;
    case SOURCE_FAILED:
    case SOURCE_LOST:
        return go_down(d, now_us);
    }
    return DATABASE_NONE;
}

static void start_inspection(struct database *d, int64_t now_us) {
    if (d->phase == PHASE_KEEP_DIAL && pgconn_state(d->keep) == PGCONN_IDLE) {
        d->phase = PHASE_KEEP_INSPECT;
        database_note_failure(d, checkpoint_inspect(d->checkpoint, now_us), "inspecting the database");
    } else if (d->phase == PHASE_TAIL_DIAL && pgconn_state(d->tail) == PGCONN_IDLE) {
        d->phase = PHASE_TAIL_INSPECT;
        database_note_failure(d, source_inspect(d->source, checkpoint_seen_cursor(d->checkpoint), now_us),
                              "inspecting the event table");
    }
}

static bool connection_works(struct pgconn *c, bool *due, int64_t now_us, struct error *reterr) {
    if (!*due && now_us < pgconn_deadline_us(c))
        return true;
    *due = false;
    return pgconn_work(c, now_us, reterr) == 0;
}

static bool connections_work(struct database *d, int64_t now_us, struct error *reterr) {
    return connection_works(d->keep, &d->keep_due, now_us, reterr) && connection_works(d->tail, &d->tail_due, now_us, reterr);
}

/* The row could be written: nobody has a lock on it. */
static bool is_written(enum checkpoint_signal signal) {
    return signal == CHECKPOINT_TAKEN || signal == CHECKPOINT_EXTENDED || signal == CHECKPOINT_SAVED ||
           signal == CHECKPOINT_COMMANDED || signal == CHECKPOINT_YIELDED;
}

/* false: it still has the tail, or *ret_signal. */
static bool blocker_is_known(struct database *d, int64_t now_us, enum database_signal *ret_signal, struct error *reterr) {
    if (!d->blocker.asks)
        return true;
    int r = blocker_work(&d->blocker, now_us, reterr);
    if (r == PGCONN_E_LOST)
        *ret_signal = go_down(d, now_us);
    if (r != 0)
        return false;
    if (!checkpoint_busy(d->checkpoint)) /* it has gone meanwhile */
        blocker_clear(&d->blocker);
    database_go_on(d, now_us);
    return true;
}

static enum database_signal next_signal(struct database *d, int64_t now_us, struct error *reterr) {
    enum checkpoint_signal kept = checkpoint_next(d->checkpoint, now_us, reterr);
    if (is_written(kept))
        blocker_clear(&d->blocker);
    if (kept != CHECKPOINT_NONE)
        return on_checkpoint(d, kept, now_us, reterr);
    enum database_signal signal = DATABASE_NONE;
    if (d->phase < PHASE_TAIL_INSPECT || !blocker_is_known(d, now_us, &signal, reterr))
        return signal;
    return on_source(d, source_next(d->source, now_us, reterr), now_us, reterr);
}

static enum database_signal pull(struct database *d, int64_t now_us, struct error *reterr) {
    if (d->save_gone) {
        d->save_gone = false;
        error_set(reterr, ERROR_RETRY, "the place to save was given up for newer ones");
        return DATABASE_SAVE_FAILED;
    }
    enum database_signal signal = next_signal(d, now_us, reterr);
    database_use_keep(d, now_us);
    database_ask_blocker(d, now_us);
    return signal;
}

static void begin_attempt(struct database *d, int64_t now_us) {
    d->new_checkpoint = false;
    d->phase = PHASE_KEEP_DIAL;
    database_note_failure(d, pgconn_dial(d->keep, now_us), "connecting");
}

enum database_signal database_next(struct database *d, int64_t now_us, struct error *reterr) {
    if (d->phase == PHASE_CLOSED && now_us < d->retry_at_us)
        return DATABASE_NONE;
    if (d->phase == PHASE_CLOSED)
        begin_attempt(d, now_us);
    /* A step may lead on to the next at once; each advances the phase, so the loop is bounded. */
    for (;;) {
        if (d->lost) {
            *reterr = d->lost_error;
            return go_down(d, now_us);
        }
        enum phase before = d->phase;
        /* Rows that libpq has already come first: no system call per row. */
        enum database_signal signal = pull(d, now_us, reterr);
        if (signal != DATABASE_NONE)
            return signal;
        if (!connections_work(d, now_us, reterr)) /* what only an operator can mend, a dialer says */
            return reterr->class == ERROR_CONFIG ? refuse(d, reterr->text, false, now_us) : go_down(d, now_us);
        start_inspection(d, now_us);
        signal = pull(d, now_us, reterr);
        if (signal != DATABASE_NONE || (d->phase == before && !d->lost))
            return signal;
    }
}
