/* demand: when the source is asked for the next page */
#ifndef PENSTOCK_FLOW_DEMAND_H
#define PENSTOCK_FLOW_DEMAND_H

#include <stdbool.h>
#include <stdint.h>

/* One read at a time. A page that was full is followed at once, one that
 * brought rows after poll_min, and an empty one by twice the last wait, up to
 * poll_max. Embedded. */
struct demand {
    int64_t poll_min_us, poll_max_us;
    int64_t wait_us;    /* the last wait */
    int64_t due_us;     /* of the next page */
    uint32_t asked;     /* events that may still come of the page under way */
    bool reading;
    bool brought_rows;  /* the page under way */
    bool caught_up;     /* the last page */
    bool starved;       /* it brought nothing though more was there: the next row is too large for what was free */
    bool woken;         /* while it was under way */
};

void demand_init(struct demand *d, int64_t poll_min_us, int64_t poll_max_us);
/* The source is ready (again): the first page is due now. */
void demand_reset(struct demand *d, int64_t now_us);

/* A page of up to `events` begins; asserts that none is under way, and events > 0 (Reactive Streams 3.9). */
void demand_ask(struct demand *d, uint32_t events);
/* It brought an event; asserts that it was asked for (Reactive Streams 1.1). */
void demand_event(struct demand *d);
/* It passed rows without an event. */
void demand_rows(struct demand *d, uint32_t rows);
void demand_done(struct demand *d, int64_t now_us, bool caught_up);
/* Something was written. */
void demand_wake(struct demand *d, int64_t now_us);
/* Everything that was read has settled: a row that was too large fits now. */
void demand_window_empty(struct demand *d, int64_t now_us);

#endif
