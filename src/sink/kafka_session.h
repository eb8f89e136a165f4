/* kafka_session: what happens with one instance of the producer: publishes, reports, stalls, and its end */
#ifndef PENSTOCK_SINK_KAFKA_SESSION_H
#define PENSTOCK_SINK_KAFKA_SESSION_H

#include "sink/kafka_burst.h"
#include "sink/kafka_gate.h"
#include "sink/kafka_look.h"
#include "sink/kafka_message.h"
#include "sink/kafka_options.h"
#include "sink/kafka_partitioner.h"
#include "sink/kafka_partitions.h"
#include "sink/kafka_producer.h"
#include "sink/kafka_suspects.h"
#include "sink/kafka_tokens.h"
#include "sink/kafka_topics.h"
#include "sink/sink.h"

/* An instance that has lived so long was no failed attempt. */
#define KAFKA_SESSION_STEADY_US (5 * INT64_C(1000000))

/* Embedded in the sink; one thread. A report that says no ends the instance:
 * nothing is submitted any more, the rest of the reports is waited for (not
 * long), and what isn't confirmed is lost, to be submitted again in its order. */
struct kafka_session {
    const struct sink_options *options;
    struct kafka_topics *topics;   /* borrowed, like */
    const struct kafka_look *look; /* what learns of them */
    struct kafka_producer *producer; /* NULL: down */
    int64_t up_since_us;
    bool more_to_read;
    struct kafka_burst burst;

    struct kafka_tokens *tokens;
    struct kafka_message message;
    const struct kafka_partitioner *partitioner;
    int32_t turn; /* messages without a key go to one partition for one turn of the forwarder */
    struct kafka_partitions *partitions;
    struct kafka_gate gate;
    struct error lost; /* why */

    bool failing;
    struct error failure; /* the first one of the instance */
    bool planned;         /* the next instance is no attempt: it is known what it has to do differently */
    uint32_t failed;      /* reports that said no; their tokens are still open */
    int64_t give_up_us;   /* failing: when the rest of the reports is waited for no longer */

    struct kafka_suspects suspects;
    int64_t batch_bytes; /* larger ones were refused; 0: none was */

    bool stalled; /* the oldest token has waited for ack_timeout */
    int64_t stalled_since_us; /* when it was published */
    int64_t away_since_us; /* no broker is reached; CLOCK_NEVER: one was since */
    bool unwanted;     /* the broker refuses our secrets, or its certificate can't be trusted */
    struct error word; /* librdkafka's last about what goes wrong; class ERROR_NONE: none */
    char stall_reason[2 * ERROR_TEXT_MAX];
    bool searching; /* there are suspects, and something is under way or was just now */
    int64_t searched_us;
    char search_reason[2 * ERROR_TEXT_MAX];
};

/* topics, look: borrowed. 0; -ENOMEM. */
int kafka_session_init(struct kafka_session *s, const struct sink_setup *setup, struct kafka_topics *topics,
                       const struct kafka_look *look) MUST_CHECK;
void kafka_session_done(struct kafka_session *s); /* the instance is down */

void kafka_session_up(struct kafka_session *s, int64_t now_us, struct kafka_producer *producer);
bool kafka_session_is_up(const struct kafka_session *s);
/* Open tokens are lost; the instance is the caller's. */
struct kafka_producer *kafka_session_down(struct kafka_session *s, const struct error *why) MUST_CHECK;

/* Reads what was reported. 0; -ECONNRESET with *reterr: the instance has come to its end. */
int kafka_session_work(struct kafka_session *s, int64_t now_us, struct error *reterr) MUST_CHECK;
int64_t kafka_session_deadline_us(const struct kafka_session *s);

bool kafka_session_ready(const struct kafka_session *s);
/* Asserts ready. 0, SINK_E_…, -ENOMEM. */
int kafka_session_publish(struct kafka_session *s, const struct event *e, const struct destination *d, uint64_t token,
                          int64_t now_us, struct error *reterr) MUST_CHECK;

/* After a batch of submits. */
void kafka_session_flush(struct kafka_session *s);

bool kafka_session_next(struct kafka_session *s, struct sink_outcome *ret_outcome);

#endif
