/* test_hash: keyed 64-bit hash of bytes (SipHash-1-3) */
#include "unit/unit.h"

#include "base/cleanup.h"
#include "base/hash.h"

/* What CPython 3.11, whose str hash is SipHash-1-3 too, gives with PYTHONHASHSEED=0
 * (a key of zeros) and =42 (the key that its generator makes from that). */
static const struct {
    struct hash_key key;
    const char *text;
    uint64_t hash;
} vectors[] = {
    {{0, 0}, "a", UINT64_C(0x407448d2b89b1813)},
    {{0, 0}, "ab", UINT64_C(0x555508cbc6add439)},
    {{0, 0}, "abcdefg", UINT64_C(0x6db12aae9070f506)},
    {{0, 0}, "abcdefgh", UINT64_C(0x3f7b849c0b8e35ea)},
    {{0, 0}, "abcdefghi", UINT64_C(0xf89b34a3d11eb6e5)},
    {{0, 0}, "the quick brown fox jumps over the lazy dog", UINT64_C(0x80a65583f613da2d)},
    {{UINT64_C(0xdc504fd368cd90af), UINT64_C(0xb920bb9ffe99e9c1)}, "a", UINT64_C(0xfe4a47335692551e)},
    {{UINT64_C(0xdc504fd368cd90af), UINT64_C(0xb920bb9ffe99e9c1)}, "abcdefgh", UINT64_C(0xb441be6d79f21056)},
    {{UINT64_C(0xdc504fd368cd90af), UINT64_C(0xb920bb9ffe99e9c1)},
     "the quick brown fox jumps over the lazy dog",
     UINT64_C(0xd6c9bcbe0057c5ef)},
};

START_TEST(it_agrees_with_another_implementation) {
    for (size_t i = 0; i < ARRAY_LENGTH(vectors); i++)
        ck_assert_uint_eq(hash_bytes(&vectors[i].key, span_of(vectors[i].text)), vectors[i].hash);
}
END_TEST

START_TEST(it_reads_bytes_wherever_they_lie) {
    char bytes[32] = "xxxxxxxxabcdefghi";
    for (int shift = 0; shift < 8; shift++) {
        char moved[32] = {0};
        memcpy(moved + shift, bytes + 8, 9);
        ck_assert_uint_eq(hash_bytes(&vectors[4].key, (struct span){moved + shift, 9}), vectors[4].hash);
    }
}
END_TEST

START_TEST(a_nul_counts) {
    struct hash_key key = {1, 2};
    ck_assert_uint_ne(hash_bytes(&key, (struct span){"a\0", 1}), hash_bytes(&key, (struct span){"a\0", 2}));
    ck_assert_uint_ne(hash_bytes(&key, SPAN_LITERAL("")), hash_bytes(&key, (struct span){"\0", 1}));
}
END_TEST

START_TEST(keys_differ_from_start_to_start) {
    struct hash_key a = hash_key_random(), b = hash_key_random();
    ck_assert(a.k0 != b.k0);
    ck_assert(a.k1 != b.k1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("hash");
    TCase *cases = tcase_create("hash");
    tcase_add_test(cases, it_agrees_with_another_implementation);
    tcase_add_test(cases, it_reads_bytes_wherever_they_lie);
    tcase_add_test(cases, a_nul_counts);
    tcase_add_test(cases, keys_differ_from_start_to_start);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
