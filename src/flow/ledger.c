/* ledger: when the checkpoint is saved, and whether publishing is allowed */
#include "flow/ledger.h"

#include "base/clock.h"
#include "base/log.h"

/* What the clocks of two machines may differ in while a lease lasts, and what a message may take from the last look at
 * the clock to the broker's socket. */
#define MARGIN_OF(lease_us) ((lease_us) / 10)
/* One that failed is tried again at least so often before the end. */
#define EXTEND_TRIES 16

void ledger_init(struct ledger *l, int64_t interval_us, uint32_t batch, int64_t lease_us) {
    ASSERT(interval_us >= 0);
    ASSERT(lease_us >= 0);
    *l = (struct ledger){.interval_us = interval_us, .batch = batch > 0 ? batch : 1, .lease_us = lease_us};
    ledger_reset(l, INT64_MIN);
}

void ledger_reset(struct ledger *l, int64_t saved_position) {
    l->outstanding = l->leased = l->extending = false;
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
    l->saving_us = now_us;
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
    return !l->outstanding && !l->extending && !window_savable(w, &place);
}

void ledger_saved(struct ledger *l, struct window *w) {
    ASSERT(l->outstanding);
    ASSERT(l->saving.position >= l->saved_position);
    l->outstanding = false;
    l->leased_us = l->saving_us;
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

void ledger_leased(struct ledger *l, int64_t since_us) {
    l->leased = true;
    l->leased_us = since_us;
    l->extend_retry_us = INT64_MIN;
}

static bool extends(const struct ledger *l) {
    return l->lease_us > 0 && l->leased && !l->extending && !l->outstanding;
}

static int64_t extend_due_us(const struct ledger *l) {
    int64_t half_us = l->leased_us + l->lease_us / 2;
    return half_us > l->extend_retry_us ? half_us : l->extend_retry_us;
}

bool ledger_extend(struct ledger *l, int64_t now_us) {
    if (!extends(l) || now_us < extend_due_us(l))
        return false;
    l->extending = true;
    l->extending_us = now_us;
    return true;
}

void ledger_extended(struct ledger *l) {
    ASSERT(l->extending);
    l->extending = false;
    if (l->extending_us > l->leased_us)
        l->leased_us = l->extending_us;
    l->extend_retry_us = INT64_MIN;
}

void ledger_not_extended(struct ledger *l, int64_t now_us) {
    ASSERT(l->extending);
    l->extending = false;
    l->extend_retry_us = now_us + l->lease_us / EXTEND_TRIES;
}

static int64_t end_us(const struct ledger *l) {
    return l->leased_us + l->lease_us - MARGIN_OF(l->lease_us);
}

int64_t ledger_lease_deadline_us(const struct ledger *l) {
    if (l->lease_us == 0 || !l->leased)
        return CLOCK_NEVER;
    return extends(l) && extend_due_us(l) < end_us(l) ? extend_due_us(l) : end_us(l);
}

bool ledger_may_publish(const struct ledger *l, int64_t now_us) {
    return l->lease_us == 0 || (l->leased && now_us < end_us(l));
}
