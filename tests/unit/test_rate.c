/* test_rate: events per second over the last seconds */
#include "unit/unit.h"

#include "base/clock.h"
#include "base/rate.h"

static const int64_t begin = 1000 * CLOCK_US_PER_S;

static struct rate steady(uint64_t per_second, int seconds) {
    struct rate r = {0};
    for (int tenth = 0; tenth <= seconds * 10; tenth++)
        rate_note(&r, per_second * (uint64_t)tenth / 10, begin + tenth * CLOCK_US_PER_S / 10);
    return r;
}

START_TEST(a_steady_stream_has_its_rate) {
    struct rate r = steady(100, 20);
    ck_assert_double_eq_tol(rate_per_second(&r, 2000, begin + 20 * CLOCK_US_PER_S), 100, 0.001);
}
END_TEST

START_TEST(only_the_last_seconds_count) {
    struct rate r = steady(100, 20);
    for (int second = 21; second <= 30; second++)
        rate_note(&r, 2000, begin + second * CLOCK_US_PER_S);
    ck_assert_double_eq_tol(rate_per_second(&r, 2000, begin + 30 * CLOCK_US_PER_S), 0, 0.001);
}
END_TEST

START_TEST(what_hangs_slows_down_to_nothing) {
    struct rate r = steady(100, 20);
    double now = rate_per_second(&r, 2000, begin + 20 * CLOCK_US_PER_S);
    double later = rate_per_second(&r, 2000, begin + 24 * CLOCK_US_PER_S);
    ck_assert_double_lt(later, now);
    ck_assert_double_gt(later, 0);
    ck_assert_double_eq_tol(rate_per_second(&r, 2000, begin + 60 * CLOCK_US_PER_S), 0, 0.001);
}
END_TEST

START_TEST(too_little_to_tell_is_nothing) {
    struct rate r = {0};
    ck_assert_double_eq_tol(rate_per_second(&r, 5, begin), 0, 0.001);
    rate_note(&r, 5, begin);
    ck_assert_double_eq_tol(rate_per_second(&r, 500, begin + 1000), 0, 0.001);
    ck_assert_double_eq_tol(rate_per_second(&r, 15, begin + CLOCK_US_PER_S), 10, 0.001);
    ck_assert_double_eq_tol(rate_per_second(&r, 1, begin + CLOCK_US_PER_S), 0, 0.001);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rate");
    TCase *cases = tcase_create("rate");
    tcase_add_test(cases, a_steady_stream_has_its_rate);
    tcase_add_test(cases, only_the_last_seconds_count);
    tcase_add_test(cases, what_hangs_slows_down_to_nothing);
    tcase_add_test(cases, too_little_to_tell_is_nothing);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
