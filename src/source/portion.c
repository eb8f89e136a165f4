/* portion: how much of what a read was asked for may still come */
#include "source/portion.h"

#include "base/log.h"

/* The average row is a moving one: a new row counts for a sixteenth. */
#define AVERAGE_WEIGHT 16
#define AVERAGE_START 1024 /* bytes, before any row was seen */

void portion_init(struct portion *p) {
    *p = (struct portion){.average = AVERAGE_START};
}

void portion_want(struct portion *p, uint32_t events, uint64_t bytes) {
    ASSERT(events > 0);
    ASSERT(p->average > 0);
    p->events = events;
    p->bytes = bytes;
    p->any_kept = false;
}

uint32_t portion_limit(const struct portion *p) {
    uint64_t limit = p->bytes / p->average;
    if (limit > p->events)
        limit = p->events;
    if (limit > PORTION_LIMIT_MAX)
        limit = PORTION_LIMIT_MAX;
    return limit ? (uint32_t)limit : 1;
}

bool portion_has_room(const struct portion *p, uint64_t bytes) {
    return !p->any_kept || (p->events > 0 && bytes <= p->bytes);
}

void portion_row(struct portion *p, uint64_t bytes, bool kept) {
    p->average = p->average - p->average / AVERAGE_WEIGHT + bytes / AVERAGE_WEIGHT;
    if (p->average == 0)
        p->average = 1;
    if (!kept)
        return;
    p->any_kept = true;
    p->events -= p->events > 0;
    p->bytes -= bytes < p->bytes ? bytes : p->bytes;
}
