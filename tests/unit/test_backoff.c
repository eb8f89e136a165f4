/* test_backoff: capped, jittered, exponential waits */
#include "unit/unit.h"

#include "base/backoff.h"
#include "base/cleanup.h"

static const struct backoff_options usual = {.initial_us = 100000, .max_us = 2000000, .multiplier = 2};

START_TEST(each_wait_lies_in_the_upper_half_of_a_doubling_range) {
    const int64_t ranges[] = {100000, 200000, 400000, 800000, 1600000, 2000000, 2000000, 2000000};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct backoff b;
        backoff_init(&b, &usual, seed);
        for (size_t i = 0; i < ARRAY_LENGTH(ranges); i++) {
            int64_t wait_us = backoff_next_us(&b);
            ck_assert_int_le(wait_us, ranges[i]);
            ck_assert_int_gt(wait_us, ranges[i] / 2);
        }
        ck_assert_uint_eq(b.attempts, ARRAY_LENGTH(ranges));
    }
}
END_TEST

START_TEST(waits_of_different_seeds_are_spread) {
    int64_t least = INT64_MAX, most = 0;
    for (uint64_t seed = 1; seed < 1000; seed++) {
        struct backoff b;
        backoff_init(&b, &usual, seed * UINT64_C(0x9e3779b97f4a7c15));
        int64_t wait_us = backoff_next_us(&b);
        least = wait_us < least ? wait_us : least;
        most = wait_us > most ? wait_us : most;
    }
    ck_assert_int_lt(least, 52000);
    ck_assert_int_gt(most, 98000);
}
END_TEST

START_TEST(the_same_seed_gives_the_same_waits) {
    struct backoff a, b;
    backoff_init(&a, &usual, 7);
    backoff_init(&b, &usual, 7);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(backoff_next_us(&a), backoff_next_us(&b));
}
END_TEST

START_TEST(a_success_begins_anew) {
    struct backoff b;
    backoff_init(&b, &usual, 3);
    for (int i = 0; i < 10; i++)
        (void)backoff_next_us(&b);
    backoff_reset(&b);
    ck_assert_uint_eq(b.attempts, 0);
    ck_assert_int_le(backoff_next_us(&b), usual.initial_us);
}
END_TEST

START_TEST(extreme_options_never_overflow) {
    const struct backoff_options extreme = {.initial_us = INT64_MAX / 2, .max_us = INT64_MAX, .multiplier = 1e300};
    struct backoff b;
    backoff_init(&b, &extreme, 1);
    for (int i = 0; i < 5; i++)
        ck_assert_int_gt(backoff_next_us(&b), 0);
    const struct backoff_options none = {.initial_us = 0, .max_us = 0, .multiplier = 1};
    backoff_init(&b, &none, 1);
    ck_assert_int_eq(backoff_next_us(&b), 0);
}
END_TEST

START_TEST(a_counter_per_item_gives_the_same_ranges) {
    uint64_t random = 5;
    for (uint32_t attempt = 1; attempt <= 5; attempt++) {
        int64_t range = usual.initial_us << (attempt - 1);
        int64_t wait_us = backoff_delay_us(&usual, attempt, &random);
        ck_assert_int_le(wait_us, range);
        ck_assert_int_gt(wait_us, range / 2);
    }
    ck_assert_int_le(backoff_delay_us(&usual, UINT32_MAX, &random), usual.max_us);
}
END_TEST

START_TEST(a_multiplier_of_one_stays_where_it_is_at_once) {
    const struct backoff_options flat = {.initial_us = 1000, .max_us = 2000, .multiplier = 1};
    uint64_t random = 0;
    ck_assert_int_le(backoff_delay_us(&flat, UINT32_MAX, &random), 1000);
    const struct backoff_options nearly_flat = {.initial_us = 1000, .max_us = 2000000, .multiplier = 1.0001};
    for (int i = 0; i < 100; i++) /* each at once: in steps of an attempt these take minutes */
        ck_assert_int_le(backoff_delay_us(&nearly_flat, UINT32_MAX, &random), 1000);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("backoff");
    TCase *cases = tcase_create("backoff");
    tcase_add_test(cases, each_wait_lies_in_the_upper_half_of_a_doubling_range);
    tcase_add_test(cases, waits_of_different_seeds_are_spread);
    tcase_add_test(cases, the_same_seed_gives_the_same_waits);
    tcase_add_test(cases, a_success_begins_anew);
    tcase_add_test(cases, extreme_options_never_overflow);
    tcase_add_test(cases, a_counter_per_item_gives_the_same_ranges);
    tcase_add_test(cases, a_multiplier_of_one_stays_where_it_is_at_once);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
