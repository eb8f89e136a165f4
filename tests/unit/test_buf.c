/* test_buf: bytes that grow up to a maximum */
#include "unit/unit.h"

#include <errno.h>

#include "base/buf.h"

START_TEST(it_grows_and_keeps_what_was_added) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(buf_addf(&b, "%02d,", i), 0);
    ck_assert_uint_eq(b.len, 300);
    ck_assert(memcmp(b.data + 297, "99,", 3) == 0);
}
END_TEST

START_TEST(it_refuses_more_than_its_maximum_and_stays_as_it_was) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(5);
    ck_assert_int_eq(buf_add(&b, "abc", 3), 0);
    ck_assert_int_eq(buf_add(&b, "def", 3), -EMSGSIZE);
    ck_assert_int_eq(buf_addf(&b, "%d", 123), -EMSGSIZE);
    ck_assert_uint_eq(b.len, 3);
    ck_assert_int_eq(buf_addf(&b, "%d", 12), 0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_str_eq(b.data, "abc12");
}
END_TEST

START_TEST(it_gives_capacity_back) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100000);
    ck_assert_int_eq(buf_reserve(&b, 50000), 0);
    buf_shrink(&b, 100);
    ck_assert_uint_eq(b.capacity, 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("buf");
    TCase *cases = tcase_create("buf");
    tcase_add_test(cases, it_grows_and_keeps_what_was_added);
    tcase_add_test(cases, it_refuses_more_than_its_maximum_and_stays_as_it_was);
    tcase_add_test(cases, it_gives_capacity_back);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
