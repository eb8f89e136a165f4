/* kafka_burst: pure: what is published in one go, so that it leaves in few large batches */
#ifndef PENSTOCK_SINK_KAFKA_BURST_H
#define PENSTOCK_SINK_KAFKA_BURST_H

#include <stdbool.h>
#include <stdint.h>

/* librdkafka doesn't wait for more (linger.ms=0): each message wakes its thread,
 * and one that finds a batch of its partition on the wire makes that thread spin
 * until it is answered. So messages go in bursts (compare RFC 896): the next one
 * when the last one is confirmed, or after KAFKA_BURST_ANSWER_US without that, and
 * not sooner than a millisecond after it began; after a large one later, up to
 * KAFKA_BURST_MAX_US: each burst wakes the library's thread for its messages and
 * for the answer of each partition. Slow traffic meets no wait. Embedded; a zeroed one is open. */
#define KAFKA_BURST_MIN_US 1000
#define KAFKA_BURST_ANSWER_US 5000
#define KAFKA_BURST_MAX_US 10000
#define KAFKA_BURST_MESSAGE_US 20 /* of waiting, for each message of the last one */

struct kafka_burst {
    int64_t now_us;  /* of this turn */
    int64_t last_us; /* the turn of the last burst */
    uint32_t size;   /* of the burst of this turn, else of the last one */
    bool shut;
    bool confirmed; /* all of the last one */
};

/* A turn begins; `open`: messages that are not confirmed. */
void kafka_burst_turn(struct kafka_burst *b, uint32_t open, int64_t now_us);
bool kafka_burst_is_open(const struct kafka_burst *b);
void kafka_burst_publish(struct kafka_burst *b);
/* All that the turn had to publish is published. */
void kafka_burst_end(struct kafka_burst *b);
/* When a shut one opens if nothing is confirmed before; CLOCK_NEVER: it is open. */
int64_t kafka_burst_deadline_us(const struct kafka_burst *b);

#endif
