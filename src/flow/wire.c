/* wire: what is on the wire, and the tokens by which its outcomes find it */
#include "flow/wire.h"

#include <errno.h>

#include "base/log.h"

struct wire {
    uint32_t count;
    uint32_t flying, ghosts;
    struct wire_delivery *deliveries;
    uint32_t *free; /* a stack */
    uint32_t free_count;
};

int wire_new(uint32_t count, struct wire **ret_wire) {
    ASSERT(count > 0);
    struct wire *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->count = count;
    w->deliveries = calloc(count, sizeof(*w->deliveries));
    w->free = calloc(count, sizeof(*w->free));
    if (!w->deliveries || !w->free) {
        wire_free(w);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        w->deliveries[i].generation = 1; /* no token is 0 */
        w->free[w->free_count++] = count - 1 - i;
    }
    *ret_wire = w;
    return 0;
}

void wire_free(struct wire *w) {
    if (!w)
        return;
    free(w->deliveries);
    free(w->free);
    free(w);
}

bool wire_has_room(const struct wire *w) {
    return w->free_count > 0;
}

uint64_t wire_take(struct wire *w, uint32_t slot, uint16_t destination) {
    ASSERT(w->free_count > 0);
    uint32_t number = w->free[--w->free_count];
    struct wire_delivery *d = &w->deliveries[number];
    ASSERT(d->state == WIRE_FREE);
    d->slot = slot;
    d->destination = destination;
    d->state = WIRE_FLYING;
    w->flying++;
    return (uint64_t)d->generation << 32 | number;
}

const struct wire_delivery *wire_find(const struct wire *w, uint64_t token) {
    uint32_t number = (uint32_t)token;
    if (number >= w->count)
        return NULL;
    const struct wire_delivery *d = &w->deliveries[number];
    return d->state != WIRE_FREE && d->generation == (uint32_t)(token >> 32) ? d : NULL;
}

void wire_release(struct wire *w, uint64_t token) {
    ASSERT(wire_find(w, token));
    uint32_t number = (uint32_t)token;
    struct wire_delivery *d = &w->deliveries[number];
    if (d->state == WIRE_FLYING)
        w->flying--;
    else
        w->ghosts--;
    d->state = WIRE_FREE;
    if (++d->generation == 0)
        d->generation = 1;
    ASSERT(w->free_count < w->count);
    w->free[w->free_count++] = number;
}

void wire_forget_events(struct wire *w) {
    for (uint32_t i = 0; i < w->count; i++)
        if (w->deliveries[i].state == WIRE_FLYING)
            w->deliveries[i].state = WIRE_GHOST;
    w->ghosts += w->flying;
    w->flying = 0;
}

uint32_t wire_flying(const struct wire *w) {
    return w->flying;
}

uint32_t wire_ghosts(const struct wire *w) {
    return w->ghosts;
}

const struct wire_delivery *wire_at(const struct wire *w, uint32_t i) {
    return i < w->count ? &w->deliveries[i] : NULL;
}
