/* test_limit: a storm of one message is thinned out, and counted */
#include "unit/unit.h"

#include "base/limit.h"

START_TEST(a_burst_is_let_through_then_counted_until_the_interval_ends) {
    struct limit l = {0};
    uint64_t left_out = 99;
    for (int i = 0; i < 3; i++)
        ck_assert(limit_allows(&l, 1000 + i, 100, 3, &left_out));
    ck_assert_uint_eq(left_out, 0);
    for (int i = 0; i < 5; i++)
        ck_assert(!limit_allows(&l, 1010, 100, 3, &left_out));
    ck_assert(!limit_allows(&l, 1099, 100, 3, &left_out));
    ck_assert(limit_allows(&l, 1100, 100, 3, &left_out));
    ck_assert_uint_eq(left_out, 6);
    ck_assert(limit_allows(&l, 1101, 100, 3, &left_out));
    ck_assert_uint_eq(left_out, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("limit");
    TCase *cases = tcase_create("limit");
    tcase_add_test(cases, a_burst_is_let_through_then_counted_until_the_interval_ends);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
