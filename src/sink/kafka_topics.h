/* kafka_topics: pure: what is known of topics, which to look at next, and what of it users should hear */
#ifndef PENSTOCK_SINK_KAFKA_TOPICS_H
#define PENSTOCK_SINK_KAFKA_TOPICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/span.h"
#include "sink/sink.h"

/* librdkafka learns of a missing topic, or of one that takes smaller messages,
 * only by failing a whole batch. So topics are looked at before anything is
 * published there: what the rules name at the start, what templates name when
 * the first event goes there, and all that are in use every KAFKA_TOPICS_FRESH_US. */
#define KAFKA_TOPICS_MAX 10000 /* beyond it, what was not asked for the longest is forgotten */
#define KAFKA_TOPICS_REASON_MAX 160
#define KAFKA_TOPICS_FRESH_US (300 * INT64_C(1000000))
/* One whose configuration can't be read. */
#define KAFKA_TOPICS_UNDESCRIBED_US (60 * INT64_C(1000000))
/* One that may be seen but not written to: a look can't tell, so it is tried again after the first; each time that this
 * was in vain after twice as long, up to the second. */
#define KAFKA_TOPICS_REFUSED_US (30 * INT64_C(1000000))
#define KAFKA_TOPICS_REFUSED_MAX_US (300 * INT64_C(1000000))
/* What was found so long ago is no reason to reject an event, or to explain why a partition stands. */
#define KAFKA_TOPICS_STALE_US (3 * INT64_C(1000000))
/* One that nothing can be published to is asked for again after the first, then ever later up to the second. */
#define KAFKA_TOPICS_AGAIN_US INT64_C(500000)
#define KAFKA_TOPICS_AGAIN_MAX_US INT64_C(5000000)

enum kafka_topic_state {
    KAFKA_TOPIC_FIT,
    KAFKA_TOPIC_MISSING, /* or being made right now */
    KAFKA_TOPIC_REFUSED, /* may not be seen, which hides whether it is there; or not be written to */
};

/* What a look found. */
struct kafka_topic {
    struct span name;
    int64_t looked_us; /* when that was; given by kafka_topics */
    enum kafka_topic_state state;
    char reason[KAFKA_TOPICS_REASON_MAX]; /* the broker's words; FIT: why it is not `described`, or empty */
    /* FIT: */
    int32_t partitions;
    int32_t replicas;   /* of the partition that has the fewest */
    int32_t in_sync;    /* replicas, of the partition that has the fewest */
    int32_t leaderless; /* partitions without a leader */
    bool forbidden;   /* its configuration may not be read; neither this nor `described`: nothing was answered */
    bool described;   /* its configuration could be read, else the rest is 0 and not known: */
    int64_t max_message_bytes;
    int32_t min_insync;
    bool compacted;
};

/* Belongs to one thread. */
struct kafka_topics;

/* Copies what it needs of setup. 0; -ENOMEM. */
int kafka_topics_new(const struct sink_setup *setup, struct kafka_topics **ret_topics) MUST_CHECK;
void kafka_topics_free(struct kafka_topics *t);

/* NULL: not known yet; it is now among those that the next look asks for.
 * Valid until the next call that changes t. A name of 1 to KAFKA_TOPIC_MAX bytes. */
const struct kafka_topic *kafka_topics_find(struct kafka_topics *t, struct span name, int64_t now_us);
/* The broker said something else than the last look (the topic was deleted, its limit lowered, a right taken):
 * what is known of it is forgotten, and it is looked at anew, at most every KAFKA_TOPICS_AGAIN_US. */
void kafka_topics_doubt(struct kafka_topics *t, struct span name, int64_t now_us);
/* It is looked at anew, at most every KAFKA_TOPICS_STALE_US, and not while it is refused; until then what is known of it
 * stays. */
void kafka_topics_review(struct kafka_topics *t, struct span name, int64_t now_us);
/* A publish failed because we may not write there: it is KAFKA_TOPIC_REFUSED from KAFKA_TOPICS_REFUSED_US up, for that
 * reason, whatever looks find. */
void kafka_topics_refuse(struct kafka_topics *t, struct span name, const char *reason, int64_t now_us);
/* All topics that the rules name have been looked at (whatever came of it). */
bool kafka_topics_ready(const struct kafka_topics *t);
/* None that was doubted waits for its look. */
bool kafka_topics_certain(const struct kafka_topics *t);
/* The least max_message_bytes that is known of a fit topic; 0: of none. */
int64_t kafka_topics_smallest_limit(const struct kafka_topics *t);
/* true: *ret_notice is the next thing to say, said again only when it changes. Text valid until the next call. */
bool kafka_topics_notice(struct kafka_topics *t, struct sink_notice *ret_notice);

/* For kafka_look. -------------------------------------------------------- */

/* When kafka_topics_pick has something to ask for, and not before; CLOCK_NEVER: nothing. */
int64_t kafka_topics_deadline_us(const struct kafka_topics *t);
/* The names to ask for now, at most max; borrowed until the next call that changes t. Returns how many. */
uint32_t kafka_topics_pick(const struct kafka_topics *t, int64_t now_us, struct span *ret_names, uint32_t max);
/* What a look found, in a cluster of `brokers` that are up. */
void kafka_topics_learn(struct kafka_topics *t, const struct kafka_topic *found, uint32_t count, uint32_t brokers,
                        int64_t now_us);

#endif
