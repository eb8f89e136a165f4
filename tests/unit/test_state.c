/* test_state: every combination of facts has one state, every state is reachable */
#include "unit/unit.h"

#include "forwarder/state.h"

/* Every combination; the callback sees facts and state. */
static void for_all(void (*look)(const struct state_facts *, enum forwarder_state, void *), void *context) {
    for (int stop = STATE_RUNNING; stop <= STATE_STOPPED; stop++)
        for (int database = STATE_DATABASE_NEW; database <= STATE_DATABASE_STANDBY; database++)
            for (int sink = STATE_SINK_NEW; sink <= STATE_SINK_ELSEWHERE; sink++)
                for (int bits = 0; bits < 64; bits++) {
                    struct state_facts facts = {.stop = stop, .database = database, .sink = sink,
                        .paused = bits & 1, .oldest_held = bits & 2, .unsettled = bits & 4, .caught_up = bits & 8,
                        .unsavable = bits & 16, .gap_waits = bits & 32};
                    look(&facts, state_of(&facts), context);
                }
}

static void count_state(const struct state_facts *facts, enum forwarder_state state, void *context) {
    (void)facts;
    ck_assert_int_ge(state, 0);
    ck_assert_int_lt(state, FORWARDER_STATE_COUNT);
    ((int *)context)[state]++;
}

START_TEST(every_combination_is_answered_and_every_state_is_reachable) {
    int seen[FORWARDER_STATE_COUNT] = {0};
    for_all(count_state, seen);
    for (int state = 0; state < FORWARDER_STATE_COUNT; state++)
        ck_assert_int_gt(seen[state], 0);
}
END_TEST

static void look_at_healthy_states(const struct state_facts *facts, enum forwarder_state state, void *context) {
    (void)context;
    if (state != FORWARDER_IDLE && state != FORWARDER_DELIVERING)
        return;
    ck_assert_int_eq(facts->database, STATE_DATABASE_UP);
    ck_assert_int_eq(facts->sink, STATE_SINK_UP);
    ck_assert(!facts->oldest_held);
    ck_assert(!facts->gap_waits);
    ck_assert(!facts->unsavable);
    ck_assert(!facts->paused);
}

START_TEST(nothing_that_keeps_events_from_moving_is_called_idle_or_delivering) {
    for_all(look_at_healthy_states, NULL);
}
END_TEST

START_TEST(idle_means_caught_up_and_settled) {
    struct state_facts facts = {.database = STATE_DATABASE_UP, .sink = STATE_SINK_UP, .caught_up = true};
    ck_assert_int_eq(state_of(&facts), FORWARDER_IDLE);
    facts.unsettled = true;
    ck_assert_int_eq(state_of(&facts), FORWARDER_DELIVERING);
    facts = (struct state_facts){.database = STATE_DATABASE_UP, .sink = STATE_SINK_UP, .caught_up = false};
    ck_assert_int_eq(state_of(&facts), FORWARDER_DELIVERING);
}
END_TEST

START_TEST(a_blocked_broker_is_named_before_the_event_that_is_held_behind_it) {
    struct state_facts facts = {.database = STATE_DATABASE_UP, .sink = STATE_SINK_BLOCKED, .oldest_held = true, .unsettled = true};
    ck_assert_int_eq(state_of(&facts), FORWARDER_BLOCKED);
    facts.sink = STATE_SINK_UP;
    ck_assert_int_eq(state_of(&facts), FORWARDER_HELD);
}
END_TEST

/* Whatever waits behind it: events read, the first of them tried already. The database's word goes before. */
START_TEST(an_instance_that_the_broker_keeps_out_stands_by) {
    struct state_facts facts = {.database = STATE_DATABASE_UP, .sink = STATE_SINK_ELSEWHERE, .oldest_held = true, .unsettled = true};
    ck_assert_int_eq(state_of(&facts), FORWARDER_STANDBY);
    facts.paused = true;
    ck_assert_int_eq(state_of(&facts), FORWARDER_PAUSED);
    facts.database = STATE_DATABASE_DOWN;
    ck_assert_int_eq(state_of(&facts), FORWARDER_DISCONNECTED);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("state");
    TCase *cases = tcase_create("state");
    tcase_add_test(cases, every_combination_is_answered_and_every_state_is_reachable);
    tcase_add_test(cases, nothing_that_keeps_events_from_moving_is_called_idle_or_delivering);
    tcase_add_test(cases, idle_means_caught_up_and_settled);
    tcase_add_test(cases, a_blocked_broker_is_named_before_the_event_that_is_held_behind_it);
    tcase_add_test(cases, an_instance_that_the_broker_keeps_out_stands_by);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
