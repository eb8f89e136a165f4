/* kafka_suspects: reports that say no: whom they blame, and who of a refused batch it was */
#ifndef PENSTOCK_SINK_KAFKA_SUSPECTS_H
#define PENSTOCK_SINK_KAFKA_SUSPECTS_H

#include <librdkafka/rdkafka.h>

#include "base/error.h"
#include "base/hash.h"
#include "sink/kafka_careful.h"
#include "sink/kafka_message.h"

/* Embedded. The events of a refused batch go alone until it is known which one
 * it was (kafka_careful). If it was none, the batch was too large together. */
struct kafka_suspects {
    struct kafka_careful *careful;
    struct hash_key key;
    uint64_t alone_mark; /* of what is on the wire, while careful */

    /* Of this instance: */
    uint32_t count;
    uint64_t last_tag, last_mark;
    struct error last; /* what the broker said about it */
    const rd_kafka_topic_t *batch_topic; /* the batch of the last one: its reports come in a row */
    int32_t batch_partition;
    int64_t batch_bytes, least_bytes; /* least: of those refused for their size; 0: none was */

    int64_t too_large_bytes; /* of batches that nobody has been found guilty for yet; 0: none */
};

/* capacity: the most suspects. 0; -ENOMEM. */
int kafka_suspects_init(struct kafka_suspects *s, uint32_t capacity) MUST_CHECK;
void kafka_suspects_done(struct kafka_suspects *s);
/* A new instance. Those of before are still suspects. */
void kafka_suspects_reset(struct kafka_suspects *s);

enum kafka_blame { KAFKA_BLAME_MESSAGE, KAFKA_BLAME_TOPIC, KAFKA_BLAME_INSTANCE };
enum kafka_blame kafka_suspects_blame(rd_kafka_resp_err_t err);

/* A report that blames one of its batch. */
void kafka_suspects_note(struct kafka_suspects *s, const rd_kafka_message_t *m);
/* All reports are in. true: a single one was blamed, hence it is guilty: *ret_tag; s->last says why. */
bool kafka_suspects_guilty(struct kafka_suspects *s, uint64_t *ret_tag);

/* Does everything go alone? */
static inline bool kafka_suspects_alone(const struct kafka_suspects *s) {
    return kafka_careful_active(s->careful);
}
void kafka_suspects_sent_alone(struct kafka_suspects *s, const struct kafka_message *m);
/* It was confirmed. true: it was the last one, and none was guilty: batches have
 * to be smaller than *ret_bytes. */
bool kafka_suspects_cleared(struct kafka_suspects *s, int64_t *ret_bytes);

#endif
