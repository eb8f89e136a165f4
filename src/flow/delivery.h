/* delivery: what is on the wire, and the tokens by which its outcomes find it */
#ifndef PENSTOCK_FLOW_DELIVERY_H
#define PENSTOCK_FLOW_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

/* One destination of one event, from submit to outcome. A token is
 * generation << 32 | number; the generation grows with every release, so that a
 * stale or double outcome finds nothing. A ghost is one whose event was
 * forgotten: its outcome is still to come. Allocates at delivery_new only. */
struct delivery {
    uint32_t generation;
    uint32_t slot;
    uint16_t destination;
    enum { DELIVERY_FREE, DELIVERY_FLYING, DELIVERY_GHOST } state;
};

struct delivery_pool;

int delivery_pool_new(uint32_t count, struct delivery_pool **ret_pool) MUST_CHECK;
void delivery_pool_free(struct delivery_pool *p);

bool delivery_has_room(const struct delivery_pool *p);
/* Asserts room. */
uint64_t delivery_take(struct delivery_pool *p, uint32_t slot, uint16_t destination);
/* NULL: no such token is out. */
const struct delivery *delivery_find(const struct delivery_pool *p, uint64_t token);
/* Asserts that it is out. */
void delivery_release(struct delivery_pool *p, uint64_t token);
/* All that fly become ghosts. */
void delivery_forget_events(struct delivery_pool *p);

uint32_t delivery_flying(const struct delivery_pool *p);
uint32_t delivery_ghosts(const struct delivery_pool *p);
/* Number i of the pool, for seeing in; NULL behind the last. */
const struct delivery *delivery_at(const struct delivery_pool *p, uint32_t i);

#endif
