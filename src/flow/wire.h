/* wire: what is on the wire, and the tokens by which its outcomes find it */
#ifndef PENSTOCK_FLOW_WIRE_H
#define PENSTOCK_FLOW_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

/* A token is generation << 32 | number; the generation grows with every
 * release, so that a stale or double outcome finds nothing. A ghost is a
 * delivery whose event was forgotten: its outcome is still to come. Allocates at
 * wire_new only. */
struct wire;

/* One destination of one event, from submit to outcome. */
struct wire_delivery {
    uint32_t generation;
    uint32_t slot;
    uint16_t destination;
    enum { WIRE_FREE, WIRE_FLYING, WIRE_GHOST } state;
};

int wire_new(uint32_t count, struct wire **ret_wire) MUST_CHECK;
void wire_free(struct wire *w);

bool wire_has_room(const struct wire *w);
/* Asserts room. */
uint64_t wire_take(struct wire *w, uint32_t slot, uint16_t destination);
/* NULL: no such token is out. */
const struct wire_delivery *wire_find(const struct wire *w, uint64_t token);
/* Asserts that it is out. */
void wire_release(struct wire *w, uint64_t token);
/* All that fly become ghosts. */
void wire_forget_events(struct wire *w);

uint32_t wire_flying(const struct wire *w);
uint32_t wire_ghosts(const struct wire *w);
/* Number i, for seeing in; NULL behind the last. */
const struct wire_delivery *wire_at(const struct wire *w, uint32_t i);

#endif
