/* limit: lets a repeated message through rarely, with a count of what was left out; pure */
#include "base/limit.h"

bool limit_allows(struct limit *l, int64_t now_us, int64_t interval_us, uint32_t burst, uint64_t *ret_left_out) {
    if (now_us >= l->window_us) {
        l->window_us = now_us + interval_us;
        l->said = 0;
    }
    if (l->said >= burst) {
        l->left_out++;
        return false;
    }
    l->said++;
    *ret_left_out = l->left_out;
    l->left_out = 0;
    return true;
}
