/* kafka_rig: librdkafka's mock cluster, and a small forwarder before the sink, for what it does with keys and failures */
#ifndef PENSTOCK_TESTS_KAFKA_RIG_H
#define PENSTOCK_TESTS_KAFKA_RIG_H

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "sink/kafka_options.h"
#include "unit/sink_contract.h"

#define KAFKA_RIG_TOPIC "orders"
#define KAFKA_RIG_PARTITIONS 4
#define KAFKA_RIG_EVENTS_MAX 20000
#define KAFKA_RIG_PRODUCE 0 /* ApiKey of ProduceRequest */

/* Brokers in this process, on loopback. */
struct kafka_rig {
    rd_kafka_t *handle;
    rd_kafka_mock_cluster_t *mock;
    struct option_property properties[4];
    struct kafka_connection connection;
    struct sink_options options;
    struct kafka_destination own; /* the destination's options */
    struct destination destination;
    struct contract contract;
    uint64_t threads; /* without a sink's */
};

void kafka_rig_open(struct kafka_rig *k, int brokers, uint32_t in_flight);
/* Waits for what a sink doesn't wait for: the end of the library's threads. */
void kafka_rig_close(struct kafka_rig *k);
/* One more property of the connection. */
void kafka_rig_set(struct kafka_rig *k, const char *name, const char *value);

/* What a consumer finds: everything that was ever written to the topic, by partition in order. */
struct kafka_found {
    char key[64], value[64];
    bool no_key, no_value;
    char headers[512]; /* "name=value;" each */
    int32_t partition;
};
/* At most max; returns how many. Without headers for more speed: those of the first 16 only. */
size_t kafka_rig_consume(struct kafka_rig *k, const char *topic, struct kafka_found *ret_found, size_t max);

/* The small forwarder: `events` events numbered from 0, event i with key i % keys; the events of a
 * key go in order, a lost one again before those behind it, and a rejected one holds its key. */
struct kafka_drive {
    struct kafka_rig *kafka;
    struct rig rig;
    uint32_t events, keys;
    enum { PENDING, FLYING, CONFIRMED, REJECTED } state[KAFKA_RIG_EVENTS_MAX];
    uint32_t event_of[RIG_TOKENS_MAX];
    uint64_t seen; /* tokens below it have been looked at */
    uint32_t lost, rejected, confirmed, left;
    bool held[KAFKA_RIG_EVENTS_MAX]; /* by key */
    /* Called before event i is submitted; may be NULL. */
    void (*before)(struct kafka_drive *d, uint32_t i);
};

void kafka_drive_open(struct kafka_drive *d, struct kafka_rig *k, uint32_t events, uint32_t keys);
void kafka_drive_close(struct kafka_drive *d);
/* One turn: outcomes, then as many submits as are taken. */
void kafka_drive_turn(struct kafka_drive *d);
/* Until nothing is pending or on the wire but what is held. */
void kafka_drive_finish(struct kafka_drive *d, int seconds);
/* Everything that wasn't rejected or held has arrived, and by key the first arrivals are in order. */
void kafka_drive_check(struct kafka_drive *d);

#endif
