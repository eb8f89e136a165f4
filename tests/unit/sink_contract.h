/* sink_contract: what every kind of sink has to keep, whatever it publishes to */
#ifndef PENSTOCK_TESTS_SINK_CONTRACT_H
#define PENSTOCK_TESTS_SINK_CONTRACT_H

#include "sink/sink.h"

#define RIG_TOKENS_MAX 100000

/* One kind with what it needs. `drain` takes away what the sink wrote; may be NULL. */
struct contract {
    const struct sink_kind *kind;
    const void *connection;
    const struct sink_options *options;
    const struct destination *destination;
    uint32_t in_flight;
    void (*drain)(void);
};

/* A sink being driven: which token got which outcome, and how often. */
struct rig {
    const struct contract *contract;
    struct sink *sink;
    struct guard *guard;
    struct event event;
    uint8_t outcomes[RIG_TOKENS_MAX]; /* how many, by token */
    uint8_t last[RIG_TOKENS_MAX];     /* enum sink_outcome_kind */
    uint64_t accepted, answered, by_kind[SINK_REJECTED + 1];
    char reason[ERROR_TEXT_MAX]; /* of the last one that was no confirm */
    struct error refusal;        /* of the last submit */
};

void rig_open(struct rig *r, const struct contract *c);
void rig_close(struct rig *r);

/* A small event with `data` as text. */
void rig_event(struct rig *r, struct span data);

/* One turn of a forwarder's loop: waits for the sink's descriptors or its deadline, works, takes outcomes. */
void rig_turn(struct rig *r, int64_t deadline_us);
/* Turns until `done` says so; fails the test after `seconds`. */
void rig_until(struct rig *r, bool (*done)(const struct rig *), int seconds, const char *what);
bool rig_connected(const struct rig *r);
bool rig_all_answered(const struct rig *r);

/* Submits the event as token number `accepted`. */
int rig_submit(struct rig *r);
int rig_submit_to(struct rig *r, const struct destination *d);
/* Submits n, taking turns while the sink is busy. */
void rig_publish(struct rig *r, uint64_t n);

/* The contract: each is one test. */
struct contract_clause {
    const char *name;
    void (*check)(const struct contract *c);
};
extern const struct contract_clause contract_clauses[];
extern const int contract_clause_count;

#endif
