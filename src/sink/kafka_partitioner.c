/* kafka_partitioner: pure: which partition a key goes to, as librdkafka would choose it */
#include "sink/kafka_partitioner.h"

#include "base/log.h"

struct kafka_partitioner {
    const char *name;
    int32_t (*choose)(const rd_kafka_topic_t *topic, const void *key, size_t len, int32_t count, void *, void *);
    bool spreads; /* messages without a key */
};

/* The first one goes if none is given: keys land where Java's producer puts them. */
static const struct kafka_partitioner partitioners[] = {
    {"murmur2_random", rd_kafka_msg_partitioner_murmur2, true},
    {"murmur2", rd_kafka_msg_partitioner_murmur2, false},
    {"consistent_random", rd_kafka_msg_partitioner_consistent, true},
    {"consistent", rd_kafka_msg_partitioner_consistent, false},
    {"fnv1a_random", rd_kafka_msg_partitioner_fnv1a, true},
    {"fnv1a", rd_kafka_msg_partitioner_fnv1a, false},
};

const struct kafka_partitioner *kafka_partitioner_of(const struct kafka_connection *c) {
    const struct option_property *given = kafka_connection_get(c, "partitioner");
    for (size_t i = 0; given && i < ARRAY_LENGTH(partitioners); i++)
        if (strcmp(given->value.value, partitioners[i].name) == 0)
            return &partitioners[i];
    return &partitioners[0];
}

int32_t kafka_partitioner_choose(const struct kafka_partitioner *p, struct span key, int32_t turn, int32_t partitions) {
    ASSERT(partitions > 0);
    ASSERT(turn >= 0);
    if (span_absent(key) && p->spreads)
        return turn % partitions;
    return p->choose(NULL, key.data ? key.data : "", key.len, partitions, NULL, NULL);
}
