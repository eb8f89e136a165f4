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

static void suspect(uint64_t mark, uint32_t under_way) {
    kafka_careful_suspect(careful, mark, under_way);
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
        suspect(orders[0][mark], 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_gt(kafka_careful_left(careful), 0);
        kafka_careful_clear(careful, orders[_i][i]);
    }
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(others_may_go_between_them) {
    suspect(1, 2);
    suspect(2, 2);
    kafka_careful_clear(careful, 1);
    kafka_careful_clear(careful, 100);
    kafka_careful_clear(careful, 1);
    ck_assert_uint_gt(kafka_careful_left(careful), 0);
    kafka_careful_clear(careful, 2);
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(two_with_the_same_mark_are_two) {
    suspect(3, 2);
    suspect(3, 2);
    kafka_careful_clear(careful, 3);
    ck_assert_uint_gt(kafka_careful_left(careful), 0);
    kafka_careful_clear(careful, 3);
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

START_TEST(places_of_cleared_ones_are_used_again) {
    for (uint64_t mark = 1; mark < 100; mark++) {
        suspect(mark, CAPACITY);
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
        suspect(mark, CAPACITY);
    for (uint64_t mark = 1; mark <= CAPACITY; mark++) {
        ck_assert_uint_gt(kafka_careful_left(careful), 0);
        kafka_careful_clear(careful, mark);
    }
    ck_assert_uint_eq(kafka_careful_left(careful), 0);
}
END_TEST

/* How many others have to go until nobody is suspected any more. */
static uint32_t others_until_none_is_left(void) {
    uint32_t others = 0;
    for (; kafka_careful_left(careful) > 0; others++)
        kafka_careful_clear(careful, 1000 + others);
    return others;
}

/* All that was under way goes again, so those that still come do it within that. */
START_TEST(one_that_never_comes_again_is_waited_for_while_it_could_still_come) {
    suspect(1, 1);
    ck_assert_uint_eq(others_until_none_is_left(), 4);
    suspect(1, 5);
    ck_assert_uint_eq(others_until_none_is_left(), 12);
    suspect(1, 2);
    suspect(2, 2);
    kafka_careful_clear(careful, 1);
    ck_assert_uint_eq(others_until_none_is_left(), 2 * (2 + 2) - 1);
}
END_TEST

/* Of a batch of its own one was refused: little was under way, but the others haven't come again yet. */
START_TEST(a_new_suspect_shortens_no_wait_for_the_others) {
    for (uint64_t mark = 1; mark <= 4; mark++)
        suspect(mark, CAPACITY);
    kafka_careful_clear(careful, 1000);
    suspect(5, 1);
    ck_assert_uint_eq(others_until_none_is_left(), 2 * (CAPACITY + 4) - 1);
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
    tcase_add_test(cases, one_that_never_comes_again_is_waited_for_while_it_could_still_come);
    tcase_add_test(cases, a_new_suspect_shortens_no_wait_for_the_others);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
