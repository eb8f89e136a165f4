/* random: the numbers of one schedule, all from its seed */
#ifndef PENSTOCK_TESTS_RANDOM_H
#define PENSTOCK_TESTS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): splitmix64. */
static inline uint64_t random_next(struct random *r) {
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 to n - 1. */
static inline uint32_t random_below(struct random *r, uint32_t n) {
    return (uint32_t)((random_next(r) >> 32) * n >> 32);
}

/* low to high, both included. */
static inline uint32_t random_between(struct random *r, uint32_t low, uint32_t high) {
    return low + random_below(r, high - low + 1);
}

static inline bool random_percent(struct random *r, uint32_t percent) {
    return random_below(r, 100) < percent;
}

#endif
