/* test_error: one sentence and a class, for what a library or a peer refused */
#include "unit/unit.h"

#include <string.h>

#include "base/error.h"

START_TEST(it_holds_the_class_and_the_sentence) {
    struct error e = {0};
    error_set(&e, ERROR_RETRY, "host %s:%d refused", "db", 5432);
    ck_assert_int_eq(e.class, ERROR_RETRY);
    ck_assert_str_eq(e.text, "host db:5432 refused");
}
END_TEST

START_TEST(a_library_text_becomes_one_line) {
    struct error e = {0};
    error_set(&e, ERROR_CONFIG, "%s", "FATAL:\tno\r\nHINT: \033[31mred\xc2\x9b! \n\n");
    ck_assert_str_eq(e.text, "FATAL: no  HINT:  [31mred  !");
}
END_TEST

START_TEST(too_long_a_text_is_cut_and_says_so) {
    struct error e = {0};
    error_set(&e, ERROR_RETRY, "%2000d", 7);
    ck_assert_uint_eq(strlen(e.text), ERROR_TEXT_MAX - 1);
    ck_assert_str_eq(e.text + ERROR_TEXT_MAX - 4, "...");
}
END_TEST

START_TEST(the_cut_never_splits_a_character) {
    char euros[3 * ERROR_TEXT_MAX + 1];
    for (size_t i = 0; i < ERROR_TEXT_MAX; i++)
        memcpy(euros + 3 * i, "\xe2\x82\xac", 4);
    for (int shift = 0; shift < 3; shift++) {
        struct error e = {0};
        error_set(&e, ERROR_RETRY, "%.*s%s", shift, "xx", euros);
        size_t len = strlen(e.text);
        ck_assert_uint_ge(len, ERROR_TEXT_MAX - 4);
        ck_assert_str_eq(e.text + len - 6, "\xe2\x82\xac...");
    }
}
END_TEST

START_TEST(a_prefix_says_where) {
    struct error e = {0};
    error_set(&e, ERROR_PERMANENT, "too long");
    error_prefix(&e, "routing key '%s'", "a.b");
    ck_assert_str_eq(e.text, "routing key 'a.b': too long");
    ck_assert_int_eq(e.class, ERROR_PERMANENT);
}
END_TEST

START_TEST(a_prefix_before_a_full_text_keeps_the_prefix) {
    struct error e = {0};
    error_set(&e, ERROR_RETRY, "%1500d", 7);
    error_prefix(&e, "%300d", 1);
    ck_assert_uint_eq(strlen(e.text), ERROR_TEXT_MAX - 1);
    ck_assert_mem_eq(e.text + 255, ": ", 2);
    ck_assert_str_eq(e.text + ERROR_TEXT_MAX - 4, "...");
}
END_TEST

START_TEST(every_class_has_a_name) {
    const char *names[] = {"none", "retry", "taken", "permanent", "config", "bug"};
    for (int c = ERROR_NONE; c <= ERROR_BUG; c++)
        ck_assert_str_eq(error_class_name((enum error_class)c), names[c]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("error");
    TCase *cases = tcase_create("error");
    tcase_add_test(cases, it_holds_the_class_and_the_sentence);
    tcase_add_test(cases, a_library_text_becomes_one_line);
    tcase_add_test(cases, too_long_a_text_is_cut_and_says_so);
    tcase_add_test(cases, the_cut_never_splits_a_character);
    tcase_add_test(cases, a_prefix_says_where);
    tcase_add_test(cases, a_prefix_before_a_full_text_keeps_the_prefix);
    tcase_add_test(cases, every_class_has_a_name);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
