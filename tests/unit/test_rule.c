/* test_rule: the ordered rules of a forwarder */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include "event/binding.h"
#include "event/row.h"
#include "rule/rule.h"
#include "unit/fail_alloc.h"
#include "unit/rows.h"

static struct rule_set *set;
static struct event event;
static struct destination destination;
static struct rule_result result;
static struct error error;

static void set_up(void) {
    ck_assert_int_eq(rule_set_new(&set), 0);
    event_init(&event, 10000);
    destination_init(&destination);
    ck_assert_int_eq(event_set_core(&event, EVENT_TYPE, span_of("com.acme.order.created")), 0);
    ck_assert_int_eq(event_set_extension(&event, span_of("tenant"), ATTRIBUTE_STRING, span_of("acme")), 0);
}

static void tear_down(void) {
    rule_set_free(set);
    destination_done(&destination);
    event_done(&event);
}

/* A filter on the beginning of the type; NULL: none. */
static void rule(const char *name, const char *prefix, bool skip, bool go_on) {
    struct filter *f = NULL;
    if (prefix) {
        ck_assert_int_eq(filter_new(FILTER_PREFIX, &f), 0);
        ck_assert_int_eq(filter_add_match(f, span_of("type"), span_of(prefix), &error), 0);
    }
    ck_assert_int_eq(rule_set_add_rule(set, span_of(name), f, skip, go_on), 0);
}

static struct template *template(const char *text) {
    struct template *t;
    size_t column;
    ck_assert_int_eq(template_compile(span_of(text), &t, &error, &column), 0);
    return t;
}

static void to(const char *exchange, const char *key) {
    ck_assert_int_eq(rule_set_add_destination(set, NULL), 0);
    ck_assert_int_eq(rule_set_add_field(set, 0, template(exchange)), 0);
    if (key)
        ck_assert_int_eq(rule_set_add_field(set, 1, template(key)), 0);
}

static void expect_outcome(enum rule_outcome outcome, size_t rule_number, size_t count) {
    rule_resolve(set, &event, &result, &error);
    ck_assert_int_eq(result.outcome, outcome);
    if (outcome != RULE_UNMATCHED)
        ck_assert_uint_eq(result.rule, rule_number);
    ck_assert_uint_eq(result.count, count);
}

static void expect_field(size_t number, size_t field, const char *wanted) {
    ck_assert_int_eq(rule_render(set, result.destinations[number], &event, &destination), 0);
    struct span s = destination.fields[field];
    ck_assert_msg(wanted ? span_is(s, wanted) : span_absent(s), "'%.*s'", SPAN_ARGS(s));
}

START_TEST(the_first_match_wins) {
    rule("other", "com.other.", false, false);
    to("other", NULL);
    rule("orders", "com.acme.", false, false);
    to("orders", "{type|last}.{tenant}");
    rule("rest", NULL, false, false);
    to("rest", NULL);
    expect_outcome(RULE_DESTINATIONS, 1, 1);
    expect_field(0, 0, "orders");
    expect_field(0, 1, "created.acme");
    expect_field(0, 2, NULL);
    ck_assert_uint_eq(rule_set_count(set), 3);
    ck_assert(span_is(rule_name(set, 1), "orders"));
}
END_TEST

START_TEST(continue_adds_its_destinations_and_goes_on) {
    rule("audit", NULL, false, true);
    to("audit", NULL);
    rule("orders", "com.acme.", false, false);
    to("orders", "a");
    to("orders", "b");
    rule("rest", NULL, false, false);
    to("rest", NULL);
    expect_outcome(RULE_DESTINATIONS, 1, 3);
    expect_field(0, 0, "audit");
    expect_field(1, 1, "a");
    expect_field(2, 1, "b");
}
END_TEST

START_TEST(a_skip_ends_there) {
    rule("noise", "com.acme.", true, false);
    rule("rest", NULL, false, false);
    to("rest", NULL);
    expect_outcome(RULE_SKIPPED, 0, 0);
}
END_TEST

START_TEST(a_skip_behind_continue_keeps_what_came_before) {
    rule("audit", NULL, false, true);
    to("audit", NULL);
    rule("noise", NULL, true, false);
    rule("rest", NULL, false, false);
    to("rest", NULL);
    expect_outcome(RULE_DESTINATIONS, 1, 1);
    expect_field(0, 0, "audit");
}
END_TEST

START_TEST(no_match_is_said_and_nothing_invented) {
    rule("other", "com.other.", false, false);
    to("other", NULL);
    expect_outcome(RULE_UNMATCHED, 0, 0);
}
END_TEST

START_TEST(an_absent_attribute_rejects_the_event_and_no_other_rule_is_tried) {
    rule("subject", NULL, false, false);
    to("orders", NULL);
    to("orders", "{subject}");
    rule("rest", NULL, false, false);
    to("rest", NULL);
    expect_outcome(RULE_REJECTED, 0, 0);
    ck_assert_int_eq(error.class, ERROR_PERMANENT);
    ck_assert_ptr_nonnull(strstr(error.text, "rule 'subject'"));
    ck_assert_ptr_nonnull(strstr(error.text, "attribute 'subject'"));
}
END_TEST

START_TEST(an_absent_attribute_in_a_header_rejects_too) {
    rule("orders", NULL, false, false);
    to("orders", NULL);
    ck_assert_int_eq(rule_set_add_header(set, span_of("h"), template("{subject}")), 0);
    expect_outcome(RULE_REJECTED, 0, 0);
}
END_TEST

START_TEST(headers_and_options_come_with_their_destination) {
    static const int options;
    rule("orders", NULL, false, false);
    ck_assert_int_eq(rule_set_add_destination(set, &options), 0);
    ck_assert_int_eq(rule_set_add_field(set, 0, template("{{orders}}")), 0);
    ck_assert_int_eq(rule_set_add_header(set, span_of("tenant"), template("{tenant|upper}")), 0);
    ck_assert_int_eq(rule_set_add_header(set, span_of("empty"), template("{subject?}")), 0);
    ck_assert_int_eq(rule_set_add_header(set, span_of("fixed"), template("x")), 0);
    expect_outcome(RULE_DESTINATIONS, 0, 1);
    expect_field(0, 0, "{orders}");
    ck_assert_ptr_eq(destination.options, &options);
    ck_assert_uint_eq(destination.header_count, 3);
    ck_assert(span_is(destination.headers[0].name, "tenant"));
    ck_assert(span_is(destination.headers[0].value, "ACME"));
    ck_assert(span_is(destination.headers[1].value, ""));
    ck_assert(span_is(destination.headers[2].value, "x"));
}
END_TEST

START_TEST(a_growing_storage_does_not_move_what_was_rendered) {
    char big[3000];
    memset(big, 'b', sizeof big);
    ck_assert_int_eq(event_set_extension(&event, span_of("big"), ATTRIBUTE_STRING, (struct span){big, sizeof big}), 0);
    rule("orders", NULL, false, false);
    to("{tenant}", "{big}{tenant}");
    ck_assert_int_eq(rule_set_add_header(set, span_of("h"), template("{big}{big}")), 0);
    expect_outcome(RULE_DESTINATIONS, 0, 1);
    expect_field(0, 0, "acme");
    ck_assert_uint_eq(destination.fields[1].len, sizeof big + 4);
    ck_assert_uint_eq(destination.headers[0].value.len, 2 * sizeof big);
}
END_TEST

START_TEST(a_rendering_over_the_maximum_is_refused) {
    rule("orders", NULL, false, false);
    to("{type}", NULL);
    destination.storage.max = 5;
    expect_outcome(RULE_DESTINATIONS, 0, 1);
    ck_assert_int_eq(rule_render(set, result.destinations[0], &event, &destination), -EMSGSIZE);
}
END_TEST

START_TEST(too_many_destinations_of_one_event_are_rejected) {
    for (int i = 0; i < 2; i++) {
        char name[8];
        snprintf(name, sizeof name, "r%d", i);
        rule(name, NULL, false, i == 0);
        for (int j = 0; j < RULE_DESTINATIONS_MAX / 2 + i; j++)
            to("x", NULL);
    }
    expect_outcome(RULE_REJECTED, 1, 0);
    ck_assert_ptr_nonnull(strstr(error.text, "rule 'r1'"));
}
END_TEST

START_TEST(a_set_is_bounded) {
    rule("a", NULL, false, false);
    for (int i = 0; i < RULE_DESTINATIONS_MAX; i++)
        to("x", NULL);
    ck_assert_int_eq(rule_set_add_destination(set, NULL), -EMSGSIZE);
    for (int i = 0; i < DESTINATION_HEADERS_MAX; i++)
        ck_assert_int_eq(rule_set_add_header(set, span_of("h"), template("x")), 0);
    ck_assert_int_eq(rule_set_add_header(set, span_of("h"), template("x")), -EMSGSIZE);
    for (int i = 1; i < RULE_SET_RULES_MAX; i++)
        rule("r", NULL, true, false);
    ck_assert_int_eq(rule_set_add_rule(set, span_of("r"), NULL, true, false), -EMSGSIZE);
}
END_TEST

static int build(struct rule_set **ret_set) {
    struct rule_set *s = NULL;
    struct filter *f = NULL;
    struct template *t = NULL;
    size_t column;
    int r = rule_set_new(&s);
    if (r == 0)
        r = filter_new(FILTER_EXACT, &f);
    if (r == 0)
        r = rule_set_add_rule(s, SPAN_LITERAL("r"), f, false, false);
    if (r == 0)
        r = rule_set_add_destination(s, NULL);
    if (r == 0)
        r = template_compile(SPAN_LITERAL("{type}"), &t, &error, &column);
    if (r == 0)
        r = rule_set_add_field(s, 0, t);
    if (r == 0)
        r = template_compile(SPAN_LITERAL("{tenant}"), &t, &error, &column);
    if (r == 0)
        r = rule_set_add_header(s, SPAN_LITERAL("h"), t);
    if (r < 0)
        rule_set_free(s);
    else
        *ret_set = s;
    return r;
}

START_TEST(out_of_memory_is_an_ordinary_answer) {
    FAIL_ALLOC_EACH(n) {
        struct rule_set *built = NULL;
        struct destination d;
        destination_init(&d);
        int r = build(&built);
        if (r == 0)
            r = rule_render(built, 0, &event, &d);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        rule_set_free(built);
        destination_done(&d);
    }
}
END_TEST

/* One event from the row to the message, all that is done before a sink sees it. */
static int whole_way(const struct row *row, const struct row_options *row_options, struct binding_message *message,
                     int mode) {
    struct binding_options options = {.mode = mode};
    event_clear(&event, 4096);
    int r = row_to_event(row, row_options, &event, &error);
    if (r == 0)
        rule_resolve(set, &event, &result, &error);
    for (size_t i = 0; i < result.count && r == 0; i++)
        r = rule_render(set, result.destinations[i], &event, &destination);
    return r == 0 ? binding_encode(BINDING_AMQP, &options, &event, message, &error) : r;
}

START_TEST(in_steady_state_nothing_is_allocated) {
    static struct rows rows;
    rows_minimal(&rows);
    rows_integer(&rows, ROW_TIME, ROW_FORM_TIMESTAMPTZ, ROWS_TIME);
    rows_text(&rows, ROW_STREAM_ID, "order-1");
    rows_add(&rows, ROW_EXTENSIONS, ROW_FORM_JSONB, SPAN_LITERAL("\1{\"tenant\": \"a\\u0020b\", \"n\": 5}"));
    rows_add(&rows, ROW_DATA, ROW_FORM_JSONB, SPAN_LITERAL("\1{\"total\": 1.10}"));
    rule("audit", NULL, false, true);
    to("audit", NULL);
    rule("orders", "com.", false, false);
    to("orders", "{type|last|replace:e:---}.{tenant|upper}");
    ck_assert_int_eq(rule_set_add_header(set, span_of("h"), template("{streamid}")), 0);
    struct row row = rows_view(&rows);
    struct row_options options = {.emit_streamid = true};
    struct binding_message message;
    binding_message_init(&message, 100000);
    for (int mode = BINDING_BINARY; mode <= BINDING_STRUCTURED; mode++)
        ck_assert_int_eq(whole_way(&row, &options, &message, mode), 0);
    int failures = 0;
    fail_alloc_begin(0);
    for (int i = 0; i < 100000; i++)
        failures += whole_way(&row, &options, &message, i % 2) != 0;
    fail_alloc_end();
    ck_assert_uint_eq(fail_alloc_count(), 0);
    ck_assert_int_eq(failures, 0);
    binding_message_done(&message);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rule");
    TCase *cases = tcase_create("rule");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, the_first_match_wins);
    tcase_add_test(cases, continue_adds_its_destinations_and_goes_on);
    tcase_add_test(cases, a_skip_ends_there);
    tcase_add_test(cases, a_skip_behind_continue_keeps_what_came_before);
    tcase_add_test(cases, no_match_is_said_and_nothing_invented);
    tcase_add_test(cases, an_absent_attribute_rejects_the_event_and_no_other_rule_is_tried);
    tcase_add_test(cases, an_absent_attribute_in_a_header_rejects_too);
    tcase_add_test(cases, headers_and_options_come_with_their_destination);
    tcase_add_test(cases, a_growing_storage_does_not_move_what_was_rendered);
    tcase_add_test(cases, a_rendering_over_the_maximum_is_refused);
    tcase_add_test(cases, too_many_destinations_of_one_event_are_rejected);
    tcase_add_test(cases, a_set_is_bounded);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    tcase_add_test(cases, in_steady_state_nothing_is_allocated);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
