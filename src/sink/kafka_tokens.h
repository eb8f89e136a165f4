/* kafka_tokens: pure: what librdkafka has and hasn't reported yet, by tag, and outcomes in the order of the reports */
#ifndef PENSTOCK_SINK_KAFKA_TOKENS_H
#define PENSTOCK_SINK_KAFKA_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Reports come one for each message, in any order: a partition may stand for
 * hours while others go on. A tag is used again once its outcome was taken, so
 * it must not be reported twice. No allocation after new. One thread. */
struct kafka_tokens;

enum kafka_token_outcome { KAFKA_TOKEN_CONFIRMED, KAFKA_TOKEN_REJECTED, KAFKA_TOKEN_LOST };

/* 0; -ENOMEM. */
int kafka_tokens_new(uint32_t in_flight_max, struct kafka_tokens **ret_tokens) MUST_CHECK;
void kafka_tokens_free(struct kafka_tokens *t); /* NULL is fine */

/* How many more may be published: open tokens and outcomes not yet taken count together. */
uint32_t kafka_tokens_room(const struct kafka_tokens *t);
/* The tag of the next publish, never 0. Asserts room. */
uint64_t kafka_tokens_next_tag(const struct kafka_tokens *t);
void kafka_tokens_publish(struct kafka_tokens *t, uint64_t token, uint32_t place, int64_t now_us);
/* Where it went. Asserts that it is open. */
uint32_t kafka_tokens_place(const struct kafka_tokens *t, uint64_t tag);

/* Asserts that it is open. */
void kafka_tokens_confirm(struct kafka_tokens *t, uint64_t tag);
void kafka_tokens_reject(struct kafka_tokens *t, uint64_t tag);
/* Every open one, in the order of the publishes. */
void kafka_tokens_lose(struct kafka_tokens *t);

/* true: an outcome. */
bool kafka_tokens_next(struct kafka_tokens *t, uint64_t *ret_token, enum kafka_token_outcome *ret_outcome);

uint32_t kafka_tokens_open(const struct kafka_tokens *t);
uint32_t kafka_tokens_answered(const struct kafka_tokens *t); /* outcomes that kafka_tokens_next has still to give */
/* The one that has been open the longest; false: none is. */
bool kafka_tokens_oldest(const struct kafka_tokens *t, uint32_t *ret_place, int64_t *ret_published_us);

#endif
