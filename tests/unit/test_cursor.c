/* test_cursor: the text of a place: printed, read back, refused */
#include "unit/unit.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "source/cursor.h"

static const char *print(const struct cursor *c, struct buf *b) {
    buf_clear(b);
    ck_assert_int_eq(cursor_print(c, b), 0);
    ck_assert_int_eq(buf_terminate(b), 0);
    return b->data;
}

START_TEST(a_place_is_printed_as_the_documentation_shows_it) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(CURSOR_TEXT_MAX);
    struct cursor done = {.s = SPAN_LITERAL("10:20:10,11")};
    ck_assert_str_eq(print(&done, &b), "{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"10:20:10,11\"}");
    struct cursor inside = {SPAN_LITERAL("10:20:10,11"), SPAN_LITERAL("12:25:"), 71, 90};
    ck_assert_str_eq(print(&inside, &b), "{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"10:20:10,11\", \"n\": \"12:25:\", "
                                         "\"position\": 71, \"end\": 90}");
}
END_TEST

START_TEST(what_was_printed_is_read_back) {
    static const struct cursor places[] = {
        {.s = {"1:1:", 4}},
        {.s = {"10:20:10,11", 11}},
        {{"1:1:", 4}, {"9223372036854775806:9223372036854775807:", 40}, INT64_MIN + 1, INT64_MAX},
        {{"3:9:3,5,8", 9}, {"5:10:5", 6}, -5, 0},
    };
    CLEANUP(buf_done) struct buf b = BUF_INIT(CURSOR_TEXT_MAX);
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++) {
        struct cursor again;
        struct error error;
        print(&places[i], &b);
        ck_assert_int_eq(cursor_parse(buf_span(&b), &again, &error), 0);
        ck_assert(cursor_equal(&places[i], &again));
        ck_assert(!cursor_equal(&places[(i + 1) % ARRAY_LENGTH(places)], &again));
    }
}
END_TEST

START_TEST(the_longest_snapshots_fit_the_text) {
    CLEANUP(buf_done) struct buf s = BUF_INIT(CURSOR_SNAPSHOT_MAX), b = BUF_INIT(CURSOR_TEXT_MAX);
    ck_assert_int_eq(buf_addf(&s, "1000000000000000000:1000000000000100000:"), 0);
    for (int i = 0; s.len + 20 <= CURSOR_SNAPSHOT_MAX; i++)
        ck_assert_int_eq(buf_addf(&s, "%s%lld", i ? "," : "", 1000000000000000000LL + i), 0);
    struct cursor c = {buf_span(&s), buf_span(&s), INT64_MIN, INT64_MAX}, again;
    struct error error;
    print(&c, &b);
    ck_assert_int_eq(cursor_parse(buf_span(&b), &again, &error), 0);
    ck_assert(cursor_equal(&c, &again));
}
END_TEST

START_TEST(two_places_are_equal_only_in_every_part) {
    struct cursor a = {SPAN_LITERAL("1:1:"), SPAN_LITERAL("5:5:"), 1, 9};
    struct cursor others[] = {
        {.s = SPAN_LITERAL("1:1:")},
        {SPAN_LITERAL("1:2:"), SPAN_LITERAL("5:5:"), 1, 9},
        {SPAN_LITERAL("1:1:"), SPAN_LITERAL("5:6:"), 1, 9},
        {SPAN_LITERAL("1:1:"), SPAN_LITERAL("5:5:"), 2, 9},
        {SPAN_LITERAL("1:1:"), SPAN_LITERAL("5:5:"), 1, 8},
    };
    ck_assert(cursor_equal(&a, &a));
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        ck_assert(!cursor_equal(&a, &others[i]));
}
END_TEST

START_TEST(a_snapshot_is_checked) {
    static const char *const good[] = {"1:1:", "10:20:", "10:20:10", "10:20:10,11,19", "3:9223372036854775807:"};
    static const char *const bad[] = {"", ":", "1:1", "1::", "0:1:", "20:10:", "10:20:9", "10:20:20", "10:20:11,11", "10:20:12,11",
                                      "10:20:11,", "10:20:,11", "10:20:11 ", " 10:20:", "10:20:11x", "-1:1:", "+1:1:",
                                      "1:9223372036854775808:", "1:99999999999999999999999:", "1:1:1"};
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        ck_assert_msg(cursor_check_snapshot(span_of(good[i])), "%s", good[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        ck_assert_msg(!cursor_check_snapshot(span_of(bad[i])), "%s", bad[i]);
    ck_assert(!cursor_check_snapshot(SPAN_ABSENT));
    CLEANUP(buf_done) struct buf b = BUF_INIT(2 * CURSOR_SNAPSHOT_MAX);
    ck_assert_int_eq(buf_addf(&b, "1:900000:"), 0);
    for (int i = 1; b.len <= CURSOR_SNAPSHOT_MAX; i++)
        ck_assert_int_eq(buf_addf(&b, "%s%d", i > 1 ? "," : "", i), 0);
    ck_assert(!cursor_check_snapshot(buf_span(&b)));
}
END_TEST

/* Refused with the value, nothing is reset. */
START_TEST(what_is_no_cursor_is_refused_with_the_value_and_the_way_out) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "no JSON object"},
        {"position:17", "no JSON object"},
        {"17", "no JSON object"},
        {"[]", "no JSON object"},
        {"{}", "version"},
        {"{\"v\": 1}", "mode"},
        {"{\"v\": \"1\", \"mode\": \"snapshot\", \"s\": \"1:1:\"}", "version"},
        {"{\"v\": 0, \"mode\": \"snapshot\", \"s\": \"1:1:\"}", "version"},
        {"{\"v\": 1, \"mode\": \"snapshot\"}", "\"s\""},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": 5}", "\"s\""},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"5:4:\"}", "\"s\""},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"\\u0031:1:\"}", "\"s\""},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\", \"n\": \"x\", \"position\": 1, \"end\": 2}", "\"n\""},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\", \"n\": \"1:1:\"}", "\"position\""},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\", \"n\": \"1:1:\", \"position\": 1.5, \"end\": 2}", "\"position\""},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\", \"n\": \"1:1:\", \"position\": 3, \"end\": 2}", "behind"},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\", \"position\": 3}", "no \"n\""},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\", \"s\": \"1:1:\"}", "twice"},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\", \"filter\": 1}", "no cursor has"},
        {"{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\"} x", "no JSON object"},
        {"{\"v\": 1, \"mode\": \"gaps\", \"s\": \"1:1:\"}", "mode"},
        {"{\"v\": 2, \"mode\": \"snapshot\", \"shards\": []}", "newer version"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct cursor c;
        struct error error = {0};
        ck_assert_msg(cursor_parse(span_of(cases[i].text), &c, &error) == -EINVAL, "%s", cases[i].text);
        ck_assert_int_eq(error.class, ERROR_CONFIG);
        ck_assert_msg(strstr(error.text, cases[i].says), "%s: %s", cases[i].text, error.text);
        ck_assert_msg(strstr(error.text, cases[i].text), "%s", error.text);
        ck_assert_msg(strstr(error.text, "penstock rebase"), "%s", error.text);
    }
}
END_TEST

START_TEST(a_long_foreign_value_is_cut_in_the_message) {
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct cursor c;
    struct error error;
    ck_assert_int_eq(cursor_parse(span_of(text), &c, &error), -EINVAL);
    ck_assert(strstr(error.text, "xxx...'"));
    ck_assert(strstr(error.text, "penstock rebase"));
}
END_TEST

/* Mode gaps. ---------------------------------------------------------------- */

static const char *const gaps_texts[] = {
    "{\"v\": 1, \"mode\": \"gaps\", \"position\": null, \"open\": []}",
    "{\"v\": 1, \"mode\": \"gaps\", \"position\": 100, \"open\": [\"5\", \"7-9\"]}",
    "{\"v\": 1, \"mode\": \"gaps\", \"position\": 100, \"open\": [], \"changes\": 3}",
    "{\"v\": 1, \"mode\": \"gaps\", \"position\": 100, \"open\": [], \"changes\": 3, \"table\": \"16402/16401\"}",
    "{\"v\": 1, \"mode\": \"gaps\", \"position\": null, \"open\": [], \"table\": \"4294967295\"}",
    "{\"v\": 1, \"mode\": \"gaps\", \"position\": -3, \"open\": [\"<-10\", \"-8--5\"]}",
};

START_TEST(a_place_in_gaps_is_printed_as_the_documentation_shows_it_and_read_back) {
    for (size_t i = 0; i < ARRAY_LENGTH(gaps_texts); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(CURSOR_GAPS_TEXT_MAX);
        struct cursor_gaps c;
        struct error error;
        enum source_mode mode;
        ck_assert_int_eq(cursor_parse_gaps(span_of(gaps_texts[i]), &c, &error), 0);
        ck_assert_int_eq(cursor_print_gaps(&c, &b), 0);
        ck_assert(span_is(buf_span(&b), gaps_texts[i]));
        ck_assert_int_eq(cursor_mode(buf_span(&b), &mode, &error), 0);
        ck_assert_int_eq(mode, SOURCE_MODE_GAPS);
        cursor_gaps_done(&c);
    }
}
END_TEST

START_TEST(what_is_no_place_in_gaps_is_refused_with_the_value) {
    static const char *const bad[] = {
        "{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"10:20:\"}",
        "{\"v\": 2, \"mode\": \"gaps\", \"position\": 1, \"open\": []}",
        "{\"v\": 1, \"mode\": \"gaps\", \"open\": []}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 1}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 1.5, \"open\": []}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9223372036854775807, \"open\": []}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": null, \"open\": [\"5\"]}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [\"9\"]}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [\"5\", \"6\"]}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [\"7\", \"5\"]}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [5]}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [\"x\"]}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": \"5\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"s\": \"10:20:\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"end\": 9}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"changes\": 0}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"changes\": \"1\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": 16402}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": null}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": \"\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": \"0\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": \"012\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": \"4294967296\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": \"12/\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": \"12/0\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": \"12/13/14\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": \"/13\"}",
        "{\"v\": 1, \"mode\": \"gaps\", \"position\": 9, \"open\": [], \"table\": \"12\", \"table\": \"12\"}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct cursor_gaps c;
        struct error error;
        ck_assert_msg(cursor_parse_gaps(span_of(bad[i]), &c, &error) == -EINVAL, "%s", bad[i]);
        ck_assert_int_eq(error.class, ERROR_CONFIG);
        ck_assert_msg(strstr(error.text, bad[i]), "%s", error.text);
    }
}
END_TEST

START_TEST(two_places_in_gaps_are_equal_only_in_every_part) {
    const struct cursor_gaps a = {.position = 9, .changes = 3, .origin = {12, 13}};
    struct cursor_gaps other[] = {a, a, a, a};
    ck_assert(cursor_equal_gaps(&a, &other[0]));
    other[0].position = 8;
    other[1].changes = 4;
    other[2].origin.table = 14;
    other[3].origin.sequence = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(other); i++)
        ck_assert(!cursor_equal_gaps(&a, &other[i]));
}
END_TEST

START_TEST(a_place_in_gaps_is_none_of_mode_snapshot) {
    struct cursor c;
    struct error error;
    enum source_mode mode;
    for (size_t i = 0; i < ARRAY_LENGTH(gaps_texts); i++)
        ck_assert_int_eq(cursor_parse(span_of(gaps_texts[i]), &c, &error), -EINVAL);
    ck_assert_int_eq(cursor_mode(SPAN_LITERAL("{\"v\": 1, \"mode\": \"wal\"}"), &mode, &error), -EINVAL);
    ck_assert_int_eq(cursor_mode(SPAN_LITERAL("{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\"}"), &mode, &error), 0);
    ck_assert_int_eq(mode, SOURCE_MODE_SNAPSHOT);
}
END_TEST

START_TEST(the_most_gaps_fit_the_text) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(CURSOR_GAPS_TEXT_MAX);
    struct cursor_gaps c = {.position = 0}, again;
    struct error error;
    for (int64_t i = 0; i < CURSOR_OPEN_MAX; i++)
        ck_assert_int_eq(ranges_add(&c.open, (struct range){-9000000000000000000 + 10 * i, -9000000000000000000 + 10 * i + 5}), 0);
    ck_assert_int_eq(cursor_print_gaps(&c, &b), 0);
    ck_assert_int_eq(cursor_parse_gaps(buf_span(&b), &again, &error), 0);
    ck_assert(cursor_equal_gaps(&c, &again));
    cursor_gaps_done(&c);
    cursor_gaps_done(&again);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cursor");
    TCase *cases = tcase_create("cursor");
    tcase_add_test(cases, a_place_is_printed_as_the_documentation_shows_it);
    tcase_add_test(cases, what_was_printed_is_read_back);
    tcase_add_test(cases, the_longest_snapshots_fit_the_text);
    tcase_add_test(cases, two_places_are_equal_only_in_every_part);
    tcase_add_test(cases, a_snapshot_is_checked);
    tcase_add_test(cases, what_is_no_cursor_is_refused_with_the_value_and_the_way_out);
    tcase_add_test(cases, a_long_foreign_value_is_cut_in_the_message);
    tcase_add_test(cases, a_place_in_gaps_is_printed_as_the_documentation_shows_it_and_read_back);
    tcase_add_test(cases, what_is_no_place_in_gaps_is_refused_with_the_value);
    tcase_add_test(cases, two_places_in_gaps_are_equal_only_in_every_part);
    tcase_add_test(cases, a_place_in_gaps_is_none_of_mode_snapshot);
    tcase_add_test(cases, the_most_gaps_fit_the_text);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
