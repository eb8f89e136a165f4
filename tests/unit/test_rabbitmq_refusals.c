/* test_rabbitmq_refusals: which exchange a closed channel was about, and when it is asked for again */
#include "unit/unit.h"

#include <stdio.h>

#include "base/clock.h"
#include "sink/rabbitmq_refusals.h"

#define SLASH SPAN_LITERAL("/")
#define S CLOCK_US_PER_S

static struct rabbitmq_refusals refusals;

static void set_up(void) {
    refusals = (struct rabbitmq_refusals){0};
}

static bool learn(int code, const char *text, int64_t now_us) {
    return rabbitmq_refusals_learn(&refusals, code, span_of(text), SLASH, now_us);
}

static const struct rabbitmq_refusal *find(const char *exchange) {
    return rabbitmq_refusals_find(&refusals, span_of(exchange));
}

static const struct {
    int code;
    const char *text, *vhost, *name; /* NULL: nothing is learned */
} texts[] = {
    {404, "NOT_FOUND - no exchange 'orders' in vhost '/'", "/", "orders"},
    {404, "NOT_FOUND - no exchange 'it's' in vhost '/'", "/", "it's"},
    {404, "NOT_FOUND - no exchange 'a' in vhost '/' in vhost '/'", "/", "a' in vhost '/"},
    {404, "NOT_FOUND - no exchange 'orders' in vhost 'shop'", "shop", "orders"},
    {403, "ACCESS_REFUSED - access to exchange 'x' in vhost '/' refused for user 'u'", "/", "x"},
    {403, "ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused for user 'u'", "/", "x"},
    {403, "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'", "/", "x"},
    {404, "NOT_FOUND - no exchange 'orders' in vhost 'shop'", "/", NULL},
    {404, "NOT_FOUND - no queue 'orders' in vhost '/'", "/", NULL},
    {406, "PRECONDITION_FAILED - message size 1 of exchange 'x' in vhost '/'", "/", NULL},
    {404, "", "/", NULL},
    {404, "NOT_FOUND - no exchange '...", "/", NULL},
    {404, "NOT_FOUND - no exchange 'orders", "/", NULL},
};

START_TEST(the_exchange_is_read_out_of_the_brokers_words) {
    bool learned = rabbitmq_refusals_learn(&refusals, texts[_i].code, span_of(texts[_i].text), span_of(texts[_i].vhost), 0);
    ck_assert_int_eq(learned, texts[_i].name != NULL);
    ck_assert_uint_eq(refusals.count, learned);
    if (!learned)
        return;
    const struct rabbitmq_refusal *item = find(texts[_i].name);
    ck_assert_ptr_nonnull(item);
    ck_assert_str_eq(item->reason, texts[_i].text);
    ck_assert_ptr_null(find("other"));
    ck_assert_ptr_null(find(""));
}
END_TEST

START_TEST(the_same_exchange_teaches_nothing_new) {
    ck_assert(learn(404, "NOT_FOUND - no exchange 'orders' in vhost '/'", 0));
    ck_assert(!learn(404, "NOT_FOUND - no exchange 'orders' in vhost '/'", 1));
    ck_assert(learn(404, "NOT_FOUND - no exchange 'orders2' in vhost '/'", 1));
    ck_assert_uint_eq(refusals.count, 2);
}
END_TEST

START_TEST(a_missing_one_is_asked_for_until_it_is_found) {
    ck_assert_int_eq(rabbitmq_refusals_deadline_us(&refusals), CLOCK_NEVER);
    learn(404, "NOT_FOUND - no exchange 'orders' in vhost '/'", 0);
    ck_assert_int_eq(rabbitmq_refusals_deadline_us(&refusals), 1 * S);
    ck_assert(!rabbitmq_refusals_due(&refusals, 1 * S - 1));
    ck_assert(rabbitmq_refusals_due(&refusals, 1 * S));
    rabbitmq_refusals_put_off(&refusals, 1 * S, false);
    ck_assert_int_eq(rabbitmq_refusals_deadline_us(&refusals), 2 * S);
    ck_assert(rabbitmq_refusals_due(&refusals, 2 * S));
    rabbitmq_refusals_put_off(&refusals, 2 * S, true);
    ck_assert_int_eq(rabbitmq_refusals_deadline_us(&refusals), 4 * S);
    ck_assert_ptr_nonnull(find("orders"));
    rabbitmq_refusals_found(&refusals, SPAN_LITERAL("orders"));
    ck_assert_ptr_null(find("orders"));
    ck_assert_int_eq(rabbitmq_refusals_deadline_us(&refusals), CLOCK_NEVER);
}
END_TEST

START_TEST(a_forbidden_one_is_tried_again_after_its_time) {
    learn(403, "ACCESS_REFUSED - access to exchange 'x' in vhost '/' refused for user 'u'", 0);
    rabbitmq_refusals_found(&refusals, SPAN_LITERAL("x")); /* that it exists says nothing */
    ck_assert_ptr_nonnull(find("x"));
    ck_assert(!rabbitmq_refusals_due(&refusals, REFUSAL_DENIED_US - 1));
    ck_assert_ptr_nonnull(find("x"));
    ck_assert(!rabbitmq_refusals_due(&refusals, REFUSAL_DENIED_US));
    ck_assert_ptr_null(find("x"));
}
END_TEST

START_TEST(a_cut_name_becomes_whole_by_the_first_that_fits) {
    learn(404, "NOT_FOUND - no exchange 'orders-of-a-very-long...", 0);
    ck_assert_ptr_null(find("orders-of-a-very-lon"));
    ck_assert_ptr_nonnull(find("orders-of-a-very-long-name"));
    ck_assert_ptr_null(find("orders-of-a-very-long-other"));
    ck_assert(rabbitmq_refusals_due(&refusals, 1 * S));
    rabbitmq_refusals_found(&refusals, SPAN_LITERAL("orders-of-a-very-long-name"));
    ck_assert_uint_eq(refusals.count, 0);
    learn(404, "NOT_FOUND - no exchange 'orders-of-a-very-long...", 0);
    ck_assert_msg(!rabbitmq_refusals_due(&refusals, 1 * S), "half a name can't be asked for");
    ck_assert_uint_eq(refusals.count, 0);
}
END_TEST

START_TEST(there_is_room_for_so_many_and_no_more) {
    char text[64];
    for (int i = 0; i < REFUSALS_MAX; i++) {
        snprintf(text, sizeof text, "NOT_FOUND - no exchange 'x%d' in vhost '/'", i);
        ck_assert(learn(404, text, 0));
    }
    ck_assert(!learn(404, "NOT_FOUND - no exchange 'more' in vhost '/'", 0));
    ck_assert_ptr_nonnull(find("x0"));
    ck_assert_ptr_nonnull(find("x63"));
    ck_assert_ptr_null(find("more"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rabbitmq_refusals");
    TCase *cases = tcase_create("rabbitmq_refusals");
    tcase_add_checked_fixture(cases, set_up, NULL);
    tcase_add_loop_test(cases, the_exchange_is_read_out_of_the_brokers_words, 0, (int)ARRAY_LENGTH(texts));
    tcase_add_test(cases, the_same_exchange_teaches_nothing_new);
    tcase_add_test(cases, a_missing_one_is_asked_for_until_it_is_found);
    tcase_add_test(cases, a_forbidden_one_is_tried_again_after_its_time);
    tcase_add_test(cases, a_cut_name_becomes_whole_by_the_first_that_fits);
    tcase_add_test(cases, there_is_room_for_so_many_and_no_more);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
