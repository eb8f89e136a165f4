/* test_text: makes foreign words fit into one line of a message */
#include "unit/unit.h"

#include <string.h>

#include "base/text.h"

START_TEST(no_control_character_remains) {
    char text[] = "a\x01\n\r\t\x1b[2J\x7f\xc2\x80\xc2\x9f z";
    text_one_line(text);
    ck_assert_str_eq(text, "a     [2J      z");
}
END_TEST

START_TEST(other_characters_stay) {
    char text[] = "\xc2\xa0 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xc2";
    char same[sizeof text];
    memcpy(same, text, sizeof text);
    text_one_line(text);
    ck_assert_str_eq(text, same);
}
END_TEST

START_TEST(a_cut_text_ends_in_dots_between_characters) {
    char text[8] = "ab\xe2\x82\xac" "de";
    text_mark_cut(text, sizeof text);
    ck_assert_str_eq(text, "ab...");
    char plain[8] = "abcdefg";
    text_mark_cut(plain, sizeof plain);
    ck_assert_str_eq(plain, "abcd...");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text");
    TCase *cases = tcase_create("text");
    tcase_add_test(cases, no_control_character_remains);
    tcase_add_test(cases, other_characters_stay);
    tcase_add_test(cases, a_cut_text_ends_in_dots_between_characters);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
