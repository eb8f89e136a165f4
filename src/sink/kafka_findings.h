/* kafka_findings: pure: what of a topic users should hear, and in which words */
#ifndef PENSTOCK_SINK_KAFKA_FINDINGS_H
#define PENSTOCK_SINK_KAFKA_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "sink/kafka_topics.h"
#include "sink/sink.h"

/* In the order in which they are said. */
enum kafka_finding {
    KAFKA_THERE_NOW, /* after MISSING or REFUSED */
    KAFKA_MISSING,
    KAFKA_REFUSED,
    KAFKA_UNDESCRIBED,      /* its configuration can't be read */
    KAFKA_SMALL_LIMIT,      /* it takes less than our max_message_bytes, and one of them is not the default */
    KAFKA_ONE_COPY,         /* one replica, though there are several brokers */
    KAFKA_ONE_IN_SYNC,      /* several replicas, but it confirms what one of them has */
    KAFKA_COMPACTED,        /* an event without data is a tombstone */
    KAFKA_OTHER_PARTITIONS, /* than when last looked at */
};
#define KAFKA_FOUND(finding) (1u << (finding))
#define KAFKA_FINDINGS_OF_STATE (KAFKA_FOUND(KAFKA_MISSING) | KAFKA_FOUND(KAFKA_REFUSED))
/* Not known of a topic that is not `described`. */
#define KAFKA_FINDINGS_OF_CONFIGURATION \
    (KAFKA_FOUND(KAFKA_SMALL_LIMIT) | KAFKA_FOUND(KAFKA_ONE_IN_SYNC) | KAFKA_FOUND(KAFKA_COMPACTED))

/* What a topic is seen against, and how Kafka's own tools reach it. Plain data. */
struct kafka_cluster {
    uint32_t brokers; /* the most that were seen up at once */
    int64_t max_message_bytes; /* of the sink */
    char tools[512];           /* "--bootstrap-server k1:9092,k2:9092" */
    char principal[128];       /* "User:NAME" */
};

void kafka_findings_init(struct kafka_cluster *cluster, const struct sink_setup *setup);

/* Those that a single look can show: bits of KAFKA_FOUND. */
unsigned kafka_findings_of(const struct kafka_cluster *cluster, const struct kafka_topic *topic);

/* The longest: a name and the tools twice, a reason, a principal, and our words. */
#define KAFKA_FINDINGS_TEXT_MAX 2048
/* One of them as a sentence; returns whether it is a warning. */
bool kafka_findings_say(const struct kafka_cluster *cluster, const struct kafka_topic *topic, int32_t partitions_before,
                        enum kafka_finding finding, char text[KAFKA_FINDINGS_TEXT_MAX]);

/* Why a partition of it may confirm nothing. topic: what is known of it; may be NULL. word: what librdkafka said last;
 * NULL: nothing. It is logged when it changes, so nothing in it changes all the time. */
void kafka_findings_stand(const struct kafka_topic *topic, const char *word, char *text, size_t size);

#endif
