/* delivery: the way of one event through a forwarder: row -> event -> rules -> sink -> outcome */
#ifndef PENSTOCK_FORWARDER_DELIVERY_H
#define PENSTOCK_FORWARDER_DELIVERY_H

#include "forwarder/forwarder.h"

/* Owns the sink, and the events in the window's slots. Tells flow the facts
 * about rows and outcomes. Belongs to the forwarder's thread; never waits. */
struct delivery;

/* Borrows all. Counts and times are written there. */
int delivery_new(const struct forwarder_options *options, struct flow *flow, struct guard *guard,
                 struct forwarder_counts *counts, struct forwarder_times *times, uint64_t seed,
                 struct delivery **ret_delivery) MUST_CHECK;
void delivery_free(struct delivery *d);

/* A row that was asked for, behind which the source stands at `mark`: into the
 * window, or past it if the subscription's filter leaves it out. 0; -ENOMEM. */
int delivery_row(struct delivery *d, const struct row *row, struct flow_mark mark, int64_t now_us) MUST_CHECK;

/* FLOW_WANT_SUBMIT. */
void delivery_submit(struct delivery *d, const struct flow_want *want, int64_t now_us);
/* After a batch of submits. */
void delivery_flush(struct delivery *d);

/* The sink's turn: connects, reads; its outcomes and its ups and downs become facts. */
void delivery_work(struct delivery *d, int64_t now_us);
void delivery_renew(struct delivery *d, int64_t now_us, const char *reason);
/* Nothing that the sink holds back may follow by itself (sink.h). */
void delivery_fence(struct delivery *d, int64_t now_us, const char *reason);

/* Whether this instance is the active one (sink.h). */
void delivery_lead(struct delivery *d, int64_t now_us, bool leads);

int delivery_poll(struct delivery *d, struct pollfd fds[SINK_POLL_MAX]);
int64_t delivery_deadline_us(const struct delivery *d);
void delivery_view(const struct delivery *d, struct sink_view *ret_view);

/* Of a slot that flow calls the oldest: for messages. Valid until the slot is used again. */
const struct event *delivery_event(const struct delivery *d, uint32_t slot);
const char *delivery_reason(const struct delivery *d, uint32_t slot); /* why it is held; "" if it isn't */
/* "exchange orders, routing_key order.paid" of its first destination; "" if it has none. */
const char *delivery_describe(struct delivery *d, uint32_t slot);

#endif
