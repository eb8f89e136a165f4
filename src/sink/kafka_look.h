/* kafka_look: looks at topics in a thread that may hang: are they there, and how are they configured? */
#ifndef PENSTOCK_SINK_KAFKA_LOOK_H
#define PENSTOCK_SINK_KAFKA_LOOK_H

#include <stdint.h>

#include "base/cleanup.h"
#include "sink/kafka_topics.h"
#include "sink/sink.h"

/* Each look has an rd_kafka_t of its own, hence reads the secrets anew, disturbs
 * no producer, and asks no longer than KAFKA_LOOK_TIMEOUT_US; its thread may still
 * hang then, and is given up after a while. It never creates a topic. */
#define KAFKA_LOOK_TIMEOUT_US (10 * INT64_C(1000000))
#define KAFKA_LOOK_TOPICS_MAX 500 /* in one look */

/* Belongs to one thread. */
struct kafka_look;

/* The connection and topics are borrowed and outlive it. 0; -ENOMEM, -EMFILE. No look runs yet: kafka_look_work starts
 * them. */
int kafka_look_new(const struct sink_setup *setup, struct kafka_topics *topics, struct kafka_look **ret_look) MUST_CHECK;
/* Without any wait: a look that runs is left to its thread. */
void kafka_look_free(struct kafka_look *l);

/* poll(2) for POLLIN: a look has ended. Valid as long as l. */
int kafka_look_fd(const struct kafka_look *l);
/* When kafka_look_work wants to be called at the latest; monotonic. */
int64_t kafka_look_deadline_us(const struct kafka_look *l);
/* Takes what a look found to the topics, starts the next one if something is to be asked. */
void kafka_look_work(struct kafka_look *l, int64_t now_us);
/* When the look that runs has begun; now_us: none runs. */
int64_t kafka_look_since_us(const struct kafka_look *l, int64_t now_us);
/* Why the last look failed; NULL: it didn't, or none has ended yet. Valid until the next call. */
const char *kafka_look_reason(const struct kafka_look *l);

#endif
