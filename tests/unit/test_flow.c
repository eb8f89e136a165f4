/* test_flow: facts -> wants: saves, ghosts, stop */
#include "unit/fail_alloc.h"
#include "unit/flow_rig.h"

#include <errno.h>

/* --- Saves. -------------------------------------------------------------- */

START_TEST(without_a_confirm_nothing_is_saved) {
    begin();
    read_keys("a");
    for (int i = 0; i < 5; i++) {
        struct flow_want w;
        now_us += 5000 * MS;
        while (next(&w)) {
            ck_assert_int_ne(w.kind, FLOW_WANT_SAVE);
            if (w.kind == FLOW_WANT_READ)
                flow_read_done(flow, now_us, true);
            else
                outcome(w.token, FLOW_RETRY);
        }
    }
}
END_TEST

START_TEST(a_filter_that_excludes_every_row_moves_the_checkpoint) {
    begin();
    want(FLOW_WANT_READ);
    flow_mark(flow, now_us, (struct flow_mark){.position = 40, .target = 1}, 40);
    flow_mark(flow, now_us, (struct flow_mark){.position = INT64_MAX, .target = 1}, 0);
    flow_read_done(flow, now_us, true);
    struct flow_want w = want(FLOW_WANT_SAVE);
    ck_assert_int_eq(w.mark.position, INT64_MAX);
    ck_assert_int_eq(w.position, 40);
}
END_TEST

START_TEST(an_idle_flow_saves_nothing) {
    begin();
    for (uint64_t i = 0; i < 5; i++) {
        want(FLOW_WANT_READ);
        flow_mark(flow, now_us, (struct flow_mark){.position = INT64_MAX, .target = 2 + i}, 0);
        flow_read_done(flow, now_us, true);
        ck_assert_uint_eq(flow_oldest_target(flow), 2 + i);
        now_us += 1000 * MS;
    }
}
END_TEST

START_TEST(a_dropped_target_is_not_saved) {
    begin();
    want(FLOW_WANT_READ);
    add(1);
    add(2);
    flow_mark(flow, now_us, (struct flow_mark){.position = INT64_MAX, .target = 2}, 0);
    flow_read_done(flow, now_us, true);
    flow_target_dropped(flow, 2);
    ck_assert_int_eq(answer_all(FLOW_CONFIRMED), 2);
    ck_assert_int_eq(want(FLOW_WANT_SAVE).mark.position, 1);
}
END_TEST

START_TEST(an_unsaved_cap_that_is_full_is_saved_at_once) {
    options.unsaved = 2;
    begin();
    read_keys("abc");
    uint64_t a = want_submit(0), b = want_submit(1), c = want_submit(2);
    outcome(a, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    flow_saved(flow, now_us);
    outcome(b, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    outcome(c, FLOW_CONFIRMED);
    want_nothing();
    flow_save_failed(flow, now_us);
    now_us += 100 * MS;
    ck_assert_int_eq(want(FLOW_WANT_SAVE).mark.position, 3);
}
END_TEST

/* --- Rows. --------------------------------------------------------------- */

START_TEST(rows_are_in_no_hurry_while_others_wait_for_outcomes) {
    options.sink_in_flight = 2;
    begin();
    want(FLOW_WANT_READ);
    add('a');
    add('b');
    add('c');
    ck_assert(!flow_is_sated(flow)); /* these go now */
    uint64_t a = want_submit(0);
    want_submit(1);
    ck_assert(flow_is_sated(flow));
    outcome(a, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    ck_assert(!flow_is_sated(flow)); /* c goes now */
    want_submit(2);
    ck_assert(!flow_is_sated(flow)); /* nothing waits */
    add('d');
    ck_assert(flow_is_sated(flow));
    flow_read_done(flow, now_us, true);
    ck_assert(!flow_is_sated(flow)); /* nothing comes */
}
END_TEST

START_TEST(rows_are_in_no_hurry_while_the_sink_takes_none) {
    begin();
    want(FLOW_WANT_READ);
    ck_assert(!flow_is_sated(flow));
    add('a');
    flow_sink_ready(flow, now_us, false);
    ck_assert(flow_is_sated(flow));
    flow_sink_ready(flow, now_us, true);
    ck_assert(!flow_is_sated(flow));
}
END_TEST

/* --- Database and ghosts. ------------------------------------------------ */

START_TEST(after_a_reload_nothing_goes_before_the_tokens_of_before_have_come) {
    begin();
    read_keys("ab");
    uint64_t a = want_submit(0), b = want_submit(1);
    flow_database_down(flow, now_us);
    ck_assert_uint_eq(view().events, 0);
    ck_assert_uint_eq(view().ghosts, 2);
    want_nothing();
    flow_database_up(flow, now_us, (struct flow_mark){.position = 0, .target = 5});
    want(FLOW_WANT_READ);
    struct flow_event event = {.verdict = FLOW_DELIVER, .destinations = 1, .mark = {.position = 1, .target = 5}};
    flow_add(flow, now_us, &event);
    flow_read_done(flow, now_us, true);
    want_nothing();
    ck_assert(!flow_outcome(flow, now_us, a, FLOW_CONFIRMED, NULL));
    want_nothing();
    ck_assert(!flow_outcome(flow, now_us, b, FLOW_LOST, NULL));
    ck_assert_uint_eq(view().stale_outcomes, 0);
    want(FLOW_WANT_SUBMIT);
}
END_TEST

START_TEST(ghosts_that_do_not_come_renew_the_sink) {
    begin();
    read_keys("a");
    uint64_t a = want_submit(0);
    flow_database_down(flow, now_us);
    now_us += 5000 * MS;
    want_nothing(); /* nothing could be sent anyway */
    flow_database_up(flow, now_us, (struct flow_mark){.position = 0, .target = 2});
    want(FLOW_WANT_RENEW);
    want(FLOW_WANT_READ);
    want_nothing();
    ck_assert_int_eq(flow_deadline_us(flow), now_us + 5000 * MS);
    ck_assert(!flow_outcome(flow, now_us, a, FLOW_LOST, NULL));
    flow_sink_down(flow, now_us);
    ck_assert_int_eq(flow_deadline_us(flow), CLOCK_NEVER);
}
END_TEST

START_TEST(a_database_that_stays_away_is_said_to_be_down_again_and_again) {
    ck_assert_int_eq(flow_new(&options, &flow), 0);
    flow_database_down(flow, now_us);
    flow_database_up(flow, now_us, (struct flow_mark){.target = 1});
    flow_sink_up(flow, now_us);
    read_keys("a");
    want_submit(0);
    flow_database_down(flow, now_us);
    now_us += 1000 * MS;
    flow_database_down(flow, now_us);
    ck_assert_uint_eq(view().ghosts, 1);
}
END_TEST

START_TEST(a_reload_forgets_what_was_settled_and_not_saved) {
    begin();
    read_keys("ab");
    want_submit(0);
    outcome(want_submit(1), FLOW_CONFIRMED);
    flow_database_down(flow, now_us);
    flow_database_up(flow, now_us, (struct flow_mark){.position = 0, .target = 2});
    ck_assert_uint_eq(view().unsaved, 0);
    ck_assert_uint_eq(view().in_flight, 0);
    ck_assert_uint_eq(want(FLOW_WANT_READ).events, 8);
}
END_TEST

/* Whether it was saved only the reload tells. */
START_TEST(a_save_under_way_when_the_database_goes_is_forgotten) {
    begin();
    read_keys("a");
    answer_all(FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    flow_database_down(flow, now_us);
    flow_database_up(flow, now_us, (struct flow_mark){.position = 1, .target = 2});
    ck_assert_int_eq(view().saved_position, 1);
    want(FLOW_WANT_READ);
    want_nothing();
}
END_TEST

/* --- Stop and pause. ----------------------------------------------------- */

START_TEST(a_clean_stop_saves_what_has_settled) {
    begin();
    read_keys("abcdefg");
    ck_assert_int_eq(answer_all(FLOW_CONFIRMED), 7);
    flow_stop(flow, now_us, now_us + 20000 * MS);
    ck_assert_int_eq(want(FLOW_WANT_SAVE).mark.position, 7);
    want_nothing();
    flow_saved(flow, now_us);
    want(FLOW_WANT_FINISH);
    want_nothing();
    ck_assert_int_eq(flow_deadline_us(flow), CLOCK_NEVER);
    ck_assert(view().stopping);
}
END_TEST

START_TEST(a_stop_waits_for_what_is_in_flight_up_to_its_deadline) {
    begin();
    read_keys("ab");
    uint64_t a = want_submit(0);
    want_submit(1);
    flow_stop(flow, now_us, now_us + 300 * MS);
    want_nothing();
    outcome(a, FLOW_CONFIRMED);
    ck_assert_int_eq(want(FLOW_WANT_SAVE).mark.position, 1);
    flow_saved(flow, now_us);
    want_nothing();
    ck_assert_int_eq(flow_deadline_us(flow), now_us + 300 * MS);
    now_us += 300 * MS;
    want(FLOW_WANT_FINISH);
}
END_TEST

/* G7: a clean stop with nothing held repeats nothing. */
START_TEST(a_stop_lets_an_event_finish_that_is_half_delivered) {
    options.sink_in_flight = 1;
    begin();
    want(FLOW_WANT_READ);
    add_event((struct flow_event){.verdict = FLOW_DELIVER, .destinations = 2, .keyed = true, .key = 1});
    add(1);
    add(2);
    flow_read_done(flow, now_us, true);
    uint64_t first = want_submit(0);
    flow_stop(flow, now_us, now_us + 20000 * MS);
    outcome(first, FLOW_CONFIRMED);
    ck_assert_uint_eq(view().started, 1);
    outcome(want_submit(0), FLOW_CONFIRMED);
    ck_assert_int_eq(want(FLOW_WANT_SAVE).mark.position, 1);
    flow_saved(flow, now_us);
    want(FLOW_WANT_FINISH);
    ck_assert_uint_eq(view().started, 0);
}
END_TEST

START_TEST(a_stop_does_not_wait_for_a_sink_that_is_down) {
    begin();
    read_keys("a");
    uint64_t first = want_submit(0);
    flow_stop(flow, now_us, now_us + 20000 * MS);
    outcome(first, FLOW_LOST);
    flow_sink_down(flow, now_us);
    want(FLOW_WANT_FINISH);
    ck_assert_uint_eq(view().started, 1);
}
END_TEST

START_TEST(a_stop_during_backoff_makes_no_further_attempt) {
    begin();
    read_keys("aa");
    outcome(want_submit(0), FLOW_RETRY);
    flow_stop(flow, now_us, now_us + 20000 * MS);
    want(FLOW_WANT_FINISH);
    now_us += 5000 * MS;
    want_nothing();
}
END_TEST

/* Reactive Streams 2.8. */
START_TEST(rows_that_still_come_after_a_stop_are_not_published) {
    begin();
    want(FLOW_WANT_READ);
    flow_stop(flow, now_us, now_us + 20000 * MS);
    add('a');
    flow_read_done(flow, now_us, true);
    want(FLOW_WANT_FINISH);
    want_nothing();
}
END_TEST

START_TEST(a_stop_without_a_database_does_not_wait_for_a_save) {
    begin();
    read_keys("a");
    want_submit(0);
    flow_database_down(flow, now_us);
    flow_stop(flow, now_us, now_us + 20000 * MS);
    want(FLOW_WANT_FINISH);
}
END_TEST

START_TEST(a_stop_tries_a_failed_save_again_until_its_deadline) {
    begin();
    read_keys("a");
    answer_all(FLOW_CONFIRMED);
    flow_stop(flow, now_us, now_us + 150 * MS);
    want(FLOW_WANT_SAVE);
    flow_save_failed(flow, now_us);
    want_nothing();
    now_us += 100 * MS;
    want(FLOW_WANT_SAVE);
    now_us += 50 * MS;
    want(FLOW_WANT_FINISH);
}
END_TEST

START_TEST(a_paused_flow_settles_and_saves_but_reads_and_submits_nothing) {
    begin();
    read_keys("abb");
    uint64_t a = want_submit(0);
    flow_pause(flow, now_us, true);
    now_us += 1000 * MS;
    want_nothing();
    outcome(a, FLOW_CONFIRMED);
    want(FLOW_WANT_SAVE);
    flow_saved(flow, now_us);
    want_nothing();
    flow_pause(flow, now_us, false);
    want(FLOW_WANT_READ);
    want_submit(1);
}
END_TEST

/* --- Giving up. ----------------------------------------------------------- */

START_TEST(a_rejected_event_that_is_skipped_frees_its_key_and_is_saved) {
    begin();
    read_keys("aab");
    uint64_t first = want_submit(0), other = want_submit(2);
    outcome(first, FLOW_REJECTED);
    outcome(other, FLOW_CONFIRMED);
    ck_assert_uint_eq(view().held, 1);
    uint64_t seq = flow_skip(flow, now_us);
    ck_assert_ptr_null(flow_broken(flow));
    ck_assert_uint_eq(view().held, 0);
    ck_assert(!flow_is_saved(flow, seq));
    struct flow_want save = want(FLOW_WANT_SAVE);
    ck_assert_int_eq(save.mark.position, 1);
    uint64_t second = want_submit(1);
    flow_saved(flow, now_us);
    ck_assert(flow_is_saved(flow, seq));
    outcome(second, FLOW_CONFIRMED);
    ck_assert_uint_eq(view().events, 0);
}
END_TEST

START_TEST(an_event_that_was_never_submitted_can_be_skipped) {
    begin();
    want(FLOW_WANT_READ);
    add_event((struct flow_event){.verdict = FLOW_HOLD, .keyed = true, .key = 1});
    add(1);
    flow_read_done(flow, now_us, true);
    ck_assert_uint_eq(view().followers, 1);
    flow_skip(flow, now_us);
    ck_assert_ptr_null(flow_broken(flow));
    ck_assert_uint_eq(view().followers, 0);
    want(FLOW_WANT_SAVE);
    want_submit(1);
}
END_TEST

START_TEST(an_event_that_waits_for_a_retry_can_be_skipped) {
    begin();
    read_keys("aa");
    outcome(want_submit(0), FLOW_RETRY);
    flow_skip(flow, now_us);
    want(FLOW_WANT_SAVE);
    want_submit(1);
    flow_saved(flow, now_us);
    now_us += 5000 * MS; /* its retry would be due */
    want(FLOW_WANT_READ);
    want_nothing();
}
END_TEST

/* What is on the wire may still be confirmed: its key waits for the answer, and takes any. */
START_TEST(what_is_on_the_wire_when_it_is_skipped_is_the_last_attempt) {
    static const enum flow_outcome answers[] = {FLOW_CONFIRMED, FLOW_RETRY, FLOW_LOST, FLOW_REJECTED};
    for (size_t i = 0; i < ARRAY_LENGTH(answers); i++) {
        begin();
        read_keys("aa");
        outcome(want_submit(0), FLOW_RETRY);
        now_us += 5000 * MS;
        want(FLOW_WANT_READ);
        uint64_t again = want_submit(0);
        flow_skip(flow, now_us);
        ck_assert_ptr_null(flow_broken(flow));
        want_nothing();
        outcome(again, answers[i]);
        ck_assert_uint_eq(view().events, 1);
        want(FLOW_WANT_SAVE);
        want_submit(1);
        tear_down();
        set_up();
    }
}
END_TEST

START_TEST(of_several_destinations_the_one_that_fails_is_given_up) {
    begin();
    want(FLOW_WANT_READ);
    add_event((struct flow_event){.verdict = FLOW_DELIVER, .destinations = 3, .keyed = true, .key = 1});
    flow_read_done(flow, now_us, true);
    uint64_t a = want_submit(0), b = want_submit(0), c = want_submit(0);
    outcome(a, FLOW_CONFIRMED);
    outcome(b, FLOW_REJECTED);
    flow_skip(flow, now_us);
    ck_assert_ptr_null(flow_broken(flow));
    ck_assert_uint_eq(view().events, 1); /* until the third is answered */
    outcome(c, FLOW_CONFIRMED);
    ck_assert_uint_eq(view().events, 0);
    want(FLOW_WANT_SAVE);
}
END_TEST

/* --- Memory. ------------------------------------------------------------- */

START_TEST(nothing_is_allocated_after_flow_new) {
    options.key_in_flight = 2;
    begin();
    fail_alloc_begin(0);
    for (int i = 0; i < 100000; i++) {
        struct flow_want w;
        while (flow_next(flow, now_us, &w)) {
            if (w.kind == FLOW_WANT_READ) {
                for (uint32_t e = 0; e < w.events; e++) {
                    struct flow_event event = {.verdict = FLOW_DELIVER,
                                               .destinations = 1,
                                               .keyed = e % 3 != 0,
                                               .key = e % 4,
                                               .bytes = 10,
                                               .mark = {.position = ++position, .target = 1}};
                    flow_add(flow, now_us, &event);
                }
                flow_read_done(flow, now_us, false);
            } else if (w.kind == FLOW_WANT_SUBMIT)
                flow_outcome(flow, now_us, w.token, (i + w.slot) % 7 == 0 ? FLOW_RETRY : FLOW_CONFIRMED, NULL);
            else
                flow_saved(flow, now_us);
        }
        now_us = flow_deadline_us(flow);
    }
    fail_alloc_end();
    ck_assert_int_gt(position, 100000);
    ck_assert_uint_eq(fail_alloc_count(), 0);
}
END_TEST

START_TEST(a_failed_allocation_is_reported_and_leaves_nothing) {
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        fail_alloc_begin(n);
        int r = flow_new(&options, &flow);
        failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        ck_assert(!failed || n < 30);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("flow");
    TCase *saves = case_of(suite, "saves");
    tcase_add_test(saves, without_a_confirm_nothing_is_saved);
    tcase_add_test(saves, a_filter_that_excludes_every_row_moves_the_checkpoint);
    tcase_add_test(saves, an_idle_flow_saves_nothing);
    tcase_add_test(saves, a_dropped_target_is_not_saved);
    tcase_add_test(saves, an_unsaved_cap_that_is_full_is_saved_at_once);
    TCase *rows = case_of(suite, "rows");
    tcase_add_test(rows, rows_are_in_no_hurry_while_others_wait_for_outcomes);
    tcase_add_test(rows, rows_are_in_no_hurry_while_the_sink_takes_none);
    TCase *database = case_of(suite, "database");
    tcase_add_test(database, after_a_reload_nothing_goes_before_the_tokens_of_before_have_come);
    tcase_add_test(database, ghosts_that_do_not_come_renew_the_sink);
    tcase_add_test(database, a_database_that_stays_away_is_said_to_be_down_again_and_again);
    tcase_add_test(database, a_reload_forgets_what_was_settled_and_not_saved);
    tcase_add_test(database, a_save_under_way_when_the_database_goes_is_forgotten);
    TCase *stop = case_of(suite, "stop");
    tcase_add_test(stop, a_clean_stop_saves_what_has_settled);
    tcase_add_test(stop, a_stop_waits_for_what_is_in_flight_up_to_its_deadline);
    tcase_add_test(stop, a_stop_lets_an_event_finish_that_is_half_delivered);
    tcase_add_test(stop, a_stop_does_not_wait_for_a_sink_that_is_down);
    tcase_add_test(stop, a_stop_during_backoff_makes_no_further_attempt);
    tcase_add_test(stop, rows_that_still_come_after_a_stop_are_not_published);
    tcase_add_test(stop, a_stop_without_a_database_does_not_wait_for_a_save);
    tcase_add_test(stop, a_stop_tries_a_failed_save_again_until_its_deadline);
    tcase_add_test(stop, a_paused_flow_settles_and_saves_but_reads_and_submits_nothing);
    TCase *memory = case_of(suite, "memory");
    TCase *skip = case_of(suite, "skip");
    tcase_add_test(skip, a_rejected_event_that_is_skipped_frees_its_key_and_is_saved);
    tcase_add_test(skip, an_event_that_was_never_submitted_can_be_skipped);
    tcase_add_test(skip, an_event_that_waits_for_a_retry_can_be_skipped);
    tcase_add_test(skip, what_is_on_the_wire_when_it_is_skipped_is_the_last_attempt);
    tcase_add_test(skip, of_several_destinations_the_one_that_fails_is_given_up);
    tcase_add_test(memory, nothing_is_allocated_after_flow_new);
    tcase_add_test(memory, a_failed_allocation_is_reported_and_leaves_nothing);
    return unit_run(suite);
}
