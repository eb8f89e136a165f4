/* view: what a flow shows of itself, and the check of all its invariants */
#ifndef PENSTOCK_FLOW_VIEW_H
#define PENSTOCK_FLOW_VIEW_H

#include "flow/flow.h"

/* Why an event does not move. */
enum flow_hold {
    FLOW_HOLD_NONE,
    FLOW_HOLD_VERDICT,  /* unmatched, or rejected at reading */
    FLOW_HOLD_REJECTED, /* by the sink */
    FLOW_HOLD_RETRY,    /* it has failed; from then on, until it settles */
};

struct flow_view {
    uint32_t events, unsaved, in_flight, ghosts;
    uint32_t started; /* of the events: submitted at least once; after a stop these and the unsaved come again */
    uint64_t bytes;
    bool any_unsettled;
    uint32_t oldest_slot;        /* of the first event not settled */
    int64_t oldest_since_us;     /* when it arrived */
    enum flow_hold oldest_hold;  /* why it does not move */
    int64_t oldest_retry_us;     /* FLOW_HOLD_RETRY: when it goes again */
    uint32_t held;               /* events that hold their key */
    uint32_t followers;          /* events that wait behind a held one */
    bool window_full, unsaved_full;
    bool caught_up;
    int64_t last_settled_us;
    int64_t saved_position;      /* highest settled in order and saved; INT64_MIN: none yet */
    uint64_t stale_outcomes;
    bool stopping;
};

void flow_view(const struct flow *f, struct flow_view *ret_view);
/* Of one slot: for messages. */
enum flow_hold flow_slot_hold(const struct flow *f, uint32_t slot, uint32_t *ret_attempts, int64_t *ret_retry_us);

/* A page is under way, but what has come of it already waits for outcomes: its other rows are in no hurry. */
bool flow_is_sated(const struct flow *f);

/* All invariants of the house; for simulation and debug. Returns NULL, or which one is broken. */
const char *flow_broken(const struct flow *f);

#endif
