/* test_lines: what fits is copied whole, what doesn't is counted */
#include "forwarder/lines.h"

#include <stdio.h>

#include "unit/unit.h"

#define SIZE 200

static char text[SIZE], lines[2000];

static void make_lines(int count, int width) {
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += (size_t)snprintf(lines + len, sizeof lines - len, "%s%0*d", i ? "\n" : "", width, i);
}

START_TEST(what_fits_is_copied_whole) {
    make_lines(4, 49); /* with its line breaks and NUL exactly the room there is */
    lines_copy(text, SIZE, lines);
    ck_assert_str_eq(text, lines);
    lines_copy(text, SIZE, "");
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(what_does_not_fit_is_left_out_by_whole_lines_and_counted) {
    make_lines(5, 49);
    lines_copy(text, SIZE, lines);
    ck_assert_msg(strstr(text, "1\n(3 more findings stand in the log)"), "%s", text);
    ck_assert_int_eq(strncmp(text, lines, 99), 0);
}
END_TEST

START_TEST(one_line_that_is_too_long_is_cut) {
    make_lines(1, 500);
    lines_copy(text, SIZE, lines);
    ck_assert_msg(strlen(text) < SIZE && strstr(text, "00..."), "%s", text);
    make_lines(3, 500);
    lines_copy(text, SIZE, lines);
    ck_assert_msg(strstr(text, "\n(2 more findings stand in the log)"), "%s", text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lines");
    TCase *cases = tcase_create("lines");
    tcase_add_test(cases, what_fits_is_copied_whole);
    tcase_add_test(cases, what_does_not_fit_is_left_out_by_whole_lines_and_counted);
    tcase_add_test(cases, one_line_that_is_too_long_is_cut);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
