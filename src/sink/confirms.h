/* confirms: pure: delivery tags, multiple acks, nacks, returns, resets -> one outcome per token */
#ifndef PENSTOCK_SINK_CONFIRMS_H
#define PENSTOCK_SINK_CONFIRMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Tags count from 1 in each channel (RabbitMQ "Publisher Confirms"). A ring
 * holds the open ones: they span at most `span_max` tags, so one that is never
 * answered bounds what is published after it. No allocation after new. One
 * thread; `now_us` is monotonic and never goes back. */
struct confirms;

enum confirms_outcome { CONFIRMS_CONFIRMED, CONFIRMS_NACKED, CONFIRMS_RETURNED, CONFIRMS_LOST };

/* in_flight_max >= 1, span_max >= in_flight_max. 0; -ENOMEM. */
int confirms_new(uint32_t in_flight_max, uint32_t span_max, struct confirms **ret_confirms) MUST_CHECK;
void confirms_free(struct confirms *c); /* NULL is fine */

/* Open tokens and outcomes not yet taken count together against in_flight_max. */
bool confirms_has_room(const struct confirms *c);
/* The tag the next publish of this channel will have. */
uint64_t confirms_next_tag(const struct confirms *c);
/* Asserts room. */
void confirms_publish(struct confirms *c, uint64_t token, int64_t now_us);

#define CONFIRMS_E_UNKNOWN 1 /* a tag never published, or answered before: counted, ignored */
/* multiple: every open tag up to and with `tag`, lowest first; tag 0: every one (AMQP 0-9-1 "delivery-tag"). */
int confirms_ack(struct confirms *c, uint64_t tag, bool multiple) MUST_CHECK;
int confirms_nack(struct confirms *c, uint64_t tag, bool multiple) MUST_CHECK;
/* Marks the tag: its ack (or nack) then gives CONFIRMS_RETURNED (the return comes first). */
int confirms_return(struct confirms *c, uint64_t tag) MUST_CHECK;
/* The channel died: every open token gives CONFIRMS_LOST, tags start at 1.
 * Outcomes already there stay; so does blocked, which is the connection's. */
void confirms_reset(struct confirms *c);

/* true: an outcome, in the order in which the answers came. */
bool confirms_next(struct confirms *c, uint64_t *ret_token, uint64_t *ret_tag, enum confirms_outcome *ret_outcome);

uint32_t confirms_open(const struct confirms *c);     /* published, without an answer */
uint32_t confirms_answered(const struct confirms *c); /* outcomes that confirms_next has still to give */
uint64_t confirms_unknown(const struct confirms *c); /* how many CONFIRMS_E_UNKNOWN */
/* When the oldest open tag is overdue; CLOCK_NEVER if none is open. Time while
 * blocked does not count (CLOCK_NEVER then): confirms_blocked tells when that
 * begins and ends; said twice is fine. */
int64_t confirms_deadline_us(const struct confirms *c, int64_t ack_timeout_us);
void confirms_blocked(struct confirms *c, bool blocked, int64_t now_us);

#endif
