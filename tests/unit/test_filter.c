/* test_filter: the dialects of CloudEvents Subscriptions on one event */
#include "unit/unit.h"

#include <errno.h>

#include "rule/filter.h"
#include "unit/fail_alloc.h"

static struct event event;
static struct error error;

static void set_up(void) {
    event_init(&event, 1000);
    ck_assert_int_eq(event_set_core(&event, EVENT_TYPE, span_of("com.acme.order.created")), 0);
    ck_assert_int_eq(event_set_extension(&event, span_of("region"), ATTRIBUTE_STRING, span_of("eu")), 0);
    ck_assert_int_eq(event_set_extension(&event, span_of("prio"), ATTRIBUTE_INTEGER, span_of("5")), 0);
    ck_assert_int_eq(event_set_extension(&event, span_of("none"), ATTRIBUTE_STRING, span_of("")), 0);
}

static void tear_down(void) {
    event_done(&event);
}

static struct filter *leaf(enum filter_dialect dialect, const char *attribute, const char *value) {
    struct filter *f;
    ck_assert_int_eq(filter_new(dialect, &f), 0);
    ck_assert_int_eq(filter_add_match(f, span_of(attribute), span_of(value), &error), 0);
    return f;
}

static struct filter *group(enum filter_dialect dialect, struct filter *a, struct filter *b) {
    struct filter *f;
    ck_assert_int_eq(filter_new(dialect, &f), 0);
    if (a)
        ck_assert_int_eq(filter_add_child(f, a, &error), 0);
    if (b)
        ck_assert_int_eq(filter_add_child(f, b, &error), 0);
    return f;
}

static bool matches(struct filter *f) {
    bool result = filter_match(f, &event);
    filter_free(f);
    return result;
}

static struct filter *yes(void) {
    return leaf(FILTER_EXACT, "region", "eu");
}

static struct filter *no(void) {
    return leaf(FILTER_EXACT, "region", "us");
}

START_TEST(no_filter_matches_everything) {
    ck_assert(filter_match(NULL, &event));
}
END_TEST

START_TEST(exact_prefix_and_suffix_compare_bytes) {
    ck_assert(matches(leaf(FILTER_EXACT, "prio", "5")));
    ck_assert(matches(leaf(FILTER_EXACT, "specversion", "1.0")));
    ck_assert(!matches(leaf(FILTER_EXACT, "region", "EU")));
    ck_assert(!matches(leaf(FILTER_EXACT, "region", "eu1")));
    ck_assert(matches(leaf(FILTER_PREFIX, "type", "com.acme.")));
    ck_assert(!matches(leaf(FILTER_PREFIX, "type", "acme")));
    ck_assert(!matches(leaf(FILTER_PREFIX, "region", "europe")));
    ck_assert(matches(leaf(FILTER_SUFFIX, "type", ".created")));
    ck_assert(!matches(leaf(FILTER_SUFFIX, "type", "com.")));
    ck_assert(matches(leaf(FILTER_SUFFIX, "region", "eu")));
    ck_assert(!matches(leaf(FILTER_PREFIX, "none", "x")));
}
END_TEST

START_TEST(all_entries_of_one_dialect_must_match) {
    struct filter *f = yes();
    ck_assert_int_eq(filter_add_match(f, span_of("prio"), span_of("5"), &error), 0);
    ck_assert(filter_match(f, &event));
    ck_assert_int_eq(filter_add_match(f, span_of("type"), span_of("x"), &error), 0);
    ck_assert(!matches(f));
}
END_TEST

START_TEST(a_missing_attribute_does_not_match_and_its_negation_does) {
    ck_assert(!matches(leaf(FILTER_EXACT, "subject", "x")));
    ck_assert(matches(group(FILTER_NOT, leaf(FILTER_EXACT, "subject", "x"), NULL)));
}
END_TEST

START_TEST(all_any_and_not_combine) {
    ck_assert(matches(group(FILTER_ALL, yes(), yes())));
    ck_assert(!matches(group(FILTER_ALL, yes(), no())));
    ck_assert(!matches(group(FILTER_ALL, no(), yes())));
    ck_assert(matches(group(FILTER_ANY, no(), yes())));
    ck_assert(!matches(group(FILTER_ANY, no(), no())));
    ck_assert(!matches(group(FILTER_NOT, yes(), NULL)));
    ck_assert(matches(group(FILTER_NOT, no(), NULL)));
    ck_assert(matches(group(FILTER_NOT, group(FILTER_ANY, no(), no()), NULL)));
}
END_TEST

START_TEST(dialects_are_known_by_name) {
    static const char *const names[] = {"exact", "prefix", "suffix", "all", "any", "not"};
    for (int i = FILTER_EXACT; i <= FILTER_NOT; i++)
        ck_assert_int_eq(filter_dialect_by_name(span_of(names[i])), i);
    ck_assert_int_eq(filter_dialect_by_name(span_of("sql")), -1);
    ck_assert_int_eq(filter_dialect_by_name(span_of("regex")), -1);
    ck_assert_int_eq(filter_dialect_by_name(span_of("Exact")), -1);
}
END_TEST

START_TEST(what_can_never_match_is_refused) {
    struct filter *f;
    ck_assert_int_eq(filter_new(FILTER_EXACT, &f), 0);
    ck_assert_int_eq(filter_finish(f, &error), -EINVAL);
    ck_assert_int_eq(filter_add_match(f, span_of("Type"), span_of("x"), &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "'Type'"));
    ck_assert_int_eq(filter_add_match(f, span_of("data"), span_of("x"), &error), -EINVAL);
    ck_assert_int_eq(filter_add_match(f, span_of("type"), span_of(""), &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "'type'"));
    ck_assert_int_eq(filter_add_match(f, span_of("type"), span_of("x"), &error), 0);
    ck_assert_int_eq(filter_finish(f, &error), 0);
    filter_free(f);
    ck_assert_int_eq(filter_new(FILTER_ALL, &f), 0);
    ck_assert_int_eq(filter_finish(f, &error), -EINVAL);
    filter_free(f);
}
END_TEST

START_TEST(not_takes_one_filter) {
    struct filter *f = group(FILTER_NOT, yes(), NULL);
    ck_assert_int_eq(filter_add_child(f, yes(), &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "not"));
    filter_free(f);
}
END_TEST

START_TEST(depth_and_count_are_bounded) {
    struct filter *f = yes();
    for (int depth = 1; depth < FILTER_DEPTH_MAX; depth++)
        f = group(FILTER_ALL, f, NULL);
    ck_assert(filter_match(f, &event));
    struct filter *outer = group(FILTER_ANY, NULL, NULL);
    ck_assert_int_eq(filter_add_child(outer, f, &error), -EINVAL);
    for (int i = 0; i < FILTER_ENTRIES_MAX; i++)
        ck_assert_int_eq(filter_add_child(outer, no(), &error), 0);
    ck_assert_int_eq(filter_add_child(outer, yes(), &error), -EINVAL);
    ck_assert(!matches(outer));
}
END_TEST

static int build(struct filter **ret_filter) {
    struct filter *f = NULL, *child = NULL;
    int r = filter_new(FILTER_ALL, &f);
    for (int i = 0; i < 5 && r == 0; i++) {
        r = filter_new(FILTER_PREFIX, &child);
        for (int j = 0; j < 5 && r == 0; j++) {
            r = filter_add_match(child, SPAN_LITERAL("type"), SPAN_LITERAL("com."), &error);
            if (r < 0)
                filter_free(child);
        }
        if (r == 0)
            r = filter_add_child(f, child, &error);
    }
    if (r < 0)
        filter_free(f);
    else
        *ret_filter = f;
    return r;
}

START_TEST(out_of_memory_is_an_ordinary_answer) {
    FAIL_ALLOC_EACH(n) {
        struct filter *f = NULL;
        int r = build(&f);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        if (r == 0)
            ck_assert(matches(f));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("filter");
    TCase *cases = tcase_create("filter");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, no_filter_matches_everything);
    tcase_add_test(cases, exact_prefix_and_suffix_compare_bytes);
    tcase_add_test(cases, all_entries_of_one_dialect_must_match);
    tcase_add_test(cases, a_missing_attribute_does_not_match_and_its_negation_does);
    tcase_add_test(cases, all_any_and_not_combine);
    tcase_add_test(cases, dialects_are_known_by_name);
    tcase_add_test(cases, what_can_never_match_is_refused);
    tcase_add_test(cases, not_takes_one_filter);
    tcase_add_test(cases, depth_and_count_are_bounded);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
