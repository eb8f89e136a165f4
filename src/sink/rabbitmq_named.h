/* rabbitmq_named: pure: exchanges and queues that the rules name: which to ask for, and what users hear of them */
#ifndef PENSTOCK_SINK_RABBITMQ_NAMED_H
#define PENSTOCK_SINK_RABBITMQ_NAMED_H

#include <stdint.h>

#include "sink/sink.h"

#define RABBITMQ_NAME_MAX 255 /* AMQP's short string */
#define RABBITMQ_QUESTIONS_MAX 64

/* What the broker is asked for on a connection of its own (sink/rabbitmq_connect.h), and what it said. Plain data. */
struct rabbitmq_question {
    char name[RABBITMQ_NAME_MAX + 1];
    size_t name_len;
    bool queue; /* else an exchange */
    bool found;
    uint16_t code; /* of its refusal, */
    char reason[RABBITMQ_NAME_MAX + 1]; /* and its words */
};

struct rabbitmq_probe {
    uint32_t count;
    struct rabbitmq_question questions[RABBITMQ_QUESTIONS_MAX];
};

/* Asserts that there is room, and that the name fits. */
struct rabbitmq_question *rabbitmq_probe_add(struct rabbitmq_probe *p, struct span name, bool queue);

/* The exchanges of all rules, and the queues that the default exchange is given by
 * name: a publish would learn of a missing one at the price of the whole channel.
 * Bindings can't be asked for over AMQP. */
struct rabbitmq_named;

/* 0; -ENOMEM. Borrows the names of setup. */
int rabbitmq_named_new(const struct sink_setup *setup, struct rabbitmq_named **ret_named) MUST_CHECK;
void rabbitmq_named_free(struct rabbitmq_named *n);

/* All have been answered. */
bool rabbitmq_named_looked(const struct rabbitmq_named *n);
/* Adds those that were not, as many as there is room for. */
void rabbitmq_named_ask(const struct rabbitmq_named *n, struct rabbitmq_probe *p);
/* Something of another probe, which is not among them, is ignored. */
void rabbitmq_named_learn(struct rabbitmq_named *n, const struct rabbitmq_question *answered);
/* true: *ret_notice is the next thing to say, said again only when it changes. Text valid until the next call. */
bool rabbitmq_named_notice(struct rabbitmq_named *n, const char *vhost, struct sink_notice *ret_notice);

#endif
