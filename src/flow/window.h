/* window: events read and not settled, their marks by arrival, the prefix that is settled */
#ifndef PENSTOCK_FLOW_WINDOW_H
#define PENSTOCK_FLOW_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "flow/flow.h"

/* Order is arrival (`seq`), never position: late commits arrive lower.
 * For each seq a ring keeps the mark before it and whether it
 * is settled, so that an event ahead of a held one costs a mark, not a slot.
 *
 *      saved_seq  <=  settled_seq  <=  next_seq
 *      |  unsaved, all  |  open, or settled    |
 *      |  settled       |  ahead of an open one|
 *
 * Allocates at window_new only. One thread. */
struct window;

#define WINDOW_NONE UINT32_MAX

/* An event from arrival until it is settled. The sets have a bit for each
 * destination; one that is in none of them is settled. */
struct slot {
    uint64_t seq;
    uint64_t bytes;
    int64_t since_us;
    int64_t retry_us; /* when `failed` goes again */
    uint32_t key;     /* whose queue it belongs to (order.h) */
    uint32_t next;    /* behind it in that queue */
    uint32_t attempts;
    enum flow_verdict verdict;
    uint16_t todo;     /* may be submitted */
    uint16_t flying;   /* on the wire */
    uint16_t failed;   /* waits for retry_us */
    uint16_t rejected; /* waits for an operator */
    bool open;
    bool started; /* was submitted at least once */
    bool given_up; /* by an operator: what is on the wire is its last attempt */
    bool queued;
    bool holds; /* keeps later events of its key from going */
};

/* A place that can be saved. */
struct window_place {
    uint64_t seq; /* every event below it is settled */
    struct flow_mark mark;
    int64_t position;
};

int window_new(uint32_t events, uint32_t unsaved, struct window **ret_window) MUST_CHECK;
void window_free(struct window *w);
/* Forgets every event; `at` is what the checkpoint says. */
void window_reset(struct window *w, struct flow_mark at);

/* Borrowed; as many as `events`. */
struct slot *window_slots(struct window *w);

bool window_has_slot(const struct window *w);
uint32_t window_next_slot(const struct window *w);
/* Takes that slot. Asserts room, and that targets don't go back. */
uint32_t window_add(struct window *w, const struct flow_event *event, int64_t now_us);
/* The place behind the last event has moved, past `rows` rows without an event. */
void window_mark(struct window *w, struct flow_mark mark, uint32_t rows);
/* No mark of that target can be saved any more. */
void window_drop(struct window *w, uint64_t target);
/* Every destination has settled: the slot is free, the mark stays until it is saved. */
void window_settle(struct window *w, uint32_t slot);

/* The newest place in the settled prefix whose target lives; false if nothing was passed since it was saved. */
bool window_savable(const struct window *w, struct window_place *ret_place);
/* A save of it begins, has ended, has failed. */
void window_saving(struct window *w, const struct window_place *place);
void window_saved(struct window *w, const struct window_place *place);
void window_not_saved(struct window *w, const struct window_place *place);

uint32_t window_open(const struct window *w);
uint64_t window_bytes(const struct window *w);
uint32_t window_unsaved(const struct window *w);
uint64_t window_saved_seq(const struct window *w);
/* Of the first event that is not settled; WINDOW_NONE. */
uint32_t window_oldest(const struct window *w);
/* No mark here has a lower target. */
uint64_t window_oldest_target(const struct window *w);

/* NULL, or which invariant is broken. */
const char *window_broken(const struct window *w);

#endif
