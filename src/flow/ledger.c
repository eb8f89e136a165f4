/* ledger: when the checkpoint is saved, and whether publishing is allowed */
#include "flow/ledger.h"

#include "base/clock.h"
#include "base/log.h"

void ledger_init(struct ledger *l, int64_t interval_us, uint32_t batch) {
    ASSERT(interval_us >= 0);
    *l = (struct ledger){.interval_us = interval_us, .batch = batch > 0 ? batch : 1};
    ledger_reset(l, INT64_MIN);
}

void ledger_reset(struct ledger *l, int64_t saved_position) {
    l->outstanding = false;
    l->due_us = l->retry_us = INT64_MIN;
    l->saved_position = saved_position;
}

/* When that place is due to be saved. */
static int64_t due_us(const struct ledger *l, const struct window *w, const struct window_place *place, bool urgent) {
    bool at_once = urgent || place->seq - window_saved_seq(w) >= l->batch;
    return at_once || l->due_us < l->retry_us ? l->retry_us : l->due_us;
}

bool ledger_next(struct ledger *l, struct window *w, int64_t now_us, bool urgent, struct window_place *ret_place) {
    struct window_place place;
    if (l->outstanding || !window_savable(w, &place) || due_us(l, w, &place, urgent) > now_us)
        return false;
    ASSERT(place.seq >= window_saved_seq(w));
    l->outstanding = true;
    l->saving = place;
    l->due_us = now_us + l->interval_us;
    window_saving(w, &place);
    *ret_place = place;
    return true;
}

int64_t ledger_deadline_us(const struct ledger *l, const struct window *w, bool urgent) {
    struct window_place place;
    if (l->outstanding || !window_savable(w, &place))
        return CLOCK_NEVER;
    return due_us(l, w, &place, urgent);
}

bool ledger_is_even(const struct ledger *l, const struct window *w) {
    struct window_place place;
    return !l->outstanding && !window_savable(w, &place);
}

void ledger_saved(struct ledger *l, struct window *w) {
    ASSERT(l->outstanding);
    ASSERT(l->saving.position >= l->saved_position);
    l->outstanding = false;
    l->retry_us = INT64_MIN;
    l->saved_position = l->saving.position;
    window_saved(w, &l->saving);
}

void ledger_failed(struct ledger *l, struct window *w, int64_t now_us) {
    ASSERT(l->outstanding);
    l->outstanding = false;
    l->retry_us = now_us + l->interval_us;
    window_not_saved(w, &l->saving);
}

bool ledger_may_publish(const struct ledger *l, int64_t now_us) {
    (void)l;
    (void)now_us;
    return true;
}
