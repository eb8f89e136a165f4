/* kafka_gate: pure: what everything waits for, shortly, and from then on only what goes there */
#ifndef PENSTOCK_SINK_KAFKA_GATE_H
#define PENSTOCK_SINK_KAFKA_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "sink/kafka_options.h"

/* A topic that has to be looked at, or a partition that has to confirm, is mostly
 * a matter of milliseconds: then it is cheaper to wait than to let an event try
 * again later. But one that takes longer must hold no other. */
enum kafka_gate_state { KAFKA_GATE_OPEN, KAFKA_GATE_TOPIC, KAFKA_GATE_PARTITION };

/* Embedded. */
struct kafka_gate {
    enum kafka_gate_state state;
    int64_t until_us;
    char topic[KAFKA_TOPIC_MAX];
    size_t topic_len;
    int64_t shut_us;   /* for a topic, since when */
    int64_t opened_us; /* and the last time until when */
    int64_t budget_us; /* how long it could have stayed so then */
    uint32_t place;
    bool warm;
    int64_t patience_us;
};

/* For a look at topics. All looks together may cost no more than half of the time, once so much is spent: where
 * thousands of topics come one after the other, what goes to a new one tries again instead, and one look takes many. */
#define KAFKA_GATE_LOOK_US INT64_C(500000)
/* Less is not worth a wait. */
#define KAFKA_GATE_LOOK_LEAST_US INT64_C(100000)
/* For a partition's first confirm, which keeps a start quick: twice as long as the one before took, within these; and
 * each time that it was in vain, half as long as before. */
#define KAFKA_GATE_LEAST_US INT64_C(100000)
#define KAFKA_GATE_MOST_US INT64_C(500000)
/* For one that has its share of what may be in flight: it stands when it has confirmed nothing for so long. */
#define KAFKA_GATE_STANDS_US INT64_C(1000000)

/* A new instance of the producer. */
void kafka_gate_reset(struct kafka_gate *g, int64_t now_us);
bool kafka_gate_is_open(const struct kafka_gate *g);
/* true: shut, everything waits. false: that has waited for too long already (it is open). */
bool kafka_gate_await_topic(struct kafka_gate *g, struct span topic, int64_t since_us, int64_t now_us);
bool kafka_gate_await_partition(struct kafka_gate *g, uint32_t place, bool warm, int64_t since_us, int64_t now_us);
/* The topic that is waited for; absent: none is. */
struct span kafka_gate_topic(const struct kafka_gate *g);
void kafka_gate_topic_known(struct kafka_gate *g, int64_t now_us);
/* A confirm; `warm`: it was not the first one of its partition, for which something waited since. */
void kafka_gate_confirmed(struct kafka_gate *g, uint32_t place, bool warm, int64_t since_us, int64_t now_us);
/* Opens it when its time has come. */
void kafka_gate_turn(struct kafka_gate *g, int64_t now_us);
int64_t kafka_gate_deadline_us(const struct kafka_gate *g); /* CLOCK_NEVER: it is open */

#endif
