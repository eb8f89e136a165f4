/* test_range: runs of positions, their text, lists of them */
#include "unit/unit.h"

#include <errno.h>

#include "source/range.h"
#include "unit/fail_alloc.h"

static const struct {
    struct range range;
    const char *text;
} spelled[] = {
    {{5, 5}, "5"},
    {{7, 9}, "7-9"},
    {{-9, -7}, "-9--7"},
    {{-3, 4}, "-3-4"},
    {{INT64_MIN, 9}, "<10"},
    {{INT64_MIN, -11}, "<-10"},
    {{INT64_MIN + 1, INT64_MAX}, "-9223372036854775807-9223372036854775807"},
};

START_TEST(a_range_is_read_back_as_it_was_printed) {
    for (size_t i = 0; i < ARRAY_LENGTH(spelled); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(RANGE_TEXT_MAX);
        struct range again;
        ck_assert_int_eq(range_print(spelled[i].range, &b), 0);
        ck_assert_msg(span_is(buf_span(&b), spelled[i].text), "%.*s", SPAN_ARGS(buf_span(&b)));
        ck_assert_int_eq(range_parse(buf_span(&b), &again), 0);
        ck_assert_int_eq(again.first, spelled[i].range.first);
        ck_assert_int_eq(again.last, spelled[i].range.last);
    }
}
END_TEST

START_TEST(what_is_no_range_is_refused) {
    static const char *const bad[] = {"", "-", "<", "5-", "-5-", "9-7", "5 ", " 5", "5-7-9", "<5-9", "x", "5x", "+5",
                                      "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "5--"};
    struct range r;
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        ck_assert_msg(range_parse(span_of(bad[i]), &r) == -EINVAL, "%s", bad[i]);
}
END_TEST

START_TEST(touching_ranges_become_one_and_positions_are_found) {
    struct ranges list = {0};
    const struct range some[] = {{20, 29}, {5, 6}, {7, 7}, {INT64_MIN, 4}, {40, 40}};
    for (size_t i = 0; i < ARRAY_LENGTH(some); i++)
        ck_assert_int_eq(ranges_add(&list, some[i]), 0);
    ranges_sort(&list);
    ck_assert_uint_eq(list.count, 3);
    ck_assert_int_eq(list.items[0].last, 7);
    ck_assert_uint_eq(ranges_find(&list, -1000), 0);
    ck_assert_uint_eq(ranges_find(&list, 7), 0);
    ck_assert_uint_eq(ranges_find(&list, 8), 3);
    ck_assert_uint_eq(ranges_find(&list, 20), 1);
    ck_assert_uint_eq(ranges_find(&list, 29), 1);
    ck_assert_uint_eq(ranges_find(&list, 40), 2);
    ck_assert_uint_eq(ranges_find(&list, 41), 3);
    ranges_done(&list);
}
END_TEST

START_TEST(running_out_of_memory_is_an_ordinary_result) {
    FAIL_ALLOC_EACH(n) {
        struct ranges list = {0};
        int r = 0;
        for (int64_t i = 0; r == 0 && i < 100; i++)
            r = ranges_add(&list, (struct range){2 * i, 2 * i});
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        ranges_done(&list);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("range");
    TCase *cases = tcase_create("range");
    tcase_add_test(cases, a_range_is_read_back_as_it_was_printed);
    tcase_add_test(cases, what_is_no_range_is_refused);
    tcase_add_test(cases, touching_ranges_become_one_and_positions_are_found);
    tcase_add_test(cases, running_out_of_memory_is_an_ordinary_result);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
