/* test_template: texts with attributes in braces */
#include "unit/unit.h"

#include <errno.h>

#include "rule/template.h"
#include "unit/fail_alloc.h"

static struct event event;
static struct error error;

static void set_up(void) {
    event_init(&event, 10000);
    ck_assert_int_eq(event_set_core(&event, EVENT_TYPE, span_of("com.acme.OrderPlaced")), 0);
    ck_assert_int_eq(event_set_core(&event, EVENT_SOURCE, span_of("/shop/orders")), 0);
    ck_assert_int_eq(event_set_extension(&event, span_of("tenant"), ATTRIBUTE_STRING, span_of("Äcme")), 0);
    ck_assert_int_eq(event_set_extension(&event, span_of("empty"), ATTRIBUTE_STRING, span_of("")), 0);
    ck_assert_int_eq(event_set_extension(&event, span_of("urn"), ATTRIBUTE_STRING, span_of("a:b:c")), 0);
}

static void tear_down(void) {
    event_done(&event);
}

static struct template *compile(const char *text) {
    struct template *t;
    size_t column;
    int r = template_compile(span_of(text), &t, &error, &column);
    ck_assert_msg(r == 0, "%s: %s", text, error.text);
    return t;
}

static void expect(const char *text, const char *wanted) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    struct span name;
    struct template *t = compile(text);
    ck_assert_int_eq(buf_add(&b, "<", 1), 0); /* what was there stays */
    ck_assert_int_eq(template_check(t, &event, &name), 0);
    ck_assert_int_eq(template_render(t, &event, &b), 0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_msg(b.data[0] == '<' && strcmp(b.data + 1, wanted) == 0, "%s gives '%s' instead of '%s'", text,
                  b.data + 1, wanted);
    template_free(t);
}

START_TEST(attributes_stand_in_braces) {
    expect("{type}", "com.acme.OrderPlaced");
    expect("order.{source}.{specversion}!", "order./shop/orders.1.0!");
    expect("{tenant}{tenant}", "ÄcmeÄcme");
    expect("", "");
    expect("{empty}", "");
}
END_TEST

START_TEST(doubled_braces_are_literal) {
    expect("{{type}}", "{type}");
    expect("{{{type}}}", "{com.acme.OrderPlaced}");
    expect("a{{b}}c", "a{b}c");
}
END_TEST

START_TEST(filters_are_applied_from_left_to_right) {
    expect("{type|last}", "OrderPlaced");
    expect("{type|first}", "com");
    expect("{type|lower}", "com.acme.orderplaced");
    expect("{type|last|upper}", "ORDERPLACED");
    expect("{tenant|lower}", "Äcme"); /* ASCII letters only */
    expect("{source|last}", "/shop/orders");
    expect("{empty|first|last|upper|replace:a:b}", "");
    expect("{source|replace:/:.|first}", "");
    expect("{source|replace:/:.|last}", "orders");
    expect("{type|replace:acme:x|replace:x:yy}", "com.yy.OrderPlaced");
}
END_TEST

START_TEST(replace_takes_each_occurrence) {
    expect("{source|replace:/:}", "shoporders");
    expect("{source|replace:/:--}", "--shop--orders");
    expect("{type|replace:com.acme.OrderPlaced:}", "");
    expect("{urn|replace:\\::-}", "a-b-c");
    expect("{urn|replace:b:\\}\\|\\?\\\\}", "a:}|?\\:c");
    expect("{urn|replace:zzz:y}", "a:b:c");
    expect("{tenant|replace:Ä:Ae}", "Aecme");
}
END_TEST

START_TEST(a_default_stands_for_an_absent_attribute) {
    expect("{subject?none}", "none");
    expect("{subject|upper?None.x}", "None.x");
    expect("{subject?}", "");
    expect("{subject?a|b?c:d}", "a|b?c:d");
    expect("{subject?\\}\\{}", "}{");
    expect("{empty?none}", "");
    expect("{type|last?none}", "OrderPlaced");
}
END_TEST

START_TEST(an_absent_attribute_without_default_is_named) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    struct span name;
    struct template *t = compile("{type}.{dataschema?x}.{subject|last}");
    ck_assert_int_eq(template_check(t, &event, &name), TEMPLATE_E_ABSENT);
    ck_assert(span_is(name, "subject"));
    ck_assert_int_eq(buf_add(&b, "old", 3), 0);
    ck_assert_int_eq(template_render(t, &event, &b), TEMPLATE_E_ABSENT);
    ck_assert(span_is(buf_span(&b), "old"));
    template_free(t);
}
END_TEST

START_TEST(a_template_without_attributes_is_a_literal) {
    struct template *t = compile("a{{b}}");
    ck_assert(span_is(template_literal(t), "a{b}"));
    template_free(t);
    t = compile("");
    ck_assert(span_is(template_literal(t), ""));
    template_free(t);
    t = compile("{type}");
    ck_assert(span_absent(template_literal(t)));
    template_free(t);
    t = compile("a{type}");
    ck_assert(span_absent(template_literal(t)));
    template_free(t);
}
END_TEST

START_TEST(faults_are_found_at_their_column) {
    static const struct {
        const char *text;
        size_t column;
        const char *word;
    } faults[] = {
        {"a}", 1, "}}"},
        {"{type}}", 6, "}}"},
        {"ab{type", 2, "never closed"},
        {"{type|last", 0, "never closed"},
        {"{type?x", 0, "never closed"},
        {"{", 1, "name"},
        {"{}", 1, "name"},
        {"x{Type}", 2, "name"},
        {"{data}", 1, "name"},
        {"{ty pe}", 1, "name"},
        {"{ty\\pe}", 1, "name"},
        {"{type|}", 6, "filter"},
        {"{type|trim}", 6, "first, last, lower, upper, replace"},
        {"{type|last|Lower}", 11, "filter"},
        {"{type|lower:x}", 11, "takes nothing more"},
        {"{type|replace}", 13, "replace:FROM:TO"},
        {"{type|replace:a}", 14, "replace:FROM:TO"},
        {"{type|replace::b}", 14, "replace:FROM:TO"},
        {"{type|replace:a:b:c}", 17, "takes nothing more"},
        {"{type|replace:{:b}", 14, "{"},
        {"{type?a{b}", 7, "{"},
        {"{type?a\\", 7, "backslash"},
        {"{type|lower|lower|lower|lower|lower|lower|lower|lower|upper}", 54, "8 filters"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++) {
        struct template *t = NULL;
        size_t column = 999;
        ck_assert_msg(template_compile(span_of(faults[i].text), &t, &error, &column) == -EINVAL, "%s", faults[i].text);
        ck_assert_msg(column == faults[i].column, "%s: column %zu", faults[i].text, column);
        ck_assert_msg(strstr(error.text, faults[i].word) != NULL, "%s: %s", faults[i].text, error.text);
        ck_assert_ptr_null(t);
    }
}
END_TEST

START_TEST(a_template_is_bounded) {
    char *text = malloc(TEMPLATE_BYTES_MAX + 1);
    struct template *t;
    size_t column;
    memset(text, 'x', TEMPLATE_BYTES_MAX + 1);
    ck_assert_int_eq(template_compile((struct span){text, TEMPLATE_BYTES_MAX + 1}, &t, &error, &column), -EINVAL);
    ck_assert_int_eq(template_compile((struct span){text, TEMPLATE_BYTES_MAX}, &t, &error, &column), 0);
    CLEANUP(buf_done) struct buf b = BUF_INIT(100);
    ck_assert_int_eq(template_render(t, &event, &b), -EMSGSIZE);
    ck_assert_uint_eq(b.len, 0);
    template_free(t);
    free(text);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    FAIL_ALLOC_EACH(n) {
        struct template *t = NULL;
        struct buf b = BUF_INIT(1000);
        size_t column;
        int r = template_compile(SPAN_LITERAL("a{type|replace:.:-----}b{source}c"), &t, &error, &column);
        if (r == 0)
            r = template_render(t, &event, &b);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        template_free(t);
        buf_done(&b);
    }
}
END_TEST

START_TEST(random_texts_compile_or_are_refused) {
    static const char alphabet[] = "{}|?:\\type.lastreplace";
    unsigned seed = 3;
    int compiled = 0;
    for (int turn = 0; turn < 200000; turn++) {
        size_t len = (size_t)rand_r(&seed) % 16;
        char *text = malloc(len + 1);
        for (size_t i = 0; i < len; i++)
            text[i] = alphabet[(size_t)rand_r(&seed) % (sizeof alphabet - 1)];
        CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
        struct template *t = NULL;
        size_t column = 0;
        int r = template_compile((struct span){text, len}, &t, &error, &column);
        ck_assert(r == 0 || (r == -EINVAL && column <= len));
        struct span name;
        if (r == 0)
            ck_assert_int_eq(template_check(t, &event, &name), template_render(t, &event, &b));
        compiled += r == 0;
        template_free(t);
        free(text);
    }
    ck_assert_int_gt(compiled, 1000);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("template");
    TCase *cases = tcase_create("template");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, attributes_stand_in_braces);
    tcase_add_test(cases, doubled_braces_are_literal);
    tcase_add_test(cases, filters_are_applied_from_left_to_right);
    tcase_add_test(cases, replace_takes_each_occurrence);
    tcase_add_test(cases, a_default_stands_for_an_absent_attribute);
    tcase_add_test(cases, an_absent_attribute_without_default_is_named);
    tcase_add_test(cases, a_template_without_attributes_is_a_literal);
    tcase_add_test(cases, faults_are_found_at_their_column);
    tcase_add_test(cases, a_template_is_bounded);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    tcase_add_test(cases, random_texts_compile_or_are_refused);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
