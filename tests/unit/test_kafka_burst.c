/* test_kafka_burst: slow traffic meets no wait, and under load messages go in few large bursts */
#include "unit/unit.h"

#include "base/clock.h"
#include "sink/kafka_burst.h"

static struct kafka_burst burst;
static int64_t now_us;

static void set_up(void) {
    burst = (struct kafka_burst){0};
    now_us = 1000000;
}

static void publish(uint32_t messages) {
    kafka_burst_turn(&burst, 0, now_us);
    ck_assert(kafka_burst_is_open(&burst));
    for (uint32_t i = 0; i < messages; i++)
        kafka_burst_publish(&burst);
    kafka_burst_end(&burst);
}

static bool opens_after(int64_t after_us, uint32_t open) {
    kafka_burst_turn(&burst, open, now_us + after_us);
    return kafka_burst_is_open(&burst);
}

START_TEST(nothing_waits_while_traffic_is_slow) {
    publish(1);
    now_us += KAFKA_BURST_MIN_US;
    publish(1);
}
END_TEST

START_TEST(a_turn_publishes_all_that_it_has) {
    kafka_burst_turn(&burst, 0, now_us);
    kafka_burst_publish(&burst);
    ck_assert(kafka_burst_is_open(&burst));
    kafka_burst_end(&burst);
    ck_assert(!kafka_burst_is_open(&burst));
}
END_TEST

START_TEST(a_turn_that_has_nothing_shuts_nothing) {
    publish(0);
    ck_assert(kafka_burst_is_open(&burst));
    ck_assert_int_eq(kafka_burst_deadline_us(&burst), CLOCK_NEVER);
}
END_TEST

START_TEST(the_next_burst_goes_when_the_last_is_confirmed_and_a_millisecond_old) {
    publish(1);
    ck_assert(!opens_after(KAFKA_BURST_MIN_US - 1, 0));
    ck_assert_int_eq(kafka_burst_deadline_us(&burst), now_us + KAFKA_BURST_MIN_US);
    ck_assert(!opens_after(KAFKA_BURST_MIN_US, 1));
    ck_assert(opens_after(KAFKA_BURST_MIN_US, 0));
}
END_TEST

START_TEST(what_is_never_confirmed_holds_up_nothing_for_long) {
    publish(1);
    ck_assert_int_eq(kafka_burst_deadline_us(&burst), now_us + KAFKA_BURST_ANSWER_US);
    ck_assert(!opens_after(KAFKA_BURST_ANSWER_US - 1, 1));
    ck_assert(opens_after(KAFKA_BURST_ANSWER_US, 1));
    ck_assert_int_eq(kafka_burst_deadline_us(&burst), CLOCK_NEVER);
}
END_TEST

START_TEST(after_a_large_burst_more_is_gathered) {
    publish(100);
    ck_assert(!opens_after(100 * KAFKA_BURST_MESSAGE_US - 1, 0));
    ck_assert(opens_after(100 * KAFKA_BURST_MESSAGE_US, 0));
    now_us += KAFKA_BURST_MAX_US;
    publish(1000000);
    ck_assert(!opens_after(KAFKA_BURST_MAX_US - 1, 1000));
    ck_assert(opens_after(KAFKA_BURST_MAX_US, 1000));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_burst");
    TCase *cases = tcase_create("kafka_burst");
    tcase_add_checked_fixture(cases, set_up, NULL);
    tcase_add_test(cases, nothing_waits_while_traffic_is_slow);
    tcase_add_test(cases, a_turn_publishes_all_that_it_has);
    tcase_add_test(cases, a_turn_that_has_nothing_shuts_nothing);
    tcase_add_test(cases, the_next_burst_goes_when_the_last_is_confirmed_and_a_millisecond_old);
    tcase_add_test(cases, what_is_never_confirmed_holds_up_nothing_for_long);
    tcase_add_test(cases, after_a_large_burst_more_is_gathered);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
