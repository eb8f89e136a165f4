/* test_kafka_tokens: one outcome for each token, in whatever order reports come, and however long one doesn't */
#include "unit/unit.h"

#include <errno.h>

#include "sink/kafka_tokens.h"
#include "unit/fail_alloc.h"

#define IN_FLIGHT 4

static struct kafka_tokens *tokens;

static void open_tokens(void) {
    ck_assert_int_eq(kafka_tokens_new(IN_FLIGHT, &tokens), 0);
}

static void close_tokens(void) {
    kafka_tokens_free(tokens);
}

static uint64_t publish(uint64_t token) {
    uint64_t tag = kafka_tokens_next_tag(tokens);
    kafka_tokens_publish(tokens, token, (uint32_t)token + 100, (int64_t)token);
    ck_assert_uint_gt(tag, 0);
    return tag;
}

static void expect(uint64_t token, enum kafka_token_outcome outcome) {
    uint64_t found = 0;
    enum kafka_token_outcome kind = KAFKA_TOKEN_LOST;
    ck_assert(kafka_tokens_next(tokens, &found, &kind));
    ck_assert_uint_eq(found, token);
    ck_assert_int_eq(kind, outcome);
}

static void expect_no_more(void) {
    uint64_t token;
    enum kafka_token_outcome kind;
    ck_assert(!kafka_tokens_next(tokens, &token, &kind));
}

START_TEST(outcomes_come_in_the_order_of_the_reports) {
    uint64_t a = publish(1), b = publish(2), c = publish(3);
    ck_assert_uint_eq(kafka_tokens_place(tokens, b), 102);
    kafka_tokens_confirm(tokens, c);
    kafka_tokens_reject(tokens, a);
    ck_assert_uint_eq(kafka_tokens_open(tokens), 1);
    ck_assert_uint_eq(kafka_tokens_answered(tokens), 2);
    expect(3, KAFKA_TOKEN_CONFIRMED);
    expect(1, KAFKA_TOKEN_REJECTED);
    expect_no_more();
}
END_TEST

START_TEST(what_is_lost_is_lost_in_the_order_of_the_publishes) {
    publish(1);
    uint64_t b = publish(2);
    publish(3);
    kafka_tokens_confirm(tokens, b);
    kafka_tokens_lose(tokens);
    expect(2, KAFKA_TOKEN_CONFIRMED);
    expect(1, KAFKA_TOKEN_LOST);
    expect(3, KAFKA_TOKEN_LOST);
    expect_no_more();
    ck_assert_uint_eq(kafka_tokens_room(tokens), IN_FLIGHT);
}
END_TEST

START_TEST(one_that_is_never_reported_takes_one_place_and_holds_no_other) {
    publish(0);
    for (uint64_t token = 1; token < 1000; token++) {
        kafka_tokens_confirm(tokens, publish(token));
        expect(token, KAFKA_TOKEN_CONFIRMED);
        ck_assert_uint_eq(kafka_tokens_room(tokens), IN_FLIGHT - 1);
    }
    uint32_t place = 0;
    int64_t published_us = -1;
    ck_assert(kafka_tokens_oldest(tokens, &place, &published_us));
    ck_assert_uint_eq(place, 100);
    ck_assert_int_eq(published_us, 0);
    kafka_tokens_lose(tokens);
    ck_assert(!kafka_tokens_oldest(tokens, &place, &published_us));
}
END_TEST

START_TEST(outcomes_that_were_not_taken_take_room) {
    for (uint64_t token = 0; token < IN_FLIGHT; token++)
        kafka_tokens_confirm(tokens, publish(token));
    ck_assert_uint_eq(kafka_tokens_room(tokens), 0);
    expect(0, KAFKA_TOKEN_CONFIRMED);
    ck_assert_uint_eq(kafka_tokens_room(tokens), 1);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    FAIL_ALLOC_EACH(n) {
        struct kafka_tokens *t = NULL;
        int result = kafka_tokens_new(IN_FLIGHT, &t);
        if (fail_alloc_end())
            ck_assert_int_eq(result, -ENOMEM);
        else
            kafka_tokens_free(t);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_tokens");
    TCase *cases = tcase_create("kafka_tokens");
    tcase_add_checked_fixture(cases, open_tokens, close_tokens);
    tcase_add_test(cases, outcomes_come_in_the_order_of_the_reports);
    tcase_add_test(cases, what_is_lost_is_lost_in_the_order_of_the_publishes);
    tcase_add_test(cases, one_that_is_never_reported_takes_one_place_and_holds_no_other);
    tcase_add_test(cases, outcomes_that_were_not_taken_take_room);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
