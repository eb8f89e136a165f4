/* test_ledger: when the checkpoint is saved, and until when publishing is allowed */
#include "unit/unit.h"

#include "base/clock.h"
#include "flow/ledger.h"

#define INTERVAL_US 100000

static struct window *window;
static struct ledger ledger;
static int64_t now_us;
static int64_t position;

static void set_up(void) {
    ck_assert_int_eq(window_new(10, 10, &window), 0);
    window_reset(window, (struct flow_mark){.position = 0, .target = 1});
    ledger_init(&ledger, INTERVAL_US, 5, 0);
    now_us = 1000000;
    position = 0;
}

static void tear_down(void) {
    ck_assert_ptr_null(window_broken(window));
    window_free(window);
}

static void settle_events(int count) {
    for (int i = 0; i < count; i++) {
        struct flow_event event = {.verdict = FLOW_SKIP, .mark = {.position = ++position, .target = 1}};
        window_settle(window, window_add(window, &event, now_us));
    }
}

/* INT64_MIN: nothing is due. */
static int64_t next_save(bool urgent) {
    struct window_place place;
    return ledger_next(&ledger, window, now_us, urgent, &place) ? place.mark.position : INT64_MIN;
}

START_TEST(the_first_event_is_saved_at_once) {
    ck_assert_int_eq(next_save(false), INT64_MIN);
    settle_events(1);
    ck_assert_int_eq(ledger_deadline_us(&ledger, window, false) <= now_us, true);
    ck_assert_int_eq(next_save(false), 1);
}
END_TEST

START_TEST(the_next_one_waits_for_the_interval) {
    settle_events(1);
    ck_assert_int_eq(next_save(false), 1);
    ledger_saved(&ledger, window);
    settle_events(2);
    ck_assert_int_eq(next_save(false), INT64_MIN);
    ck_assert_int_eq(ledger_deadline_us(&ledger, window, false), now_us + INTERVAL_US);
    now_us += INTERVAL_US;
    ck_assert_int_eq(next_save(false), 3);
}
END_TEST

START_TEST(a_batch_is_saved_before_the_interval) {
    settle_events(1);
    ck_assert_int_eq(next_save(false), 1);
    ledger_saved(&ledger, window);
    settle_events(4);
    ck_assert_int_eq(next_save(false), INT64_MIN);
    settle_events(1);
    ck_assert_int_eq(next_save(false), 6);
}
END_TEST

START_TEST(what_is_urgent_is_saved_before_the_interval) {
    settle_events(1);
    ck_assert_int_eq(next_save(false), 1);
    ledger_saved(&ledger, window);
    settle_events(1);
    ck_assert_int_eq(next_save(true), 2);
}
END_TEST

START_TEST(one_save_is_outstanding_at_most_and_the_next_is_the_newest) {
    settle_events(1);
    ck_assert_int_eq(next_save(true), 1);
    settle_events(6);
    ck_assert_int_eq(next_save(true), INT64_MIN);
    ck_assert_int_eq(ledger_deadline_us(&ledger, window, true), CLOCK_NEVER);
    ledger_saved(&ledger, window);
    ck_assert_int_eq(next_save(true), 7);
}
END_TEST

START_TEST(nothing_is_saved_when_idle) {
    settle_events(1);
    ck_assert_int_eq(next_save(false), 1);
    ledger_saved(&ledger, window);
    window_mark(window, (struct flow_mark){.position = INT64_MAX, .target = 2}, 0);
    now_us += 100 * INTERVAL_US;
    ck_assert_int_eq(next_save(true), INT64_MIN);
    ck_assert(ledger_is_even(&ledger, window));
    ck_assert_int_eq(ledger_deadline_us(&ledger, window, true), CLOCK_NEVER);
}
END_TEST

START_TEST(a_failed_save_is_tried_again_after_the_interval_however_urgent) {
    settle_events(1);
    ck_assert_int_eq(next_save(true), 1);
    now_us += 1000;
    ledger_failed(&ledger, window, now_us);
    ck_assert(!ledger_is_even(&ledger, window));
    settle_events(7);
    ck_assert_int_eq(next_save(true), INT64_MIN);
    ck_assert_int_eq(ledger_deadline_us(&ledger, window, true), now_us + INTERVAL_US);
    now_us += INTERVAL_US;
    ck_assert_int_eq(next_save(true), 8);
}
END_TEST

START_TEST(the_position_for_people_is_that_of_the_last_save) {
    ck_assert_int_eq(ledger.saved_position, INT64_MIN);
    settle_events(3);
    ck_assert_int_eq(next_save(false), 3);
    ck_assert_int_eq(ledger.saved_position, INT64_MIN);
    ledger_saved(&ledger, window);
    ck_assert_int_eq(ledger.saved_position, 3);
}
END_TEST

START_TEST(after_a_reset_nothing_is_outstanding) {
    settle_events(3);
    ck_assert_int_eq(next_save(false), 3);
    window_reset(window, (struct flow_mark){.position = 0, .target = 1});
    ledger_reset(&ledger, 0);
    ck_assert(ledger_is_even(&ledger, window));
}
END_TEST

/* --- The lease. ------------------------------------------------------------ */

#define LEASE_US (20 * CLOCK_US_PER_S)

static void lease(void) {
    ledger_init(&ledger, INTERVAL_US, 5, LEASE_US);
    ledger_leased(&ledger, now_us);
}

START_TEST(without_a_lease_publishing_is_always_allowed) {
    ck_assert(ledger_may_publish(&ledger, now_us));
    ck_assert(!ledger_extend(&ledger, INT64_MAX));
    ck_assert_int_eq(ledger_lease_deadline_us(&ledger), CLOCK_NEVER);
}
END_TEST

START_TEST(publishing_is_allowed_from_the_take_until_a_tenth_before_the_end) {
    ledger_init(&ledger, INTERVAL_US, 5, LEASE_US);
    ck_assert(!ledger_may_publish(&ledger, now_us));
    ck_assert_int_eq(ledger_lease_deadline_us(&ledger), CLOCK_NEVER);
    ledger_leased(&ledger, now_us);
    ck_assert(ledger_may_publish(&ledger, now_us));
    ck_assert(ledger_may_publish(&ledger, now_us + LEASE_US - LEASE_US / 10 - 1));
    ck_assert(!ledger_may_publish(&ledger, now_us + LEASE_US - LEASE_US / 10));
}
END_TEST

START_TEST(at_half_it_is_extended_and_counts_from_when_that_was_asked_for) {
    lease();
    int64_t began_us = now_us;
    ck_assert_int_eq(ledger_lease_deadline_us(&ledger), began_us + LEASE_US / 2);
    ck_assert(!ledger_extend(&ledger, began_us + LEASE_US / 2 - 1));
    ck_assert(ledger_extend(&ledger, began_us + LEASE_US / 2));
    ck_assert(!ledger_extend(&ledger, began_us + LEASE_US / 2)); /* one at a time */
    ck_assert(!ledger_is_even(&ledger, window));
    ck_assert_int_eq(ledger_lease_deadline_us(&ledger), began_us + LEASE_US - LEASE_US / 10);
    ck_assert(!ledger_may_publish(&ledger, began_us + LEASE_US));
    ledger_extended(&ledger);
    ck_assert(ledger_may_publish(&ledger, began_us + LEASE_US));
    ck_assert(!ledger_may_publish(&ledger, began_us + LEASE_US / 2 + LEASE_US - LEASE_US / 10));
    ck_assert_int_eq(ledger_lease_deadline_us(&ledger), began_us + LEASE_US);
}
END_TEST

START_TEST(a_save_extends_it_from_when_it_was_asked_for) {
    lease();
    now_us += LEASE_US / 2;
    settle_events(1);
    ck_assert_int_eq(next_save(true), 1);
    int64_t asked_us = now_us;
    ck_assert(!ledger_extend(&ledger, now_us));
    now_us += 1000;
    ledger_saved(&ledger, window);
    ck_assert(!ledger_extend(&ledger, now_us));
    ck_assert_int_eq(ledger_lease_deadline_us(&ledger), asked_us + LEASE_US / 2);
    ck_assert(!ledger_may_publish(&ledger, asked_us + LEASE_US - LEASE_US / 10));
}
END_TEST

START_TEST(an_extension_that_failed_is_tried_again_before_the_end) {
    lease();
    int64_t half_us = now_us + LEASE_US / 2;
    ck_assert(ledger_extend(&ledger, half_us));
    ledger_not_extended(&ledger, half_us);
    ck_assert(!ledger_extend(&ledger, half_us + 1));
    int64_t again_us = ledger_lease_deadline_us(&ledger);
    ck_assert_int_gt(again_us, half_us);
    ck_assert_int_lt(again_us, half_us + LEASE_US / 4);
    ck_assert(ledger_extend(&ledger, again_us));
}
END_TEST

START_TEST(a_save_that_fails_extends_nothing) {
    lease();
    int64_t began_us = now_us;
    settle_events(1);
    now_us += LEASE_US / 2;
    ck_assert_int_eq(next_save(true), 1);
    ledger_failed(&ledger, window, now_us);
    ck_assert(!ledger_may_publish(&ledger, began_us + LEASE_US - LEASE_US / 10));
    ck_assert(ledger_extend(&ledger, now_us)); /* by itself, while the save waits */
}
END_TEST

START_TEST(a_reset_gives_it_up) {
    lease();
    ck_assert(ledger_extend(&ledger, now_us + LEASE_US));
    ledger_reset(&ledger, 0);
    ck_assert(!ledger_may_publish(&ledger, now_us));
    ck_assert(!ledger_extend(&ledger, now_us + LEASE_US));
    ck_assert(ledger_is_even(&ledger, window));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ledger");
    TCase *cases = tcase_create("ledger");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, the_first_event_is_saved_at_once);
    tcase_add_test(cases, the_next_one_waits_for_the_interval);
    tcase_add_test(cases, a_batch_is_saved_before_the_interval);
    tcase_add_test(cases, what_is_urgent_is_saved_before_the_interval);
    tcase_add_test(cases, one_save_is_outstanding_at_most_and_the_next_is_the_newest);
    tcase_add_test(cases, nothing_is_saved_when_idle);
    tcase_add_test(cases, a_failed_save_is_tried_again_after_the_interval_however_urgent);
    tcase_add_test(cases, the_position_for_people_is_that_of_the_last_save);
    tcase_add_test(cases, after_a_reset_nothing_is_outstanding);
    tcase_add_test(cases, without_a_lease_publishing_is_always_allowed);
    tcase_add_test(cases, publishing_is_allowed_from_the_take_until_a_tenth_before_the_end);
    tcase_add_test(cases, at_half_it_is_extended_and_counts_from_when_that_was_asked_for);
    tcase_add_test(cases, a_save_extends_it_from_when_it_was_asked_for);
    tcase_add_test(cases, an_extension_that_failed_is_tried_again_before_the_end);
    tcase_add_test(cases, a_save_that_fails_extends_nothing);
    tcase_add_test(cases, a_reset_gives_it_up);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
