/* test_window: slots, marks by arrival, the settled prefix and what of it can be saved */
#include "unit/unit.h"

#include "flow/window.h"

static struct window *window;

static void set_up(void) {
    ck_assert_int_eq(window_new(4, 4, &window), 0);
    window_reset(window, (struct flow_mark){.position = 100, .target = 1});
}

static void tear_down(void) {
    ck_assert_ptr_null(window_broken(window));
    window_free(window);
}

static uint32_t add(int64_t position, uint64_t target) {
    struct flow_event event = {
        .verdict = FLOW_SKIP, .bytes = 10, .mark = {.position = position, .target = target}};
    return window_add(window, &event, 0);
}

static struct window_place place(void) {
    struct window_place p;
    ck_assert(window_savable(window, &p));
    return p;
}

static void save(void) {
    struct window_place p = place();
    window_saving(window, &p);
    window_saved(window, &p);
}

START_TEST(the_next_slot_is_the_one_that_add_takes) {
    uint32_t next = window_next_slot(window);
    ck_assert_uint_eq(add(101, 1), next);
    ck_assert_uint_ne(window_next_slot(window), next);
}
END_TEST

START_TEST(nothing_is_savable_before_something_settles) {
    struct window_place p;
    ck_assert(!window_savable(window, &p));
    add(101, 1);
    ck_assert(!window_savable(window, &p));
}
END_TEST

START_TEST(the_prefix_ends_before_the_first_open_event) {
    add(101, 1);
    uint32_t second = add(102, 1), third = add(103, 1);
    window_settle(window, third);
    window_settle(window, second);
    struct window_place p;
    ck_assert(!window_savable(window, &p));
    ck_assert_uint_eq(window_unsaved(window), 2);
    ck_assert_uint_eq(window_open(window), 1);
    ck_assert_uint_eq(window_bytes(window), 10);
}
END_TEST

START_TEST(when_the_first_settles_the_prefix_reaches_over_those_ahead) {
    uint32_t first = add(101, 1);
    window_settle(window, add(102, 1));
    uint32_t oldest = window_oldest(window);
    ck_assert_uint_eq(oldest, first);
    window_settle(window, first);
    ck_assert_int_eq(place().mark.position, 102);
    ck_assert_uint_eq(window_oldest(window), WINDOW_NONE);
}
END_TEST

/* Late commits arrive lower. */
START_TEST(order_is_arrival_and_the_position_for_people_is_the_highest) {
    window_settle(window, add(120, 1));
    window_settle(window, add(90, 2));
    ck_assert_int_eq(place().mark.position, 90);
    ck_assert_uint_eq(place().mark.target, 2);
    ck_assert_int_eq(place().position, 120);
}
END_TEST

/* A filter that excludes every row. */
START_TEST(rows_without_an_event_are_worth_a_save) {
    window_mark(window, (struct flow_mark){.position = 150, .target = 1}, 50);
    ck_assert_int_eq(place().mark.position, 150);
    save();
    struct window_place p;
    ck_assert(!window_savable(window, &p));
}
END_TEST

START_TEST(an_empty_page_is_not_worth_a_save) {
    window_mark(window, (struct flow_mark){.position = INT64_MAX, .target = 2}, 0);
    struct window_place p;
    ck_assert(!window_savable(window, &p));
}
END_TEST

START_TEST(the_end_of_a_target_keeps_the_position_that_people_see) {
    window_settle(window, add(101, 1));
    window_mark(window, (struct flow_mark){.position = INT64_MAX, .target = 1}, 0);
    ck_assert_int_eq(place().mark.position, INT64_MAX);
    ck_assert_int_eq(place().position, 101);
}
END_TEST

START_TEST(a_mark_behind_an_open_event_waits_for_it) {
    uint32_t first = add(101, 1);
    window_mark(window, (struct flow_mark){.position = INT64_MAX, .target = 1}, 3);
    struct window_place p;
    ck_assert(!window_savable(window, &p));
    window_settle(window, first);
    ck_assert_int_eq(place().mark.position, INT64_MAX);
}
END_TEST

START_TEST(rows_passed_while_a_save_is_under_way_are_worth_another) {
    window_mark(window, (struct flow_mark){.position = 150, .target = 1}, 50);
    struct window_place p = place();
    window_saving(window, &p);
    window_mark(window, (struct flow_mark){.position = 160, .target = 1}, 10);
    window_saved(window, &p);
    ck_assert_int_eq(place().mark.position, 160);
}
END_TEST

START_TEST(what_was_not_saved_is_still_worth_it) {
    window_mark(window, (struct flow_mark){.position = 150, .target = 1}, 50);
    struct window_place p = place();
    window_saving(window, &p);
    ck_assert(!window_savable(window, &p));
    window_not_saved(window, &p);
    ck_assert_int_eq(place().mark.position, 150);
}
END_TEST

START_TEST(a_dropped_target_falls_back_to_the_newest_that_lives) {
    window_settle(window, add(101, 1));
    window_settle(window, add(102, 2));
    window_settle(window, add(103, 2));
    window_drop(window, 2);
    ck_assert_int_eq(place().mark.position, 101);
    ck_assert_uint_eq(place().mark.target, 1);
}
END_TEST

START_TEST(behind_a_dropped_target_later_ones_can_be_saved) {
    window_settle(window, add(101, 2));
    uint32_t held = add(102, 3);
    window_settle(window, add(103, 4));
    window_drop(window, 3);
    ck_assert_uint_eq(place().mark.target, 2);
    window_settle(window, held);
    ck_assert_uint_eq(place().mark.target, 4);
}
END_TEST

START_TEST(when_every_target_is_dropped_nothing_can_be_saved) {
    window_settle(window, add(101, 1));
    window_drop(window, 1);
    struct window_place p;
    ck_assert(!window_savable(window, &p));
}
END_TEST

START_TEST(a_target_dropped_while_it_is_saved_is_saved_all_the_same) {
    window_settle(window, add(101, 1));
    window_settle(window, add(102, 2));
    struct window_place p = place();
    window_saving(window, &p);
    window_drop(window, 2);
    window_saved(window, &p);
    ck_assert_uint_eq(window_unsaved(window), 0);
    ck_assert_ptr_null(window_broken(window));
}
END_TEST

START_TEST(unsaved_counts_down_when_saved) {
    window_settle(window, add(101, 1));
    window_settle(window, add(102, 1));
    ck_assert_uint_eq(window_unsaved(window), 2);
    save();
    ck_assert_uint_eq(window_unsaved(window), 0);
    ck_assert_uint_eq(window_oldest_target(window), 1);
}
END_TEST

START_TEST(a_slot_comes_back_when_settled_and_its_mark_stays) {
    add(101, 1);
    for (int i = 0; i < 4; i++)
        window_settle(window, add(102 + i, 1));
    ck_assert(window_has_slot(window));
    ck_assert_uint_eq(window_open(window), 1);
    ck_assert_uint_eq(window_unsaved(window), 4);
}
END_TEST

START_TEST(the_ring_goes_round_for_ever) {
    for (int i = 0; i < 1000; i++) {
        window_settle(window, add(101 + i, 1));
        ck_assert_ptr_null(window_broken(window));
        save();
    }
    ck_assert_uint_eq(window_saved_seq(window), 1000);
}
END_TEST

START_TEST(a_reset_forgets_everything) {
    add(101, 1);
    window_settle(window, add(102, 1));
    window_reset(window, (struct flow_mark){.position = 100, .target = 7});
    ck_assert_uint_eq(window_open(window) + window_unsaved(window), 0);
    ck_assert_uint_eq(window_oldest_target(window), 7);
    struct window_place p;
    ck_assert(!window_savable(window, &p));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("window");
    TCase *cases = tcase_create("window");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, the_next_slot_is_the_one_that_add_takes);
    tcase_add_test(cases, nothing_is_savable_before_something_settles);
    tcase_add_test(cases, the_prefix_ends_before_the_first_open_event);
    tcase_add_test(cases, when_the_first_settles_the_prefix_reaches_over_those_ahead);
    tcase_add_test(cases, order_is_arrival_and_the_position_for_people_is_the_highest);
    tcase_add_test(cases, rows_without_an_event_are_worth_a_save);
    tcase_add_test(cases, an_empty_page_is_not_worth_a_save);
    tcase_add_test(cases, the_end_of_a_target_keeps_the_position_that_people_see);
    tcase_add_test(cases, a_mark_behind_an_open_event_waits_for_it);
    tcase_add_test(cases, rows_passed_while_a_save_is_under_way_are_worth_another);
    tcase_add_test(cases, what_was_not_saved_is_still_worth_it);
    tcase_add_test(cases, a_dropped_target_falls_back_to_the_newest_that_lives);
    tcase_add_test(cases, behind_a_dropped_target_later_ones_can_be_saved);
    tcase_add_test(cases, when_every_target_is_dropped_nothing_can_be_saved);
    tcase_add_test(cases, a_target_dropped_while_it_is_saved_is_saved_all_the_same);
    tcase_add_test(cases, unsaved_counts_down_when_saved);
    tcase_add_test(cases, a_slot_comes_back_when_settled_and_its_mark_stays);
    tcase_add_test(cases, the_ring_goes_round_for_ever);
    tcase_add_test(cases, a_reset_forgets_everything);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
