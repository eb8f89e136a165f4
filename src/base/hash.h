/* hash: keyed 64-bit hash of bytes (SipHash-1-3), for ordering keys that peers choose */
#ifndef PENSTOCK_BASE_HASH_H
#define PENSTOCK_BASE_HASH_H

#include <stdint.h>

#include "base/span.h"

struct hash_key {
    uint64_t k0, k1;
};

/* From getrandom(2): a writer of events can't aim for collisions. */
struct hash_key hash_key_random(void);

/* Aumasson and Bernstein, "SipHash: a fast short-input PRF", with c=1, d=3. */
uint64_t hash_bytes(const struct hash_key *key, struct span s);

#endif
