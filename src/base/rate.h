/* rate: how fast a count has grown over the last seconds; pure */
#ifndef PENSTOCK_BASE_RATE_H
#define PENSTOCK_BASE_RATE_H

#include <stdint.h>

#define RATE_SAMPLES 6
#define RATE_INTERVAL_US INT64_C(1000000)

/* Embedded; zero is valid. Keeps the count as it was up to RATE_SAMPLES seconds
 * ago. A copy is whole: whoever reads it says what time it is, so the rate of
 * something that hangs goes down to nothing. */
struct rate {
    uint64_t counts[RATE_SAMPLES];
    int64_t at_us[RATE_SAMPLES]; /* clock_now_us; 0: no sample yet */
    unsigned next;
};

/* As often as one likes; a sample is taken once a second. */
void rate_note(struct rate *r, uint64_t count, int64_t now_us);

/* `count` is the newest; 0 while there is too little to tell. */
double rate_per_second(const struct rate *r, uint64_t count, int64_t now_us);

#endif
