/* delivery: what is on the wire, and the tokens by which its outcomes find it */
#include "flow/delivery.h"

#include <errno.h>

#include "base/log.h"

struct delivery_pool {
    uint32_t count;
    uint32_t flying, ghosts;
    struct delivery *deliveries;
    uint32_t *free; /* a stack */
    uint32_t free_count;
};

int delivery_pool_new(uint32_t count, struct delivery_pool **ret_pool) {
    ASSERT(count > 0);
    struct delivery_pool *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->count = count;
    p->deliveries = calloc(count, sizeof(*p->deliveries));
    p->free = calloc(count, sizeof(*p->free));
    if (!p->deliveries || !p->free) {
        delivery_pool_free(p);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        p->deliveries[i].generation = 1; /* no token is 0 */
        p->free[p->free_count++] = count - 1 - i;
    }
    *ret_pool = p;
    return 0;
}

void delivery_pool_free(struct delivery_pool *p) {
    if (!p)
        return;
    free(p->deliveries);
    free(p->free);
    free(p);
}

bool delivery_has_room(const struct delivery_pool *p) {
    return p->free_count > 0;
}

uint64_t delivery_take(struct delivery_pool *p, uint32_t slot, uint16_t destination) {
    ASSERT(p->free_count > 0);
    uint32_t number = p->free[--p->free_count];
    struct delivery *d = &p->deliveries[number];
    ASSERT(d->state == DELIVERY_FREE);
    d->slot = slot;
    d->destination = destination;
    d->state = DELIVERY_FLYING;
    p->flying++;
    return (uint64_t)d->generation << 32 | number;
}

const struct delivery *delivery_find(const struct delivery_pool *p, uint64_t token) {
    uint32_t number = (uint32_t)token;
    if (number >= p->count)
        return NULL;
    const struct delivery *d = &p->deliveries[number];
    return d->state != DELIVERY_FREE && d->generation == (uint32_t)(token >> 32) ? d : NULL;
}

void delivery_release(struct delivery_pool *p, uint64_t token) {
    ASSERT(delivery_find(p, token));
    uint32_t number = (uint32_t)token;
    struct delivery *d = &p->deliveries[number];
    if (d->state == DELIVERY_FLYING)
        p->flying--;
    else
        p->ghosts--;
    d->state = DELIVERY_FREE;
    if (++d->generation == 0)
        d->generation = 1;
    ASSERT(p->free_count < p->count);
    p->free[p->free_count++] = number;
}

void delivery_forget_events(struct delivery_pool *p) {
    for (uint32_t i = 0; i < p->count; i++)
        if (p->deliveries[i].state == DELIVERY_FLYING)
            p->deliveries[i].state = DELIVERY_GHOST;
    p->ghosts += p->flying;
    p->flying = 0;
}

uint32_t delivery_flying(const struct delivery_pool *p) {
    return p->flying;
}

uint32_t delivery_ghosts(const struct delivery_pool *p) {
    return p->ghosts;
}

const struct delivery *delivery_at(const struct delivery_pool *p, uint32_t i) {
    return i < p->count ? &p->deliveries[i] : NULL;
}
