/* test_clock: the two clocks, in microseconds */
#include "unit/unit.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

START_TEST(the_clocks_agree_with_the_systems) {
    int64_t before = clock_now_us();
    ck_assert_int_ge(clock_now_us(), before);
    int64_t wall_s = clock_wall_us() / CLOCK_US_PER_S;
    ck_assert_int_le(llabs(wall_s - (int64_t)time(NULL)), 1);
}
END_TEST

START_TEST(a_poll_never_wakes_too_early) {
    int64_t deadline_us = clock_now_us() + 2500;
    ck_assert_int_eq(clock_poll(NULL, 0, deadline_us), 0);
    ck_assert_int_ge(clock_now_us(), deadline_us);
}
END_TEST

START_TEST(a_poll_whose_deadline_has_passed_only_looks) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    ck_assert_int_eq(clock_poll(&fd, 1, clock_now_us()), 0);
    ck_assert_int_eq(clock_poll(&fd, 1, -5), 0);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(clock_poll(&fd, 1, -5), 1);
    ck_assert_int_eq(fd.revents, POLLIN);
}
END_TEST

START_TEST(a_poll_without_a_deadline_or_with_a_far_one_waits_for_what_comes) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(clock_poll(&fd, 1, CLOCK_NEVER), 1);
    ck_assert_int_eq(clock_poll(&fd, 1, CLOCK_NEVER - 1), 1);
}
END_TEST

static void check_text(int64_t wall_us, const char *expected) {
    char text[CLOCK_RFC3339_SIZE];
    ck_assert_int_eq(clock_format_rfc3339(wall_us, text), 0);
    ck_assert_str_eq(text, expected);
}

START_TEST(times_are_rfc3339_in_utc) {
    check_text(0, "1970-01-01T00:00:00Z");
    check_text(-1, "1969-12-31T23:59:59.999999Z");
    check_text(INT64_C(951782400000000), "2000-02-29T00:00:00Z");
    check_text(INT64_C(1709251199000000), "2024-02-29T23:59:59Z");
    check_text(INT64_C(-2203891200000000), "1900-03-01T00:00:00Z");
}
END_TEST

START_TEST(the_fraction_has_as_many_digits_as_needed) {
    check_text(500000, "1970-01-01T00:00:00.5Z");
    check_text(120, "1970-01-01T00:00:00.00012Z");
    check_text(1, "1970-01-01T00:00:00.000001Z");
}
END_TEST

START_TEST(only_years_of_four_digits_can_be_written) {
    char text[CLOCK_RFC3339_SIZE] = "untouched";
    check_text(INT64_C(-62135596800000000), "0001-01-01T00:00:00Z");
    check_text(INT64_C(253402300799999999), "9999-12-31T23:59:59.999999Z");
    ck_assert_int_eq(clock_format_rfc3339(INT64_C(-62135596800000001), text), -ERANGE);
    ck_assert_int_eq(clock_format_rfc3339(INT64_C(253402300800000000), text), -ERANGE);
    ck_assert_int_eq(clock_format_rfc3339(INT64_MIN, text), -ERANGE);
    ck_assert_int_eq(clock_format_rfc3339(INT64_MAX, text), -ERANGE);
    ck_assert_str_eq(text, "untouched");
}
END_TEST

START_TEST(every_day_agrees_with_the_c_library) {
    for (int64_t day = -25567; day < 80000; day += 13) {
        time_t seconds = (time_t)(day * 86400 + 3661);
        struct tm tm;
        char expected[CLOCK_RFC3339_SIZE];
        ck_assert_uint_gt(strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm)), 0);
        check_text((int64_t)seconds * CLOCK_US_PER_S, expected);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("clock");
    TCase *cases = tcase_create("clock");
    tcase_add_test(cases, the_clocks_agree_with_the_systems);
    tcase_add_test(cases, a_poll_never_wakes_too_early);
    tcase_add_test(cases, a_poll_whose_deadline_has_passed_only_looks);
    tcase_add_test(cases, a_poll_without_a_deadline_or_with_a_far_one_waits_for_what_comes);
    tcase_add_test(cases, times_are_rfc3339_in_utc);
    tcase_add_test(cases, the_fraction_has_as_many_digits_as_needed);
    tcase_add_test(cases, only_years_of_four_digits_can_be_written);
    tcase_add_test(cases, every_day_agrees_with_the_c_library);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
