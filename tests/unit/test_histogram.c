/* test_histogram: what takes how long is counted once, in the bucket whose bound it doesn't exceed */
#include "unit/unit.h"

#include "base/cleanup.h"
#include "base/histogram.h"

START_TEST(a_bound_belongs_to_its_own_bucket) {
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        struct histogram h = {0};
        histogram_add(&h, histogram_bound_us(i));
        ck_assert_uint_eq(h.counts[i], 1);
        histogram_add(&h, histogram_bound_us(i) + 1);
        ck_assert_uint_eq(h.counts[i + 1], 1);
        ck_assert_int_eq(h.sum_us, 2 * histogram_bound_us(i) + 1);
    }
}
END_TEST

START_TEST(bounds_grow) {
    for (size_t i = 1; i < HISTOGRAM_BUCKETS; i++)
        ck_assert_int_lt(histogram_bound_us(i - 1), histogram_bound_us(i));
}
END_TEST

START_TEST(less_than_nothing_is_nothing) {
    struct histogram h = {0};
    histogram_add(&h, -5);
    histogram_add(&h, 0);
    ck_assert_uint_eq(h.counts[0], 2);
    ck_assert_int_eq(h.sum_us, 0);
}
END_TEST

START_TEST(the_sum_stays_at_its_end) {
    struct histogram h = {0};
    histogram_add(&h, INT64_MAX);
    histogram_add(&h, INT64_MAX);
    ck_assert_uint_eq(h.counts[HISTOGRAM_BUCKETS], 2);
    ck_assert_int_eq(h.sum_us, INT64_MAX);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("histogram");
    TCase *cases = tcase_create("histogram");
    tcase_add_test(cases, a_bound_belongs_to_its_own_bucket);
    tcase_add_test(cases, bounds_grow);
    tcase_add_test(cases, less_than_nothing_is_nothing);
    tcase_add_test(cases, the_sum_stays_at_its_end);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
