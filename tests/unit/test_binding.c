/* test_binding: headers and bytes of each protocol and mode */
#include "unit/unit.h"

#include <errno.h>

#include "base/json.h"
#include "event/binding.h"
#include "unit/fail_alloc.h"
#include "unit/rows.h"

static struct event event;
static struct binding_message message;
static struct binding_options options;
static struct error error;

static void core(enum event_core which, const char *value) {
    ck_assert_int_eq(event_set_core(&event, which, span_of(value)), 0);
}

static void extension(const char *name, enum attribute_type type, const char *value) {
    ck_assert_int_eq(event_set_extension(&event, span_of(name), type, span_of(value)), 0);
}

static void data(enum event_data_kind kind, const char *text, const char *content_type) {
    ck_assert_int_eq(event_set_data(&event, kind, span_of(text)), 0);
    if (content_type)
        core(EVENT_DATACONTENTTYPE, content_type);
}

static void fresh(void) {
    event_clear(&event, 10000);
    core(EVENT_ID, "e-1");
    core(EVENT_SOURCE, "/s");
    core(EVENT_TYPE, "t");
}

static void set_up(void) {
    event_init(&event, 10000);
    binding_message_init(&message, 10000);
    options = (struct binding_options){0};
    fresh();
}

static void tear_down(void) {
    binding_message_done(&message);
    event_done(&event);
}

static void encode(enum binding_protocol protocol) {
    int r = binding_encode(protocol, &options, &event, &message, &error);
    ck_assert_msg(r == 0, "%d: %s", r, error.text);
}

/* "name=value name=value …" in the order of the message */
static void expect_headers(const char *wanted) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(10000);
    for (size_t i = 0; i < message.header_count; i++)
        ck_assert_int_eq(buf_addf(&b, "%s%.*s=%.*s", i ? " " : "", SPAN_ARGS(message.headers[i].name),
                                  SPAN_ARGS(message.headers[i].value)),
                         0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_str_eq(b.data, wanted);
}

static void expect_span(struct span s, const char *wanted) {
    ck_assert_msg(wanted ? span_is(s, wanted) : span_absent(s), "'%.*s' instead of '%s'", SPAN_ARGS(s),
                  wanted ? wanted : "(absent)");
}

static void expect_rejected(enum binding_protocol protocol, const char *word) {
    ck_assert_int_eq(binding_encode(protocol, &options, &event, &message, &error), BINDING_E_REJECTED);
    ck_assert_int_eq(error.class, ERROR_PERMANENT);
    ck_assert_msg(strstr(error.text, word) != NULL, "'%s' not in '%s'", word, error.text);
}

START_TEST(amqp_binary_has_headers_in_a_stable_order) {
    extension("zeta", ATTRIBUTE_STRING, "1");
    extension("alpha", ATTRIBUTE_INTEGER, "-5");
    core(EVENT_SUBJECT, "Euro € 😀");
    core(EVENT_TIME, "2026-01-02T03:04:05Z");
    core(EVENT_DATASCHEMA, "a:b");
    data(EVENT_DATA_JSON, "{ \"a\":1.10 }", "application/json");
    encode(BINDING_AMQP);
    expect_headers("cloudEvents_specversion=1.0 cloudEvents_id=e-1 cloudEvents_source=/s cloudEvents_type=t "
                   "cloudEvents_subject=Euro € 😀 cloudEvents_time=2026-01-02T03:04:05Z cloudEvents_dataschema=a:b "
                   "cloudEvents_zeta=1 cloudEvents_alpha=-5");
    expect_span(message.content_type, "application/json");
    expect_span(message.body, "{ \"a\":1.10 }");
}
END_TEST

START_TEST(amqp_binary_has_one_of_three_prefixes) {
    options.header_prefix = BINDING_PREFIX_COLON;
    encode(BINDING_AMQP);
    expect_headers("cloudEvents:specversion=1.0 cloudEvents:id=e-1 cloudEvents:source=/s cloudEvents:type=t");
    options.header_prefix = BINDING_PREFIX_CE;
    encode(BINDING_AMQP);
    expect_headers("ce-specversion=1.0 ce-id=e-1 ce-source=/s ce-type=t");
}
END_TEST

START_TEST(kafka_binary_has_ce_and_content_type_headers) {
    data(EVENT_DATA_BINARY, "\x01", "a/b");
    encode(BINDING_KAFKA);
    expect_headers("ce_specversion=1.0 ce_id=e-1 ce_source=/s ce_type=t content-type=a/b");
    expect_span(message.content_type, NULL);
    expect_span(message.body, "\x01");
}
END_TEST

/* kafka-protocol-binding.md 3.2.1, 3.2.3: the type of the data has one header, and values are never percent-encoded */
START_TEST(kafka_binary_has_one_header_for_each_attribute_that_is_set) {
    core(EVENT_SUBJECT, "Euro € 😀 %20");
    core(EVENT_TIME, "2026-01-02T03:04:05Z");
    core(EVENT_DATASCHEMA, "a:b");
    extension("partitionkey", ATTRIBUTE_STRING, "k");
    extension("none", ATTRIBUTE_STRING, "");
    extension("vip", ATTRIBUTE_BOOLEAN, "true");
    data(EVENT_DATA_JSON, "null", "Application/JSON; charset=UTF-8");
    encode(BINDING_KAFKA);
    expect_headers("ce_specversion=1.0 ce_id=e-1 ce_source=/s ce_type=t ce_subject=Euro € 😀 %20 "
                   "ce_time=2026-01-02T03:04:05Z ce_dataschema=a:b ce_partitionkey=k ce_none= ce_vip=true "
                   "content-type=Application/JSON; charset=UTF-8");
    for (size_t i = 0; i < message.header_count; i++)
        ck_assert(!span_absent(message.headers[i].value));
    expect_span(message.body, "null");
}
END_TEST

START_TEST(no_data_and_empty_data_differ) {
    encode(BINDING_KAFKA);
    expect_span(message.body, NULL);
    data(EVENT_DATA_TEXT, "", "text/plain");
    encode(BINDING_KAFKA);
    expect_span(message.body, "");
    options.mode = BINDING_STRUCTURED;
    encode(BINDING_KAFKA);
    ck_assert(memmem(message.body.data, message.body.len, "\"data\":\"\"", 9) != NULL);
    fresh();
    encode(BINDING_KAFKA);
    expect_span(message.body, "{\"specversion\":\"1.0\",\"id\":\"e-1\",\"source\":\"/s\",\"type\":\"t\"}");
}
END_TEST

START_TEST(empty_data_is_marked_where_asked) {
    options.mark_empty_data = true;
    encode(BINDING_AMQP);
    ck_assert_uint_eq(message.header_count, 4);
    data(EVENT_DATA_BINARY, "", NULL);
    encode(BINDING_AMQP);
    expect_span(message.headers[4].name, "cloudEvents_data_present_empty");
    expect_span(message.headers[4].value, "true");
    encode(BINDING_KAFKA);
    ck_assert_uint_eq(message.header_count, 4);
    ck_assert_int_eq(binding_options_check(&options, &error), 0);
    options.header_prefix = BINDING_PREFIX_CE;
    ck_assert_int_eq(binding_options_check(&options, &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "cloudEvents_"));
}
END_TEST

START_TEST(structured_is_one_json_document) {
    extension("num", ATTRIBUTE_INTEGER, "5");
    extension("flag", ATTRIBUTE_BOOLEAN, "true");
    extension("text", ATTRIBUTE_STRING, "say \"a\\b\"\t");
    data(EVENT_DATA_JSON, "{ \"n\":12345678901234567890,\n \"n\":1e400}", "application/json");
    options.mode = BINDING_STRUCTURED;
    encode(BINDING_AMQP);
    expect_span(message.body, "{\"specversion\":\"1.0\",\"id\":\"e-1\",\"source\":\"/s\",\"type\":\"t\","
                              "\"datacontenttype\":\"application/json\",\"num\":5,\"flag\":true,"
                              "\"text\":\"say \\\"a\\\\b\\\"\\u0009\","
                              "\"data\":{ \"n\":12345678901234567890,\n \"n\":1e400}}");
    expect_span(message.content_type, "application/cloudevents+json");
    expect_headers("");
    encode(BINDING_KAFKA);
    expect_span(message.content_type, NULL);
    expect_headers("content-type=application/cloudevents+json");
}
END_TEST

static void expect_member(const char *member) {
    options.mode = BINDING_STRUCTURED;
    encode(BINDING_AMQP);
    ck_assert_msg(memmem(message.body.data, message.body.len, member, strlen(member)) != NULL, "%s not in %.*s", member,
                  SPAN_ARGS(message.body));
}

START_TEST(structured_data_follows_its_kind_and_type) {
    data(EVENT_DATA_TEXT, "a\"b", "text/plain");
    expect_member(",\"data\":\"a\\\"b\"}");
    fresh();
    data(EVENT_DATA_TEXT, " [1.10] ", "Text/JSON; charset=utf-8");
    expect_member(",\"data\": [1.10] }");
    fresh();
    data(EVENT_DATA_BINARY, "{}", "application/json");
    expect_member(",\"data_base64\":\"e30=\"}");
    fresh();
    data(EVENT_DATA_BINARY, "", NULL);
    expect_member(",\"data_base64\":\"\"}");
    fresh();
    data(EVENT_DATA_JSON, "null", "application/json");
    expect_member(",\"data\":null}");
}
END_TEST

START_TEST(text_that_is_no_json_is_only_a_matter_of_structured_mode) {
    data(EVENT_DATA_TEXT, "{oops", "application/json");
    encode(BINDING_AMQP);
    expect_span(message.body, "{oops");
    options.mode = BINDING_STRUCTURED;
    expect_rejected(BINDING_AMQP, "JSON");
    ck_assert_uint_eq(message.storage.len, 0);
    event.invalid_json_as_base64 = true;
    expect_member(",\"data_base64\":\"e29vcHM=\"}");
    fresh();
    data(EVENT_DATA_JSON, "{}", "text/plain");
    expect_rejected(BINDING_KAFKA, "JSON");
}
END_TEST

START_TEST(what_would_be_read_as_structured_is_not_sent_as_binary) {
    data(EVENT_DATA_BINARY, "x", "Application/CloudEvents-batch+json");
    expect_rejected(BINDING_KAFKA, "structured");
    expect_rejected(BINDING_AMQP, "structured");
    options.mode = BINDING_STRUCTURED;
    encode(BINDING_AMQP);
}
END_TEST

START_TEST(amqp_has_255_bytes_for_a_content_type) {
    char type[257] = "text/";
    memset(type + 5, 'x', 250);
    data(EVENT_DATA_BINARY, "x", type);
    encode(BINDING_AMQP);
    type[255] = 'x';
    core(EVENT_DATACONTENTTYPE, type);
    expect_rejected(BINDING_AMQP, "255");
    encode(BINDING_KAFKA);
}
END_TEST

START_TEST(internal_extensions_are_not_sent) {
    extension("streamid", ATTRIBUTE_STRING, "s");
    extension("tenant", ATTRIBUTE_STRING, "acme");
    event_make_internal(&event, span_of("streamid"));
    encode(BINDING_KAFKA);
    expect_headers("ce_specversion=1.0 ce_id=e-1 ce_source=/s ce_type=t ce_tenant=acme");
    options.mode = BINDING_STRUCTURED;
    encode(BINDING_KAFKA);
    ck_assert(memmem(message.body.data, message.body.len, "streamid", 8) == NULL);
}
END_TEST

START_TEST(a_message_over_its_maximum_is_refused) {
    struct binding_message small;
    binding_message_init(&small, 40);
    options.mode = BINDING_STRUCTURED;
    ck_assert_int_eq(binding_encode(BINDING_AMQP, &options, &event, &small, &error), -EMSGSIZE);
    binding_message_done(&small);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    extension("tenant", ATTRIBUTE_STRING, "acme");
    for (int mode = BINDING_BINARY; mode <= BINDING_STRUCTURED; mode++) {
        options.mode = mode;
        FAIL_ALLOC_EACH(n) {
            binding_message_done(&message);
            binding_message_init(&message, 10000);
            int r = binding_encode(BINDING_KAFKA, &options, &event, &message, &error);
            bool failed = fail_alloc_end();
            ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        }
    }
}
END_TEST

/* JSON text as a writer may leave it: spaces, duplicate names, numbers that no double holds. */
static void add_random_json(struct buf *b, unsigned *seed, int depth) {
    static const char *const scalars[] = {"1.10", "12345678901234567890", "1e400", "-0", "null",
                                          "\"\\ud83d\\ude00é\"", " true"};
    int pick = rand_r(seed) % 10;
    if (depth == 0 || pick < 4) {
        ck_assert_int_eq(buf_addf(b, "%s", scalars[(size_t)rand_r(seed) % ARRAY_LENGTH(scalars)]), 0);
        return;
    }
    bool object = pick < 8;
    ck_assert_int_eq(buf_add_char(b, object ? '{' : '['), 0);
    for (int i = rand_r(seed) % 4; i > 0; i--) {
        ck_assert_int_eq(buf_addf(b, "%s", object ? "\"a\" :\n" : " "), 0);
        add_random_json(b, seed, depth - 1);
        if (i > 1)
            ck_assert_int_eq(buf_add_char(b, ','), 0);
    }
    ck_assert_int_eq(buf_add_char(b, object ? '}' : ']'), 0);
}

/* Text of an attribute: quotes, controls, broken UTF-8 and all. */
static struct span random_text(char *text, size_t size, unsigned *seed) {
    static const char *const pieces[] = {"a", "\"", "\\", "é", "😀", "/", "\n", "\x7f", "\xff", "%41", "{", " ", ":"};
    size_t len = 0;
    for (int i = rand_r(seed) % 6; i > 0; i--) {
        const char *piece = pieces[(size_t)rand_r(seed) % (rand_r(seed) % 4 ? 6 : ARRAY_LENGTH(pieces))];
        ck_assert_uint_lt(len + strlen(piece), size);
        memcpy(text + len, piece, strlen(piece));
        len += strlen(piece);
    }
    return (struct span){text, len};
}

static void expect_every_form(struct span json) {
    for (int protocol = BINDING_AMQP; protocol <= BINDING_KAFKA; protocol++) {
        options.mode = BINDING_BINARY;
        encode((enum binding_protocol)protocol);
        ck_assert(span_equal(message.body, json));
        options.mode = BINDING_STRUCTURED;
        encode((enum binding_protocol)protocol);
        ck_assert_msg(json_valid(message.body), "%.*s", SPAN_ARGS(message.body));
        size_t before = message.body.len - json.len - 1;
        ck_assert(memcmp(message.body.data + before, json.data, json.len) == 0);
    }
}

START_TEST(json_data_of_random_rows_goes_out_byte_for_byte) {
    static const struct row_options row_options = {.emit_position = true};
    static struct rows rows;
    CLEANUP(buf_done) struct buf json = BUF_INIT(100000);
    unsigned seed = 11;
    int accepted = 0;
    for (int turn = 0; turn < 20000; turn++) {
        char texts[4][40];
        buf_clear(&json);
        add_random_json(&json, &seed, 4);
        rows_minimal(&rows);
        rows_set(&rows, ROW_ID, ROW_FORM_TEXT, random_text(texts[0], 40, &seed));
        rows_add(&rows, ROW_SUBJECT, ROW_FORM_TEXT, random_text(texts[1], 40, &seed));
        rows_add(&rows, ROW_EXTENSION, ROW_FORM_TEXT, random_text(texts[2], 40, &seed));
        rows_name(&rows, "ext");
        rows_add(&rows, ROW_EXTENSION, ROW_FORM_BYTEA, random_text(texts[3], 40, &seed));
        rows_name(&rows, "bin");
        rows_add(&rows, ROW_DATA, ROW_FORM_JSON, buf_span(&json));
        struct row row = rows_view(&rows);
        event_clear(&event, 10000);
        int r = row_to_event(&row, &row_options, &event, &error);
        ck_assert(r == 0 || r == ROW_E_REJECTED);
        if (r == 0)
            expect_every_form(buf_span(&json));
        accepted += r == 0;
    }
    ck_assert_int_gt(accepted, 5000);
}
END_TEST

START_TEST(headers_of_ours_are_reserved) {
    static const char *const reserved[] = {"cloudEvents_x", "cloudevents:id", "ce_x", "CE-id", "content-type",
                                           "Content-Type", "x-penstock-tag"};
    static const char *const free_names[] = {"tenant", "content-types", "cex", "cloudEvents", "x-other", ""};
    for (size_t i = 0; i < ARRAY_LENGTH(reserved); i++)
        ck_assert_msg(binding_header_reserved(span_of(reserved[i])), "%s", reserved[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(free_names); i++)
        ck_assert_msg(!binding_header_reserved(span_of(free_names[i])), "%s", free_names[i]);
}
END_TEST

START_TEST(the_options_table_fits_the_struct) {
    const struct option *o = binding_options_table;
    ck_assert_str_eq(o[0].key, "mode");
    ck_assert_str_eq(o[0].choices[BINDING_STRUCTURED], "structured");
    ck_assert_str_eq(o[1].key, "header_prefix");
    ck_assert_str_eq(o[1].choices[BINDING_PREFIX_COLON], "cloudEvents:");
    ck_assert_str_eq(o[1].fallback, o[1].choices[BINDING_PREFIX_UNDERSCORE]);
    ck_assert_str_eq(o[2].key, "mark_empty_data");
    ck_assert_ptr_null(o[3].key);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("binding");
    TCase *cases = tcase_create("binding");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, amqp_binary_has_headers_in_a_stable_order);
    tcase_add_test(cases, amqp_binary_has_one_of_three_prefixes);
    tcase_add_test(cases, kafka_binary_has_ce_and_content_type_headers);
    tcase_add_test(cases, kafka_binary_has_one_header_for_each_attribute_that_is_set);
    tcase_add_test(cases, no_data_and_empty_data_differ);
    tcase_add_test(cases, empty_data_is_marked_where_asked);
    tcase_add_test(cases, structured_is_one_json_document);
    tcase_add_test(cases, structured_data_follows_its_kind_and_type);
    tcase_add_test(cases, text_that_is_no_json_is_only_a_matter_of_structured_mode);
    tcase_add_test(cases, what_would_be_read_as_structured_is_not_sent_as_binary);
    tcase_add_test(cases, amqp_has_255_bytes_for_a_content_type);
    tcase_add_test(cases, internal_extensions_are_not_sent);
    tcase_add_test(cases, a_message_over_its_maximum_is_refused);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, json_data_of_random_rows_goes_out_byte_for_byte);
    tcase_add_test(cases, headers_of_ours_are_reserved);
    tcase_add_test(cases, the_options_table_fits_the_struct);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
