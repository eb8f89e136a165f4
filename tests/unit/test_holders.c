/* test_holders: who holds the table's lock, as list after list shows it */
#include "unit/unit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "source/holders.h"
#include "unit/fail_alloc.h"

static struct holders h;

static void setup(void) {
    h = (struct holders){0};
}

static void teardown(void) {
    holders_done(&h);
}

/* Names up to NULL. */
static void list(const char *first, ...) {
    va_list args;
    holders_begin(&h);
    va_start(args, first);
    for (const char *id = first; id; id = va_arg(args, const char *))
        ck_assert_int_eq(holders_add(&h, span_of(id)), 0);
    va_end(args);
    holders_end(&h);
}

START_TEST(nobody_is_there_at_first) {
    ck_assert_uint_eq(holders_oldest(&h), HOLDERS_NOBODY);
    list(NULL);
    ck_assert_uint_eq(h.list, 1);
    ck_assert_uint_eq(holders_oldest(&h), HOLDERS_NOBODY);
}
END_TEST

START_TEST(a_transaction_keeps_the_list_it_came_with) {
    list("3/10", NULL);
    list("3/10", "4/2", NULL);
    list("4/2", "3/10", "5/9", NULL);
    ck_assert_uint_eq(holders_oldest(&h), 1);
    list("5/9", "4/2", NULL);
    ck_assert_uint_eq(holders_oldest(&h), 2);
    list("5/9", NULL);
    ck_assert_uint_eq(holders_oldest(&h), 3);
    list(NULL);
    ck_assert_uint_eq(holders_oldest(&h), HOLDERS_NOBODY);
}
END_TEST

START_TEST(who_comes_again_is_another) {
    list("3/10", NULL);
    list(NULL);
    list("3/11", "3/10", NULL);
    ck_assert_uint_eq(holders_oldest(&h), 3);
}
END_TEST

START_TEST(locks_on_several_parts_are_one_transaction) {
    list("3/10", "3/10", "3/10", NULL);
    list("3/10", NULL);
    ck_assert_uint_eq(holders_oldest(&h), 1);
    list(NULL);
    ck_assert_uint_eq(holders_oldest(&h), HOLDERS_NOBODY);
}
END_TEST

START_TEST(a_renamed_transaction_takes_over_from_whoever_vanished) {
    list("3/10", NULL);
    list("3/10", "4/5", NULL);
    list("-1/721", "4/5", NULL); /* 3/10 was prepared */
    ck_assert_uint_eq(holders_oldest(&h), 1);
    list("-1/721", NULL);
    ck_assert_uint_eq(holders_oldest(&h), 1);
    list("-1/721", "-1/722", NULL); /* nobody has vanished: it is new */
    list("-1/722", NULL);
    ck_assert_uint_eq(holders_oldest(&h), 5);
}
END_TEST

START_TEST(the_first_of_a_list_is_named) {
    list("3/10", NULL);
    list("3/10", "4/5", NULL);
    ck_assert_str_eq(holders_first(&h, 2)->id, "3/10");
    list("4/5", "6/1", NULL);
    ck_assert_str_eq(holders_first(&h, 3)->id, "4/5");
    ck_assert_ptr_null(holders_first(&h, 1));
}
END_TEST

START_TEST(what_is_too_long_or_too_much_is_said) {
    holders_begin(&h);
    ck_assert_int_eq(holders_add(&h, SPAN_LITERAL("12345678901234567890123456789012")), HOLDERS_E_TOO_MANY);
    for (int i = 0; i < HOLDERS_MAX; i++) {
        char id[16];
        snprintf(id, sizeof id, "3/%d", i);
        ck_assert_int_eq(holders_add(&h, span_of(id)), 0);
    }
    ck_assert_int_eq(holders_add(&h, SPAN_LITERAL("4/1")), HOLDERS_E_TOO_MANY);
    holders_end(&h);
    ck_assert_uint_eq(h.known.count, HOLDERS_MAX);
}
END_TEST

START_TEST(running_out_of_memory_is_an_ordinary_result) {
    FAIL_ALLOC_EACH(n) {
        struct holders some = {0};
        int r = 0;
        holders_begin(&some);
        for (int i = 0; r == 0 && i < 100; i++) {
            char id[16];
            snprintf(id, sizeof id, "3/%d", i);
            r = holders_add(&some, span_of(id));
        }
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        holders_done(&some);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("holders");
    TCase *cases = tcase_create("holders");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, nobody_is_there_at_first);
    tcase_add_test(cases, a_transaction_keeps_the_list_it_came_with);
    tcase_add_test(cases, who_comes_again_is_another);
    tcase_add_test(cases, locks_on_several_parts_are_one_transaction);
    tcase_add_test(cases, a_renamed_transaction_takes_over_from_whoever_vanished);
    tcase_add_test(cases, the_first_of_a_list_is_named);
    tcase_add_test(cases, what_is_too_long_or_too_much_is_said);
    tcase_add_test(cases, running_out_of_memory_is_an_ordinary_result);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
