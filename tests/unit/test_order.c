/* test_order: which event may go next, and what its outcome does to its key */
#include "unit/flow_rig.h"

/* --- Order. -------------------------------------------------------------- */

START_TEST(of_one_key_one_event_is_in_flight_and_other_keys_go_on) {
    begin();
    read_keys("aab");
    uint64_t first = want_submit(0);
    uint64_t other = want_submit(2);
    want_nothing();
    outcome(other, FLOW_CONFIRMED);
    outcome(first, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    want_submit(1);
}
END_TEST

START_TEST(a_key_moves_on_when_all_destinations_have_settled) {
    begin();
    want(FLOW_WANT_READ);
    struct flow_event event = {.verdict = FLOW_DELIVER, .destinations = 3, .keyed = true, .key = 1};
    uint32_t slot = add_event(event);
    uint32_t second = add(1);
    flow_read_done(flow, now_us, true);
    uint64_t tokens[3];
    for (uint16_t i = 0; i < 3; i++) {
        struct flow_want w = want(FLOW_WANT_SUBMIT);
        ck_assert_uint_eq(w.slot, slot);
        ck_assert_uint_eq(w.destination, i);
        tokens[i] = w.token;
    }
    outcome(tokens[2], FLOW_CONFIRMED);
    outcome(tokens[0], FLOW_CONFIRMED);
    want_nothing();
    outcome(tokens[1], FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    want_submit(second);
}
END_TEST

START_TEST(only_the_destination_that_failed_is_retried) {
    begin();
    want(FLOW_WANT_READ);
    add_event((struct flow_event){.verdict = FLOW_DELIVER, .destinations = FLOW_DESTINATIONS_MAX});
    flow_read_done(flow, now_us, true);
    options.sink_in_flight = 8;
    for (int i = 0; i < 8; i++)
        outcome(want(FLOW_WANT_SUBMIT).token, FLOW_CONFIRMED);
    struct flow_want w = want(FLOW_WANT_SUBMIT);
    ck_assert_uint_eq(w.destination, 8);
    outcome(w.token, FLOW_RETRY);
    for (int i = 9; i < FLOW_DESTINATIONS_MAX; i++)
        outcome(want(FLOW_WANT_SUBMIT).token, FLOW_CONFIRMED);
    now_us += 100 * MS;
    while (next(&w) && w.kind != FLOW_WANT_SUBMIT)
        flow_read_done(flow, now_us, true);
    ck_assert_uint_eq(w.destination, 8);
    outcome(w.token, FLOW_CONFIRMED);
    ck_assert_uint_eq(view().events, 0);
}
END_TEST

START_TEST(a_retry_waits_its_backoff_and_goes_before_its_key) {
    begin();
    read_keys("aab");
    uint64_t first = want_submit(0);
    outcome(want_submit(2), FLOW_CONFIRMED);
    outcome(first, FLOW_RETRY);
    int64_t retry_us;
    uint32_t attempts;
    ck_assert_int_eq(flow_slot_hold(flow, 0, &attempts, &retry_us), FLOW_HOLD_RETRY);
    ck_assert_uint_eq(attempts, 1);
    ck_assert(retry_us > now_us + 50 * MS - 1 && retry_us <= now_us + 100 * MS);
    ck_assert_int_eq(view().oldest_retry_us, retry_us);
    now_us = retry_us - 1;
    struct flow_want w;
    while (next(&w)) {
        ck_assert_int_ne(w.kind, FLOW_WANT_SUBMIT);
        if (w.kind == FLOW_WANT_READ)
            flow_read_done(flow, now_us, true);
    }
    ck_assert_int_eq(flow_deadline_us(flow), retry_us);
    now_us = retry_us;
    want_submit(0);
}
END_TEST

START_TEST(the_backoff_doubles_and_is_capped) {
    begin();
    read_keys("a");
    int64_t cap_ms[] = {100, 200, 400, 800, 1600, 2000, 2000};
    for (size_t i = 0; i < ARRAY_LENGTH(cap_ms); i++) {
        struct flow_want w;
        while (next(&w) && w.kind != FLOW_WANT_SUBMIT)
            flow_read_done(flow, now_us, true);
        outcome(w.token, FLOW_RETRY);
        int64_t retry_us;
        flow_slot_hold(flow, 0, NULL, &retry_us);
        ck_assert_int_le(retry_us, now_us + cap_ms[i] * MS);
        ck_assert_int_gt(retry_us, now_us + cap_ms[i] * MS / 2 - 1);
        now_us = retry_us;
    }
}
END_TEST

START_TEST(with_more_in_flight_a_failed_one_stops_new_ones_of_its_key) {
    options.key_in_flight = 2;
    begin();
    read_keys("aaaa");
    uint64_t first = want_submit(0), second = want_submit(1);
    want_nothing();
    outcome(first, FLOW_RETRY);
    outcome(second, FLOW_CONFIRMED);
    want_nothing();
    now_us += 100 * MS;
    struct flow_want w;
    while (next(&w) && w.kind != FLOW_WANT_SUBMIT)
        flow_read_done(flow, now_us, true);
    ck_assert_uint_eq(w.slot, 0);
    want_submit(2);
}
END_TEST

START_TEST(what_was_lost_goes_again_in_order_as_soon_as_the_sink_is_up) {
    options.key_in_flight = 3;
    begin();
    read_keys("aaaa");
    uint64_t tokens[3];
    for (uint32_t i = 0; i < 3; i++)
        tokens[i] = want_submit(i);
    outcome(tokens[1], FLOW_LOST);
    outcome(tokens[2], FLOW_LOST);
    outcome(tokens[0], FLOW_LOST);
    flow_sink_down(flow, now_us);
    want_nothing();
    flow_sink_up(flow, now_us);
    for (uint32_t i = 0; i < 3; i++)
        want_submit(i);
    want_nothing();
}
END_TEST

START_TEST(a_lost_one_behind_a_waiting_one_of_its_key_waits_too) {
    options.key_in_flight = 2;
    begin();
    read_keys("aa");
    uint64_t first = want_submit(0), second = want_submit(1);
    outcome(first, FLOW_RETRY);
    outcome(second, FLOW_LOST);
    want_nothing();
    now_us += 100 * MS;
    struct flow_want w;
    while (next(&w) && w.kind != FLOW_WANT_SUBMIT)
        flow_read_done(flow, now_us, true);
    ck_assert_uint_eq(w.slot, 0);
    want_submit(1);
}
END_TEST

START_TEST(an_event_without_a_key_waits_for_nobody) {
    begin();
    want(FLOW_WANT_READ);
    for (int i = 0; i < 3; i++)
        add_event((struct flow_event){.verdict = FLOW_DELIVER, .destinations = 1, .keyed = false, .key = 7});
    flow_read_done(flow, now_us, true);
    for (uint32_t i = 0; i < 3; i++)
        want_submit(i);
}
END_TEST

START_TEST(by_none_no_event_waits_for_another) {
    options.order = FLOW_BY_NONE;
    begin();
    read_keys("aaa");
    for (uint32_t i = 0; i < 3; i++)
        want_submit(i);
}
END_TEST

START_TEST(by_all_every_event_waits_for_the_one_before) {
    options.order = FLOW_BY_ALL;
    begin();
    read_keys("abc");
    uint64_t first = want_submit(0);
    want_nothing();
    outcome(first, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    want_submit(1);
}
END_TEST

START_TEST(no_more_than_sink_in_flight_are_on_the_wire) {
    options.sink_in_flight = 2;
    begin();
    read_keys("abc");
    uint64_t first = want_submit(0);
    want_submit(1);
    want_nothing();
    outcome(first, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    want_submit(2);
}
END_TEST

START_TEST(what_the_sink_did_not_take_is_wanted_again_when_it_is_ready) {
    begin();
    read_keys("a");
    uint64_t token = want_submit(0);
    flow_not_taken(flow, now_us, token);
    flow_sink_ready(flow, now_us, false);
    want_nothing();
    flow_sink_ready(flow, now_us, true);
    ck_assert_uint_ne(want_submit(0), token);
}
END_TEST

START_TEST(ready_keys_take_turns) {
    options.sink_in_flight = 1;
    begin();
    read_keys("aaab");
    outcome(want_submit(0), FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    outcome(want_submit(3), FLOW_CONFIRMED);
    want_submit(1);
}
END_TEST

START_TEST(at_a_stop_only_what_came_before_a_started_one_still_starts) {
    options.sink_in_flight = 2;
    begin();
    read_keys("aabb");
    uint64_t a = want_submit(0), b = want_submit(2);
    flow_stop(flow, now_us, now_us + 1000 * MS);
    outcome(b, FLOW_CONFIRMED);
    want_nothing();
    outcome(a, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    outcome(want_submit(1), FLOW_CONFIRMED);
    flow_saved(flow, now_us);
    want(FLOW_WANT_SAVE);
    flow_saved(flow, now_us);
    want(FLOW_WANT_FINISH);
}
END_TEST

/* --- Outcomes. ----------------------------------------------------------- */

START_TEST(stale_and_double_outcomes_are_counted_and_ignored) {
    begin();
    read_keys("ab");
    uint64_t first = want_submit(0);
    outcome(first, FLOW_CONFIRMED);
    ck_assert(!flow_outcome(flow, now_us, first, FLOW_CONFIRMED, NULL));
    ck_assert(!flow_outcome(flow, now_us, first, FLOW_RETRY, NULL));
    ck_assert(!flow_outcome(flow, now_us, UINT64_MAX, FLOW_LOST, NULL));
    ck_assert(!flow_outcome(flow, now_us, 0, FLOW_LOST, NULL));
    ck_assert_uint_eq(view().stale_outcomes, 4);
    ck_assert_uint_eq(view().events, 1);
}
END_TEST

START_TEST(an_outcome_says_whose_it_is) {
    begin();
    read_keys("ab");
    want_submit(0);
    uint64_t second = want_submit(1);
    uint32_t slot = 99;
    ck_assert(flow_outcome(flow, now_us, second, FLOW_RETRY, &slot));
    ck_assert_uint_eq(slot, 1);
}
END_TEST

START_TEST(the_checkpoint_stops_before_the_third_of_five_that_was_nacked) {
    begin();
    read_keys("abcde");
    uint64_t tokens[5];
    for (uint32_t i = 0; i < 5; i++)
        tokens[i] = want_submit(i);
    for (uint32_t i = 0; i < 5; i++)
        outcome(tokens[i], i == 2 ? FLOW_RETRY : FLOW_CONFIRMED);
    struct flow_want w = want(FLOW_WANT_SAVE);
    ck_assert_int_eq(w.mark.position, 2);
    ck_assert_int_eq(w.position, 2);
    flow_saved(flow, now_us);
    ck_assert_uint_eq(view().unsaved, 2);
    ck_assert_uint_eq(view().oldest_slot, 2);
    ck_assert_int_eq(view().oldest_hold, FLOW_HOLD_RETRY);
    ck_assert_int_eq(view().saved_position, 2);
}
END_TEST

START_TEST(a_rejected_event_holds_its_key_and_the_others_go_on) {
    begin();
    read_keys("aaab");
    outcome(want_submit(0), FLOW_REJECTED);
    outcome(want_submit(3), FLOW_CONFIRMED);
    now_us += 100000 * MS;
    struct flow_want w;
    while (next(&w)) {
        ck_assert_int_eq(w.kind, FLOW_WANT_READ);
        flow_read_done(flow, now_us, true);
    }
    ck_assert_uint_eq(view().held, 1);
    ck_assert_uint_eq(view().followers, 2);
    ck_assert_int_eq(view().oldest_hold, FLOW_HOLD_REJECTED);
    ck_assert_int_eq(view().saved_position, 0);
}
END_TEST

START_TEST(an_unmatched_event_holds_its_key_once_it_is_first) {
    begin();
    want(FLOW_WANT_READ);
    add(1);
    add_event((struct flow_event){.verdict = FLOW_HOLD, .keyed = true, .key = 1});
    add(1);
    flow_read_done(flow, now_us, true);
    uint64_t first = want_submit(0);
    outcome(first, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    flow_saved(flow, now_us);
    want_nothing();
    ck_assert_uint_eq(view().held, 1);
    ck_assert_uint_eq(view().followers, 1);
    ck_assert_int_eq(view().oldest_hold, FLOW_HOLD_VERDICT);
    ck_assert_uint_eq(view().oldest_slot, 1);
}
END_TEST

START_TEST(a_skipped_event_settles_in_its_order) {
    begin();
    want(FLOW_WANT_READ);
    add(1);
    add_event((struct flow_event){.verdict = FLOW_SKIP});
    flow_read_done(flow, now_us, true);
    uint64_t token = want_submit(0);
    want_nothing();
    outcome(token, FLOW_CONFIRMED);
    ck_assert_int_eq(want(FLOW_WANT_SAVE).mark.position, 2);
}
END_TEST

START_TEST(the_view_names_the_oldest_event_and_since_when) {
    begin();
    want(FLOW_WANT_READ);
    int64_t then_us = now_us;
    add(1);
    now_us += 5 * MS;
    add(2);
    flow_read_done(flow, now_us, true);
    ck_assert(view().any_unsettled);
    ck_assert_int_eq(view().oldest_since_us, then_us);
    ck_assert_int_eq(view().oldest_hold, FLOW_HOLD_NONE);
    ck_assert_uint_eq(view().bytes, 200);
    ck_assert(view().caught_up);
    answer_all(FLOW_CONFIRMED);
    ck_assert(!view().any_unsettled);
    ck_assert_int_eq(view().last_settled_us, now_us);
    ck_assert_uint_eq(view().in_flight, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("order");
    TCase *order = case_of(suite, "order");
    tcase_add_test(order, of_one_key_one_event_is_in_flight_and_other_keys_go_on);
    tcase_add_test(order, a_key_moves_on_when_all_destinations_have_settled);
    tcase_add_test(order, only_the_destination_that_failed_is_retried);
    tcase_add_test(order, a_retry_waits_its_backoff_and_goes_before_its_key);
    tcase_add_test(order, the_backoff_doubles_and_is_capped);
    tcase_add_test(order, with_more_in_flight_a_failed_one_stops_new_ones_of_its_key);
    tcase_add_test(order, what_was_lost_goes_again_in_order_as_soon_as_the_sink_is_up);
    tcase_add_test(order, a_lost_one_behind_a_waiting_one_of_its_key_waits_too);
    tcase_add_test(order, an_event_without_a_key_waits_for_nobody);
    tcase_add_test(order, by_none_no_event_waits_for_another);
    tcase_add_test(order, by_all_every_event_waits_for_the_one_before);
    tcase_add_test(order, no_more_than_sink_in_flight_are_on_the_wire);
    tcase_add_test(order, what_the_sink_did_not_take_is_wanted_again_when_it_is_ready);
    tcase_add_test(order, ready_keys_take_turns);
    tcase_add_test(order, at_a_stop_only_what_came_before_a_started_one_still_starts);
    TCase *outcomes = case_of(suite, "outcomes");
    tcase_add_test(outcomes, stale_and_double_outcomes_are_counted_and_ignored);
    tcase_add_test(outcomes, an_outcome_says_whose_it_is);
    tcase_add_test(outcomes, the_checkpoint_stops_before_the_third_of_five_that_was_nacked);
    tcase_add_test(outcomes, a_rejected_event_holds_its_key_and_the_others_go_on);
    tcase_add_test(outcomes, an_unmatched_event_holds_its_key_once_it_is_first);
    tcase_add_test(outcomes, a_skipped_event_settles_in_its_order);
    tcase_add_test(outcomes, the_view_names_the_oldest_event_and_since_when);
    return unit_run(suite);
}
