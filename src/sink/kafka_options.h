/* kafka_options: what can be configured of a Kafka connection and destination */
#ifndef PENSTOCK_SINK_KAFKA_OPTIONS_H
#define PENSTOCK_SINK_KAFKA_OPTIONS_H

#include <librdkafka/rdkafka.h>

#include "base/option.h"
#include "event/binding.h"
#include "event/destination.h"

#define KAFKA_TOPIC_MAX 249 /* bytes; Kafka's own limit: the topic names a directory */

/* Everything under kafka: is a property of librdkafka. */
struct kafka_connection {
    struct option_properties properties;
};

extern const struct option kafka_connection_table[];
/* NULL: it is not given. */
const struct option_property *kafka_connection_get(const struct kafka_connection *c, const char *name);
/* What a property can't say alone: check_connection of sink_kind. */
int kafka_connection_check(const void *connection, const char **ret_key, struct error *reterr);

/* What librdkafka, and a topic that takes max_message_bytes, have room for beside that: key, headers and framing. */
#define KAFKA_OVERHEAD_BYTES (1024 * 1024)

enum kafka_role {
    KAFKA_PRODUCER, /* idempotent, gapless, confirms by all in-sync replicas */
    KAFKA_LOOK,     /* asks for metadata and configuration, produces nothing */
};

struct kafka_tuning {
    enum kafka_role role;
    uint32_t in_flight;        /* the most messages in librdkafka at once */
    int64_t max_message_bytes; /* of one message as Kafka counts it */
    int64_t batch_bytes;       /* of one batch; 0: librdkafka's own */
    bool single;               /* each message is a batch of its own */
    const char *client_id;     /* unless the connection names one */
};

/* What Penstock sets, and in it what the connection says; secrets are read now.
 * 0 (*ret_conf is the caller's; rd_kafka_new takes it over only if it succeeds);
 * -EINVAL, -EIO, -EMSGSIZE, -ENOMEM with *reterr, which shows no secret. */
int kafka_options_conf(const struct kafka_connection *connection, const struct kafka_tuning *tuning,
                       rd_kafka_conf_t **ret_conf, struct error *reterr) MUST_CHECK;

/* key absent: partitionkey, else streamid, else none. */
enum kafka_field { KAFKA_TOPIC, KAFKA_KEY };
extern const struct destination_field kafka_fields[];

#define KAFKA_PARTITION_BY_KEY (-1)

/* At a destination. */
struct kafka_destination {
    struct binding_options binding; /* of it, Kafka has only the mode */
    int64_t partition;              /* KAFKA_PARTITION_BY_KEY, or always this one */
};

extern const struct option kafka_destination_table[];

/* Can a topic have that name? 0; -EINVAL with *reterr. */
int kafka_topic_check(struct span name, struct error *reterr) MUST_CHECK;

#endif
