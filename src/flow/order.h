/* order: ordering keys: which event may be submitted next (G6) */
#ifndef PENSTOCK_FLOW_ORDER_H
#define PENSTOCK_FLOW_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "flow/window.h"

/* Each key has a queue of its events that have something to submit, by
 * arrival; only the first is ever submitted. One that was lost or waits for a
 * retry is back in its place, so it goes first and what is behind it waits; a
 * new one starts while fewer than `limit` events of the key have started and
 * not settled. Ready keys stand in a line, waiting ones in a heap by time:
 * nothing here looks through the window. Allocates at order_new only. */
struct order;

/* `slots` is the window's, of `events`; borrowed. */
int order_new(struct slot *slots, uint32_t events, enum flow_order kind, uint32_t limit, struct order **ret_order)
    MUST_CHECK;
void order_free(struct order *o);
/* Forgets every event. */
void order_reset(struct order *o);

/* From now on only events are started that came before one that has started:
 * a settled event behind a hole would be sent again (G7). What has started goes on. */
void order_stop_starting(struct order *o);

/* A new event in that slot. */
void order_add(struct order *o, uint32_t slot, const struct flow_event *event);
/* Something of it is to be submitted again, or waits, or was rejected. */
void order_requeue(struct order *o, uint32_t slot);
/* Of the oldest open event: nothing of it is to be submitted any more; its key waits for what is on the wire. */
void order_give_up(struct order *o, uint32_t slot);
/* All of it has settled, or was given up. */
void order_settle(struct order *o, uint32_t slot);
/* Whose time has come goes again. */
void order_wake(struct order *o, int64_t now_us);

bool order_any_ready(const struct order *o);
/* Takes the next destination; asserts order_any_ready. */
void order_next(struct order *o, uint32_t *ret_slot, uint16_t *ret_destination);
/* When order_wake has something to do; CLOCK_NEVER. */
int64_t order_deadline_us(const struct order *o);

/* Open events that were submitted at least once. */
uint32_t order_started(const struct order *o);
/* Events that hold their key, and those that wait behind them. */
uint32_t order_held(const struct order *o);
uint32_t order_followers(const struct order *o);

/* NULL, or which invariant is broken. */
const char *order_broken(const struct order *o);

#endif
