/* flow: pure: facts about rows, outcomes, database and sink -> wants (read, submit, save, …) */
#include "flow/flow.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "flow/lease.h"
#include "flow/state.h"

int flow_new(const struct flow_options *options, struct flow **ret_flow) {
    ASSERT(options->window_bytes > 0);
    ASSERT(options->sink_in_flight > 0);
    struct flow *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    f->options = *options;
    f->random = options->seed;
    ledger_init(&f->ledger, options->save_interval_us, options->unsaved / 2, options->lease_us);
    demand_init(&f->demand, options->poll_min_us, options->poll_max_us);
    int r = window_new(options->window_events, options->unsaved, &f->window);
    if (r == 0) {
        f->slots = window_slots(f->window);
        r = order_new(f->slots, options->window_events, options->order, options->key_in_flight, &f->order);
    }
    if (r == 0)
        r = wire_new(options->sink_in_flight, &f->wire);
    if (r < 0) {
        flow_free(f);
        return r;
    }
    *ret_flow = f;
    return 0;
}

void flow_free(struct flow *f) {
    if (!f)
        return;
    wire_free(f->wire);
    order_free(f->order);
    window_free(f->window);
    free(f);
}

/* --- Facts: reading. ----------------------------------------------------- */

void flow_database_up(struct flow *f, int64_t now_us, struct flow_mark saved) {
    ASSERT(f->database == DATABASE_DOWN);
    f->database = DATABASE_UP;
    window_reset(f->window, saved);
    order_reset(f->order);
    ledger_reset(&f->ledger, saved.position == INT64_MAX ? INT64_MIN : saved.position);
    demand_reset(&f->demand, now_us);
}

void flow_database_down(struct flow *f, int64_t now_us) {
    if (f->database == DATABASE_DOWN)
        return; /* an attempt to connect that failed changes nothing */
    f->database = DATABASE_DOWN;
    if (f->yield == YIELD_ASKED)
        f->yield = YIELD_DONE;
    bool first_ghosts = wire_ghosts(f->wire) == 0;
    wire_forget_events(f->wire);
    if (first_ghosts)
        f->ghost_deadline_us = now_us + f->options.ghost_timeout_us;
    /* Nothing in memory is the truth any more. */
    window_reset(f->window, (struct flow_mark){.position = INT64_MAX});
    order_reset(f->order);
    ledger_reset(&f->ledger, f->ledger.saved_position);
    demand_reset(&f->demand, now_us);
}

static void settle(struct flow *f, uint32_t slot, int64_t now_us) {
    window_settle(f->window, slot);
    f->last_settled_us = now_us;
    if (window_open(f->window) == 0)
        demand_window_empty(&f->demand, now_us);
}

uint32_t flow_next_slot(const struct flow *f) {
    return window_next_slot(f->window);
}

void flow_add(struct flow *f, int64_t now_us, const struct flow_event *event) {
    ASSERT(f->database == DATABASE_UP);
    ASSERT(event->verdict != FLOW_DELIVER || event->destinations > 0);
    ASSERT(event->verdict != FLOW_DELIVER || event->destinations <= FLOW_DESTINATIONS_MAX);
    demand_event(&f->demand);
    uint32_t slot = window_add(f->window, event, now_us);
    if (event->verdict == FLOW_SKIP)
        settle(f, slot, now_us);
    else
        order_add(f->order, slot, event);
}

void flow_mark(struct flow *f, int64_t now_us, struct flow_mark mark, uint32_t rows) {
    (void)now_us;
    ASSERT(f->database == DATABASE_UP);
    demand_rows(&f->demand, rows);
    window_mark(f->window, mark, rows);
}

void flow_read_done(struct flow *f, int64_t now_us, bool caught_up) {
    ASSERT(f->database == DATABASE_UP);
    demand_done(&f->demand, now_us, caught_up);
}

void flow_target_dropped(struct flow *f, uint64_t target) {
    window_drop(f->window, target);
}

void flow_wake(struct flow *f, int64_t now_us) {
    demand_wake(&f->demand, now_us);
}

/* --- Facts: publishing. -------------------------------------------------- */

void flow_sink_up(struct flow *f, int64_t now_us) {
    (void)now_us;
    f->sink = SINK_READY;
}

void flow_sink_down(struct flow *f, int64_t now_us) {
    (void)now_us;
    ASSERT(wire_flying(f->wire) == 0);
    ASSERT(wire_ghosts(f->wire) == 0);
    f->sink = SINK_DOWN;
}

void flow_sink_ready(struct flow *f, int64_t now_us, bool ready) {
    (void)now_us;
    if (f->sink != SINK_DOWN)
        f->sink = ready ? SINK_READY : SINK_BUSY;
}

/* Destinations that fail while others of the same event wait join them: one wait for all. */
static void wait_for_retry(struct flow *f, struct slot *s, uint16_t bit, int64_t now_us) {
    if (!s->failed && s->attempts < UINT32_MAX)
        s->attempts++;
    int64_t retry_us = now_us + backoff_delay_us(&f->options.retry, s->attempts, &f->random);
    if (!s->failed || retry_us > s->retry_us)
        s->retry_us = retry_us;
    s->failed |= bit;
}

static void note_outcome(struct flow *f, struct slot *s, uint16_t bit, enum flow_outcome outcome, int64_t now_us) {
    ASSERT(s->flying & bit);
    s->flying &= (uint16_t)~bit;
    if (s->given_up)
        return;
    switch (outcome) {
    case FLOW_CONFIRMED:
        break;
    case FLOW_RETRY:
        wait_for_retry(f, s, bit, now_us);
        break;
    case FLOW_LOST:
        s->todo |= bit;
        break;
    case FLOW_REJECTED:
        s->rejected |= bit;
        break;
    }
}

bool flow_outcome(struct flow *f, int64_t now_us, uint64_t token, enum flow_outcome outcome, uint32_t *ret_slot) {
    const struct wire_delivery *found = wire_find(f->wire, token);
    if (!found) {
        f->stale_outcomes++;
        return false;
    }
    struct wire_delivery d = *found;
    wire_release(f->wire, token);
    if (d.state == WIRE_GHOST)
        return false;
    struct slot *s = &f->slots[d.slot];
    ASSERT(s->open);
    note_outcome(f, s, (uint16_t)(1U << d.destination), outcome, now_us);
    if (s->todo | s->failed | s->rejected)
        order_requeue(f->order, d.slot);
    else if (!s->flying) {
        order_settle(f->order, d.slot);
        settle(f, d.slot, now_us);
    }
    if (ret_slot)
        *ret_slot = d.slot;
    return true;
}

bool flow_whose(const struct flow *f, uint64_t token, uint32_t *ret_slot, uint16_t *ret_destination) {
    const struct wire_delivery *found = wire_find(f->wire, token);
    if (!found || found->state == WIRE_GHOST)
        return false;
    *ret_slot = found->slot;
    *ret_destination = found->destination;
    return true;
}

void flow_not_taken(struct flow *f, int64_t now_us, uint64_t token) {
    const struct wire_delivery *d = wire_find(f->wire, token);
    ASSERT(d);
    ASSERT(d->state == WIRE_FLYING);
    flow_outcome(f, now_us, token, FLOW_LOST, NULL);
}

/* --- Facts: checkpoint, operator. ---------------------------------------- */

void flow_saved(struct flow *f, int64_t now_us) {
    (void)now_us;
    ledger_saved(&f->ledger, f->window);
}

void flow_save_failed(struct flow *f, int64_t now_us) {
    ledger_failed(&f->ledger, f->window, now_us);
}

void flow_leased(struct flow *f, int64_t now_us, int64_t since_us) {
    ASSERT(f->database == DATABASE_UP);
    ASSERT(since_us <= now_us);
    ledger_leased(&f->ledger, since_us);
}

void flow_extended(struct flow *f, int64_t now_us) {
    (void)now_us;
    ledger_extended(&f->ledger);
}

void flow_not_extended(struct flow *f, int64_t now_us) {
    ledger_not_extended(&f->ledger, now_us);
}

void flow_yielded(struct flow *f, int64_t now_us) {
    (void)now_us;
    ASSERT(f->yield == YIELD_ASKED);
    f->yield = YIELD_DONE;
}

static bool is_stopping(const struct flow *f) {
    return f->run == RUN_STOPPING || f->run == RUN_FINISHED;
}

void flow_pause(struct flow *f, int64_t now_us, bool paused) {
    (void)now_us;
    if (!is_stopping(f))
        f->run = paused ? RUN_PAUSED : RUN_ON;
}

uint64_t flow_skip(struct flow *f, int64_t now_us) {
    uint32_t slot = window_oldest(f->window);
    ASSERT(f->database == DATABASE_UP);
    ASSERT(slot != WINDOW_NONE);
    struct slot *s = &f->slots[slot];
    s->given_up = true;
    s->todo = s->failed = s->rejected = 0;
    order_give_up(f->order, slot);
    uint64_t seq = s->seq;
    if (!s->flying) {
        order_settle(f->order, slot);
        settle(f, slot, now_us);
    }
    return seq;
}

bool flow_is_saved(const struct flow *f, uint64_t seq) {
    return window_saved_seq(f->window) > seq;
}

void flow_stop(struct flow *f, int64_t now_us, int64_t deadline_us) {
    (void)now_us;
    if (is_stopping(f))
        return;
    f->run = RUN_STOPPING;
    order_stop_starting(f->order);
    f->stop_deadline_us = deadline_us;
}

/* --- Wants. -------------------------------------------------------------- */

/* A place to save must not wait when reading waits for it, or the end. */
static bool save_is_urgent(const struct flow *f) {
    return f->run == RUN_STOPPING || window_unsaved(f->window) >= f->options.unsaved;
}

static bool next_save(struct flow *f, int64_t now_us, struct flow_want *ret_want) {
    struct window_place place;
    if (f->database != DATABASE_UP || f->run == RUN_FINISHED ||
        !ledger_next(&f->ledger, f->window, now_us, save_is_urgent(f), &place))
        return false;
    *ret_want = (struct flow_want){.kind = FLOW_WANT_SAVE, .mark = place.mark, .position = place.position};
    return true;
}

static bool holds_lease(const struct flow *f) {
    return f->database == DATABASE_UP && f->run != RUN_FINISHED && f->yield == YIELD_NOT_YET;
}

bool flow_is_fenced(const struct flow *f, int64_t now_us) {
    return holds_lease(f) && !ledger_may_publish(&f->ledger, now_us);
}

static bool next_extend(struct flow *f, int64_t now_us, struct flow_want *ret_want) {
    if (!holds_lease(f) || !ledger_extend(&f->ledger, now_us))
        return false;
    *ret_want = (struct flow_want){.kind = FLOW_WANT_EXTEND};
    return true;
}

static bool is_drained(const struct flow *f) {
    bool goes_on = order_any_ready(f->order) && f->database == DATABASE_UP && f->sink != SINK_DOWN;
    bool even = f->database == DATABASE_DOWN || ledger_is_even(&f->ledger, f->window);
    return wire_flying(f->wire) == 0 && !goes_on && even;
}

/* Not while anything of ours may still reach the broker: else the next instance would be overtaken. */
static bool next_yield(struct flow *f, struct flow_want *ret_want) {
    bool yields = f->ledger.lease_us > 0 && f->database == DATABASE_UP && f->run == RUN_STOPPING &&
                  f->yield == YIELD_NOT_YET && is_drained(f) && wire_ghosts(f->wire) == 0;
    if (!yields)
        return false;
    f->yield = YIELD_ASKED;
    *ret_want = (struct flow_want){.kind = FLOW_WANT_YIELD};
    return true;
}

static bool next_finish(struct flow *f, int64_t now_us, struct flow_want *ret_want) {
    if (f->run != RUN_STOPPING)
        return false;
    bool done = is_drained(f) && f->yield != YIELD_ASKED;
    if (now_us < f->stop_deadline_us && !done)
        return false;
    f->run = RUN_FINISHED;
    *ret_want = (struct flow_want){.kind = FLOW_WANT_FINISH};
    return true;
}

/* Ghosts only matter when something could be submitted but for them. */
static bool waits_for_ghosts(const struct flow *f) {
    return wire_ghosts(f->wire) > 0 && f->database == DATABASE_UP && f->run == RUN_ON;
}

static bool next_renew(struct flow *f, int64_t now_us, struct flow_want *ret_want) {
    if (!waits_for_ghosts(f) || now_us < f->ghost_deadline_us)
        return false;
    f->ghost_deadline_us = now_us + f->options.ghost_timeout_us;
    *ret_want = (struct flow_want){.kind = FLOW_WANT_RENEW};
    return true;
}

static bool may_submit(const struct flow *f, int64_t now_us) {
    bool runs = f->run == RUN_ON || f->run == RUN_STOPPING;
    return f->database == DATABASE_UP && f->sink == SINK_READY && runs &&
           wire_ghosts(f->wire) == 0 && f->yield == YIELD_NOT_YET && ledger_may_publish(&f->ledger, now_us);
}

static bool next_submit(struct flow *f, int64_t now_us, struct flow_want *ret_want) {
    if (!order_any_ready(f->order) || !wire_has_room(f->wire) || !may_submit(f, now_us))
        return false;
    uint32_t slot;
    uint16_t destination;
    order_next(f->order, &slot, &destination);
    uint64_t token = wire_take(f->wire, slot, destination);
    *ret_want = (struct flow_want){
        .kind = FLOW_WANT_SUBMIT, .token = token, .slot = slot, .destination = destination};
    return true;
}

/* Can more settle without a new fact from outside the sink? */
static bool window_moves(const struct flow *f) {
    return order_any_ready(f->order) || wire_flying(f->wire) > 0;
}

/* No pages of one row: at least a quarter of the window, unless nothing in it
 * moves (it is empty, or all of it is held: the other keys go on). */
static bool has_room(const struct flow *f, uint32_t *ret_events, uint64_t *ret_bytes) {
    uint64_t used = window_bytes(f->window);
    uint32_t events = f->options.window_events - window_open(f->window);
    uint64_t bytes = f->options.window_bytes > used ? f->options.window_bytes - used : 0;
    if (events == 0 || bytes == 0 || window_unsaved(f->window) >= f->options.unsaved)
        return false;
    bool worth_a_page = events >= f->options.window_events / 4 && bytes >= f->options.window_bytes / 4;
    if (!worth_a_page && window_moves(f))
        return false;
    *ret_events = events;
    *ret_bytes = bytes;
    return true;
}

static bool may_read(const struct flow *f, uint32_t *ret_events, uint64_t *ret_bytes) {
    return f->database == DATABASE_UP && f->run == RUN_ON && !f->demand.reading && has_room(f, ret_events, ret_bytes);
}

static bool next_read(struct flow *f, int64_t now_us, struct flow_want *ret_want) {
    uint32_t events;
    uint64_t bytes;
    if (f->demand.due_us > now_us || !may_read(f, &events, &bytes))
        return false;
    demand_ask(&f->demand, events);
    *ret_want = (struct flow_want){.kind = FLOW_WANT_READ, .events = events, .bytes = bytes};
    return true;
}

/* A read goes before the submits: the database works on the next page while this one is published. */
bool flow_next(struct flow *f, int64_t now_us, struct flow_want *ret_want) {
    if (!is_stopping(f))
        order_wake(f->order, now_us);
    return next_save(f, now_us, ret_want) || next_extend(f, now_us, ret_want) || next_yield(f, ret_want) ||
           next_finish(f, now_us, ret_want) || next_renew(f, now_us, ret_want) || next_read(f, now_us, ret_want) ||
           next_submit(f, now_us, ret_want);
}

static int64_t earlier(int64_t a_us, int64_t b_us) {
    return a_us < b_us ? a_us : b_us;
}

int64_t flow_deadline_us(const struct flow *f) {
    int64_t deadline_us = is_stopping(f) ? CLOCK_NEVER : order_deadline_us(f->order);
    uint32_t events;
    uint64_t bytes;
    if (f->database == DATABASE_UP && f->run != RUN_FINISHED)
        deadline_us = earlier(deadline_us, ledger_deadline_us(&f->ledger, f->window, save_is_urgent(f)));
    if (holds_lease(f))
        deadline_us = earlier(deadline_us, ledger_lease_deadline_us(&f->ledger));
    if (may_read(f, &events, &bytes))
        deadline_us = earlier(deadline_us, f->demand.due_us);
    if (waits_for_ghosts(f))
        deadline_us = earlier(deadline_us, f->ghost_deadline_us);
    if (f->run == RUN_STOPPING)
        deadline_us = earlier(deadline_us, f->stop_deadline_us);
    return deadline_us;
}

uint64_t flow_oldest_target(const struct flow *f) {
    return window_oldest_target(f->window);
}
