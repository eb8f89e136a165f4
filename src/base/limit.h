/* limit: lets a repeated message through rarely, with a count of what was left out; pure */
#ifndef PENSTOCK_BASE_LIMIT_H
#define PENSTOCK_BASE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* Embedded; zero is valid. */
struct limit {
    int64_t window_us; /* when the running interval ends */
    uint32_t said;     /* in it */
    uint64_t left_out;
};

/* true: say it now; *ret_left_out is how often it was not said since the last
 * time. At most `burst` messages an interval. */
bool limit_allows(struct limit *l, int64_t now_us, int64_t interval_us, uint32_t burst, uint64_t *ret_left_out);

#endif
