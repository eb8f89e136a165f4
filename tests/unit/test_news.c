/* test_news: what lasts is said, once; what flaps is thinned out */
#include "unit/unit.h"

#include "forwarder/news.h"

#define SECOND INT64_C(1000000)

static struct news news;
static enum forwarder_state from;
static uint64_t unsaid;

static void begin(void) {
    news = (struct news){0};
}

static enum news_kind at(int64_t seconds, enum forwarder_state state, const char *cause) {
    return news_next(&news, state, cause, seconds * SECOND, &from, &unsaid);
}

START_TEST(a_change_is_said_once) {
    ck_assert_int_eq(at(1, FORWARDER_DISCONNECTED, "refused"), NEWS_CHANGE);
    ck_assert_int_eq(from, FORWARDER_STARTING);
    ck_assert_int_eq(at(2, FORWARDER_DISCONNECTED, "refused"), NEWS_NONE);
    ck_assert_int_eq(at(100, FORWARDER_DISCONNECTED, "refused"), NEWS_NONE);
}
END_TEST

START_TEST(a_state_that_comes_back_at_once_and_lasts_is_said_in_the_end) {
    ck_assert_int_eq(at(1, FORWARDER_HELD, "event 1"), NEWS_CHANGE);
    ck_assert_int_eq(at(2, FORWARDER_DELIVERING, ""), NEWS_RECOVERED);
    ck_assert_int_eq(at(3, FORWARDER_HELD, "event 2"), NEWS_NONE);
    ck_assert_int_eq(at(10, FORWARDER_HELD, "event 2"), NEWS_NONE);
    ck_assert_int_eq(at(11, FORWARDER_HELD, "event 2"), NEWS_CHANGE);
    ck_assert_int_eq(from, FORWARDER_DELIVERING);
    ck_assert_uint_eq(unsaid, 1);
}
END_TEST

START_TEST(an_end_is_said_too_however_short_the_trouble_was) {
    ck_assert_int_eq(at(1, FORWARDER_BLOCKED, "low on memory"), NEWS_CHANGE);
    ck_assert_int_eq(at(2, FORWARDER_IDLE, ""), NEWS_RECOVERED);
    ck_assert_int_eq(at(3, FORWARDER_BLOCKED, "low on memory"), NEWS_NONE);
    ck_assert_int_eq(at(4, FORWARDER_IDLE, ""), NEWS_NONE); /* said last: idle. Nothing is hidden. */
    ck_assert_int_eq(at(5, FORWARDER_DELIVERING, ""), NEWS_MOVES);
    ck_assert_uint_eq(unsaid, 1);
}
END_TEST

START_TEST(another_reason_for_the_same_state_is_said) {
    ck_assert_int_eq(at(1, FORWARDER_DISCONNECTED, "file can be read by others"), NEWS_CHANGE);
    ck_assert_int_eq(at(2, FORWARDER_DISCONNECTED, "login refused"), NEWS_NONE);
    ck_assert_int_eq(at(12, FORWARDER_DISCONNECTED, "login refused"), NEWS_CAUSE);
    ck_assert_int_eq(at(13, FORWARDER_DISCONNECTED, "login refused"), NEWS_NONE);
}
END_TEST

START_TEST(idle_and_delivering_take_turns_quietly) {
    ck_assert_int_eq(at(1, FORWARDER_DELIVERING, ""), NEWS_RECOVERED);
    for (int i = 2; i < 100; i++)
        ck_assert_int_eq(at(i, i % 2 ? FORWARDER_DELIVERING : FORWARDER_IDLE, ""), NEWS_MOVES);
}
END_TEST

START_TEST(each_state_has_a_turn_of_its_own) {
    ck_assert_int_eq(at(1, FORWARDER_HELD, "a"), NEWS_CHANGE);
    ck_assert_int_eq(at(2, FORWARDER_DISCONNECTED, "b"), NEWS_CHANGE);
    ck_assert_int_eq(at(3, FORWARDER_REFUSED, "c"), NEWS_CHANGE);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("news");
    TCase *cases = tcase_create("news");
    tcase_add_checked_fixture(cases, begin, NULL);
    tcase_add_test(cases, a_change_is_said_once);
    tcase_add_test(cases, a_state_that_comes_back_at_once_and_lasts_is_said_in_the_end);
    tcase_add_test(cases, an_end_is_said_too_however_short_the_trouble_was);
    tcase_add_test(cases, another_reason_for_the_same_state_is_said);
    tcase_add_test(cases, idle_and_delivering_take_turns_quietly);
    tcase_add_test(cases, each_state_has_a_turn_of_its_own);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
