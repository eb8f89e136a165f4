/* demand: when the source is asked for the next page */
#include "flow/demand.h"

#include "base/log.h"

void demand_init(struct demand *d, int64_t poll_min_us, int64_t poll_max_us) {
    ASSERT(poll_min_us > 0);
    ASSERT(poll_max_us >= poll_min_us);
    *d = (struct demand){.poll_min_us = poll_min_us, .poll_max_us = poll_max_us};
}

void demand_reset(struct demand *d, int64_t now_us) {
    demand_init(d, d->poll_min_us, d->poll_max_us);
    d->due_us = now_us;
}

void demand_ask(struct demand *d, uint32_t events) {
    ASSERT(!d->reading);
    ASSERT(events > 0);
    d->reading = true;
    d->asked = events;
    d->brought_rows = false;
    d->woken = false;
}

void demand_event(struct demand *d) {
    ASSERT(d->reading);
    ASSERT(d->asked > 0);
    d->asked--;
    d->brought_rows = true;
}

void demand_rows(struct demand *d, uint32_t rows) {
    ASSERT(d->reading);
    d->brought_rows |= rows > 0;
}

static int64_t doubled(const struct demand *d) {
    if (d->wait_us == 0)
        return d->poll_min_us;
    return d->wait_us > d->poll_max_us / 2 ? d->poll_max_us : 2 * d->wait_us;
}

void demand_done(struct demand *d, int64_t now_us, bool caught_up) {
    ASSERT(d->reading);
    d->reading = false;
    d->caught_up = caught_up;
    d->starved = !caught_up && !d->brought_rows;
    if (d->woken || (d->brought_rows && !caught_up))
        d->wait_us = 0;
    else
        d->wait_us = d->brought_rows ? d->poll_min_us : doubled(d);
    d->due_us = now_us + d->wait_us;
}

void demand_wake(struct demand *d, int64_t now_us) {
    d->woken = d->reading;
    d->wait_us = 0;
    if (d->due_us > now_us)
        d->due_us = now_us;
}

void demand_window_empty(struct demand *d, int64_t now_us) {
    if (d->starved && d->due_us > now_us)
        d->due_us = now_us;
    d->starved = false;
}
