/* test_json: strings written and read, text checked, objects walked */
#include "unit/unit.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"

static struct span sp(const char *text) {
    return span_of(text);
}

static void expect_string(struct span in, const char *out) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    ck_assert_int_eq(json_add_string(&b, in), 0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_str_eq(b.data, out);
    ck_assert(json_valid(buf_span(&b)));
}

START_TEST(a_string_escapes_what_rfc_8259_demands_and_nothing_else) {
    expect_string(sp(""), "\"\"");
    expect_string(sp("plain/'é€😀\x7f"), "\"plain/'é€😀\x7f\"");
    expect_string(sp("say \"a\\b\""), "\"say \\\"a\\\\b\\\"\"");
    expect_string((struct span){"\0\x01\n\x1f ", 5}, "\"\\u0000\\u0001\\u000a\\u001f \"");
}
END_TEST

START_TEST(a_string_that_does_not_fit_leaves_the_buffer_as_it_was) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8);
    ck_assert_int_eq(buf_add(&b, "ab", 2), 0);
    ck_assert_int_eq(json_add_string(&b, sp("12\n")), -EMSGSIZE);
    ck_assert_uint_eq(b.len, 2);
    ck_assert_int_eq(json_add_string(&b, sp("1234")), 0);
    ck_assert_uint_eq(b.len, 8);
}
END_TEST

START_TEST(json_text_is_recognised) {
    static const char *const texts[] = {
        "null", " true ", "false", "0", "-0", "12", "-1.5e+10", "1E400", "0.10", "12345678901234567890", "\"\"",
        "\"\\ud800\"", "\"\\u0000\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u12aF\"", "[]", "{}", "[ ]", "{ }",
        "[1,2 , 3]", "{\"a\":1,\"a\":{\"b\":[null,{}]}}", "\t\r\n {\"\" : [[[]]]}\n", "\"é😀\"", "[[],[[]],{}]",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        ck_assert_msg(json_valid(sp(texts[i])), "%s", texts[i]);
}
END_TEST

START_TEST(what_is_no_json_is_refused) {
    static const char *const texts[] = {
        "", " ", "nul", "nullx", "True", "tru", "+1", "01", "-", "1.", ".5", "1e", "1e+", "0x1", "1 2", "\"", "\"a",
        "\"\\\"", "\"\\x\"", "\"\\u12g4\"", "\"\\u123\"", "\"a\nb\"", "\"\x80\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"", "[", "]", "[1,]", "[,1]", "[1 2]", "[1}", "{", "{]", "{\"a\"}", "{\"a\":}",
        "{\"a\":1,}", "{a:1}", "{'a':1}", "{1:1}", "[1]]", "{\"a\":1}}", "\xef\xbb\xbf{}", "/**/1", "NaN", "Infinity",
        "\v1", "[\"a\":1]", "{\"a\" 1}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        ck_assert_msg(!json_valid(sp(texts[i])), "%s", texts[i]);
    ck_assert(!json_valid(SPAN_ABSENT));
    ck_assert(!json_valid((struct span){"\"\\\0\"", 4}));
    ck_assert(!json_valid((struct span){"1\0", 2}));
}
END_TEST

START_TEST(a_cut_text_is_never_valid_and_never_read_beyond) {
    static const char whole[] = "{\"a\":[true,false,null,-1.5e+10,\"x\\u00e9\\n\xf0\x9f\x98\x80\"],\"b\":{}}";
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        char *copy = malloc(length ? length : 1); /* exact, for the address sanitizer */
        memcpy(copy, whole, length);
        ck_assert_msg(!json_valid((struct span){copy, length}), "%zu", length);
        free(copy);
    }
    ck_assert(json_valid(sp(whole)));
}
END_TEST

static bool nested_valid(size_t depth, char open, char close) {
    char text[2 * (JSON_DEPTH_MAX + 1)];
    memset(text, open, depth);
    memset(text + depth, close, depth);
    return json_valid((struct span){text, 2 * depth});
}

START_TEST(depth_is_bounded) {
    ck_assert(nested_valid(JSON_DEPTH_MAX, '[', ']'));
    ck_assert(!nested_valid(JSON_DEPTH_MAX + 1, '[', ']'));
}
END_TEST

START_TEST(kinds_alternate_at_any_depth) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(10000);
    for (int i = 0; i < JSON_DEPTH_MAX / 2; i++)
        ck_assert_int_eq(buf_addf(&b, "[{\"a\":"), 0);
    ck_assert_int_eq(buf_addf(&b, "1"), 0);
    for (int i = 0; i < JSON_DEPTH_MAX / 2; i++)
        ck_assert_int_eq(buf_addf(&b, "}]"), 0);
    ck_assert(json_valid(buf_span(&b)));
    b.data[b.len - 2] = ']';
    ck_assert(!json_valid(buf_span(&b)));
}
END_TEST

START_TEST(an_object_is_walked_member_by_member) {
    struct json_walk w;
    struct json_value name, value;
    static const char text[] = " {\"a\" : 1.10, \"b\\n\":\"x\\\"y\",\"c\":{\"d\":[1,2]},\"e\":null} ";
    ck_assert_int_eq(json_walk_object(&w, sp(text)), 0);
    ck_assert_int_eq(json_walk_next(&w, &name, &value), 0);
    ck_assert(span_is(name.text, "a") && !name.escaped);
    ck_assert(value.kind == JSON_NUMBER && span_is(value.text, "1.10"));
    ck_assert_int_eq(json_walk_next(&w, &name, &value), 0);
    ck_assert(span_is(name.text, "b\\n") && name.escaped);
    ck_assert(value.kind == JSON_STRING && value.escaped && span_is(value.text, "x\\\"y"));
    ck_assert_int_eq(json_walk_next(&w, &name, &value), 0);
    ck_assert(value.kind == JSON_OBJECT && span_is(value.text, "{\"d\":[1,2]}"));
    ck_assert_int_eq(json_walk_next(&w, NULL, &value), 0);
    ck_assert_int_eq(value.kind, JSON_NULL);
    ck_assert_int_eq(json_walk_next(&w, &name, &value), JSON_E_END);
    ck_assert_int_eq(json_walk_next(&w, &name, &value), JSON_E_END);
}
END_TEST

START_TEST(an_array_is_walked_element_by_element) {
    static const enum json_kind kinds[] = {JSON_TRUE, JSON_FALSE, JSON_ARRAY, JSON_STRING};
    struct json_walk w;
    struct json_value value;
    ck_assert_int_eq(json_walk_array(&w, sp("[true,false , [],\"\"]")), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        ck_assert_int_eq(json_walk_next(&w, NULL, &value), 0);
        ck_assert_int_eq(value.kind, kinds[i]);
    }
    ck_assert_uint_eq(value.text.len, 0);
    ck_assert(!span_absent(value.text));
    ck_assert_int_eq(json_walk_next(&w, NULL, &value), JSON_E_END);
    ck_assert_int_eq(json_walk_array(&w, sp("[]")), 0);
    ck_assert_int_eq(json_walk_next(&w, NULL, &value), JSON_E_END);
}
END_TEST

/* Members read before the walk ends with JSON_E_INVALID; -1 if it ends otherwise. */
static int walked_before_invalid(const char *text) {
    struct json_walk w;
    struct json_value value;
    if (json_walk_object(&w, sp(text)) != 0)
        return 0;
    for (int members = 0;; members++) {
        int r = json_walk_next(&w, NULL, &value);
        if (r != 0)
            return r == JSON_E_INVALID ? members : -1;
    }
}

START_TEST(a_walk_says_where_the_text_is_broken) {
    ck_assert_int_eq(walked_before_invalid("[]"), 0);
    ck_assert_int_eq(walked_before_invalid("{\"a\":1"), 1);
    ck_assert_int_eq(walked_before_invalid("{\"a\":1,}"), 1);
    ck_assert_int_eq(walked_before_invalid("{\"a\":1 \"b\":2}"), 1);
    ck_assert_int_eq(walked_before_invalid("{\"a\":1,\"b\":2} x"), 2);
    ck_assert_int_eq(walked_before_invalid("{,\"a\":1}"), 0);
    ck_assert_int_eq(walked_before_invalid("{\"a\":[1}"), 0);
    struct json_walk w;
    ck_assert_int_eq(json_walk_object(&w, sp("")), JSON_E_INVALID);
    ck_assert_int_eq(json_walk_object(&w, SPAN_ABSENT), JSON_E_INVALID);
    ck_assert_int_eq(json_walk_array(&w, sp("{}")), JSON_E_INVALID);
}
END_TEST

static int unescape(const char *quoted, struct buf *b) {
    struct json_walk w;
    struct json_value value;
    char text[200];
    snprintf(text, sizeof text, "[%s]", quoted);
    buf_clear(b);
    ck_assert_int_eq(json_walk_array(&w, sp(text)), 0);
    ck_assert_int_eq(json_walk_next(&w, NULL, &value), 0);
    return json_unescape(&value, b);
}

START_TEST(escapes_are_resolved) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(20);
    ck_assert_int_eq(unescape("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", &b), 0);
    ck_assert(span_is(buf_span(&b), "\"\\/\b\f\n\r\t"));
    ck_assert_int_eq(unescape("\"a\\u00e9\\u20AC\\ud83d\\ude00z\\u0001\"", &b), 0);
    ck_assert(span_is(buf_span(&b), "aé€😀z\x01"));
    ck_assert_int_eq(unescape("\"\"", &b), 0);
    ck_assert_uint_eq(b.len, 0);
}
END_TEST

START_TEST(what_is_no_text_is_not_unescaped) {
    static const char *const strings[] = {"\"x\\u0000\"",        "\"\\ud800\"",  "\"\\udc00\"", "\"\\ud800\\u0041\"",
                                          "\"\\ud800\\ud800\"", "\"\\ud800x\"", "1",           "null"};
    CLEANUP(buf_done) struct buf b = BUF_INIT(20);
    for (size_t i = 0; i < ARRAY_LENGTH(strings); i++) {
        ck_assert_msg(unescape(strings[i], &b) == JSON_E_INVALID, "%s", strings[i]);
        ck_assert_uint_eq(b.len, 0);
    }
    ck_assert_int_eq(unescape("\"\\n12345678901234567890\"", &b), -EMSGSIZE);
    ck_assert_uint_eq(b.len, 0);
}
END_TEST

static int integer(enum json_kind kind, const char *text, int64_t *ret_value) {
    struct json_value value = {.kind = kind, .text = sp(text)};
    return json_read_integer(&value, ret_value);
}

START_TEST(integers_of_64_bits_are_read) {
    int64_t value;
    ck_assert(integer(JSON_NUMBER, "0", &value) == 0 && value == 0);
    ck_assert(integer(JSON_NUMBER, "-0", &value) == 0 && value == 0);
    ck_assert(integer(JSON_NUMBER, "-9223372036854775808", &value) == 0 && value == INT64_MIN);
    ck_assert(integer(JSON_STRING, "9223372036854775807", &value) == 0 && value == INT64_MAX);
    static const char *const others[] = {"9223372036854775808", "-9223372036854775809", "1.0", "1e3", "01", "-", "",
                                         "+1", "12345678901234567890123", " 1", "1 "};
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        ck_assert_msg(integer(JSON_STRING, others[i], &value) == JSON_E_INVALID, "%s", others[i]);
    ck_assert_int_eq(integer(JSON_TRUE, "1", &value), JSON_E_INVALID);
}
END_TEST

/* Random texts over a small alphabet: a walk over all members and json_valid agree. */
START_TEST(walking_and_checking_agree) {
    static const char alphabet[] = "{}[]:,\"\"01-.e ntrue\\u\xc3\xa9";
    unsigned seed = 1;
    int valid = 0;
    for (int i = 0; i < 200000; i++) {
        char text[12] = "{\"a\":";
        size_t length = 5 + (size_t)rand_r(&seed) % 6;
        for (size_t j = 5; j < length; j++)
            text[j] = alphabet[(size_t)rand_r(&seed) % (sizeof alphabet - 1)];
        text[length++] = '}';
        struct span s = {text, length};
        struct json_walk w;
        struct json_value value;
        int r = json_walk_object(&w, s);
        while (r == 0)
            r = json_walk_next(&w, NULL, &value);
        ck_assert_int_eq(json_valid(s), r == JSON_E_END);
        valid += r == JSON_E_END;
    }
    ck_assert_int_gt(valid, 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("json");
    TCase *cases = tcase_create("json");
    tcase_add_test(cases, a_string_escapes_what_rfc_8259_demands_and_nothing_else);
    tcase_add_test(cases, a_string_that_does_not_fit_leaves_the_buffer_as_it_was);
    tcase_add_test(cases, json_text_is_recognised);
    tcase_add_test(cases, what_is_no_json_is_refused);
    tcase_add_test(cases, a_cut_text_is_never_valid_and_never_read_beyond);
    tcase_add_test(cases, depth_is_bounded);
    tcase_add_test(cases, kinds_alternate_at_any_depth);
    tcase_add_test(cases, an_object_is_walked_member_by_member);
    tcase_add_test(cases, an_array_is_walked_element_by_element);
    tcase_add_test(cases, a_walk_says_where_the_text_is_broken);
    tcase_add_test(cases, escapes_are_resolved);
    tcase_add_test(cases, what_is_no_text_is_not_unescaped);
    tcase_add_test(cases, integers_of_64_bits_are_read);
    tcase_add_test(cases, walking_and_checking_agree);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
