/* forwarder: one thread that joins source, rules, flow, sink and checkpoint to the world */
#ifndef PENSTOCK_FORWARDER_FORWARDER_H
#define PENSTOCK_FORWARDER_FORWARDER_H

#include "base/guard.h"
#include "flow/flow.h"
#include "forwarder/stats.h"
#include "rule/rule.h"
#include "sink/sink.h"
#include "source/source.h"

enum forwarder_policy { FORWARDER_POLICY_HOLD, FORWARDER_POLICY_SKIP };

/* All borrowed; immutable and longer-lived than the forwarder. */
struct forwarder_options {
    const char *name;
    const char *source_connection_name;
    const struct pgconn_options *database;
    const struct source_options *source;
    struct row_options row;
    const struct filter *filter; /* of the subscription; NULL: all */
    const char *checkpoint_schema;
    bool checkpoint_create;
    const char *listen; /* the channel whose notifications end a wait; NULL: none */
    const char *owner; /* this instance (base/instance.h) */
    int64_t lease_us;
    const char *sink_connection_name;
    const struct sink_kind *sink_kind;
    const void *sink_connection;
    const void *sink_options; /* begins with struct sink_options */
    const struct rule_set *rules;
    const char *order_attribute; /* FLOW_BY_KEY */
    enum forwarder_policy on_unmatched; /* what is rejected is held, until parking exists */
    struct flow_options flow; /* without seed */
    int ended_fd;             /* an eventfd, written once when the thread ends */
};

struct forwarder;

/* Starts the thread. 0; -ENOMEM; -EAGAIN. */
int forwarder_start(const struct forwarder_options *options, struct forwarder **ret_forwarder) MUST_CHECK;

/* Main thread. Asks for a clean stop until the deadline (monotonic); does not wait. 0;
 * -EAGAIN: the mailbox is full, since it does not turn: ask again. */
int forwarder_stop(struct forwarder *f, int64_t deadline_us) MUST_CHECK;

struct mail;
/* Main thread. Hands an operator's command over; its answer comes in the snapshot.
 * 0; -ENOBUFS: too many lie there, nothing was handed over. */
int forwarder_command(struct forwarder *f, const struct mail *mail) MUST_CHECK;

enum forwarder_end {
    FORWARDER_RUNNING,
    FORWARDER_ENDED_CLEAN,
    FORWARDER_ENDED_LATE, /* events that had started will be sent again */
};
/* Has its thread ended? */
enum forwarder_end forwarder_ended(const struct forwarder *f);
/* Joins and frees. Asserts that it has ended. */
void forwarder_free(struct forwarder *f);

/* Any thread: copies. */
void forwarder_copy_stats(struct forwarder *f, struct forwarder_stats *ret_stats);
/* Monotonic time of the last turn of its loop: feeds the watchdog. */
int64_t forwarder_tick_us(const struct forwarder *f);
struct guard *forwarder_guard(struct forwarder *f);

#endif
