/* daemon: a forwarder without a world: joins flow, tail and confirms to the models */
#include "sim/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "flow/lease.h"
#include "flow/view.h"

#define ACK_TIMEOUT_US 500000

void daemon_init(struct daemon *d, struct postgres *pg, struct broker *broker, struct random *random) {
    d->pg = pg;
    d->broker = broker;
    d->random = random;
    d->mended = d->running = d->finished = false;
    d->flow = NULL;
    d->tail = (struct tail){0};
    d->confirms = NULL;
    d->late_count = d->renewals = d->reloads = d->reads = 0;
    d->stored[0] = d->save.previous[0] = d->save.text[0] = 0;
    d->instance = 0;
    d->lease = (struct postgres_lease){0};
    d->broken = NULL;
}

void daemon_start(struct daemon *d, int64_t now_us) {
    ASSERT(!d->running);
    d->options.seed = random_next(d->random) | 1;
    d->instance++;
    d->predecessor_gone = random_percent(d->random, 50);
    d->look_us = now_us;
    int r = flow_new(&d->options, &d->flow);
    tail_start(&d->tail, &d->tail_options);
    if (r == 0)
        r = confirms_new(d->options.sink_in_flight, 4 * d->options.sink_in_flight, &d->confirms);
    ASSERT(r == 0);
    d->running = true;
    d->finished = d->database_up = d->reading = d->save_waits = d->extend_waits = false;
    d->tail_call = d->keep_call = CALL_NONE;
    flow_database_down(d->flow, now_us);
}

/* What was sent on a connection that is gone may still be executed. */
static void leave_save(struct daemon *d) {
    bool sent = d->keep_call == CALL_SENT && d->keep_kind == KEEP_SAVE;
    if (sent && d->late_count < DAEMON_LATE_MAX && random_percent(d->random, 80))
        d->late[d->late_count++] = d->save;
}

void daemon_kill(struct daemon *d) {
    leave_save(d);
    if (d->broker->up)
        broker_close(d->broker, d->random);
    flow_free(d->flow);
    tail_stop(&d->tail);
    confirms_free(d->confirms);
    d->flow = NULL;
    d->confirms = NULL;
    d->running = false;
}

/* --- The database. -------------------------------------------------------- */

void daemon_connect_database(struct daemon *d, int64_t now_us) {
    if (d->database_up || d->keep_call != CALL_NONE || now_us < d->look_us)
        return;
    d->keep_kind = KEEP_LOAD;
    d->keep_call = CALL_SENT;
}

void daemon_lose_database(struct daemon *d, int64_t now_us) {
    leave_save(d);
    d->tail_call = d->keep_call = CALL_NONE;
    d->database_up = d->reading = d->save_waits = d->extend_waits = false;
    flow_database_down(d->flow, now_us);
}

bool daemon_execute_tail(struct daemon *d) {
    if (d->tail_call != CALL_SENT)
        return false;
    tail_execute(&d->tail, d->pg);
    d->tail_call = CALL_EXECUTED;
    return true;
}

/* Only a process that it has known can be known to be gone. */
static bool owner_is_gone(const struct daemon *d) {
    return d->predecessor_gone && d->lease.owner < d->instance;
}

bool daemon_execute_keep(struct daemon *d, int64_t now_us, daemon_saver *saver, void *world) {
    if (d->keep_call != CALL_SENT)
        return false;
    int64_t until_us = now_us + d->options.lease_us;
    switch (d->keep_kind) {
    case KEEP_LOAD:
        postgres_copy_text(d->stored, d->pg->checkpoint);
        d->loaded = d->pg->gaps;
        d->lease = d->pg->lease;
        d->refused = d->lease.until_us > now_us && !owner_is_gone(d) && d->lease.owner != d->instance;
        break;
    case KEEP_TAKE:
        d->refused = !postgres_take(d->pg, d->stored, &d->lease, d->instance, owner_is_gone(d), now_us, until_us);
        break;
    case KEEP_CREATE:
    case KEEP_SAVE:
        d->refused = !saver(world, &d->save);
        break;
    case KEEP_EXTEND:
        d->refused = !postgres_extend(d->pg, &d->lease, until_us);
        break;
    case KEEP_YIELD:
        d->refused = !postgres_extend(d->pg, &d->lease, now_us);
        break;
    }
    d->keep_call = CALL_EXECUTED;
    return true;
}

bool daemon_execute_late(struct daemon *d, daemon_saver *saver, void *world) {
    if (d->late_count == 0)
        return false;
    d->late_count--;
    saver(world, &d->late[d->late_count]);
    return true;
}

static void use_keep(struct daemon *d);

bool daemon_fail_save(struct daemon *d, int64_t now_us) {
    bool extends = d->keep_kind == KEEP_EXTEND;
    if (d->keep_call != CALL_SENT || (!extends && d->keep_kind != KEEP_SAVE))
        return false;
    d->keep_call = CALL_NONE;
    if (extends)
        flow_not_extended(d->flow, now_us);
    else
        flow_save_failed(d->flow, now_us);
    use_keep(d);
    return true;
}

static void send(struct daemon *d, enum daemon_keep kind) {
    ASSERT(d->keep_call == CALL_NONE);
    d->keep_kind = kind;
    d->keep_call = CALL_SENT;
}

static void send_save(struct daemon *d, enum daemon_keep kind) {
    postgres_copy_text(d->save.previous, d->stored);
    d->save.lease = d->lease;
    send(d, kind);
}

/* One statement at a time; the rest waits its turn. */
static void use_keep(struct daemon *d) {
    if (d->keep_call != CALL_NONE || !d->database_up)
        return;
    if (d->extend_waits) {
        d->extend_waits = false;
        send(d, KEEP_EXTEND);
    } else if (d->save_waits) {
        d->save_waits = false;
        send_save(d, KEEP_SAVE);
    }
}

static void create_checkpoint(struct daemon *d, int64_t now_us) {
    tail_print_beginning(&d->tail, d->save.text);
    d->save.changes.more.count = d->save.changes.gone.count = 0;
    d->asked_us = now_us;
    d->lease = (struct postgres_lease){.owner = d->instance, .epoch = 1};
    send_save(d, KEEP_CREATE);
}

static void open_source(struct daemon *d, int64_t now_us) {
    tail_open(&d->tail, d->stored, &d->loaded, now_us);
    d->database_up = true;
    flow_database_up(d->flow, now_us, tail_mark(&d->tail));
    flow_leased(d->flow, now_us, d->asked_us);
}

static void on_loaded(struct daemon *d, int64_t now_us) {
    if (d->stored[0] == 0) {
        create_checkpoint(d, now_us);
    } else if (d->refused) {
        d->look_us = now_us + d->options.lease_us / 20 + 1; /* stands by */
    } else {
        d->asked_us = now_us;
        send(d, KEEP_TAKE);
    }
}

static void on_saved(struct daemon *d, int64_t now_us) {
    postgres_copy_text(d->stored, d->save.text);
    tail_saved(&d->tail, d->save.mark);
    flow_saved(d->flow, now_us);
    tail_release(&d->tail, flow_oldest_target(d->flow));
}

static void on_done(struct daemon *d, int64_t now_us) {
    switch (d->keep_kind) {
    case KEEP_LOAD:
        on_loaded(d, now_us);
        return;
    case KEEP_TAKE:
        d->lease.owner = d->instance;
        d->lease.epoch++;
        open_source(d, now_us);
        return;
    case KEEP_CREATE:
        postgres_copy_text(d->stored, d->save.text);
        open_source(d, now_us);
        return;
    case KEEP_SAVE:
        on_saved(d, now_us);
        return;
    case KEEP_EXTEND:
        flow_extended(d->flow, now_us);
        return;
    case KEEP_YIELD:
        flow_yielded(d->flow, now_us);
        return;
    }
}

bool daemon_take_keep(struct daemon *d, int64_t now_us) {
    if (d->keep_call != CALL_EXECUTED)
        return false;
    d->keep_call = CALL_NONE;
    if (d->refused && d->keep_kind != KEEP_LOAD) {
        d->reloads++;
        daemon_lose_database(d, now_us); /* the row is another's, or has moved: load it */
    } else {
        on_done(d, now_us);
        use_keep(d);
    }
    return true;
}

/* --- Reading. ------------------------------------------------------------- */

static void tell_dropped(struct daemon *d) {
    uint64_t target;
    while (tail_dropped(&d->tail, &target))
        flow_target_dropped(d->flow, target);
}

static void add_row(struct daemon *d, uint32_t row, int64_t now_us) {
    const struct postgres_row *r = &d->pg->rows[row];
    d->got_events++;
    d->got_bytes += r->bytes;
    if (d->got_events > d->asked_events || (d->got_bytes > d->asked_bytes && d->got_events > 1))
        d->broken = "the source never gives more than was asked for (Reactive Streams 1.1)";
    if (r->filtered) {
        flow_mark(d->flow, now_us, tail_mark(&d->tail), 1);
        return;
    }
    struct flow_event event = {
        .verdict = d->mended && r->verdict == FLOW_HOLD ? FLOW_DELIVER : r->verdict,
        .destinations = r->destinations,
        .keyed = r->keyed,
        .key = r->key,
        .bytes = r->bytes,
        .mark = tail_mark(&d->tail),
    };
    d->rows[flow_next_slot(d->flow)] = row;
    flow_add(d->flow, now_us, &event);
}

/* false: the row no longer fits, the statement is cancelled. */
static bool take_row(struct daemon *d, int64_t now_us) {
    uint32_t row;
    bool keep = tail_row(&d->tail, d->pg, &row);
    tell_dropped(d);
    if (keep)
        add_row(d, row, now_us);
    return keep;
}

static void next_statement(struct daemon *d, int64_t now_us) {
    if (tail_next(&d->tail, now_us)) {
        d->tail_call = CALL_SENT;
        return;
    }
    d->reading = false;
    d->reads++;
    flow_read_done(d->flow, now_us, tail_caught_up(&d->tail));
    if (d->keep_call == CALL_NONE || d->keep_kind != KEEP_SAVE)
        tail_release(&d->tail, flow_oldest_target(d->flow));
    if (tail_broken(&d->tail))
        d->broken = tail_broken(&d->tail);
}

bool daemon_take_tail(struct daemon *d, int64_t now_us, uint32_t rows) {
    if (d->tail_call != CALL_EXECUTED)
        return false;
    tail_begin(&d->tail);
    tell_dropped(d);
    bool fits = true;
    for (uint32_t i = 0; i < rows && fits && tail_more(&d->tail); i++)
        fits = take_row(d, now_us);
    if (fits && tail_more(&d->tail))
        return true;
    tail_end(&d->tail, now_us);
    tell_dropped(d);
    d->tail_call = CALL_NONE;
    flow_mark(d->flow, now_us, tail_mark(&d->tail), 0);
    next_statement(d, now_us);
    return true;
}

/* --- Publishing. ---------------------------------------------------------- */

void daemon_connect_sink(struct daemon *d, int64_t now_us) {
    if (d->broker->up)
        return;
    broker_open(d->broker);
    flow_sink_up(d->flow, now_us);
}

static enum flow_outcome outcome_of(enum confirms_outcome outcome) {
    switch (outcome) {
    case CONFIRMS_CONFIRMED:
        return FLOW_CONFIRMED;
    case CONFIRMS_NACKED:
    case CONFIRMS_RETURNED:
        return FLOW_RETRY;
    case CONFIRMS_LOST:
        return FLOW_LOST;
    }
    return FLOW_LOST;
}

static void take_outcomes(struct daemon *d, int64_t now_us) {
    uint64_t token, tag;
    enum confirms_outcome outcome;
    while (confirms_next(d->confirms, &token, &tag, &outcome))
        flow_outcome(d->flow, now_us, token, outcome_of(outcome), NULL);
}

void daemon_lose_sink(struct daemon *d, int64_t now_us) {
    if (!d->broker->up)
        return;
    broker_close(d->broker, d->random);
    confirms_reset(d->confirms);
    take_outcomes(d, now_us);
    flow_sink_down(d->flow, now_us);
}

/* No answer in time. */
static void renew_sink(struct daemon *d, int64_t now_us) {
    d->renewals++;
    daemon_lose_sink(d, now_us);
}

static void submit(struct daemon *d, const struct flow_want *want, int64_t now_us) {
    uint32_t row = d->rows[want->slot];
    struct flow_view view;
    flow_view(d->flow, &view);
    if (view.ghosts > 0)
        d->broken = "nothing is submitted before the outcomes of before a reload have come";
    bool room = confirms_has_room(d->confirms) && broker_has_room(d->broker);
    if (!room || random_percent(d->random, 3)) {
        flow_not_taken(d->flow, now_us, want->token);
        flow_sink_ready(d->flow, now_us, false);
    } else if (d->pg->rows[row].poison && !d->mended)
        flow_outcome(d->flow, now_us, want->token, FLOW_REJECTED, NULL);
    else if (random_percent(d->random, 1))
        flow_outcome(d->flow, now_us, want->token, FLOW_RETRY, NULL); /* hopeless for now, not taken */
    else {
        if (d->pg->lease.owner != d->instance)
            d->broken = "G12: nothing is handed to the broker while another instance may be active";
        confirms_publish(d->confirms, want->token, now_us);
        broker_publish(d->broker, row, want->destination);
    }
}

/* --- The loop. ------------------------------------------------------------ */

static void begin_read(struct daemon *d, const struct flow_want *want, int64_t now_us) {
    struct flow_view view;
    flow_view(d->flow, &view);
    if (view.events + want->events > d->options.window_events || want->bytes > d->options.window_bytes)
        d->broken = "the demand fits into the window";
    d->reading = true;
    d->asked_events = want->events;
    d->asked_bytes = want->bytes;
    d->got_events = 0;
    d->got_bytes = 0;
    tail_want(&d->tail, want->events, want->bytes);
    next_statement(d, now_us);
}

static void begin_save(struct daemon *d, const struct flow_want *want, int64_t now_us) {
    if (!tail_print(&d->tail, want->mark, d->save.text, &d->save.changes, now_us)) {
        d->broken = "a target that was given up is never saved";
        return;
    }
    d->save.mark = want->mark;
    d->save_waits = true;
    use_keep(d);
}

static void do_want(struct daemon *d, const struct flow_want *want, int64_t now_us) {
    switch (want->kind) {
    case FLOW_WANT_READ:
        begin_read(d, want, now_us);
        break;
    case FLOW_WANT_SUBMIT:
        submit(d, want, now_us);
        break;
    case FLOW_WANT_SAVE:
        begin_save(d, want, now_us);
        break;
    case FLOW_WANT_EXTEND:
        d->extend_waits = true;
        use_keep(d);
        break;
    case FLOW_WANT_YIELD:
        send(d, KEEP_YIELD);
        break;
    case FLOW_WANT_RENEW:
        renew_sink(d, now_us);
        break;
    case FLOW_WANT_FINISH:
        d->finished = true;
        break;
    }
}

void daemon_work(struct daemon *d, int64_t now_us, uint32_t wants) {
    if (flow_is_fenced(d->flow, now_us)) {
        d->reloads++;
        daemon_lose_database(d, now_us);
    }
    take_outcomes(d, now_us);
    if (confirms_deadline_us(d->confirms, ACK_TIMEOUT_US) <= now_us || !broker_has_room(d->broker))
        renew_sink(d, now_us);
    flow_sink_ready(d->flow, now_us, confirms_has_room(d->confirms));
    struct flow_want want;
    bool more = true;
    for (uint32_t i = 0; i < wants && !d->broken && !d->finished && more; i++) {
        more = flow_next(d->flow, now_us, &want);
        if (more)
            do_want(d, &want, now_us);
    }
    if (!more && flow_deadline_us(d->flow) <= now_us)
        d->broken = "when nothing is wanted, the deadline is in the future";
}

int64_t daemon_deadline_us(const struct daemon *d) {
    int64_t flow_us = flow_deadline_us(d->flow), sink_us = confirms_deadline_us(d->confirms, ACK_TIMEOUT_US);
    int64_t due_us = flow_us < sink_us ? flow_us : sink_us;
    bool stands_by = !d->database_up && d->keep_call == CALL_NONE;
    return stands_by && d->look_us < due_us ? d->look_us : due_us;
}
