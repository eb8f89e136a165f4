/* kafka_suspects: reports that say no: whom they blame, and who of a refused batch it was */
#ifndef PENSTOCK_SINK_KAFKA_SUSPECTS_H
#define PENSTOCK_SINK_KAFKA_SUSPECTS_H

#include <librdkafka/rdkafka.h>

#include "base/error.h"
#include "base/hash.h"
#include "sink/kafka_careful.h"
#include "sink/kafka_options.h"
#include "sink/kafka_topics.h"

/* Embedded. The events of a refused batch go again in batches of their own, from an
 * instance made for that, until it is known which one it was (kafka_careful). If it was
 * none, the batch was too large together. */
struct kafka_suspects {
    struct kafka_careful *careful;
    struct hash_key key;

    /* Of this search: */
    uint32_t total;
    int64_t since_us;
    char topic[KAFKA_TOPIC_MAX + 1];
    const char *word; /* the broker's */
    int64_t limit;         /* max.message.bytes of the topic as it was known; 0: it wasn't */
    bool same;             /* all are of that topic, and about size */
    int64_t refused_bytes; /* of the smallest batch that was too large; 0: none was */
    bool found;            /* one was guilty */

    /* Of this instance: */
    bool single; /* each message is a batch of its own */
    uint32_t count;
    uint64_t first_tag, first_mark;
    struct error first; /* what the broker said about it */
    const rd_kafka_topic_t *batch_topic; /* the batch of the last one: its reports come in a row */
    int32_t batch_partition;
    int64_t batch_bytes;
};

/* capacity: the most suspects. 0; -ENOMEM. */
int kafka_suspects_init(struct kafka_suspects *s, uint32_t capacity) MUST_CHECK;
void kafka_suspects_done(struct kafka_suspects *s);
/* A new instance; single, if there are suspects. */
void kafka_suspects_reset(struct kafka_suspects *s);

enum kafka_blame { KAFKA_BLAME_MESSAGE, KAFKA_BLAME_TOPIC, KAFKA_BLAME_INSTANCE };
enum kafka_blame kafka_suspects_blame(rd_kafka_resp_err_t err);

/* A report that blames one of its batch. topic: what is known of it; may be NULL. under_way: with this one. */
void kafka_suspects_note(struct kafka_suspects *s, const rd_kafka_message_t *m, const struct kafka_topic *topic,
                         uint32_t under_way, int64_t now_us);
/* All reports are in. true: *ret_tag is guilty, since it was a batch of its own; s->first says why. */
bool kafka_suspects_guilty(struct kafka_suspects *s, uint64_t *ret_tag);

/* Does the next instance have to be single? */
bool kafka_suspects_any(const struct kafka_suspects *s);
/* Of a single instance one was confirmed. true: no suspect is left. */
bool kafka_suspects_cleared(struct kafka_suspects *s, const rd_kafka_message_t *m);
/* After the last one: batches have to be smaller than that from now on; 0: they may be as large as before. */
int64_t kafka_suspects_batch_bytes(const struct kafka_suspects *s);
/* What the topic takes has become less than was known, so the guilty are known by their size: nobody else is suspected. */
void kafka_suspects_explain(struct kafka_suspects *s, const struct kafka_topic *topic);
/* What is being looked for, and how far that is. */
void kafka_suspects_describe(const struct kafka_suspects *s, char *text, size_t size);

#endif
