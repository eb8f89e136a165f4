/* test_span: a borrowed piece of text; absent is not empty */
#include "unit/unit.h"

#include <stdio.h>

#include "base/span.h"

START_TEST(absent_is_not_empty) {
    struct span empty = span_of(""), absent = span_of(NULL);
    ck_assert(span_absent(absent));
    ck_assert(span_absent(SPAN_ABSENT));
    ck_assert(!span_absent(empty));
    ck_assert(span_is(empty, ""));
    ck_assert(!span_is(absent, ""));
}
END_TEST

START_TEST(equality_is_of_bytes_and_length) {
    ck_assert(span_equal(SPAN_LITERAL("a\0b"), SPAN_LITERAL("a\0b")));
    ck_assert(!span_equal(SPAN_LITERAL("a\0b"), SPAN_LITERAL("a\0c")));
    ck_assert(!span_equal(SPAN_LITERAL("ab"), SPAN_LITERAL("abc")));
    ck_assert(span_is(SPAN_LITERAL("abc"), "abc"));
    ck_assert(!span_is(SPAN_LITERAL("abcd"), "abc"));
}
END_TEST

START_TEST(it_prints_without_a_terminator) {
    char text[16];
    struct span s = {"penstock", 3};
    snprintf(text, sizeof text, "[%.*s|%.*s]", SPAN_ARGS(s), SPAN_ARGS(SPAN_ABSENT));
    ck_assert_str_eq(text, "[pen|]");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("span");
    TCase *cases = tcase_create("span");
    tcase_add_test(cases, absent_is_not_empty);
    tcase_add_test(cases, equality_is_of_bytes_and_length);
    tcase_add_test(cases, it_prints_without_a_terminator);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
