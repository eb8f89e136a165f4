/* kafka_partitioner: pure: which partition a key goes to, as librdkafka would choose it */
#ifndef PENSTOCK_SINK_KAFKA_PARTITIONER_H
#define PENSTOCK_SINK_KAFKA_PARTITIONER_H

#include "base/span.h"
#include "sink/kafka_options.h"

/* Chosen here, since it has to be known before something goes there (kafka_partitions.h). One thing differs: a key that
 * is empty is a key with each of them, and stays in its partition; librdkafka's consistent_random would spread it. */
struct kafka_partitioner;

/* As the connection says; never NULL. */
const struct kafka_partitioner *kafka_partitioner_of(const struct kafka_connection *c);
/* turn: where what has no key goes, if the partitioner spreads that. */
int32_t kafka_partitioner_choose(const struct kafka_partitioner *p, struct span key, int32_t turn, int32_t partitions);

#endif
