/* test_stats: names, lag and health of what a forwarder tells */
#include "unit/unit.h"

#include <string.h>

#include "base/clock.h"
#include "forwarder/stats.h"

enum { SECOND = 1000000 };
static const int64_t now = 1000 * INT64_C(1000000);
static const int64_t wall = 1796040000 * INT64_C(1000000);
static const int64_t max_age = 60 * SECOND;

static const char *why_not(const struct forwarder_stats *s) {
    const char *why = "untouched";
    bool healthy = forwarder_stats_healthy(s, now, max_age, &why);
    ck_assert(healthy == (why == NULL));
    ck_assert(healthy == forwarder_stats_healthy(s, now, max_age, NULL));
    return why;
}

START_TEST(every_state_has_a_name_of_its_own) {
    for (int a = 0; a < FORWARDER_STATE_COUNT; a++)
        for (int b = 0; b < a; b++)
            ck_assert_str_ne(forwarder_state_name((enum forwarder_state)a),
                             forwarder_state_name((enum forwarder_state)b));
    ck_assert_str_eq(forwarder_state_name(FORWARDER_STARTING), "starting");
    ck_assert_str_eq(forwarder_state_name(FORWARDER_STOPPED), "stopped");
}
END_TEST

START_TEST(a_state_that_there_is_not_is_a_bug) {
    ck_assert_bug(forwarder_state_name(FORWARDER_STATE_COUNT));
    ck_assert_bug(forwarder_state_name((enum forwarder_state) - 1));
}
END_TEST

START_TEST(only_refused_and_ahead_are_red_by_themselves) {
    for (int i = 0; i < FORWARDER_STATE_COUNT; i++) {
        struct forwarder_stats s = {.state = (enum forwarder_state)i, .source_connected = true};
        bool red = i == FORWARDER_REFUSED || i == FORWARDER_AHEAD;
        ck_assert_msg((why_not(&s) != NULL) == red, "state %s", forwarder_state_name((enum forwarder_state)i));
    }
}
END_TEST

START_TEST(lag_is_counted_from_the_recorded_time) {
    struct forwarder_stats s = {
        .any_unsettled = true, .oldest_since_us = now - SECOND, .oldest_recorded_wall_us = wall - 840200000};
    ck_assert_double_eq(forwarder_stats_lag_seconds(&s, now, wall), 840.2);
}
END_TEST

START_TEST(lag_grows_while_nothing_moves) {
    struct forwarder_stats s = {.any_unsettled = true, .oldest_since_us = now - SECOND};
    ck_assert_double_eq(forwarder_stats_lag_seconds(&s, now, wall), 1);
    ck_assert_double_eq(forwarder_stats_lag_seconds(&s, now + 7 * SECOND, wall + 7 * SECOND), 8);
}
END_TEST

START_TEST(a_recorded_time_in_the_future_hides_no_lag) {
    struct forwarder_stats s = {.any_unsettled = true,
                                .oldest_since_us = now - 5 * SECOND,
                                .oldest_recorded_wall_us = wall + 3600 * INT64_C(1000000)};
    ck_assert_double_eq(forwarder_stats_lag_seconds(&s, now, wall), 5);
}
END_TEST

START_TEST(nothing_unsettled_is_no_lag) {
    struct forwarder_stats s = {.oldest_since_us = 1, .oldest_recorded_wall_us = 1};
    ck_assert_double_eq(forwarder_stats_lag_seconds(&s, now, wall), 0);
}
END_TEST

/* What waits there can't be seen: perhaps since then. */
START_TEST(lag_grows_while_the_database_is_away) {
    struct forwarder_stats s = {.source_lost_us = now - 30 * SECOND};
    ck_assert_double_eq(forwarder_stats_lag_seconds(&s, now, wall), 30);
    ck_assert(forwarder_stats_lag_known(&s));
    s.blind = true; /* nor could it be seen before */
    ck_assert(!forwarder_stats_lag_known(&s));
    s.any_unsettled = true;
    ck_assert(forwarder_stats_lag_known(&s));
}
END_TEST

START_TEST(an_event_that_waits_too_long_is_red) {
    struct forwarder_stats s = {.state = FORWARDER_HELD, .source_connected = true, .any_unsettled = true};
    s.oldest_since_us = now - max_age;
    ck_assert_ptr_null(why_not(&s));
    s.oldest_since_us--;
    ck_assert_str_eq(why_not(&s), "an event has waited longer than health.max_age");
}
END_TEST

START_TEST(a_catch_up_that_moves_is_healthy) {
    struct forwarder_stats s = {
        .state = FORWARDER_DELIVERING,
        .source_connected = true,
        .any_unsettled = true,
        .rows_wait = true,
        .oldest_recorded_wall_us = wall - 86400 * INT64_C(1000000),
        .oldest_since_us = now - SECOND,
        .rows_wait_since_us = now - 3600 * INT64_C(1000000),
        .last_settled_us = now - SECOND,
    };
    ck_assert_ptr_null(why_not(&s));
}
END_TEST

START_TEST(rows_that_wait_while_nothing_settles_are_red) {
    struct forwarder_stats s = {.state = FORWARDER_BLOCKED, .source_connected = true, .rows_wait = true};
    s.rows_wait_since_us = s.last_settled_us = now - max_age - 1;
    ck_assert_str_eq(why_not(&s), "rows wait and nothing has settled for health.max_age");
    s.rows_wait = false;
    ck_assert_ptr_null(why_not(&s));
}
END_TEST

START_TEST(a_burst_after_a_quiet_hour_is_healthy) {
    struct forwarder_stats s = {.state = FORWARDER_DELIVERING, .source_connected = true, .rows_wait = true};
    s.last_settled_us = now - 600 * SECOND;
    s.rows_wait_since_us = now - SECOND;
    ck_assert_ptr_null(why_not(&s));
}
END_TEST

START_TEST(a_database_that_stays_away_is_red) {
    struct forwarder_stats s = {.state = FORWARDER_DISCONNECTED, .source_lost_us = now - max_age};
    ck_assert_ptr_null(why_not(&s));
    s.source_lost_us--;
    ck_assert_ptr_nonnull(strstr(why_not(&s), "database"));
    s.source_connected = true;
    ck_assert_ptr_null(why_not(&s));
}
END_TEST

/* A lock on the event table: the connection is there, and says nothing. */
START_TEST(a_database_that_does_not_answer_is_red_after_max_age_and_lag_grows) {
    struct forwarder_stats s = {.state = FORWARDER_DISCONNECTED, .source_connected = true, .source_silent_us = now - max_age};
    ck_assert_ptr_null(why_not(&s));
    s.source_silent_us--;
    ck_assert_ptr_nonnull(strstr(why_not(&s), "has not answered a statement"));
    ck_assert_double_eq_tol(forwarder_stats_lag_seconds(&s, now, 0), (double)max_age / SECOND, 0.001);
    s.source_silent_us = 0;
    ck_assert_ptr_null(why_not(&s));
}
END_TEST

START_TEST(who_waits_on_purpose_is_healthy) {
    struct forwarder_stats s = {
        .any_unsettled = true, .rows_wait = true, .oldest_since_us = 1, .rows_wait_since_us = 1};
    s.state = FORWARDER_PAUSED;
    ck_assert_ptr_null(why_not(&s));
    s.state = FORWARDER_STANDBY;
    ck_assert_ptr_null(why_not(&s));
    s.state = FORWARDER_DELIVERING;
    ck_assert_ptr_nonnull(why_not(&s));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stats");
    TCase *cases = tcase_create("stats");
    tcase_add_test(cases, a_database_that_does_not_answer_is_red_after_max_age_and_lag_grows);
    tcase_add_test(cases, every_state_has_a_name_of_its_own);
    tcase_add_test(cases, a_state_that_there_is_not_is_a_bug);
    tcase_add_test(cases, only_refused_and_ahead_are_red_by_themselves);
    tcase_add_test(cases, lag_is_counted_from_the_recorded_time);
    tcase_add_test(cases, lag_grows_while_nothing_moves);
    tcase_add_test(cases, a_recorded_time_in_the_future_hides_no_lag);
    tcase_add_test(cases, nothing_unsettled_is_no_lag);
    tcase_add_test(cases, lag_grows_while_the_database_is_away);
    tcase_add_test(cases, an_event_that_waits_too_long_is_red);
    tcase_add_test(cases, a_catch_up_that_moves_is_healthy);
    tcase_add_test(cases, rows_that_wait_while_nothing_settles_are_red);
    tcase_add_test(cases, a_burst_after_a_quiet_hour_is_healthy);
    tcase_add_test(cases, a_database_that_stays_away_is_red);
    tcase_add_test(cases, who_waits_on_purpose_is_healthy);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
