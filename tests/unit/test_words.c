/* test_words: why a forwarder does not move, and what ends that, as sentences */
#include "unit/unit.h"

#include <string.h>

#include "base/clock.h"
#include "forwarder/words.h"

static struct words w;

static void ck_words(const char *reason, const char *resumes) {
    ck_assert_str_eq(w.reason, reason);
    ck_assert_str_eq(w.resumes, resumes);
}

START_TEST(a_blocked_forwarder_speaks_the_words_of_its_kind_of_sink) {
    struct sink_view rabbitmq = {.connected = true,
                                 .blocked = true,
                                 .blocked_reason = "it has told us to stop publishing: low on memory",
                                 .blocked_ends = "when its alarm ends"};
    words_blocked(&w, "shop-rabbit", &rabbitmq);
    ck_words("broker 'shop-rabbit': it has told us to stop publishing: low on memory", "when its alarm ends");
    struct sink_view kafka = {.connected = true,
                              .blocked = true,
                              .blocked_reason = "no confirm within ack_timeout (5 s): 1 request(s) timed out"};
    words_blocked(&w, "shop-kafka", &kafka);
    ck_words("broker 'shop-kafka': no confirm within ack_timeout (5 s): 1 request(s) timed out",
             "when confirms come again; until then nothing is given up");
}
END_TEST

START_TEST(an_instance_that_the_broker_keeps_out_says_what_it_waits_for) {
    struct sink_view rabbitmq = {.elsewhere = true, .down_reason = "the queue 'q' belongs to another connection"};
    words_elsewhere(&w, "shop-rabbit", &rabbitmq);
    ck_words("broker 'shop-rabbit': the queue 'q' belongs to another connection",
             "when that one has stopped, or the broker has noticed that it is gone (about two heartbeats); asked every second");
}
END_TEST

static struct flow_view held(enum flow_hold hold) {
    return (struct flow_view){
        .any_unsettled = true, .oldest_hold = hold, .oldest_retry_us = 3500000, .held = 3, .followers = 46};
}

START_TEST(another_instance_of_the_same_host_and_pid_is_told_apart) {
    static const struct span one = SPAN_LITERAL("vm:1:1a2b3c4d:77"), other = SPAN_LITERAL("vm:1:5e6f7a8b:78");
    struct error error = {0};
    words_another(&error, one, other);
    ck_assert_str_eq(error.text, "another instance is active: vm:1 in place 1a2b3c4d (this one is vm:1 in place 5e6f7a8b)");
    words_another(&error, one, SPAN_LITERAL("vm:2:1a2b3c4d:77"));
    ck_assert_str_eq(error.text, "another instance is active: vm:1");
    words_another(&error, SPAN_LITERAL("somebody"), one);
    ck_assert_str_eq(error.text, "another instance is active: somebody");
}
END_TEST

START_TEST(numbers_that_change_while_the_reason_stands_are_not_in_it) {
    struct flow_view flow = held(FLOW_HOLD_RETRY);
    words_held(&w, "orders", 1039, SPAN_LITERAL("e-1"), "NO_ROUTE", &flow, 1500000);
    ck_words("event at position 1039 (id e-1): NO_ROUTE", "with the next attempt in 2.0 s");
}
END_TEST

START_TEST(what_an_operator_must_mend_says_so) {
    struct flow_view flow = held(FLOW_HOLD_REJECTED);
    words_held(&w, "orders", 7, SPAN_LITERAL("e-7"), "too large", &flow, 0);
    ck_words("event at position 7 (id e-7): too large",
             "when the rules or max_message_bytes are mended and penstockd is reloaded, when the row or the topic's limit is "
             "mended and penstockd is restarted, or with penstock skip orders 7 --reason TEXT");
}
END_TEST

START_TEST(a_standstill_says_what_is_full) {
    struct flow_view flow = held(FLOW_HOLD_VERDICT);
    flow.window_full = true;
    words_held(&w, "orders", 7, SPAN_LITERAL("e-7"), "no rule", &flow, 0);
    ck_assert_ptr_nonnull(strstr(w.reason, "; nothing more is read: window.events is full"));
    flow.unsaved_full = true;
    words_held(&w, "orders", 7, SPAN_LITERAL("e-7"), "no rule", &flow, 0);
    ck_assert_ptr_nonnull(strstr(w.reason, "; nothing more is read: window.unsaved is full"));
}
END_TEST

START_TEST(an_attempt_is_in_so_many_seconds_or_at_once) {
    words_next_attempt(&w, CLOCK_NEVER, 5);
    ck_assert_str_eq(w.resumes, "when the attempt that runs now succeeds");
    words_next_attempt(&w, 1050000, 1000000);
    ck_assert_str_eq(w.resumes, "with the next attempt in 0.1 s");
    words_next_attempt(&w, 1049999, 1000000);
    ck_assert_str_eq(w.resumes, "with the next attempt, made at once");
    words_next_attempt(&w, 5, 1000000);
    ck_assert_str_eq(w.resumes, "with the next attempt, made at once");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("words");
    TCase *cases = tcase_create("words");
    tcase_add_test(cases, a_blocked_forwarder_speaks_the_words_of_its_kind_of_sink);
    tcase_add_test(cases, an_instance_that_the_broker_keeps_out_says_what_it_waits_for);
    tcase_add_test(cases, numbers_that_change_while_the_reason_stands_are_not_in_it);
    tcase_add_test(cases, another_instance_of_the_same_host_and_pid_is_told_apart);
    tcase_add_test(cases, what_an_operator_must_mend_says_so);
    tcase_add_test(cases, a_standstill_says_what_is_full);
    tcase_add_test(cases, an_attempt_is_in_so_many_seconds_or_at_once);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
