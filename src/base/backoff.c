/* backoff: capped, jittered, exponential waits; pure (the seed is handed in) */
#include "base/backoff.h"

static uint64_t next_random(uint64_t *state) {
    /* Marsaglia, "Xorshift RNGs" (2003), the 13/7/17 triple. */
    uint64_t x = *state ? *state : UINT64_C(0x9e3779b97f4a7c15);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x;
}

static int64_t jitter(int64_t delay_us, uint64_t *random) {
    int64_t half = delay_us / 2;
    if (half <= 0)
        return delay_us;
    return delay_us - (int64_t)(next_random(random) % (uint64_t)half);
}

static int64_t grow(int64_t delay_us, const struct backoff_options *options) {
    double grown = (double)delay_us * options->multiplier;
    return grown >= (double)options->max_us ? options->max_us : (int64_t)grown;
}

void backoff_init(struct backoff *b, const struct backoff_options *options, uint64_t seed) {
    *b = (struct backoff){.options = *options, .next_us = options->initial_us, .random = seed ? seed : 1};
}

int64_t backoff_next_us(struct backoff *b) {
    int64_t delay_us = b->next_us;
    b->next_us = grow(delay_us, &b->options);
    if (b->attempts < UINT32_MAX)
        b->attempts++;
    return jitter(delay_us, &b->random);
}

void backoff_reset(struct backoff *b) {
    b->next_us = b->options.initial_us;
    b->attempts = 0;
}

int64_t backoff_delay_us(const struct backoff_options *options, uint32_t attempt, uint64_t *random) {
    int64_t delay_us = options->initial_us, before_us = 0;
    /* By a multiplier near 1 a short wait never grows, whatever the attempt. */
    for (uint32_t i = 1; i < attempt && delay_us < options->max_us && delay_us != before_us; i++) {
        before_us = delay_us;
        delay_us = grow(delay_us, options);
    }
    return jitter(delay_us, random);
}
