/* kafka_partitions: pure: how much each partition may take, so that one which stands holds no other */
#ifndef PENSTOCK_SINK_KAFKA_PARTITIONS_H
#define PENSTOCK_SINK_KAFKA_PARTITIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/span.h"

/* A broker refuses a batch out of its sequence, but only in a partition where
 * it has written something of that producer; in any other it takes whatever
 * comes as the beginning (KIP-360). With two requests under way there, and the first one
 * refused, the second is written all the same: it has overtaken, and librdkafka even
 * reports the first one as delivered, since what came after it was (2.0.2,
 * rd_kafka_handle_idempotent_Produce_success). So until a partition has
 * confirmed something, it gets one message at a time.
 *
 * One that has confirmed and then stands takes only a share of what may be in
 * flight: however many stand, there is room for the others. */
struct kafka_partitions;

/* A partition is known by its place. More than so many share one that never warms up. */
#define KAFKA_PARTITIONS_MAX 65536
/* A broker forgets a producer that is silent (producer.id.expiration.ms: a day), so we forget far earlier. */
#define KAFKA_PARTITIONS_WARM_US (600 * INT64_C(1000000))

/* 0; -ENOMEM. */
int kafka_partitions_new(struct kafka_partitions **ret_partitions) MUST_CHECK;
void kafka_partitions_free(struct kafka_partitions *p); /* NULL is fine */
/* A new instance: no partition knows it, nothing is under way. Places are void. */
void kafka_partitions_reset(struct kafka_partitions *p);

/* Allocates when a partition is seen for the first time. 0; -ENOMEM. */
int kafka_partitions_find(struct kafka_partitions *p, struct span topic, int32_t partition, uint32_t *ret_place) MUST_CHECK;
/* What is under way to a partition, at most, in relation to the room that is left. */
#define KAFKA_PARTITIONS_SHARE 4
/* May one more go there now? Else when something that is under way there has been confirmed. `room`: how many more may
 * be in flight. */
bool kafka_partitions_takes(const struct kafka_partitions *p, uint32_t place, uint32_t room, int64_t now_us);
/* Has it confirmed something, and not too long ago? */
bool kafka_partitions_warm(const struct kafka_partitions *p, uint32_t place, int64_t now_us);
void kafka_partitions_sent(struct kafka_partitions *p, uint32_t place, int64_t now_us);
/* Since when it confirms nothing of what is under way there. */
int64_t kafka_partitions_waits_since_us(const struct kafka_partitions *p, uint32_t place);
/* Valid until the next call that changes p. false: several share the place. */
bool kafka_partitions_name(const struct kafka_partitions *p, uint32_t place, struct span *ret_topic, int32_t *ret_partition);
void kafka_partitions_confirmed(struct kafka_partitions *p, uint32_t place, int64_t now_us);

#endif
