/* histogram: how often something took how long, in fixed buckets; pure */
#include "base/histogram.h"

#include <assert.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

/* From a broker in the same rack to a night without one. */
static const int64_t bounds_us[] = {
    500,
    1 * CLOCK_US_PER_MS,
    2500,
    5 * CLOCK_US_PER_MS,
    10 * CLOCK_US_PER_MS,
    25 * CLOCK_US_PER_MS,
    50 * CLOCK_US_PER_MS,
    100 * CLOCK_US_PER_MS,
    250 * CLOCK_US_PER_MS,
    500 * CLOCK_US_PER_MS,
    1 * CLOCK_US_PER_S,
    2500 * CLOCK_US_PER_MS,
    5 * CLOCK_US_PER_S,
    10 * CLOCK_US_PER_S,
    30 * CLOCK_US_PER_S,
    60 * CLOCK_US_PER_S,
    300 * CLOCK_US_PER_S,
    1800 * CLOCK_US_PER_S,
};
static_assert(ARRAY_LENGTH(bounds_us) == HISTOGRAM_BUCKETS, "one bound per bucket");

int64_t histogram_bound_us(size_t bucket) {
    ASSERT(bucket < HISTOGRAM_BUCKETS);
    return bounds_us[bucket];
}

/* The first whose bound is not below; HISTOGRAM_BUCKETS without one. By halves: each event asks. */
static size_t bucket_of(int64_t took_us) {
    size_t low = 0, high = HISTOGRAM_BUCKETS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (took_us > bounds_us[middle])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void histogram_add(struct histogram *h, int64_t took_us) {
    if (took_us < 0)
        took_us = 0;
    h->counts[bucket_of(took_us)]++;
    h->sum_us = took_us > INT64_MAX - h->sum_us ? INT64_MAX : h->sum_us + took_us;
}
