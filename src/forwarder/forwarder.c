/* forwarder: one thread that joins source, rules, flow, sink and checkpoint to the world */
#include "forwarder/forwarder.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/message_id.h"
#include "flow/lease.h"
#include "flow/view.h"
#include "forwarder/command.h"
#include "forwarder/culprit.h"
#include "forwarder/database.h"
#include "forwarder/delivery.h"
#include "forwarder/report.h"

/* The loop turns at least this often, so that its tick proves that it lives. */
#define TURN_MAX_US (1 * CLOCK_US_PER_S)
/* Rows taken in one turn: outcomes are never kept waiting longer than that. */
#define ROWS_PER_TURN 1024
/* Rows that are in no hurry are looked for so often, that the server isn't kept waiting with a page. */
#define ROWS_WAIT_US (5 * CLOCK_US_PER_MS)
/* Wants done in one turn, likewise. */
#define WANTS_PER_TURN 4096

struct forwarder {
    struct forwarder_options options;
    struct mailbox *mailbox;
    struct guard *guard;
    struct flow *flow;
    struct database *database;
    struct delivery *delivery;
    struct report *report;
    struct forwarder_counts counts;
    struct forwarder_times times;
    int64_t read_since_us, save_since_us; /* of the one that is under way */

    pthread_t thread;
    atomic_llong tick_us;
    atomic_int end; /* enum forwarder_end */

    bool database_up;
    uint32_t left_behind; /* events that were not behind a saved checkpoint when the database went away */
    struct command command;
    enum state_stop stop;
    int64_t stop_deadline_us;
    bool late; /* at the end: not all that had started could be settled and saved */
    int64_t read_position;
};

/* Start and end. -------------------------------------------------------- */

static void release(struct forwarder *f) {
    delivery_free(f->delivery);
    database_free(f->database);
    flow_free(f->flow);
    report_free(f->report);
    guard_free(f->guard);
    mailbox_free(f->mailbox);
    free(f);
}

static uint64_t random_seed(void) {
    uint64_t seed = (uint64_t)clock_now_us();
    (void)!getrandom(&seed, sizeof seed, GRND_NONBLOCK);
    return seed;
}

static int build(struct forwarder *f) {
    uint64_t seed = random_seed();
    f->options.flow.seed = seed;
    int r = mailbox_new(&f->mailbox);
    if (r == 0)
        r = guard_new(&f->guard);
    if (r == 0)
        r = flow_new(&f->options.flow, &f->flow);
    if (r == 0)
        r = database_new(&f->options, f->guard, seed + 1, &f->database);
    if (r == 0)
        r = delivery_new(&f->options, f->flow, f->guard, &f->counts, &f->times, seed + 2, &f->delivery);
    if (r == 0)
        delivery_lead(f->delivery, clock_now_us(), false);
    if (r == 0)
        r = report_new(&f->options, &f->report);
    f->command.reach = (struct command_reach){f->options.name, f->flow, f->delivery, f->database, f->report, &f->counts};
    return r;
}

static void *run(void *argument);

/* Signals belong to the main thread (sd-event(3) wants them blocked elsewhere). */
static int start_thread(struct forwarder *f) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&f->thread, NULL, run, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

int forwarder_start(const struct forwarder_options *options, struct forwarder **ret_forwarder) {
    struct forwarder *f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    f->options = *options;
    f->options.flow.lease_us = options->lease_us;
    f->read_position = INT64_MIN;
    atomic_store(&f->tick_us, clock_now_us());
    int r = build(f);
    if (r == 0)
        r = start_thread(f);
    if (r < 0) {
        release(f);
        return r;
    }
    *ret_forwarder = f;
    return 0;
}

int forwarder_stop(struct forwarder *f, int64_t deadline_us) {
    struct mail mail = {.kind = MAIL_STOP, .deadline_us = deadline_us};
    return mailbox_put(f->mailbox, &mail);
}

int forwarder_command(struct forwarder *f, const struct mail *mail) {
    return mailbox_put(f->mailbox, mail);
}

enum forwarder_end forwarder_ended(const struct forwarder *f) {
    return (enum forwarder_end)atomic_load(&f->end);
}

void forwarder_free(struct forwarder *f) {
    if (!f)
        return;
    ASSERT(forwarder_ended(f) != FORWARDER_RUNNING);
    pthread_join(f->thread, NULL);
    release(f);
}

void forwarder_copy_stats(struct forwarder *f, struct forwarder_stats *ret_stats) {
    report_copy(f->report, ret_stats);
}

int64_t forwarder_tick_us(const struct forwarder *f) {
    return atomic_load(&f->tick_us);
}

struct guard *forwarder_guard(struct forwarder *f) {
    return f->guard;
}

/* Facts. ---------------------------------------------------------------- */

static void take_mail(struct forwarder *f, int64_t now_us) {
    struct mail mail;
    for (int i = 0; i < MAILBOX_CAPACITY && mailbox_take(f->mailbox, &mail) == 0; i++) {
        switch (mail.kind) {
        case MAIL_STOP:
            f->stop = STATE_STOPPING;
            f->stop_deadline_us = mail.deadline_us;
            flow_stop(f->flow, now_us, mail.deadline_us);
            break;
        case MAIL_PAUSE:
        case MAIL_RESUME:
        case MAIL_SKIP:
            command_begin(&f->command, &mail, now_us);
            break;
        }
    }
}

static struct flow_mark mark_of(const struct forwarder *f) {
    struct source_mark mark = database_row_mark(f->database);
    return (struct flow_mark){.position = mark.position, .target = mark.target};
}

static void on_up(struct forwarder *f, int64_t now_us) {
    report_database(f->report, STATE_DATABASE_UP, "");
    f->database_up = true;
    f->left_behind = 0;
    flow_database_up(f->flow, now_us, mark_of(f));
    flow_leased(f->flow, now_us, database_leased_us(f->database));
    delivery_lead(f->delivery, now_us, true);
    command_loaded(&f->command, now_us);
    struct log_fields fields = {.forwarder = f->options.name};
    report_findings(f->report, database_note(f->database), false);
    log_say(LOG_LEVEL_INFO, &fields, "reading %s (mode %s) from %s, epoch %" PRId64, f->options.source->table,
            database_mode(f->database), database_new_checkpoint(f->database) ? "the configured start" : "its checkpoint",
            database_epoch(f->database));
}

static void on_down(struct forwarder *f, enum state_database why, const struct error *error, int64_t now_us) {
    const char *note = why == STATE_DATABASE_REFUSED ? database_note(f->database) : "";
    report_database(f->report, why, note[0] ? note : error->text);
    if (strchr(note, '\n')) /* one alone is said with the change of state */
        report_findings(f->report, note, true);
    if (!f->database_up)
        return;
    f->database_up = false;
    delivery_lead(f->delivery, now_us, false);
    command_lost(&f->command, error->text);
    report_saving(f->report, NULL);
    /* Whether the last save took place only the next load can tell. */
    struct flow_view view;
    flow_view(f->flow, &view);
    f->left_behind = view.started + view.ghosts + view.unsaved;
    flow_database_down(f->flow, now_us);
}

static void on_row(struct forwarder *f, int64_t now_us) {
    int r = delivery_row(f->delivery, database_row(f->database), mark_of(f), now_us);
    if (r < 0)
        /* Nothing was added: what is not in the window is read again after the reload. */
        database_drop(f->database, "taking a row: no memory");
    else
        f->read_position = mark_of(f).position;
}

static void on_saved(struct forwarder *f, int64_t now_us) {
    f->counts.checkpoint_writes = database_writes(f->database);
    histogram_add(&f->times.save, now_us - f->save_since_us);
    report_saving(f->report, NULL);
    flow_saved(f->flow, now_us);
    database_release(f->database, flow_oldest_target(f->flow));
    command_saved(&f->command);
}

static void on_save_failed(struct forwarder *f, const struct error *error, int64_t now_us) {
    report_saving(f->report, error->text);
    flow_save_failed(f->flow, now_us);
}

static void on_extend_failed(struct forwarder *f, const struct error *error, int64_t now_us) {
    struct log_fields fields = {.forwarder = f->options.name};
    log_say(LOG_LEVEL_WARNING, &fields, "the lease can't be extended: %s: trying again until it ends", error->text);
    flow_not_extended(f->flow, now_us);
}

/* One fact of the database. false: there is none. */
static bool take_database_fact(struct forwarder *f, int64_t now_us) {
    struct error error;
    error_clear(&error);
    switch (database_next(f->database, now_us, &error)) {
    case DATABASE_NONE:
        return false;
    case DATABASE_UP:
        on_up(f, now_us);
        return true;
    case DATABASE_DOWN:
        on_down(f, STATE_DATABASE_DOWN, &error, now_us);
        return true;
    case DATABASE_REFUSED:
        on_down(f, STATE_DATABASE_REFUSED, &error, now_us);
        return true;
    case DATABASE_AHEAD:
        on_down(f, STATE_DATABASE_AHEAD, &error, now_us);
        return true;
    case DATABASE_STANDBY:
        on_down(f, STATE_DATABASE_STANDBY, &error, now_us);
        f->left_behind = 0; /* the other instance sends it */
        return true;
    case DATABASE_EXTENDED:
        flow_extended(f->flow, now_us);
        return true;
    case DATABASE_EXTEND_FAILED:
        on_extend_failed(f, &error, now_us);
        return true;
    case DATABASE_YIELDED:
        flow_yielded(f->flow, now_us);
        return true;
    case DATABASE_ROW:
        on_row(f, now_us);
        return true;
    case DATABASE_MARK:
        flow_mark(f->flow, now_us, mark_of(f), database_mark_counts(f->database) ? 1 : 0);
        return true;
    case DATABASE_READ_DONE:
        histogram_add(&f->times.read, now_us - f->read_since_us);
        flow_read_done(f->flow, now_us, database_caught_up(f->database));
        database_release(f->database, flow_oldest_target(f->flow)); /* idle, nothing is saved */
        return true;
    case DATABASE_DROPPED:
        flow_target_dropped(f->flow, database_dropped(f->database));
        return true;
    case DATABASE_SAVED:
        on_saved(f, now_us);
        return true;
    case DATABASE_SAVE_FAILED:
        on_save_failed(f, &error, now_us);
        return true;
    case DATABASE_COMMANDED:
        command_written(&f->command, now_us);
        return true;
    case DATABASE_COMMAND_FAILED:
        command_failed(&f->command, error.text);
        return true;
    }
    return false;
}

/* What comes meanwhile is not read: G8 wants it seen all the same. What is in the window is known. */
static void look_while_nothing_is_read(struct forwarder *f, int64_t now_us) {
    if (!f->database_up || f->stop != STATE_RUNNING)
        return;
    struct flow_view view;
    flow_view(f->flow, &view);
    if (!view.any_unsettled && (f->command.paused || view.unsaved_full))
        database_look(f->database, now_us);
}

/* true: there may be more that no poll tells of (rows in the library's buffer). */
static bool take_facts(struct forwarder *f, int64_t now_us) {
    take_mail(f, now_us);
    /* Results before new work: outcomes free the room that rows are asked for. */
    delivery_work(f->delivery, now_us);
    int taken = 0;
    while (taken < ROWS_PER_TURN && take_database_fact(f, now_us))
        taken++;
    if (database_notified(f->database))
        flow_wake(f->flow, now_us);
    return taken == ROWS_PER_TURN;
}

/* Wants. ---------------------------------------------------------------- */

static void say_position(char *text, size_t size, int64_t position) {
    if (position == INT64_MIN)
        snprintf(text, size, "none");
    else
        snprintf(text, size, "%" PRId64, position);
}

static void finish(struct forwarder *f, int64_t now_us) {
    struct flow_view view;
    flow_view(f->flow, &view);
    uint32_t again = view.started + view.ghosts + view.unsaved + f->left_behind;
    /* A broker or database that went away ends the wait early: what had started is sent again all the same. */
    struct sink_view sink;
    delivery_view(f->delivery, &sink);
    f->late = now_us >= f->stop_deadline_us || f->left_behind > 0 || (!sink.connected && view.started > 0);
    f->stop = STATE_STOPPED;
    command_lost(&f->command, "the forwarder is stopping");

    char saved[24], read[48] = "", repeats[64] = "none";
    say_position(saved, sizeof saved, database_checkpoint_position(f->database));
    if (f->read_position != INT64_MIN)
        snprintf(read, sizeof read, ", read up to position %" PRId64, f->read_position);
    if (again > 0) /* settled behind a held one, or not settled in time */
        snprintf(repeats, sizeof repeats, "up to %" PRIu32 " events", again);
    struct log_fields fields = {.forwarder = f->options.name, .message_id = MESSAGE_ID_STOPPED};
    log_say(f->late ? LOG_LEVEL_WARNING : LOG_LEVEL_NOTICE, &fields,
            "stopped%s: %" PRIu64 " confirmed since start, checkpoint at position %s%s, %s will be sent again",
            f->late ? " late" : "", f->counts.confirmed, saved, read, repeats);
}

static void do_want(struct forwarder *f, const struct flow_want *want, int64_t now_us) {
    switch (want->kind) {
    case FLOW_WANT_READ:
        f->read_since_us = now_us;
        database_want(f->database, want->events, want->bytes, now_us);
        return;
    case FLOW_WANT_SUBMIT:
        delivery_submit(f->delivery, want, now_us);
        return;
    case FLOW_WANT_SAVE:
        f->save_since_us = now_us;
        database_save(f->database, (struct source_mark){want->mark.position, want->mark.target}, want->position, now_us);
        return;
    case FLOW_WANT_EXTEND:
        database_extend(f->database, now_us);
        return;
    case FLOW_WANT_YIELD:
        database_yield(f->database, now_us);
        return;
    case FLOW_WANT_RENEW:
        delivery_renew(f->delivery, now_us, "events of before the reload are not answered");
        return;
    case FLOW_WANT_FINISH:
        finish(f, now_us);
        return;
    }
}

static void say_lock(const struct source_culprit *locker, char *why, size_t size) {
    char name[384];
    culprit_name(locker, name, sizeof name);
    snprintf(why, size, "the lease ran out while %s had the checkpoint's row locked", name);
}

/* This thread, or the whole machine, may have slept since it last looked, or the database hasn't answered: then another
 * instance may be active (G12). The next load tells. */
static bool stop_if_fenced(struct forwarder *f) {
    int64_t now_us = clock_now_us();
    if (!flow_is_fenced(f->flow, now_us))
        return false;
    char why[512] = "the lease may have run out before it could be extended: another instance may be active";
    const struct source_culprit *locker = database_blocker(f->database, now_us);
    if (locker)
        say_lock(locker, why, sizeof why);
    delivery_fence(f->delivery, now_us, why);
    database_drop(f->database, why);
    return true;
}

/* true: there may be more. A look at the clock before each want, and before the socket: nothing is handed over by a
 * right that was there when the turn began. */
static bool do_wants(struct forwarder *f) {
    struct flow_want want;
    int done = 0;
    for (; f->stop != STATE_STOPPED && done < WANTS_PER_TURN; done++) {
        int64_t now_us = clock_now_us();
        if (!flow_next(f->flow, now_us, &want))
            break;
        do_want(f, &want, now_us);
    }
    if (!stop_if_fenced(f))
        delivery_flush(f->delivery);
    return done == WANTS_PER_TURN;
}

/* The loop. ------------------------------------------------------------- */

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void wait_for_something(struct forwarder *f, int64_t now_us) {
    struct pollfd fds[1 + DATABASE_POLL_MAX + SINK_POLL_MAX];
    fds[0] = (struct pollfd){.fd = mailbox_fd(f->mailbox), .events = POLLIN};
    int count = 1;
    bool rows_wait = flow_is_sated(f->flow);
    struct pollfd *of_database = fds + count;
    count += database_poll(f->database, rows_wait, of_database);
    count += delivery_poll(f->delivery, fds + count);
    int64_t deadline_us = now_us + (rows_wait ? ROWS_WAIT_US : TURN_MAX_US);
    deadline_us = earlier(deadline_us, flow_deadline_us(f->flow));
    deadline_us = earlier(deadline_us, database_deadline_us(f->database));
    deadline_us = earlier(deadline_us, delivery_deadline_us(f->delivery));
    if (clock_poll(fds, (size_t)count, deadline_us) > 0 || rows_wait)
        database_polled(f->database, of_database);
}

static void tell(struct forwarder *f, int64_t now_us) {
    struct report_view view = {
        .stop = f->stop,
        .paused = f->command.paused,
        .flow = f->flow,
        .delivery = f->delivery,
        .database = f->database,
        .counts = &f->counts,
        .times = &f->times,
        .read_position = f->read_position,
    };
    report_turn(f->report, &view, now_us);
}

static void *run(void *argument) {
    struct forwarder *f = argument;
    while (f->stop != STATE_STOPPED) {
        int64_t now_us = clock_now_us();
        atomic_store(&f->tick_us, now_us);
        stop_if_fenced(f);
        bool more_facts = take_facts(f, now_us);
        bool more_wants = do_wants(f);
        look_while_nothing_is_read(f, now_us);
        tell(f, now_us);
        if (!more_facts && !more_wants && f->stop != STATE_STOPPED)
            wait_for_something(f, now_us);
    }
    atomic_store(&f->end, f->late ? FORWARDER_ENDED_LATE : FORWARDER_ENDED_CLEAN);
    (void)!write(f->options.ended_fd, &(uint64_t){1}, sizeof(uint64_t));
    return NULL;
}
