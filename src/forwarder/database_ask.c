/* database_ask: what a database is asked for: through keep one thing at a time, each when its turn has come */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "forwarder/database_state.h"

/* A call that could not be sent: reported by the next database_next. */
void database_note_failure(struct database *d, int r, const char *what) {
    if (r == 0 || d->lost)
        return;
    d->lost = true;
    error_set(&d->lost_error, ERROR_RETRY, "%s: %s", what, r < 0 ? strerror(-r) : "the connection is gone");
}

static void start_save(struct database *d, int64_t now_us) {
    d->save_wanted = false;
    buf_clear(&d->cursor);
    int r = source_print_cursor(d->source, d->save_mark, &d->cursor);
    if (r == SOURCE_E_GONE) { /* given up while the save waited for keep */
        d->save_gone = true;
        return;
    }
    struct source_changes changes = {0};
    if (r == 0)
        r = source_changes(d->source, d->save_mark, now_us, &changes);
    if (r == 0)
        r = checkpoint_save(d->checkpoint, buf_span(&d->cursor), &changes, d->save_position, now_us);
    database_note_failure(d, r, "saving the checkpoint");
    d->saving = true;
    d->asked_us = now_us;
}

static void watch_lease(struct database *d, int64_t now_us) {
    if (now_us < d->watch_us)
        return;
    d->watched_us = now_us;
    database_note_failure(d, checkpoint_watch(d->checkpoint, now_us), "looking at the lease");
}

/* keep has one statement at a time. What extends the lease goes first: nothing else ends by being late. Then cancelling:
 * rows are waiting to be thrown away. */
void database_use_keep(struct database *d, int64_t now_us) {
    if (checkpoint_busy(d->checkpoint) || d->lost)
        return;
    if (d->phase == PHASE_STANDBY)
        watch_lease(d, now_us);
    if (d->phase != PHASE_UP)
        return;
    if (d->extend_wanted) {
        d->extend_wanted = false;
        d->extending = true;
        d->asked_us = now_us;
        database_note_failure(d, checkpoint_extend(d->checkpoint, now_us), "extending the lease");
    } else if (d->yield_wanted) {
        d->yield_wanted = false;
        database_note_failure(d, checkpoint_yield(d->checkpoint, now_us), "giving the lease back");
    } else if (d->cancel_pid != 0) {
        int pid = d->cancel_pid;
        d->cancel_pid = 0;
        database_note_failure(d, checkpoint_cancel(d->checkpoint, pid, now_us), "cancelling a read");
    } else if (d->command) {
        const struct checkpoint_command *command = d->command;
        d->command = NULL;
        database_note_failure(d, checkpoint_command(d->checkpoint, command, now_us), "writing a command down");
    } else if (d->save_wanted && now_us >= d->save_after_us) {
        start_save(d, now_us);
    }
}

int64_t database_blocker_deadline_us(const struct database *d) {
    int64_t busy_us = pgconn_busy_since_us(d->keep);
    if (d->phase < PHASE_TAKE || busy_us == CLOCK_NEVER || d->blocker.asks || pgconn_state(d->tail) != PGCONN_IDLE)
        return CLOCK_NEVER;
    int64_t due_us = busy_us + DATABASE_BLOCKED_US, again_us = blocker_due_us(&d->blocker);
    return due_us > again_us ? due_us : again_us;
}

/* Only then nothing but the source's next step needs the tail, and that can wait. */
void database_ask_blocker(struct database *d, int64_t now_us) {
    if (!d->lost && now_us >= database_blocker_deadline_us(d))
        database_note_failure(d, blocker_ask(&d->blocker, pgconn_backend_pid(d->keep), now_us), "asking who has a lock");
}

void database_go_on(struct database *d, int64_t now_us) {
    if (d->want_waits && !d->lost)
        database_want(d, d->want_events, d->want_bytes, now_us);
}

void database_look(struct database *d, int64_t now_us) {
    ASSERT(d->phase == PHASE_UP);
    if ((d->look_us != 0 && now_us - d->look_us < DATABASE_LOOK_US) || !source_is_free(d->source) || d->blocker.asks || d->lost)
        return;
    d->look_us = now_us;
    database_note_failure(d, source_look(d->source, now_us), "looking at the event table");
}

/* A row whose time isn't known has waited since it was seen, as long as it is the same. */
void database_note_look(struct database *d, int64_t now_us) {
    const struct source_waiting *w = source_waiting(d->source);
    struct database_waiting before = d->waiting;
    d->waiting = (struct database_waiting){0};
    if (!w)
        return;
    bool same = before.known && before.any && w->any && before.position == w->position;
    d->waiting = (struct database_waiting){.known = true, .any = w->any, .position = w->position, .since_us = now_us};
    if (w->recorded)
        d->waiting.since_us = d->look_us - w->age_us;
    if (same && before.since_us < d->waiting.since_us)
        d->waiting.since_us = before.since_us;
}

void database_want(struct database *d, uint32_t events, uint64_t bytes, int64_t now_us) {
    ASSERT(d->phase == PHASE_UP);
    d->waiting.known = false;
    d->want_waits = !source_is_free(d->source) || d->blocker.asks;
    if (d->want_waits) {
        d->want_events = events;
        d->want_bytes = bytes;
        return;
    }
    database_note_failure(d, source_want(d->source, events, bytes, now_us), "reading the event table");
}

void database_save(struct database *d, struct source_mark mark, int64_t position, int64_t now_us) {
    ASSERT(d->phase == PHASE_UP);
    ASSERT(!d->save_wanted && !d->save_gone);
    ASSERT(!d->saving);
    d->save_wanted = true;
    d->save_mark = mark;
    /* INT64_MIN: no event has settled since the load, the place moved all the same. */
    d->save_position = position == INT64_MIN ? d->checkpoint_position : position;
    database_use_keep(d, now_us);
}

void database_extend(struct database *d, int64_t now_us) {
    ASSERT(d->phase == PHASE_UP);
    ASSERT(!d->extend_wanted && !d->extending);
    d->extend_wanted = true;
    database_use_keep(d, now_us);
}

void database_yield(struct database *d, int64_t now_us) {
    ASSERT(d->phase == PHASE_UP);
    d->yield_wanted = true;
    database_use_keep(d, now_us);
}

void database_command(struct database *d, const struct checkpoint_command *command, int64_t now_us) {
    ASSERT(d->phase == PHASE_UP);
    ASSERT(!d->command);
    d->command = command;
    database_use_keep(d, now_us);
}

void database_drop(struct database *d, const char *why) {
    d->lost = true;
    error_set(&d->lost_error, ERROR_RETRY, "%s", why);
}

void database_release(struct database *d, uint64_t oldest_target) {
    if (!d->save_wanted && !d->saving)
        source_release(d->source, oldest_target);
}
