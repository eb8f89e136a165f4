/* kafka_careful: pure: which events may have spoilt a batch, and go alone until it is known which one did */
#ifndef PENSTOCK_SINK_KAFKA_CAREFUL_H
#define PENSTOCK_SINK_KAFKA_CAREFUL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

/* A broker that refuses a batch for one of its messages doesn't say which one. All of the
 * batch are suspects; while there are any, everything goes one at a time, in its
 * order, and the one that fails alone is found. An event is known by a mark, a hash
 * of what is sent: two with the same mark only cost that both are suspected. */
struct kafka_careful;

/* capacity: the most suspects. 0; -ENOMEM. Allocates here only. */
int kafka_careful_new(uint32_t capacity, struct kafka_careful **ret_careful) MUST_CHECK;
void kafka_careful_free(struct kafka_careful *c); /* NULL is fine */

/* It was in a batch that failed. One more than capacity is forgotten: it would be found at its next failure. */
void kafka_careful_suspect(struct kafka_careful *c, uint64_t mark);
/* It went alone, and what came of it is known. */
void kafka_careful_clear(struct kafka_careful *c, uint64_t mark);
/* Does everything go alone? Ends when no suspect is left, and at the latest after
 * twice as many events as there may be suspects: one that doesn't come again
 * (it was settled, or forgotten with the window) is waited for no longer. */
bool kafka_careful_active(const struct kafka_careful *c);

#endif
