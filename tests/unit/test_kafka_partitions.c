/* test_kafka_partitions: a partition that doesn't know the instance gets one message first, and none gets all */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include "sink/kafka_partitions.h"
#include "unit/fail_alloc.h"

#define ROOM 10

static struct kafka_partitions *partitions;

static void open_partitions(void) {
    ck_assert_int_eq(kafka_partitions_new(&partitions), 0);
}

static void close_partitions(void) {
    kafka_partitions_free(partitions);
}

static uint32_t place_of(const char *topic, int32_t partition) {
    uint32_t place = 0;
    ck_assert_int_eq(kafka_partitions_find(partitions, span_of(topic), partition, &place), 0);
    return place;
}

START_TEST(one_goes_first_and_the_others_when_it_is_confirmed) {
    uint32_t place = place_of("a", 0);
    ck_assert(kafka_partitions_takes(partitions, place, ROOM, 10));
    kafka_partitions_sent(partitions, place, 5);
    ck_assert(!kafka_partitions_takes(partitions, place, ROOM, 20));
    ck_assert_int_eq(kafka_partitions_waits_since_us(partitions, place), 5);
    kafka_partitions_confirmed(partitions, place, 30);
    for (int i = 0; i < 5; i++) {
        ck_assert(kafka_partitions_takes(partitions, place, ROOM, 40));
        kafka_partitions_sent(partitions, place, 5);
    }
}
END_TEST

START_TEST(each_partition_of_each_topic_is_for_itself) {
    uint32_t place = place_of("a", 0);
    kafka_partitions_sent(partitions, place, 5);
    ck_assert(kafka_partitions_takes(partitions, place_of("a", 1), ROOM, 10));
    ck_assert(kafka_partitions_takes(partitions, place_of("b", 0), ROOM, 10));
    ck_assert(!kafka_partitions_takes(partitions, place_of("a", 0), ROOM, 10));
    ck_assert_uint_eq(place_of("a", 0), place);
}
END_TEST

static bool takes_one(uint32_t place, uint32_t room) {
    if (!kafka_partitions_takes(partitions, place, room, 20))
        return false;
    kafka_partitions_sent(partitions, place, 20);
    return true;
}

START_TEST(those_that_stand_leave_room_for_the_others) {
    uint32_t room = 1000, before = 0;
    for (int32_t i = 0; i < 20; i++) {
        kafka_partitions_sent(partitions, place_of("a", i), 5);
        kafka_partitions_confirmed(partitions, place_of("a", i), 10);
    }
    while (room != before) {
        before = room;
        for (int32_t i = 0; i < 20; i++)
            room -= takes_one(place_of("a", i), room);
    }
    ck_assert_uint_gt(room, 5);
    ck_assert(takes_one(place_of("b", 0), room));
}
END_TEST

START_TEST(a_place_has_its_name_unless_it_is_shared) {
    struct span topic;
    int32_t partition = 0;
    ck_assert(kafka_partitions_name(partitions, place_of("a", 7), &topic, &partition));
    ck_assert(span_equal(topic, SPAN_LITERAL("a")));
    ck_assert_int_eq(partition, 7);
    ck_assert(!kafka_partitions_name(partitions, 0, &topic, &partition));
}
END_TEST

START_TEST(after_a_long_silence_one_goes_first_again) {
    uint32_t place = place_of("a", 0);
    kafka_partitions_sent(partitions, place, 5);
    kafka_partitions_confirmed(partitions, place, 0);
    kafka_partitions_sent(partitions, place, 5);
    ck_assert(kafka_partitions_takes(partitions, place, ROOM, KAFKA_PARTITIONS_WARM_US - 1));
    ck_assert(!kafka_partitions_takes(partitions, place, ROOM, KAFKA_PARTITIONS_WARM_US));
}
END_TEST

START_TEST(a_new_instance_is_known_nowhere) {
    uint32_t place = place_of("a", 0);
    kafka_partitions_sent(partitions, place, 5);
    kafka_partitions_confirmed(partitions, place, 10);
    kafka_partitions_sent(partitions, place, 5);
    kafka_partitions_reset(partitions);
    place = place_of("a", 0);
    ck_assert(kafka_partitions_takes(partitions, place, ROOM, 20));
    kafka_partitions_sent(partitions, place, 5);
    ck_assert(!kafka_partitions_takes(partitions, place, ROOM, 20));
}
END_TEST

START_TEST(thousands_are_remembered_and_what_is_beyond_shares_a_place_that_never_warms_up) {
    for (int32_t i = 1; i < KAFKA_PARTITIONS_MAX; i++)
        ck_assert_uint_gt(place_of("a", i), 0);
    ck_assert_uint_eq(place_of("a", 77), place_of("a", 77));
    ck_assert_uint_ne(place_of("a", 77), place_of("a", 78));
    uint32_t shared = place_of("b", 0);
    ck_assert_uint_eq(shared, place_of("b", 1));
    kafka_partitions_sent(partitions, shared, 5);
    kafka_partitions_confirmed(partitions, shared, 10);
    kafka_partitions_sent(partitions, shared, 5);
    ck_assert(!kafka_partitions_takes(partitions, shared, ROOM, 20));
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    FAIL_ALLOC_EACH(n) {
        struct kafka_partitions *p = NULL;
        int result = kafka_partitions_new(&p);
        uint32_t place;
        for (int32_t i = 0; result == 0 && i < 200; i++)
            result = kafka_partitions_find(p, SPAN_LITERAL("a"), i, &place);
        for (int32_t i = 0; p && i < 50; i++) /* what was there still is */
            if (kafka_partitions_find(p, SPAN_LITERAL("a"), i, &place) == 0)
                kafka_partitions_sent(p, place, 5);
        ck_assert_int_eq(result, fail_alloc_end() ? -ENOMEM : 0);
        kafka_partitions_free(p);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_partitions");
    TCase *cases = tcase_create("kafka_partitions");
    tcase_add_checked_fixture(cases, open_partitions, close_partitions);
    tcase_add_test(cases, one_goes_first_and_the_others_when_it_is_confirmed);
    tcase_add_test(cases, each_partition_of_each_topic_is_for_itself);
    tcase_add_test(cases, those_that_stand_leave_room_for_the_others);
    tcase_add_test(cases, a_place_has_its_name_unless_it_is_shared);
    tcase_add_test(cases, after_a_long_silence_one_goes_first_again);
    tcase_add_test(cases, a_new_instance_is_known_nowhere);
    tcase_add_test(cases, thousands_are_remembered_and_what_is_beyond_shares_a_place_that_never_warms_up);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
