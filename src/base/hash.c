/* hash: keyed 64-bit hash of bytes (SipHash-1-3), for ordering keys that peers choose */
#include "base/hash.h"

#include <sys/random.h>

struct hash_key hash_key_random(void) {
    struct hash_key key = {UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xbf58476d1ce4e5b9)};
    /* Without entropy the fixed key serves: a collision only serialises two keys. */
    (void)!getrandom(&key, sizeof key, GRND_NONBLOCK);
    return key;
}

static inline uint64_t rotate(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t hash_bytes(const struct hash_key *key, struct span s) {
    uint64_t v[4] = {
        key->k0 ^ UINT64_C(0x736f6d6570736575),
        key->k1 ^ UINT64_C(0x646f72616e646f6d),
        key->k0 ^ UINT64_C(0x6c7967656e657261),
        key->k1 ^ UINT64_C(0x7465646279746573),
    };
    size_t whole = s.len & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word;
        memcpy(&word, s.data + i, 8);
        sip_word(v, word);
    }
    uint64_t last = (uint64_t)s.len << 56;
    for (size_t i = whole; i < s.len; i++)
        last |= (uint64_t)(unsigned char)s.data[i] << (8 * (i - whole));
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
