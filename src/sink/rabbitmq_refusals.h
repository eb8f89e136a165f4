/* rabbitmq_refusals: pure: exchanges for which the broker closed the channel, until they are asked for again */
#ifndef PENSTOCK_SINK_RABBITMQ_REFUSALS_H
#define PENSTOCK_SINK_RABBITMQ_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/span.h"

/* RabbitMQ closes the whole channel over one publish to an exchange that is
 * missing (404) or closed to us (403), and with it everything in flight. So
 * such an exchange is remembered: a missing one until a passive declare on
 * another connection finds it, a forbidden one (which a declare can't tell)
 * for REFUSAL_DENIED_US. */
#define REFUSALS_MAX 64
#define REFUSAL_NAME_MAX 255
#define REFUSAL_PROBE_US 1000000
#define REFUSAL_PROBE_FAILED_US 2000000
#define REFUSAL_DENIED_US 30000000

struct rabbitmq_refusal {
    char name[REFUSAL_NAME_MAX + 1];
    size_t name_len;
    bool whole;  /* false: the broker cut its text, `name` is a beginning */
    bool denied; /* 403 */
    char reason[REFUSAL_NAME_MAX + 1]; /* the broker's words */
    int64_t again_us;                  /* missing: when to ask; denied: when to try */
};

/* Embedded; zero is valid. */
struct rabbitmq_refusals {
    struct rabbitmq_refusal items[REFUSALS_MAX];
    uint32_t count;
};

/* A channel was closed with this code and text. true: it names an exchange
 * that was not known as refused, and now is. false: nothing was learned, so
 * the same may happen again at once. */
bool rabbitmq_refusals_learn(struct rabbitmq_refusals *r, int code, struct span text, struct span vhost, int64_t now_us);

/* NULL, or why nothing is to be published there. A cut name becomes whole by
 * the first exchange that it fits. */
const struct rabbitmq_refusal *rabbitmq_refusals_find(struct rabbitmq_refusals *r, struct span exchange);

/* Is it forgotten only by rabbitmq_refusals_found, and due? Then it is to be asked for. */
bool rabbitmq_refusal_due(const struct rabbitmq_refusal *item, int64_t now_us);
/* When rabbitmq_refusals_due may have something new; CLOCK_NEVER if there is none. */
int64_t rabbitmq_refusals_deadline_us(const struct rabbitmq_refusals *r);
/* Forgets the denied ones whose time is over; true if a missing one is to be asked for. */
bool rabbitmq_refusals_due(struct rabbitmq_refusals *r, int64_t now_us);

/* A probe's answer. */
void rabbitmq_refusals_found(struct rabbitmq_refusals *r, struct span exchange);
/* Missing still, or (failed) the probe could not ask: when next. */
void rabbitmq_refusals_put_off(struct rabbitmq_refusals *r, int64_t now_us, bool failed);

#endif
