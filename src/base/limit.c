/* limit: lets a repeated message through rarely, with a count of what was left out; pure */
#include "base/limit.h"

bool limit_allows(struct limit *l, int64_t now_us, int64_t interval_us, uint64_t *ret_left_out) {
    if (now_us < l->next_us) {
        l->left_out++;
        return false;
    }
    *ret_left_out = l->left_out;
    l->left_out = 0;
    l->next_us = now_us + interval_us;
    return true;
}
