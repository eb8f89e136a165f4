/* test_kafka_careful: there are suspects until each is cleared */
#include "unit/unit.h"

#include <errno.h>

#include "sink/kafka_careful.h"
#include "unit/fail_alloc.h"

#define CAPACITY 8

static struct kafka_careful *careful;

static void open_careful(void) {
    ck_assert_int_eq(kafka_careful_new(CAPACITY, &careful), 0);
}

static void close_careful(void) {
    kafka_careful_free(careful);
}

START_TEST(without_a_suspect_there_is_nothing_to_clear) {
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
    kafka_careful_clear(careful, 7);
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(it_ends_when_the_last_suspect_is_cleared_in_whatever_order) {
    static const uint64_t orders[][4] = {{0, 5, 7, 9}, {9, 7, 5, 0}, {7, 0, 9, 5}};
    for (uint64_t mark = 0; mark < 4; mark++)
        kafka_careful_suspect(careful, orders[0][mark]);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_gt(kafka_careful_left(careful), 0);
        kafka_careful_clear(careful, orders[_i][i]);
    }
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(others_may_go_between_them) {
    kafka_careful_suspect(careful, 1);
    kafka_careful_suspect(careful, 2);
    kafka_careful_clear(careful, 1);
    kafka_careful_clear(careful, 100);
    kafka_careful_clear(careful, 1);
    ck_assert_uint_gt(kafka_careful_left(careful), 0);
    kafka_careful_clear(careful, 2);
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(two_with_the_same_mark_are_two) {
    kafka_careful_suspect(careful, 3);
    kafka_careful_suspect(careful, 3);
    kafka_careful_clear(careful, 3);
    ck_assert_uint_gt(kafka_careful_left(careful), 0);
    kafka_careful_clear(careful, 3);
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(places_of_cleared_ones_are_used_again) {
    for (uint64_t mark = 1; mark < 100; mark++) {
        kafka_careful_suspect(careful, mark);
        if (mark > 4)
            kafka_careful_clear(careful, mark - 4);
    }
    for (uint64_t mark = 96; mark < 100; mark++) {
        ck_assert_uint_gt(kafka_careful_left(careful), 0);
        kafka_careful_clear(careful, mark);
    }
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(one_more_than_capacity_is_forgotten) {
    for (uint64_t mark = 1; mark <= CAPACITY + 1; mark++)
        kafka_careful_suspect(careful, mark);
    for (uint64_t mark = 1; mark <= CAPACITY; mark++) {
        ck_assert_uint_gt(kafka_careful_left(careful), 0);
        kafka_careful_clear(careful, mark);
    }
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(one_that_never_comes_again_is_not_waited_for_for_ever) {
    kafka_careful_suspect(careful, 1);
    for (uint64_t other = 0; other < 2 * CAPACITY - 1; other++)
        kafka_careful_clear(careful, 1000 + other);
    ck_assert_uint_gt(kafka_careful_left(careful), 0);
    kafka_careful_clear(careful, 2000);
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    FAIL_ALLOC_EACH(n) {
        struct kafka_careful *c = NULL;
        int result = kafka_careful_new(CAPACITY, &c);
        if (fail_alloc_end())
            ck_assert_int_eq(result, -ENOMEM);
        else
            kafka_careful_free(c);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_careful");
    TCase *cases = tcase_create("kafka_careful");
    tcase_add_checked_fixture(cases, open_careful, close_careful);
    tcase_add_test(cases, without_a_suspect_there_is_nothing_to_clear);
    tcase_add_loop_test(cases, it_ends_when_the_last_suspect_is_cleared_in_whatever_order, 0, 3);
    tcase_add_test(cases, others_may_go_between_them);
    tcase_add_test(cases, two_with_the_same_mark_are_two);
    tcase_add_test(cases, places_of_cleared_ones_are_used_again);
    tcase_add_test(cases, one_more_than_capacity_is_forgotten);
    tcase_add_test(cases, one_that_never_comes_again_is_not_waited_for_for_ever);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
