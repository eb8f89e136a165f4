/* test_destination: a storage that is used again for each event */
#include "unit/unit.h"

#include "event/destination.h"

START_TEST(a_new_destination_is_empty) {
    struct destination d;
    destination_init(&d);
    ck_assert_uint_eq(d.header_count, 0);
    ck_assert(span_absent(d.fields[0]) && span_absent(d.fields[DESTINATION_FIELDS_MAX - 1]));
    ck_assert_ptr_null(d.options);
    ck_assert_uint_eq(d.storage.max, DESTINATION_BYTES_MAX);
    destination_done(&d);
}
END_TEST

START_TEST(done_frees_the_storage_and_may_be_called_twice) {
    struct destination d;
    destination_init(&d);
    ck_assert_int_eq(buf_add(&d.storage, "orders", 6), 0);
    destination_done(&d);
    ck_assert_ptr_null(d.storage.data);
    destination_done(&d);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("destination");
    TCase *cases = tcase_create("destination");
    tcase_add_test(cases, a_new_destination_is_empty);
    tcase_add_test(cases, done_frees_the_storage_and_may_be_called_twice);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
