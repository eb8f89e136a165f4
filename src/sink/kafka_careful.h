/* kafka_careful: pure: which events may have spoilt a batch, and go in batches of their own until it is known which one did */
#ifndef PENSTOCK_SINK_KAFKA_CAREFUL_H
#define PENSTOCK_SINK_KAFKA_CAREFUL_H

#include <stdint.h>

#include "base/cleanup.h"

/* A broker that refuses a batch for one of its messages doesn't say which one. All of the
 * batch are suspects; while there are any, each message is a batch of its own, and
 * the one that fails is found. An event is known by a mark, a hash
 * of what is sent: two with the same mark only cost that both are suspected. */
struct kafka_careful;

/* capacity: the most suspects. 0; -ENOMEM. Allocates here only. */
int kafka_careful_new(uint32_t capacity, struct kafka_careful **ret_careful) MUST_CHECK;
void kafka_careful_free(struct kafka_careful *c); /* NULL is fine */

/* It was in a batch that failed, with so many events under way, itself among them. One more than capacity is forgotten:
 * it would be found at its next failure. */
void kafka_careful_suspect(struct kafka_careful *c, uint64_t mark, uint32_t under_way);
/* It went in a batch of its own, and what came of it is known. */
void kafka_careful_clear(struct kafka_careful *c, uint64_t mark);
/* Nobody is a suspect any more. */
void kafka_careful_forget(struct kafka_careful *c);
/* How many suspects are left? All that was under way goes again, so none is at the latest after twice as many events
 * as that and the suspects: one that doesn't come again by then (it was settled, or forgotten with the window) is waited
 * for no longer. */
uint32_t kafka_careful_left(const struct kafka_careful *c);

#endif
