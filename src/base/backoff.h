/* backoff: capped, jittered, exponential waits; pure (the seed is handed in) */
#ifndef PENSTOCK_BASE_BACKOFF_H
#define PENSTOCK_BASE_BACKOFF_H

#include <stdint.h>

struct backoff_options {
    int64_t initial_us;
    int64_t max_us;
    double multiplier; /* >= 1 */
};

/* Embedded. */
struct backoff {
    struct backoff_options options;
    int64_t next_us;
    uint64_t random; /* xorshift state, never 0 */
    uint32_t attempts;
};

void backoff_init(struct backoff *b, const struct backoff_options *options, uint64_t seed);

/* The wait before the next attempt: in (d/2, d], where d doubles (by
 * multiplier) from initial to max with each call. */
int64_t backoff_next_us(struct backoff *b);

/* After a success: the next wait is `initial` again. */
void backoff_reset(struct backoff *b);

/* The wait before attempt number `attempt` (from 1), for callers that keep
 * only a counter per item; jittered with *random (xorshift64, updated). */
int64_t backoff_delay_us(const struct backoff_options *options, uint32_t attempt, uint64_t *random);

#endif
