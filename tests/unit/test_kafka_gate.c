/* test_kafka_gate: everything waits shortly, and never twice for what doesn't come */
#include "unit/unit.h"

#include "base/clock.h"
#include "sink/kafka_gate.h"

#define MS CLOCK_US_PER_MS
#define ORDERS SPAN_LITERAL("orders")

static struct kafka_gate gate;

static void open_gate(void) {
    kafka_gate_reset(&gate, 0);
}

static void assert_shut_until(int64_t until_us) {
    ck_assert_int_eq(kafka_gate_deadline_us(&gate), until_us);
    kafka_gate_turn(&gate, until_us - 1);
    ck_assert(!kafka_gate_is_open(&gate));
    kafka_gate_turn(&gate, until_us);
    ck_assert(kafka_gate_is_open(&gate));
    ck_assert_int_eq(kafka_gate_deadline_us(&gate), CLOCK_NEVER);
}

START_TEST(a_topic_is_waited_for_until_it_is_known_or_its_look_takes_too_long) {
    ck_assert(kafka_gate_is_open(&gate));
    ck_assert(span_absent(kafka_gate_topic(&gate)));
    ck_assert(kafka_gate_await_topic(&gate, ORDERS, 0, 10 * MS));
    ck_assert(span_equal(kafka_gate_topic(&gate), ORDERS));
    kafka_gate_confirmed(&gate, 0, true, 0, 20 * MS); /* that helps nobody */
    ck_assert(!kafka_gate_is_open(&gate));
    kafka_gate_topic_known(&gate, 10 * MS);
    ck_assert(kafka_gate_is_open(&gate));
    ck_assert(kafka_gate_await_topic(&gate, ORDERS, 0, 10 * MS));
    assert_shut_until(KAFKA_GATE_LOOK_US);
    ck_assert(!kafka_gate_await_topic(&gate, ORDERS, 0, KAFKA_GATE_LOOK_US));
    ck_assert(kafka_gate_is_open(&gate));
    ck_assert(span_absent(kafka_gate_topic(&gate)));
}
END_TEST

/* Each takes `look_us`, and between two of them something else goes for `between_us`. How many were waited for? */
static int await_topics(int count, int64_t look_us, int64_t between_us, int64_t *now_us) {
    int waited = 0;
    for (int i = 0; i < count; i++, *now_us += between_us) {
        if (!kafka_gate_await_topic(&gate, ORDERS, *now_us, *now_us))
            continue;
        waited++;
        *now_us += look_us;
        kafka_gate_turn(&gate, *now_us);
        if (!kafka_gate_is_open(&gate))
            kafka_gate_topic_known(&gate, *now_us);
    }
    return waited;
}

START_TEST(a_few_new_topics_are_waited_for_and_thousands_are_not) {
    int64_t now_us = 0;
    ck_assert_int_eq(await_topics(20, 20 * MS, 0, &now_us), 20);
    ck_assert_int_lt(await_topics(1000, 20 * MS, 0, &now_us), 5);
    int64_t begin_us = now_us;
    int waited = await_topics(10000, 20 * MS, 1 * MS, &now_us);
    ck_assert_int_gt(waited, 100);
    ck_assert_int_le(waited * 20 * MS, (now_us - begin_us) / 2 + KAFKA_GATE_LOOK_US);
    now_us += 10 * CLOCK_US_PER_S;
    ck_assert_int_eq(await_topics(20, 20 * MS, 0, &now_us), 20);
}
END_TEST

START_TEST(a_partition_is_waited_for_until_it_confirms) {
    ck_assert(kafka_gate_await_partition(&gate, 7, false, 0, 10 * MS));
    kafka_gate_confirmed(&gate, 8, true, 0, 20 * MS);
    ck_assert(!kafka_gate_is_open(&gate));
    kafka_gate_confirmed(&gate, 7, false, 0, 20 * MS);
    ck_assert(kafka_gate_is_open(&gate));
    ck_assert(kafka_gate_await_partition(&gate, 7, true, 0, 10 * MS));
    assert_shut_until(KAFKA_GATE_STANDS_US);
}
END_TEST

static void await_in_vain(int64_t until_us) {
    ck_assert(kafka_gate_await_partition(&gate, 7, false, 0, 0));
    assert_shut_until(until_us);
}

/* However many partitions stand, a start waits for twice the longest of all. */
START_TEST(each_time_in_vain_the_next_wait_is_half_as_long) {
    await_in_vain(KAFKA_GATE_MOST_US);
    await_in_vain(KAFKA_GATE_MOST_US / 2);
    await_in_vain(KAFKA_GATE_MOST_US / 4);
    kafka_gate_confirmed(&gate, 1, true, 0, 20 * MS); /* as always */
    await_in_vain(KAFKA_GATE_MOST_US / 8);
    kafka_gate_confirmed(&gate, 2, false, 0, 80 * MS);
    await_in_vain(160 * MS);
    kafka_gate_confirmed(&gate, 3, false, 0, 1);
    await_in_vain(KAFKA_GATE_LEAST_US);
    kafka_gate_confirmed(&gate, 4, false, 0, 100 * CLOCK_US_PER_S);
    await_in_vain(KAFKA_GATE_MOST_US);
}
END_TEST

START_TEST(a_new_instance_begins_anew) {
    await_in_vain(KAFKA_GATE_MOST_US);
    ck_assert(kafka_gate_await_partition(&gate, 7, false, 0, 0));
    kafka_gate_reset(&gate, 0);
    ck_assert(kafka_gate_is_open(&gate));
    await_in_vain(KAFKA_GATE_MOST_US);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_gate");
    TCase *cases = tcase_create("kafka_gate");
    tcase_add_checked_fixture(cases, open_gate, NULL);
    tcase_add_test(cases, a_topic_is_waited_for_until_it_is_known_or_its_look_takes_too_long);
    tcase_add_test(cases, a_few_new_topics_are_waited_for_and_thousands_are_not);
    tcase_add_test(cases, a_partition_is_waited_for_until_it_confirms);
    tcase_add_test(cases, each_time_in_vain_the_next_wait_is_half_as_long);
    tcase_add_test(cases, a_new_instance_begins_anew);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
