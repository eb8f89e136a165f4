/* test_demand: when the source is asked for how much */
#include "unit/flow_rig.h"

/* --- Demand. ------------------------------------------------------------- */

START_TEST(nothing_is_wanted_before_the_database_is_up) {
    ck_assert_int_eq(flow_new(&options, &flow), 0);
    want_nothing();
    ck_assert_int_eq(flow_deadline_us(flow), CLOCK_NEVER);
}
END_TEST

/* Reactive Streams 2.1, 3.8. */
START_TEST(the_demand_is_the_room_in_events_and_bytes) {
    begin();
    struct flow_want w = want(FLOW_WANT_READ);
    ck_assert_uint_eq(w.events, 8);
    ck_assert_uint_eq(w.bytes, 8000);
    want_nothing();
    for (int i = 0; i < 3; i++)
        add((uint64_t)i);
    flow_read_done(flow, now_us, false);
    w = want(FLOW_WANT_READ);
    ck_assert_uint_eq(w.events, 5);
    ck_assert_uint_eq(w.bytes, 7700);
    for (int i = 0; i < 3; i++)
        want(FLOW_WANT_SUBMIT);
}
END_TEST

START_TEST(the_next_page_waits_for_a_quarter_of_the_window) {
    begin();
    read_keys("abcdefg");
    uint64_t first = want(FLOW_WANT_SUBMIT).token;
    for (int i = 0; i < 6; i++)
        want(FLOW_WANT_SUBMIT);
    now_us += 10 * MS;
    want_nothing();
    outcome(first, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    ck_assert_uint_eq(want(FLOW_WANT_READ).events, 2);
}
END_TEST

START_TEST(the_next_page_waits_for_a_quarter_of_the_bytes) {
    begin();
    want(FLOW_WANT_READ);
    add_event((struct flow_event){.verdict = FLOW_DELIVER, .destinations = 1, .bytes = 6500});
    flow_read_done(flow, now_us, false);
    uint64_t token = want(FLOW_WANT_SUBMIT).token;
    now_us += 10 * MS;
    want_nothing();
    outcome(token, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    ck_assert_uint_eq(want(FLOW_WANT_READ).bytes, 8000);
}
END_TEST

/* A row larger than the window travels alone. */
START_TEST(behind_a_row_larger_than_the_window_nothing_is_read) {
    begin();
    want(FLOW_WANT_READ);
    add_event((struct flow_event){.verdict = FLOW_DELIVER, .destinations = 1, .bytes = 90000});
    flow_read_done(flow, now_us, false);
    uint64_t token = want(FLOW_WANT_SUBMIT).token;
    now_us += 10000 * MS;
    want_nothing();
    ck_assert(view().window_full);
    outcome(token, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    want(FLOW_WANT_READ);
}
END_TEST

START_TEST(when_all_that_is_open_is_held_reading_goes_on_in_what_room_is_left) {
    begin();
    read_keys("aaaaaaa");
    outcome(want(FLOW_WANT_SUBMIT).token, FLOW_REJECTED);
    now_us += 10 * MS;
    ck_assert_uint_eq(want(FLOW_WANT_READ).events, 1);
    uint32_t other = add('b');
    flow_read_done(flow, now_us, true);
    want_submit(other);
    ck_assert_uint_eq(view().followers, 6);
    ck_assert(view().window_full);
}
END_TEST

START_TEST(a_full_cap_of_unsaved_stops_the_demand) {
    options.unsaved = 4;
    begin();
    read_keys("abbbb");
    outcome(want(FLOW_WANT_SUBMIT).token, FLOW_REJECTED);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(answer_all(FLOW_CONFIRMED), 1);
    ck_assert_uint_eq(view().unsaved, 4);
    ck_assert(view().unsaved_full);
    now_us += 10000 * MS;
    want_nothing();
}
END_TEST

START_TEST(polls_come_at_poll_min_while_rows_come_and_double_when_idle) {
    begin();
    read_keys("a");
    answer_all(FLOW_CONFIRMED);
    int64_t waits_ms[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000};
    now_us += 1 * MS;
    for (size_t i = 1; i < ARRAY_LENGTH(waits_ms); i++) {
        struct flow_want w;
        while (next(&w) && w.kind != FLOW_WANT_READ)
            flow_saved(flow, now_us);
        flow_read_done(flow, now_us, true);
        now_us += waits_ms[i] * MS - 1;
        while (next(&w)) {
            ck_assert_int_eq(w.kind, FLOW_WANT_SAVE);
            flow_saved(flow, now_us);
        }
        ck_assert_int_eq(flow_deadline_us(flow), now_us + 1);
        now_us++;
    }
}
END_TEST

/* What NOTIFY says makes the next poll due; without it the next poll finds the rows. */
START_TEST(a_wake_makes_the_next_poll_due_now) {
    begin();
    read_keys("");
    want_nothing();
    flow_wake(flow, now_us);
    read_keys("");
    want_nothing();
}
END_TEST

START_TEST(a_wake_during_a_read_makes_another_due) {
    begin();
    want(FLOW_WANT_READ);
    flow_wake(flow, now_us);
    flow_read_done(flow, now_us, true);
    want(FLOW_WANT_READ);
}
END_TEST

START_TEST(a_page_that_was_full_is_followed_at_once) {
    begin();
    want(FLOW_WANT_READ);
    add('a');
    flow_read_done(flow, now_us, false);
    want(FLOW_WANT_READ);
    want(FLOW_WANT_SUBMIT);
}
END_TEST

START_TEST(a_page_that_brought_nothing_though_more_is_there_is_not_asked_for_at_wire_speed) {
    begin();
    read_keys("a");
    uint64_t token = want(FLOW_WANT_SUBMIT).token;
    now_us += 1 * MS;
    want(FLOW_WANT_READ);
    flow_read_done(flow, now_us, false);
    want_nothing();
    outcome(token, FLOW_CONFIRMED); /* the window is empty: now it fits */
    want(FLOW_WANT_SAVE);
    want(FLOW_WANT_READ);
}
END_TEST

START_TEST(a_window_without_a_limit_of_bytes_does_not_overflow) {
    options.window_bytes = UINT64_MAX;
    begin();
    ck_assert_uint_eq(want(FLOW_WANT_READ).bytes, UINT64_MAX);
    add_event((struct flow_event){.verdict = FLOW_DELIVER, .destinations = 1, .bytes = 1});
    flow_read_done(flow, now_us, false);
    ck_assert_uint_eq(want(FLOW_WANT_READ).bytes, UINT64_MAX - 1);
    want(FLOW_WANT_SUBMIT);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("demand");
    TCase *demand = case_of(suite, "demand");
    tcase_add_test(demand, nothing_is_wanted_before_the_database_is_up);
    tcase_add_test(demand, the_demand_is_the_room_in_events_and_bytes);
    tcase_add_test(demand, the_next_page_waits_for_a_quarter_of_the_window);
    tcase_add_test(demand, the_next_page_waits_for_a_quarter_of_the_bytes);
    tcase_add_test(demand, behind_a_row_larger_than_the_window_nothing_is_read);
    tcase_add_test(demand, when_all_that_is_open_is_held_reading_goes_on_in_what_room_is_left);
    tcase_add_test(demand, a_full_cap_of_unsaved_stops_the_demand);
    tcase_add_test(demand, polls_come_at_poll_min_while_rows_come_and_double_when_idle);
    tcase_add_test(demand, a_wake_makes_the_next_poll_due_now);
    tcase_add_test(demand, a_wake_during_a_read_makes_another_due);
    tcase_add_test(demand, a_page_that_was_full_is_followed_at_once);
    tcase_add_test(demand, a_page_that_brought_nothing_though_more_is_there_is_not_asked_for_at_wire_speed);
    tcase_add_test(demand, a_window_without_a_limit_of_bytes_does_not_overflow);
    return unit_run(suite);
}
