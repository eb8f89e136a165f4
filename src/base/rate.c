/* rate: how fast a count has grown over the last seconds; pure */
#include "base/rate.h"

#include "base/clock.h"

/* What is older says nothing of the last seconds. */
#define SPAN_US (2 * RATE_SAMPLES * RATE_INTERVAL_US)

void rate_note(struct rate *r, uint64_t count, int64_t now_us) {
    unsigned newest = (r->next + RATE_SAMPLES - 1) % RATE_SAMPLES;
    if (r->at_us[newest] != 0 && now_us - r->at_us[newest] < RATE_INTERVAL_US)
        return;
    r->counts[r->next] = count;
    r->at_us[r->next] = now_us;
    r->next = (r->next + 1) % RATE_SAMPLES;
}

double rate_per_second(const struct rate *r, uint64_t count, int64_t now_us) {
    for (unsigned i = 0; i < RATE_SAMPLES; i++) { /* from the oldest on */
        unsigned sample = (r->next + i) % RATE_SAMPLES;
        int64_t passed_us = now_us - r->at_us[sample];
        if (r->at_us[sample] == 0 || passed_us > SPAN_US)
            continue;
        if (passed_us < RATE_INTERVAL_US / 2 || count < r->counts[sample])
            return 0;
        return (double)(count - r->counts[sample]) * (double)CLOCK_US_PER_S / (double)passed_us;
    }
    return 0;
}
