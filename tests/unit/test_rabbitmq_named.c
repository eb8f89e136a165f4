/* test_rabbitmq_named: what the rules name at a broker is asked for once, and what is missing is said */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include "sink/rabbitmq_named.h"
#include "unit/fail_alloc.h"

static struct rabbitmq_named *named;
static struct rabbitmq_probe probe;

static void make(const struct span *names, const struct span *seconds, size_t count, bool more) {
    struct sink_setup setup = {.named = names, .named_seconds = seconds, .named_count = count, .names_more = more};
    ck_assert_int_eq(rabbitmq_named_new(&setup, &named), 0);
}

static void tear_down(void) {
    rabbitmq_named_free(named);
    named = NULL;
    probe = (struct rabbitmq_probe){0};
}

static void answer(const char *name, bool queue, bool found, uint16_t code, const char *reason) {
    struct rabbitmq_probe said = {0};
    struct rabbitmq_question *q = rabbitmq_probe_add(&said, span_of(name), queue);
    q->found = found;
    q->code = code;
    snprintf(q->reason, sizeof q->reason, "%s", reason);
    rabbitmq_named_learn(named, q);
}

static const struct sink_notice *notice(void) {
    static struct sink_notice said;
    return rabbitmq_named_notice(named, "/", &said) ? &said : NULL;
}

START_TEST(each_is_asked_for_once) {
    struct span names[] = {SPAN_LITERAL("a"), SPAN_LITERAL(""), SPAN_LITERAL("a"), SPAN_LITERAL(""), SPAN_LITERAL("")};
    struct span seconds[] = {SPAN_LITERAL("k"), SPAN_LITERAL("q"), SPAN_LITERAL("l"), SPAN_ABSENT, SPAN_LITERAL("q")};
    make(names, seconds, 5, false);
    rabbitmq_named_ask(named, &probe);
    ck_assert_uint_eq(probe.count, 2);
    ck_assert_str_eq(probe.questions[0].name, "a");
    ck_assert(!probe.questions[0].queue);
    ck_assert_str_eq(probe.questions[1].name, "q");
    ck_assert(probe.questions[1].queue);
    answer("a", false, true, 0, "");
    ck_assert(!rabbitmq_named_looked(named));
    answer("q", true, true, 0, "");
    ck_assert(rabbitmq_named_looked(named));
    ck_assert_ptr_null(notice());
}
END_TEST

START_TEST(what_is_missing_is_said_with_what_makes_it_and_so_is_that_it_came) {
    struct span names[] = {SPAN_LITERAL("orders"), SPAN_LITERAL("")}, seconds[] = {SPAN_ABSENT, SPAN_LITERAL("mail")};
    make(names, seconds, 2, false);
    answer("orders", false, false, 404, "NOT_FOUND");
    answer("mail", true, false, 404, "NOT_FOUND");
    const struct sink_notice *said = notice();
    ck_assert(said->warning && said->holds);
    ck_assert_str_eq(said->text, "exchange 'orders' does not exist in virtual host '/': its events wait. To make it: "
                                 "rabbitmqadmin --vhost='/' declare exchange name='orders' type=topic durable=true");
    said = notice();
    ck_assert(said->warning && said->holds);
    ck_assert_str_eq(said->text, "queue 'mail', which the default exchange is to route to, does not exist in virtual host "
                                 "'/': its events wait. To make it: rabbitmqadmin --vhost='/' declare queue name='mail' "
                                 "durable=true");
    ck_assert_ptr_null(notice());
    answer("orders", false, false, 404, "NOT_FOUND");
    ck_assert_ptr_null(notice());
    answer("orders", false, true, 0, "");
    said = notice();
    ck_assert(!said->warning && !said->holds);
    ck_assert_str_eq(said->text, "exchange 'orders' is there now");
}
END_TEST

START_TEST(what_another_uses_is_there_and_what_is_not_told_is_not_missing) {
    struct span names[] = {SPAN_LITERAL(""), SPAN_LITERAL("x")}, seconds[] = {SPAN_LITERAL("q"), SPAN_ABSENT};
    make(names, seconds, 2, true);
    answer("q", true, false, 405, "RESOURCE_LOCKED");
    answer("x", false, false, 403, "ACCESS_REFUSED");
    answer("not ours", false, false, 404, "NOT_FOUND");
    const struct sink_notice *said = notice();
    ck_assert(!said->holds);
    ck_assert_str_eq(said->text, "the broker doesn't tell whether there is exchange 'x' (ACCESS_REFUSED)");
    said = notice();
    ck_assert_str_eq(said->text, "exchanges that only templates name are looked at when the first event goes there");
    ck_assert_ptr_null(notice());
}
END_TEST

START_TEST(a_name_with_quotes_is_no_command) {
    struct span names[] = {SPAN_LITERAL("a'; rm x; '")};
    make(names, NULL, 1, false);
    answer("a'; rm x; '", false, false, 404, "NOT_FOUND");
    ck_assert_ptr_nonnull(strstr(notice()->text, "name='NAME' type"));
}
END_TEST

START_TEST(many_are_asked_for_in_turns) {
    static char texts[RABBITMQ_QUESTIONS_MAX + 10][8];
    static struct span names[RABBITMQ_QUESTIONS_MAX + 10];
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        snprintf(texts[i], sizeof texts[i], "x%zu", i);
        names[i] = span_of(texts[i]);
    }
    make(names, NULL, ARRAY_LENGTH(names), false);
    rabbitmq_named_ask(named, &probe);
    ck_assert_uint_eq(probe.count, RABBITMQ_QUESTIONS_MAX);
    for (uint32_t i = 0; i < probe.count; i++)
        answer(probe.questions[i].name, false, true, 0, "");
    ck_assert(!rabbitmq_named_looked(named));
    probe.count = 0;
    rabbitmq_named_ask(named, &probe);
    ck_assert_uint_eq(probe.count, 10);
}
END_TEST

START_TEST(without_memory_there_is_none) {
    struct sink_setup setup = {0};
    FAIL_ALLOC_EACH(n) {
        int r = rabbitmq_named_new(&setup, &named);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rabbitmq_named");
    TCase *cases = tcase_create("rabbitmq_named");
    tcase_add_checked_fixture(cases, NULL, tear_down);
    tcase_add_test(cases, each_is_asked_for_once);
    tcase_add_test(cases, what_is_missing_is_said_with_what_makes_it_and_so_is_that_it_came);
    tcase_add_test(cases, what_another_uses_is_there_and_what_is_not_told_is_not_missing);
    tcase_add_test(cases, a_name_with_quotes_is_no_command);
    tcase_add_test(cases, many_are_asked_for_in_turns);
    tcase_add_test(cases, without_memory_there_is_none);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
