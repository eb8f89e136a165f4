/* histogram: how often something took how long, in fixed buckets; pure */
#ifndef PENSTOCK_BASE_HISTOGRAM_H
#define PENSTOCK_BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS 18 /* with a bound; what is longer than the last one is counted too */

/* Embedded; zero is valid. A copy is whole: no pointers. */
struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS + 1]; /* each by itself, not added up */
    int64_t sum_us;
};

/* The longest that bucket counts; they grow. Asserts bucket < HISTOGRAM_BUCKETS. */
int64_t histogram_bound_us(size_t bucket);

/* Less than nothing (two clocks that differ) counts as nothing. */
void histogram_add(struct histogram *h, int64_t took_us);

#endif
