/* view: what a flow shows of itself, and the check of all its invariants */
#include "flow/view.h"

#include "base/log.h"
#include "flow/state.h"

enum flow_hold flow_slot_hold(const struct flow *f, uint32_t slot, uint32_t *ret_attempts, int64_t *ret_retry_us) {
    ASSERT(slot < f->options.window_events);
    const struct slot *s = &f->slots[slot];
    if (ret_attempts)
        *ret_attempts = s->attempts;
    if (ret_retry_us)
        *ret_retry_us = s->retry_us;
    if (s->verdict == FLOW_HOLD)
        return FLOW_HOLD_VERDICT;
    if (s->rejected)
        return FLOW_HOLD_REJECTED;
    return s->attempts > 0 ? FLOW_HOLD_RETRY : FLOW_HOLD_NONE;
}

static void view_oldest(const struct flow *f, struct flow_view *view) {
    uint32_t slot = window_oldest(f->window);
    view->any_unsettled = slot != WINDOW_NONE;
    if (!view->any_unsettled)
        return;
    view->oldest_slot = slot;
    view->oldest_since_us = f->slots[slot].since_us;
    view->oldest_hold = flow_slot_hold(f, slot, NULL, &view->oldest_retry_us);
}

void flow_view(const struct flow *f, struct flow_view *ret_view) {
    *ret_view = (struct flow_view){
        .events = window_open(f->window),
        .unsaved = window_unsaved(f->window),
        .in_flight = wire_flying(f->wire),
        .ghosts = wire_ghosts(f->wire),
        .started = order_started(f->order),
        .bytes = window_bytes(f->window),
        .held = order_held(f->order),
        .followers = order_followers(f->order),
        .caught_up = f->demand.caught_up,
        .last_settled_us = f->last_settled_us,
        .saved_position = f->ledger.saved_position,
        .stale_outcomes = f->stale_outcomes,
        .stopping = f->run == RUN_STOPPING || f->run == RUN_FINISHED,
    };
    ret_view->window_full =
        ret_view->events >= f->options.window_events || ret_view->bytes >= f->options.window_bytes;
    ret_view->unsaved_full = ret_view->unsaved >= f->options.unsaved;
    view_oldest(f, ret_view);
}

bool flow_is_sated(const struct flow *f) {
    return f->demand.reading && order_any_ready(f->order) && (!wire_has_room(f->wire) || f->sink == SINK_BUSY);
}

static const char *deliveries_broken(const struct flow *f) {
    uint32_t flying = 0, ghosts = 0;
    const struct wire_delivery *d;
    for (uint32_t i = 0; (d = wire_at(f->wire, i)); i++) {
        ghosts += d->state == WIRE_GHOST;
        if (d->state != WIRE_FLYING)
            continue;
        flying++;
        const struct slot *s = &f->slots[d->slot];
        if (!s->open || !s->started || !(s->flying & 1U << d->destination))
            return "what flies belongs to an open event";
    }
    if (flying != wire_flying(f->wire) || ghosts != wire_ghosts(f->wire))
        return "deliveries are counted";
    for (uint32_t i = 0; i < f->options.window_events; i++)
        if (f->slots[i].open)
            flying -= (uint32_t)__builtin_popcount(f->slots[i].flying);
    return flying == 0 ? NULL : "what an event has on the wire has a token";
}

static const char *slots_broken(const struct flow *f) {
    for (uint32_t i = 0; i < f->options.window_events; i++) {
        const struct slot *s = &f->slots[i];
        if (!s->open)
            continue;
        if (s->given_up && (s->todo | s->failed | s->rejected || !s->flying))
            return "of an event that was given up only what is on the wire is left";
        if (s->queued != ((s->todo | s->failed | s->rejected) != 0 || s->verdict == FLOW_HOLD))
            return "an event with something to submit is queued";
        if (s->verdict == FLOW_DELIVER && !(s->todo | s->flying | s->failed | s->rejected))
            return "an event of which all has settled is settled";
        if (!s->started && (s->flying | s->failed | s->rejected))
            return "an event that was never submitted has no outcome";
    }
    return NULL;
}

const char *flow_broken(const struct flow *f) {
    const char *broken = window_broken(f->window);
    if (!broken)
        broken = order_broken(f->order);
    if (!broken)
        broken = slots_broken(f);
    if (!broken)
        broken = deliveries_broken(f);
    if (!broken && f->database == DATABASE_DOWN && (window_open(f->window) > 0 || f->demand.reading))
        broken = "without the database nothing is open";
    if (!broken && f->sink == SINK_DOWN && wire_flying(f->wire) > 0)
        broken = "nothing flies while the sink is down";
    return broken;
}
