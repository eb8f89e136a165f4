/* test_plan: what is asked next, which rows are kept, which places there are */
#include "unit/unit.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "source/plan.h"
#include "source/portion.h"
#include "unit/fail_alloc.h"

static struct plan *plan;
static struct plan_statement asked;

static void setup(void) {
    ck_assert_int_eq(plan_new(&plan), 0);
}

static void teardown(void) {
    plan_free(plan);
}

static void open_at(const char *s) {
    struct cursor at = {.s = span_of(s)};
    ck_assert_int_eq(plan_open(plan, &at), 0);
}

static void expect(enum plan_kind kind, const char *s, const char *n) {
    ck_assert(plan_next(plan, &asked));
    ck_assert_int_eq(asked.kind, kind);
    ck_assert_msg(span_is(asked.s, s), "s is %.*s", SPAN_ARGS(asked.s));
    ck_assert_msg(n ? span_is(asked.n, n) : span_absent(asked.n), "n is %.*s", SPAN_ARGS(asked.n));
}

static void expect_end(bool caught_up) {
    ck_assert(!plan_next(plan, &asked));
    ck_assert_int_eq(plan_caught_up(plan), caught_up);
}

static void answer_small(const char *n, bool overflow, int64_t end) {
    ck_assert_int_eq(plan_small(plan, span_of(n), overflow, end), 0);
}

static bool row(int64_t position, uint64_t bytes) {
    bool keep;
    ck_assert_int_eq(plan_row(plan, position, bytes, &keep), 0);
    return keep;
}

/* Keeps rows first … last and ends the statement. */
static void rows(int64_t first, int64_t last) {
    for (int64_t i = first; i <= last; i++)
        ck_assert(row(i, 100));
    plan_end(plan);
}

static struct cursor cursor_at(struct plan_mark mark) {
    struct cursor c;
    ck_assert_int_eq(plan_cursor(plan, mark, &c), 0);
    return c;
}

static void expect_done_in(const char *s) {
    struct cursor c = cursor_at(plan_mark(plan));
    ck_assert_msg(span_is(c.s, s) && span_absent(c.n), "%.*s, %.*s", SPAN_ARGS(c.s), SPAN_ARGS(c.n));
}

static void expect_inside(const char *s, const char *n, int64_t position, int64_t end) {
    struct cursor c = cursor_at(plan_mark(plan)), want = {span_of(s), span_of(n), position, end};
    ck_assert_msg(cursor_equal(&c, &want), "%.*s %.*s %lld %lld", SPAN_ARGS(c.s), SPAN_ARGS(c.n), (long long)c.position,
                  (long long)c.end);
}

START_TEST(an_idle_poll_is_one_small_statement_and_makes_no_target) {
    open_at("10:20:10");
    uint64_t target = plan_mark(plan).target;
    const char *now[] = {"10:21:10", "22:22:"};
    const char *before = "10:20:10";
    for (int i = 0; i < 2; i++) {
        plan_want(plan, 100, 1 << 20);
        expect(PLAN_SMALL, before, NULL);
        answer_small(now[i], false, INT64_MIN);
        plan_end(plan);
        expect_end(true);
        expect_done_in(now[i]);
        ck_assert_uint_eq(plan_mark(plan).target, target);
        before = now[i];
    }
}
END_TEST

START_TEST(small_rows_are_a_target_with_a_place_behind_each) {
    open_at("10:20:10");
    plan_want(plan, 100, 1 << 20);
    expect(PLAN_SMALL, "10:20:10", NULL);
    answer_small("21:25:", false, 9);
    ck_assert(row(3, 10));
    expect_inside("10:20:10", "21:25:", 3, 9);
    struct plan_mark third = plan_mark(plan);
    ck_assert(row(9, 10));
    plan_end(plan);
    expect_end(true);
    expect_done_in("21:25:");
    struct cursor c = cursor_at(third);
    ck_assert_int_eq(c.position, 3);
    plan_want(plan, 100, 1 << 20);
    expect(PLAN_SMALL, "21:25:", NULL);
}
END_TEST

START_TEST(an_overflow_becomes_a_backlog_with_its_first_position_asked_once) {
    open_at("10:20:10");
    plan_want(plan, 2, 1 << 20);
    expect(PLAN_SMALL, "10:20:10", NULL);
    ck_assert_uint_eq(asked.limit, 2);
    answer_small("30:30:", true, 90);
    plan_end(plan);
    struct cursor c = cursor_at(plan_mark(plan));
    ck_assert_msg(span_is(c.s, "10:20:10") && span_absent(c.n), "nothing of the target is done");

    expect(PLAN_FIRST, "10:20:10", "30:30:");
    ck_assert_int_eq(asked.position, INT64_MIN);
    plan_first(plan, true, 41);
    plan_end(plan);
    expect(PLAN_PAGE, "10:20:10", "30:30:");
    ck_assert_int_eq(asked.first, 41);
    ck_assert_int_eq(asked.position, INT64_MIN);
    ck_assert_int_eq(asked.end, 90);
    rows(7, 8);
    expect_end(false);
    expect_inside("10:20:10", "30:30:", 8, 90);

    plan_want(plan, 5, 1 << 20);
    expect(PLAN_PAGE, "10:20:10", "30:30:");
    ck_assert_int_eq(asked.position, 8);
    ck_assert_int_eq(asked.first, 41);
    rows(41, 43);
    expect_end(false);
    expect_done_in("30:30:");
    plan_want(plan, 5, 1 << 20);
    expect(PLAN_SMALL, "30:30:", NULL);
}
END_TEST

START_TEST(from_the_beginning_no_first_position_is_asked) {
    open_at("1:1:");
    plan_want(plan, 2, 1 << 20);
    expect(PLAN_SMALL, "1:1:", NULL);
    answer_small("30:30:", true, 90);
    plan_end(plan);
    expect(PLAN_PAGE, "1:1:", "30:30:");
    ck_assert_int_eq(asked.first, INT64_MIN);
}
END_TEST

START_TEST(a_page_that_reaches_the_end_finishes_the_target) {
    open_at("1:1:");
    plan_want(plan, 3, 1 << 20);
    expect(PLAN_SMALL, "1:1:", NULL);
    answer_small("30:30:", true, 5);
    plan_end(plan);
    expect(PLAN_PAGE, "1:1:", "30:30:");
    rows(3, 5); /* as many as asked for, and the last is the end */
    expect_end(false);
    expect_done_in("30:30:");
}
END_TEST

START_TEST(without_rows_of_newer_transactions_their_walk_is_made_empty) {
    open_at("10:20:10");
    plan_want(plan, 1, 1 << 20);
    expect(PLAN_SMALL, "10:20:10", NULL);
    answer_small("30:30:", true, 90);
    plan_end(plan);
    expect(PLAN_FIRST, "10:20:10", "30:30:");
    plan_first(plan, false, 0);
    plan_end(plan);
    expect(PLAN_PAGE, "10:20:10", "30:30:");
    ck_assert_int_eq(asked.first, INT64_MAX);
}
END_TEST

START_TEST(a_stored_place_inside_a_target_goes_on_there) {
    struct cursor at = {SPAN_LITERAL("10:20:10"), SPAN_LITERAL("30:30:"), 55, 90};
    ck_assert_int_eq(plan_open(plan, &at), 0);
    expect_inside("10:20:10", "30:30:", 55, 90);
    plan_want(plan, 10, 1 << 20);
    expect(PLAN_FIRST, "10:20:10", "30:30:");
    ck_assert_int_eq(asked.position, 55);
    plan_first(plan, true, 60);
    plan_end(plan);
    expect(PLAN_PAGE, "10:20:10", "30:30:");
    ck_assert_int_eq(asked.position, 55);
    ck_assert_int_eq(asked.end, 90);
    rows(60, 61);
    expect_end(false);
    expect_done_in("30:30:");
}
END_TEST

START_TEST(a_row_that_no_longer_fits_is_cut_and_comes_first_next_time) {
    open_at("10:20:10");
    plan_want(plan, 100, 10000);
    expect(PLAN_SMALL, "10:20:10", NULL);
    answer_small("21:25:", false, 9);
    ck_assert(row(3, 6000));
    ck_assert(!row(5, 4010));
    ck_assert(!row(9, 1)); /* it would fit, but order comes first */
    plan_end(plan);
    expect_end(false);
    expect_inside("10:20:10", "21:25:", 3, 9);

    plan_want(plan, 100, 10000);
    expect(PLAN_FIRST, "10:20:10", "21:25:");
    ck_assert_int_eq(asked.position, 3);
    plan_first(plan, true, 5);
    plan_end(plan);
    expect(PLAN_PAGE, "10:20:10", "21:25:");
    ck_assert(row(5, 4010));
    ck_assert(row(9, 1));
    plan_end(plan);
    expect_end(false);
    expect_done_in("21:25:");
}
END_TEST

START_TEST(the_first_row_of_a_read_is_taken_however_large_it_is) {
    open_at("10:20:10");
    plan_want(plan, 100, 10000);
    expect(PLAN_SMALL, "10:20:10", NULL);
    answer_small("21:25:", false, 9);
    ck_assert(row(3, 1 << 30));
    ck_assert(!row(4, 1));
    plan_end(plan);
    expect_end(false);
    expect_inside("10:20:10", "21:25:", 3, 9);
}
END_TEST

START_TEST(rows_of_one_position_are_never_cut_apart) {
    open_at("10:20:10");
    plan_want(plan, 100, 10000);
    expect(PLAN_SMALL, "10:20:10", NULL);
    answer_small("21:25:", false, 9);
    ck_assert(row(3, 9000));
    ck_assert(row(3, 9000));
    ck_assert(!row(4, 9000));
}
END_TEST

START_TEST(the_limit_is_the_least_of_events_bytes_and_a_thousand) {
    open_at("10:20:10");
    plan_want(plan, 7, UINT64_MAX);
    expect(PLAN_SMALL, "10:20:10", NULL);
    ck_assert_uint_eq(asked.limit, 7);
    answer_small("21:25:", false, 100000);
    for (int i = 1; i <= 7; i++)
        ck_assert(row(i, 1 << 20));
    plan_end(plan);
    expect_end(true);
    plan_want(plan, 100000, UINT64_MAX);
    expect(PLAN_SMALL, "21:25:", NULL);
    ck_assert_uint_eq(asked.limit, PORTION_LIMIT_MAX);
    answer_small("26:26:", false, 100000);
    for (int i = 1; i <= 200; i++)
        ck_assert(row(i, 1 << 20));
    plan_end(plan);
    expect_end(true);
    plan_want(plan, 1000, 16 << 20); /* rows of about 1 MiB were seen */
    expect(PLAN_SMALL, "26:26:", NULL);
    ck_assert_uint_ge(asked.limit, 14);
    ck_assert_uint_le(asked.limit, 18);
    answer_small("27:27:", false, INT64_MIN);
    plan_end(plan);
    expect_end(true);
    plan_want(plan, 1000, 1);
    expect(PLAN_SMALL, "27:27:", NULL);
    ck_assert_uint_eq(asked.limit, 1);
}
END_TEST

static void expect_misfit(int64_t position) {
    bool keep;
    ck_assert_int_eq(plan_row(plan, position, 1, &keep), PLAN_E_ANSWER);
}

START_TEST(an_answer_that_does_not_fit_the_question_is_refused) {
    struct cursor at = {SPAN_LITERAL("10:20:10"), SPAN_LITERAL("30:30:"), 55, 90};
    ck_assert_int_eq(plan_open(plan, &at), 0);
    plan_want(plan, 3, 1 << 20);
    expect(PLAN_FIRST, "10:20:10", "30:30:");
    plan_first(plan, true, 60);
    expect_misfit(60); /* no rows there */
    plan_end(plan);
    expect(PLAN_PAGE, "10:20:10", "30:30:");
    expect_misfit(55); /* done before */
    expect_misfit(91); /* behind the end */
    ck_assert(row(60, 1));
    expect_misfit(59); /* out of order */
    ck_assert(row(61, 1));
    ck_assert(row(62, 1));
    expect_misfit(63); /* more than asked for */
    expect_inside("10:20:10", "30:30:", 62, 90);
    plan_end(plan);
    expect_end(false);

    open_at("30:30:");
    plan_want(plan, 3, 1 << 20);
    expect(PLAN_SMALL, "30:30:", NULL);
    ck_assert_int_eq(plan_small(plan, span_of("not a snapshot"), false, 0), PLAN_E_ANSWER);
}
END_TEST

START_TEST(rows_after_an_overflow_are_refused) {
    open_at("30:30:");
    plan_want(plan, 3, 1 << 20);
    expect(PLAN_SMALL, "30:30:", NULL);
    answer_small("31:31:", true, 9);
    expect_misfit(5);
}
END_TEST

START_TEST(positions_that_stand_for_all_and_for_none_are_refused) {
    open_at("30:30:");
    plan_want(plan, 3, 1 << 20);
    expect(PLAN_SMALL, "30:30:", NULL);
    answer_small("31:31:", false, INT64_MAX);
    expect_misfit(INT64_MIN);
    expect_misfit(INT64_MAX);
}
END_TEST

/* One read of one row: one target. */
static struct plan_mark read_one(int i) {
    char n[32];
    snprintf(n, sizeof n, "%d:%d:", 100 + i, 100 + i);
    plan_want(plan, 10, 1 << 20);
    ck_assert(plan_next(plan, &asked));
    answer_small(n, false, i + 1);
    ck_assert(row(i + 1, 1));
    plan_end(plan);
    expect_end(true);
    return plan_mark(plan);
}

START_TEST(at_most_64_targets_are_kept_and_a_dropped_one_is_told_once) {
    struct plan_mark marks[200];
    uint64_t dropped[200], d;
    size_t count = 0;
    open_at("50:50:");
    for (int i = 0; i < 200; i++) {
        marks[i] = read_one(i);
        if (plan_dropped(plan, &d))
            dropped[count++] = d;
        ck_assert(!plan_dropped(plan, &d));
    }
    ck_assert_uint_eq(count, 200 + 1 - PLAN_TARGETS_MAX);
    struct cursor c;
    size_t gone = 0;
    for (int i = 0; i < 200; i++) {
        bool told = false;
        for (size_t j = 0; j < count; j++)
            told |= dropped[j] == marks[i].target;
        ck_assert_int_eq(plan_cursor(plan, marks[i], &c), told ? PLAN_E_GONE : 0);
        gone += told;
    }
    ck_assert_uint_eq(gone, count);
    ck_assert_int_eq(plan_cursor(plan, marks[0], &c), 0);
    ck_assert_int_eq(plan_cursor(plan, marks[199], &c), 0);
}
END_TEST

START_TEST(released_targets_are_gone_but_never_the_newest) {
    open_at("50:50:");
    struct plan_mark first = read_one(0), second = read_one(1);
    struct cursor c;
    plan_release(plan, second.target);
    ck_assert_int_eq(plan_cursor(plan, first, &c), PLAN_E_GONE);
    ck_assert_int_eq(plan_cursor(plan, second, &c), 0);
    plan_release(plan, UINT64_MAX);
    ck_assert_int_eq(plan_cursor(plan, second, &c), 0);
    uint64_t d;
    for (int i = 2; i < 1000; i++) {
        plan_release(plan, read_one(i).target);
        ck_assert(!plan_dropped(plan, &d));
    }
}
END_TEST

START_TEST(opening_again_forgets_places_but_not_the_count_of_targets) {
    open_at("50:50:");
    struct plan_mark first = read_one(0);
    open_at("60:60:");
    struct cursor c;
    ck_assert_int_eq(plan_cursor(plan, first, &c), PLAN_E_GONE);
    ck_assert_uint_gt(plan_mark(plan).target, first.target);
    expect_done_in("60:60:");
}
END_TEST

START_TEST(opening_again_in_the_middle_of_a_read_is_allowed) {
    open_at("50:50:");
    plan_want(plan, 10, 1 << 20);
    ck_assert(plan_next(plan, &asked));
    answer_small("51:51:", false, 9);
    ck_assert(row(5, 1));
    open_at("50:50:");
    plan_want(plan, 10, 1 << 20);
    expect(PLAN_SMALL, "50:50:", NULL);
}
END_TEST

/* As read_one, but nothing of Check, which allocates. */
static bool read_quietly(int i) {
    char n[32];
    bool keep = false;
    snprintf(n, sizeof n, "%d:%d:", 10000000 + i, 10000000 + i);
    plan_want(plan, 10, 1 << 20);
    bool ok = plan_next(plan, &asked) && plan_small(plan, span_of(n), false, 1) == 0 && plan_row(plan, 1, 1, &keep) == 0;
    plan_end(plan);
    return ok && keep && !plan_next(plan, &asked);
}

START_TEST(in_steady_state_nothing_is_allocated) {
    bool ok = true;
    open_at("50:50:");
    for (int i = 0; i < 100; i++)
        ok &= read_quietly(i);
    fail_alloc_begin(0);
    for (int i = 100; i < 1000; i++)
        ok &= read_quietly(i);
    fail_alloc_end();
    ck_assert(ok);
    ck_assert_uint_eq(fail_alloc_count(), 0);
}
END_TEST

START_TEST(running_out_of_memory_is_an_ordinary_result_and_the_place_stays) {
    FAIL_ALLOC_EACH(n) {
        struct plan *p = NULL;
        struct cursor at = {.s = SPAN_LITERAL("50:50:")};
        bool keep;
        int r = plan_new(&p);
        if (r == 0)
            r = plan_open(p, &at);
        if (r == 0) {
            plan_want(p, 10, 1 << 20);
            r = plan_next(p, &asked) ? plan_small(p, SPAN_LITERAL("60:60:"), false, 9) : -1;
        }
        if (r == 0)
            r = plan_row(p, 9, 1, &keep);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        plan_free(p);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("plan");
    TCase *cases = tcase_create("plan");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, an_idle_poll_is_one_small_statement_and_makes_no_target);
    tcase_add_test(cases, small_rows_are_a_target_with_a_place_behind_each);
    tcase_add_test(cases, an_overflow_becomes_a_backlog_with_its_first_position_asked_once);
    tcase_add_test(cases, from_the_beginning_no_first_position_is_asked);
    tcase_add_test(cases, a_page_that_reaches_the_end_finishes_the_target);
    tcase_add_test(cases, without_rows_of_newer_transactions_their_walk_is_made_empty);
    tcase_add_test(cases, a_stored_place_inside_a_target_goes_on_there);
    tcase_add_test(cases, a_row_that_no_longer_fits_is_cut_and_comes_first_next_time);
    tcase_add_test(cases, the_first_row_of_a_read_is_taken_however_large_it_is);
    tcase_add_test(cases, rows_of_one_position_are_never_cut_apart);
    tcase_add_test(cases, the_limit_is_the_least_of_events_bytes_and_a_thousand);
    tcase_add_test(cases, an_answer_that_does_not_fit_the_question_is_refused);
    tcase_add_test(cases, rows_after_an_overflow_are_refused);
    tcase_add_test(cases, positions_that_stand_for_all_and_for_none_are_refused);
    tcase_add_test(cases, at_most_64_targets_are_kept_and_a_dropped_one_is_told_once);
    tcase_add_test(cases, released_targets_are_gone_but_never_the_newest);
    tcase_add_test(cases, opening_again_forgets_places_but_not_the_count_of_targets);
    tcase_add_test(cases, opening_again_in_the_middle_of_a_read_is_allowed);
    tcase_add_test(cases, in_steady_state_nothing_is_allocated);
    tcase_add_test(cases, running_out_of_memory_is_an_ordinary_result_and_the_place_stays);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
