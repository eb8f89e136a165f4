/* kafka_message: event and destination -> key, headers and value, and how large that is for Kafka */
#ifndef PENSTOCK_SINK_KAFKA_MESSAGE_H
#define PENSTOCK_SINK_KAFKA_MESSAGE_H

#include "base/error.h"
#include "event/binding.h"
#include "event/destination.h"
#include "sink/kafka_topics.h"

/* Embedded; used again for each event, no allocation of ours in steady state.
 * What it points to is the event's, the destination's and its own; valid until
 * either changes. */
struct kafka_message {
    struct binding_message binding;
    struct span key, value; /* absent: null, which is not empty */
    const struct destination *destination;
    int32_t partition; /* KAFKA_PARTITION_BY_KEY */
    size_t bytes;      /* of a batch that has nothing else in it, uncompressed: what Kafka's limits count */
};

void kafka_message_init(struct kafka_message *m, size_t max_message_bytes);
void kafka_message_done(struct kafka_message *m);

/* It can't go that way: *reterr says why. */
#define KAFKA_MESSAGE_E_REJECTED 1

/* `binding`: of the sink; a destination may have its own. 0; KAFKA_MESSAGE_E_REJECTED; -ENOMEM. */
int kafka_message_build(struct kafka_message *m, const struct binding_options *binding, size_t max_message_bytes,
                        const struct event *e, const struct destination *d, struct error *reterr) MUST_CHECK;

/* The topic has no such partition. */
#define KAFKA_MESSAGE_E_PARTITION 2

/* What the broker would say no to, and to the whole batch: KAFKA_MESSAGE_E_REJECTED, KAFKA_MESSAGE_E_PARTITION; *reterr. */
int kafka_message_check(const struct kafka_message *m, const struct kafka_topic *topic, struct error *reterr) MUST_CHECK;

#endif
