/* test_event: attributes and data in one storage that is used again */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include "event/attribute.h"
#include "event/event.h"
#include "unit/fail_alloc.h"

static void expect(struct span s, const char *text) {
    ck_assert_msg(span_is(s, text), "'%.*s' instead of '%s'", SPAN_ARGS(s), text);
}

START_TEST(an_event_gives_back_what_was_set) {
    CLEANUP(event_done) struct event e;
    event_init(&e, 1000);
    ck_assert_int_eq(event_set_core(&e, EVENT_ID, span_of("e-1")), 0);
    ck_assert_int_eq(event_set_extension(&e, span_of("tenant"), ATTRIBUTE_STRING, span_of("acme")), 0);
    ck_assert_int_eq(event_set_extension(&e, span_of("prio"), ATTRIBUTE_INTEGER, span_of("5")), 0);
    ck_assert_int_eq(event_set_data(&e, EVENT_DATA_JSON, span_of("{}")), 0);
    expect(event_core_value(&e, EVENT_ID), "e-1");
    expect(event_get(&e, span_of("id")), "e-1");
    expect(event_get(&e, span_of("tenant")), "acme");
    expect(event_get(&e, span_of("specversion")), "1.0");
    expect(event_data(&e), "{}");
    ck_assert(span_absent(event_get(&e, span_of("subject"))));
    ck_assert(span_absent(event_get(&e, span_of("ten"))));
    struct span name;
    enum attribute_type type;
    expect(event_extension(&e, 1, &name, &type), "5");
    expect(name, "prio");
    ck_assert_int_eq(type, ATTRIBUTE_INTEGER);
    ck_assert_uint_eq(event_bytes(&e), strlen("e-1tenantacmeprio5{}"));
}
END_TEST

START_TEST(absent_and_empty_stay_different) {
    CLEANUP(event_done) struct event e;
    event_init(&e, 1000);
    ck_assert(span_absent(event_data(&e)));
    ck_assert_int_eq(event_set_data(&e, EVENT_DATA_TEXT, SPAN_LITERAL("")), 0);
    ck_assert_int_eq(event_set_core(&e, EVENT_SUBJECT, SPAN_LITERAL("")), 0);
    expect(event_data(&e), "");
    expect(event_core_value(&e, EVENT_SUBJECT), "");
    ck_assert(span_absent(event_core_value(&e, EVENT_TIME)));
    ck_assert_int_eq(event_set_data(&e, EVENT_DATA_NONE, SPAN_ABSENT), 0);
    ck_assert(span_absent(event_data(&e)));
}
END_TEST

START_TEST(a_name_given_twice_replaces) {
    CLEANUP(event_done) struct event e;
    event_init(&e, 1000);
    ck_assert_int_eq(event_set_extension(&e, span_of("a"), ATTRIBUTE_STRING, span_of("1")), 0);
    ck_assert_int_eq(event_set_extension(&e, span_of("b"), ATTRIBUTE_STRING, span_of("2")), 0);
    ck_assert_int_eq(event_set_extension(&e, span_of("a"), ATTRIBUTE_STRING, span_of("three")), 0);
    ck_assert_uint_eq(e.extension_count, 2);
    expect(event_get(&e, span_of("a")), "three");
}
END_TEST

START_TEST(a_value_can_be_built_in_place) {
    CLEANUP(event_done) struct event e;
    event_init(&e, 1000);
    size_t at = e.storage.len;
    ck_assert_int_eq(buf_addf(&e.storage, "%s-%d", "order", 7), 0);
    event_place_core(&e, EVENT_SUBJECT, at);
    at = e.storage.len;
    ck_assert_int_eq(buf_addf(&e.storage, "x"), 0);
    ck_assert_int_eq(event_place_extension(&e, span_of("ext"), ATTRIBUTE_STRING, at), 0);
    expect(event_core_value(&e, EVENT_SUBJECT), "order-7");
    expect(event_get(&e, span_of("ext")), "x");
}
END_TEST

START_TEST(an_internal_extension_is_seen_and_marked) {
    CLEANUP(event_done) struct event e;
    event_init(&e, 1000);
    ck_assert_int_eq(event_set_extension(&e, span_of("streamid"), ATTRIBUTE_STRING, span_of("s")), 0);
    ck_assert_int_eq(event_set_extension(&e, span_of("other"), ATTRIBUTE_STRING, span_of("o")), 0);
    event_make_internal(&e, span_of("streamid"));
    ck_assert(event_extension_internal(&e, 0));
    ck_assert(!event_extension_internal(&e, 1));
    expect(event_get(&e, span_of("streamid")), "s");
}
END_TEST

START_TEST(a_vouched_attribute_is_passed_over_by_the_check) {
    CLEANUP(event_done) struct event e;
    struct error error;
    struct attribute_names none = {NULL, 0};
    event_init(&e, 1000);
    ck_assert_int_eq(event_set_core(&e, EVENT_ID, span_of("1")), 0);
    ck_assert_int_eq(event_set_core(&e, EVENT_SOURCE, span_of("/s")), 0);
    ck_assert_int_eq(event_set_core(&e, EVENT_TYPE, span_of("t")), 0);
    ck_assert_int_eq(event_set_core(&e, EVENT_TIME, span_of("no time")), 0);
    ck_assert_int_eq(event_set_extension(&e, span_of("Name"), ATTRIBUTE_STRING, span_of("x")), 0);
    event_vouch_extension(&e, span_of("Name"));
    ck_assert_int_lt(attribute_check_event(&e, &none, &error), 0);
    event_vouch_core(&e, EVENT_TIME);
    ck_assert_int_eq(attribute_check_event(&e, &none, &error), 0);
    ck_assert_int_eq(event_set_core(&e, EVENT_TIME, span_of("another")), 0);
    ck_assert_int_lt(attribute_check_event(&e, &none, &error), 0);
}
END_TEST

START_TEST(clearing_forgets_and_keeps_the_capacity_up_to_a_limit) {
    CLEANUP(event_done) struct event e;
    event_init(&e, 1000000);
    char big[50000];
    memset(big, 'x', sizeof big);
    ck_assert_int_eq(event_set_core(&e, EVENT_ID, (struct span){big, sizeof big}), 0);
    e.position = 9;
    event_clear(&e, 100000);
    ck_assert_uint_ge(e.storage.capacity, sizeof big);
    event_clear(&e, 1000);
    ck_assert_uint_eq(e.storage.capacity, 1000);
    ck_assert(span_absent(event_get(&e, span_of("id"))));
    ck_assert(e.position == 0 && e.recorded_us == INT64_MIN);
}
END_TEST

START_TEST(an_event_over_its_maximum_is_refused) {
    CLEANUP(event_done) struct event e;
    event_init(&e, 10);
    ck_assert_int_eq(event_set_core(&e, EVENT_ID, span_of("123456789")), 0);
    ck_assert_int_eq(event_set_core(&e, EVENT_TYPE, span_of("12")), -EMSGSIZE);
    ck_assert_int_eq(event_set_extension(&e, span_of("ab"), ATTRIBUTE_STRING, span_of("")), -EMSGSIZE);
    ck_assert_int_eq(event_set_data(&e, EVENT_DATA_TEXT, span_of("12")), -EMSGSIZE);
    expect(event_core_value(&e, EVENT_ID), "123456789");
    ck_assert(span_absent(event_core_value(&e, EVENT_TYPE)));
    ck_assert_uint_eq(e.extension_count, 0);
}
END_TEST

START_TEST(extensions_are_bounded) {
    CLEANUP(event_done) struct event e;
    event_init(&e, 100000);
    char name[16];
    for (int i = 0; i < EVENT_EXTENSIONS_MAX; i++) {
        snprintf(name, sizeof name, "ext%d", i);
        ck_assert_int_eq(event_set_extension(&e, span_of(name), ATTRIBUTE_STRING, span_of("v")), 0);
    }
    ck_assert_int_eq(event_set_extension(&e, span_of("more"), ATTRIBUTE_STRING, span_of("v")), -EMSGSIZE);
    ck_assert_int_eq(event_set_extension(&e, span_of("ext95"), ATTRIBUTE_STRING, span_of("w")), 0);
    expect(event_get(&e, span_of("ext95")), "w");
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    FAIL_ALLOC_EACH(n) {
        struct event e;
        event_init(&e, 1000);
        int r = event_set_core(&e, EVENT_ID, span_of("e-1"));
        if (r == 0)
            r = event_set_extension(&e, span_of("tenant"), ATTRIBUTE_STRING, span_of("acme"));
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        event_done(&e);
    }
}
END_TEST

START_TEST(core_names_are_found_both_ways) {
    for (int i = 0; i < EVENT_CORE_COUNT; i++)
        ck_assert_int_eq(event_core_by_name(event_core_name((enum event_core)i)), i);
    ck_assert_int_eq(event_core_by_name(span_of("specversion")), -1);
    ck_assert_int_eq(event_core_by_name(span_of("ids")), -1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("event");
    TCase *cases = tcase_create("event");
    tcase_add_test(cases, an_event_gives_back_what_was_set);
    tcase_add_test(cases, absent_and_empty_stay_different);
    tcase_add_test(cases, a_name_given_twice_replaces);
    tcase_add_test(cases, a_value_can_be_built_in_place);
    tcase_add_test(cases, an_internal_extension_is_seen_and_marked);
    tcase_add_test(cases, a_vouched_attribute_is_passed_over_by_the_check);
    tcase_add_test(cases, clearing_forgets_and_keeps_the_capacity_up_to_a_limit);
    tcase_add_test(cases, an_event_over_its_maximum_is_refused);
    tcase_add_test(cases, extensions_are_bounded);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    tcase_add_test(cases, core_names_are_found_both_ways);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
