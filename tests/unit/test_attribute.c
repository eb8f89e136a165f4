/* test_attribute: what names and values CloudEvents allows */
#include "unit/unit.h"

#include <errno.h>

#include "event/attribute.h"
#include "event/base64.h"
#include "event/media.h"
#include "event/timestamp.h"
#include "event/uri.h"

typedef bool (*check_function)(struct span);

/* Each text in a block of its own size: the address sanitizer sees a byte read too many. */
static void expect_all(const char *const *texts, size_t count, check_function check, bool wanted) {
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(texts[i]);
        char *copy = malloc(len ? len : 1);
        memcpy(copy, texts[i], len);
        ck_assert_msg(check((struct span){copy, len}) == wanted, "'%s' should be %s", texts[i],
                      wanted ? "valid" : "refused");
        free(copy);
    }
}

#define EXPECT(check, wanted, ...)                                                   \
    do {                                                                             \
        static const char *const texts_[] = {__VA_ARGS__};                           \
        expect_all(texts_, ARRAY_LENGTH(texts_), check, wanted);                     \
    } while (0)

START_TEST(names_have_lower_case_letters_and_digits) {
    EXPECT(attribute_name_valid, true, "a", "traceparent", "9", "datax", "id", "specversion",
           "averylongnamethatonlyshouldnotexceedtwentycharacters");
    EXPECT(attribute_name_valid, false, "", "data", "Trace_Id", "my.ext", "data_base64", "MyExt", "a-b", "é", " a");
    ck_assert(attribute_name_is_core(span_of("specversion")));
    ck_assert(attribute_name_is_core(span_of("dataschema")));
    ck_assert(!attribute_name_is_core(span_of("streamid")));
}
END_TEST

static bool string_valid(struct span s) {
    return attribute_string_valid(s, false);
}

static bool string_with_controls_valid(struct span s) {
    return attribute_string_valid(s, true);
}

START_TEST(strings_have_neither_controls_nor_noncharacters_nor_broken_utf8) {
    EXPECT(string_valid, true, "", "plain ~", "Euro € 😀", "\xc2\xa0", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xb7\x8f",
           "\xef\xb7\xb0", "\xf4\x8f\xbf\xbd");
    EXPECT(string_valid, false, "\x01", "a\nb", "\x1f", "\x7f", "\xc2\x80", "\xc2\x9f", "\xef\xb7\x90", "\xef\xb7\xaf",
           "\xef\xbf\xbe", "\xef\xbf\xbf", "\xf0\x9f\xbf\xbe", "\xf4\x8f\xbf\xbf", "\x80", "\xc3", "\xc0\xaf",
           "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff");
    ck_assert(!string_valid((struct span){"a\0b", 3}));
    EXPECT(string_with_controls_valid, true, "a\nb", "\x7f", "\xc2\x9f");
    EXPECT(string_with_controls_valid, false, "\xef\xbf\xbe", "\x80");
}
END_TEST

/* Strings are looked at in blocks. */
START_TEST(no_place_hides_a_byte_that_a_string_may_not_have) {
    for (int byte = 0; byte < 256; byte++) {
        for (size_t at = 0; at < 20; at++) {
            char text[20];
            memset(text, 'x', sizeof text);
            text[at] = (char)byte;
            ck_assert_int_eq(string_valid((struct span){text, sizeof text}), byte >= 0x20 && byte < 0x7f);
        }
    }
}
END_TEST

START_TEST(uri_references_follow_rfc_3986) {
    EXPECT(uri_reference_valid, true, "", "/orders", "#frag", "1-555-123-4567", "urn:uuid:6e8bc430-9c3a-11d9",
           "https://cloudevents.io", "mailto:a@b.c", "//authority/path", "?q=1/2?3", "a/b:c", "./a:b",
           "http://[::1]:80/", "http://[v1.fe:x]/", "http://u:p@h:/p", "x:", "x://", "/a%2Fb", "a;b,c=d!$&'()*+", "http://h#",
           "http://1.2.3.4/", "file:///etc", "http://[::ffff:1.2.3.4]");
    EXPECT(uri_reference_valid, false, "/%zz", "/%4", "%", "a b", "<a>", "\"a\"", "a\\b", "a^b", "a`b", "{a}", "a|b",
           "é", "1:b", ":a", "a#b#c", "[a]", "/[", "http://[::1", "http://[:::1]/", "http://[::1]x/", "http://h:8x/",
           "http://a@b@c/", "http://[v.x]/", "http://[v1.]/", "a\x7f", "a\n", "http://[]/", "1_2:3");
    ck_assert(!uri_reference_valid((struct span){"a\0b", 3}));
}
END_TEST

START_TEST(a_uri_has_a_scheme) {
    EXPECT(uri_valid, true, "https://cloudevents.io/s", "urn:x", "a+b-c.d:e", "https://x/s#A");
    EXPECT(uri_valid, false, "", "/schemas/1", "//h/p", "#a", "1a:b", "https//x", "a b:c");
}
END_TEST

START_TEST(timestamps_follow_rfc_3339) {
    EXPECT(timestamp_valid, true, "2018-04-05T17:31:00Z", "2018-04-05T17:31:00.000000000Z", "2018-04-05T18:31:00+01:00",
           "2018-04-05T16:31:00-23:59", "2020-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "0001-01-01T00:00:00Z",
           "9999-12-31T23:59:59.999999Z", "2016-12-31T23:59:60Z", "2017-01-01T00:59:60+01:00", "2018-04-05t17:31:00z");
    EXPECT(timestamp_valid, false, "", "lunchtime", "2018-04-05T18:31Z", "2018-04-05T18:31:00X", "2018-04-05T18:31:00",
           "2018-04-05T18:31:00+25:00", "2018-04-05T18:31:00+xx:00", "2018-04-05T18:31:00+05",
           "2018-04-05T18:31:00+0500", "2018-04-05 17:31:00+00", "2018-04-05 17:31:00Z", "10000-01-01T00:00:00Z",
           "2018-02-30T00:00:00Z",
           "2019-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2018-04-31T00:00:00Z", "2018-13-01T00:00:00Z",
           "2018-00-01T00:00:00Z", "2018-01-00T00:00:00Z", "2018-01-01T24:00:00Z", "2018-01-01T00:60:00Z",
           "2018-01-01T00:00:61Z", "2018-01-01T12:00:60Z", "2018-01-01T00:00:00.Z", "2018-01-01T00:00:00,5Z",
           "2018-01-01T00:00:00Z ", "2018-01-01T00:00:00+01:60", "infinity", "0044-03-15 BC", "-2018-01-01T00:00:00Z",
           "2018-1-1T00:00:00Z", "2018-04-05T18:31:00+01:00:00");
}
END_TEST

START_TEST(a_cut_timestamp_is_refused_wherever_it_is_cut) {
    static const char whole[] = "2018-04-05T18:31:00.123+01:00";
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        char *copy = malloc(len ? len : 1);
        memcpy(copy, whole, len);
        ck_assert(!timestamp_valid((struct span){copy, len}));
        free(copy);
    }
}
END_TEST

START_TEST(media_types_follow_rfc_2046) {
    EXPECT(media_type_valid, true, "text/plain", "application/vnd.x+json", "text/plain; charset=utf-8",
           "a/b;c=\"d;\\\"e\"", "Text/JSON", "text/plain;a=b ; c=d", "a/b;c=\"\"");
    EXPECT(media_type_valid, false, "", "xyz", "/", "a/", "/b", "a/b/c", "text /plain", "text/plain;",
           "text/plain; charset", "text/plain; charset=", "a/b;c=\"d", "a/b;=d", "a/b;c= d", "a/b c", "é/b", "a/b;c=d;", "a/b,c");
    EXPECT(media_type_is_json, true, "application/json", "Application/JSON", "text/json", "application/vnd.x+json",
           "application/json; charset=utf-8", "application/x+JSON;a=b", "application/cloudevents+json");
    EXPECT(media_type_is_json, false, "", "text/plain", "application/jsonx", "application/+json", "json",
           "application/xjson", "text/plain; x=application/json");
    ck_assert(span_is(media_type_charset(span_of("text/plain; a=b; CharSet=UTF-16")), "UTF-16"));
    ck_assert(span_is(media_type_charset(span_of("text/plain;charset=\"utf-8\"")), "utf-8"));
    ck_assert(span_absent(media_type_charset(span_of("text/plain; a=charset"))));
}
END_TEST

START_TEST(base64_is_the_standard_alphabet_with_padding) {
    static const char *const bytes[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar", "\xff\xfe\xfb"};
    static const char *const texts[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy", "//77"};
    for (size_t i = 0; i < ARRAY_LENGTH(bytes); i++) { /* RFC 4648 section 10 */
        CLEANUP(buf_done) struct buf b = BUF_INIT(100);
        ck_assert_int_eq(base64_add(&b, span_of(bytes[i])), 0);
        ck_assert(span_is(buf_span(&b), texts[i]));
        ck_assert(base64_valid(buf_span(&b)));
    }
    EXPECT(base64_valid, false, "Zg=", "Zg", "Z===", "====", "Zm9_", "Zm9-", "Zm 9", "=Zg=", "Zg=v");
    CLEANUP(buf_done) struct buf small = BUF_INIT(7);
    ck_assert_int_eq(base64_add(&small, span_of("four")), -EMSGSIZE);
    ck_assert_uint_eq(small.len, 0);
}
END_TEST

static bool extension(const char *name, enum attribute_type type, const char *value) {
    struct error error = {0};
    int r = attribute_check_extension(span_of(name), type, span_of(value), false, &error);
    ck_assert(r == 0 || (r == -EINVAL && error.class == ERROR_PERMANENT && strstr(error.text, name)));
    return r == 0;
}

START_TEST(values_fit_their_types) {
    ck_assert(extension("x", ATTRIBUTE_STRING, ""));
    ck_assert(extension("x", ATTRIBUTE_BOOLEAN, "true") && extension("x", ATTRIBUTE_BOOLEAN, "false"));
    ck_assert(!extension("x", ATTRIBUTE_BOOLEAN, "True") && !extension("x", ATTRIBUTE_BOOLEAN, "1"));
    ck_assert(extension("x", ATTRIBUTE_BINARY, "TWE=") && !extension("x", ATTRIBUTE_BINARY, "TWE"));
    ck_assert(extension("x", ATTRIBUTE_URI, "a:b") && !extension("x", ATTRIBUTE_URI, "/b"));
    ck_assert(extension("x", ATTRIBUTE_URI_REFERENCE, "/b") && !extension("x", ATTRIBUTE_URI_REFERENCE, " "));
    ck_assert(extension("x", ATTRIBUTE_TIMESTAMP, "2018-04-05T17:31:00Z") && !extension("x", ATTRIBUTE_TIMESTAMP, "x"));
    ck_assert(!extension("x", ATTRIBUTE_STRING, "a\nb"));
    struct error error;
    ck_assert_int_eq(attribute_check_extension(span_of("x"), ATTRIBUTE_STRING, span_of("a\nb"), true, &error), 0);
}
END_TEST

START_TEST(integers_have_32_bits_and_one_spelling) {
    static const char *const good[] = {"0", "5", "-1", "2147483647", "-2147483648", "100"};
    static const char *const bad[] = {"", "-", "+1", "01", "-0", "-01", "1.0", "1e3", "2147483648", "-2147483649", " 1",
                                      "99999999999999999999", "0x1"};
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        ck_assert_msg(extension("n", ATTRIBUTE_INTEGER, good[i]), "%s", good[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        ck_assert_msg(!extension("n", ATTRIBUTE_INTEGER, bad[i]), "%s", bad[i]);
}
END_TEST

START_TEST(an_extension_keeps_away_from_core_names) {
    ck_assert(!extension("id", ATTRIBUTE_STRING, "x"));
    ck_assert(!extension("specversion", ATTRIBUTE_STRING, "1.0"));
    ck_assert(!extension("Trace_Id", ATTRIBUTE_STRING, "x"));
    ck_assert(!extension("data", ATTRIBUTE_STRING, "x"));
}
END_TEST

START_TEST(documented_extensions_keep_their_rules) {
    ck_assert(!extension("partitionkey", ATTRIBUTE_STRING, "") && extension("partitionkey", ATTRIBUTE_STRING, "k"));
    ck_assert(!extension("traceparent", ATTRIBUTE_STRING, "") && extension("tracestate", ATTRIBUTE_STRING, ""));
    ck_assert(!extension("sequence", ATTRIBUTE_STRING, "") && !extension("causationid", ATTRIBUTE_STRING, ""));
    ck_assert(!extension("sampledrate", ATTRIBUTE_INTEGER, "0") && extension("sampledrate", ATTRIBUTE_INTEGER, "1"));
    ck_assert(!extension("expirytime", ATTRIBUTE_STRING, "tomorrow"));
    ck_assert(extension("recordedtime", ATTRIBUTE_STRING, "2018-04-05T17:31:00Z"));
    ck_assert(!extension("dataref", ATTRIBUTE_STRING, "a b") && extension("dataref", ATTRIBUTE_STRING, "/x"));
}
END_TEST

START_TEST(core_attributes_are_never_empty) {
    struct error error;
    for (int i = 0; i < EVENT_CORE_COUNT; i++) {
        ck_assert_int_eq(attribute_check_core((enum event_core)i, SPAN_LITERAL(""), &error), -EINVAL);
        ck_assert_ptr_nonnull(strstr(error.text, event_core_name((enum event_core)i).data));
    }
    ck_assert_int_eq(attribute_check_core(EVENT_DATACONTENTTYPE, span_of("a/b;c=\"\n\""), &error), -EINVAL);
    ck_assert_int_eq(attribute_check_core(EVENT_DATASCHEMA, span_of("/relative"), &error), -EINVAL);
    ck_assert_int_eq(attribute_check_core(EVENT_SOURCE, span_of("/relative"), &error), 0);
}
END_TEST

START_TEST(an_event_needs_id_source_and_type) {
    static const enum event_core required[] = {EVENT_ID, EVENT_SOURCE, EVENT_TYPE};
    static const struct attribute_names none = {0};
    for (size_t missing = 0; missing <= ARRAY_LENGTH(required); missing++) {
        CLEANUP(event_done) struct event e;
        struct error error;
        event_init(&e, 1000);
        for (size_t i = 0; i < ARRAY_LENGTH(required); i++)
            if (i != missing)
                ck_assert_int_eq(event_set_core(&e, required[i], span_of("x")), 0);
        int r = attribute_check_event(&e, &none, &error);
        ck_assert_int_eq(r, missing < ARRAY_LENGTH(required) ? -EINVAL : 0);
        if (r < 0)
            ck_assert_ptr_nonnull(strstr(error.text, event_core_name(required[missing]).data));
    }
}
END_TEST

START_TEST(only_named_extensions_may_have_control_characters) {
    CLEANUP(event_done) struct event e;
    struct error error;
    const struct span names[] = {SPAN_LITERAL("other"), SPAN_LITERAL("dcbtags")};
    const struct attribute_names none = {0}, dcbtags = {names, 2};
    event_init(&e, 1000);
    ck_assert_int_eq(event_set_core(&e, EVENT_ID, span_of("x")), 0);
    ck_assert_int_eq(event_set_core(&e, EVENT_SOURCE, span_of("x")), 0);
    ck_assert_int_eq(event_set_core(&e, EVENT_TYPE, span_of("x")), 0);
    ck_assert_int_eq(event_set_extension(&e, span_of("dcbtags"), ATTRIBUTE_STRING, span_of("a\nb")), 0);
    ck_assert_int_eq(attribute_check_event(&e, &none, &error), -EINVAL);
    ck_assert_int_eq(attribute_check_event(&e, &dcbtags, &error), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("attribute");
    TCase *cases = tcase_create("attribute");
    tcase_add_test(cases, names_have_lower_case_letters_and_digits);
    tcase_add_test(cases, strings_have_neither_controls_nor_noncharacters_nor_broken_utf8);
    tcase_add_test(cases, no_place_hides_a_byte_that_a_string_may_not_have);
    tcase_add_test(cases, uri_references_follow_rfc_3986);
    tcase_add_test(cases, a_uri_has_a_scheme);
    tcase_add_test(cases, timestamps_follow_rfc_3339);
    tcase_add_test(cases, a_cut_timestamp_is_refused_wherever_it_is_cut);
    tcase_add_test(cases, media_types_follow_rfc_2046);
    tcase_add_test(cases, base64_is_the_standard_alphabet_with_padding);
    tcase_add_test(cases, values_fit_their_types);
    tcase_add_test(cases, integers_have_32_bits_and_one_spelling);
    tcase_add_test(cases, an_extension_keeps_away_from_core_names);
    tcase_add_test(cases, documented_extensions_keep_their_rules);
    tcase_add_test(cases, core_attributes_are_never_empty);
    tcase_add_test(cases, an_event_needs_id_source_and_type);
    tcase_add_test(cases, only_named_extensions_may_have_control_characters);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
