/* test_row: rows as they come from the table become events, or are rejected by name */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include "event/attribute.h"
#include "event/row.h"
#include "unit/fail_alloc.h"
#include "unit/rows.h"

static struct rows rows;
static struct row_options options;
static struct event event;
static struct error error;

static void set_up(void) {
    rows_minimal(&rows);
    options = (struct row_options){.emit_streamid = true, .emit_streamversion = true, .emit_position = true};
    event_init(&event, 100000);
}

static void tear_down(void) {
    event_done(&event);
}

static int convert(void) {
    struct row row = rows_view(&rows);
    event_clear(&event, 100000);
    error = (struct error){0};
    return row_to_event(&row, &options, &event, &error);
}

static void expect_attribute(const char *name, const char *value) {
    struct span s = event_get(&event, span_of(name));
    ck_assert_msg(value ? span_is(s, value) : span_absent(s), "%s is '%.*s' instead of '%s'", name, SPAN_ARGS(s),
                  value ? value : "(absent)");
}

static void expect_accepted(void) {
    int r = convert();
    ck_assert_msg(r == 0, "%d: %s", r, error.text);
}

/* Every word of the sentence that an operator needs. */
static void expect_rejected(const char *word) {
    ck_assert_int_eq(convert(), ROW_E_REJECTED);
    ck_assert_int_eq(error.class, ERROR_PERMANENT);
    ck_assert_msg(strstr(error.text, word) != NULL, "'%s' not in '%s'", word, error.text);
}

static enum attribute_type type_of(const char *name) {
    for (uint32_t i = 0; i < event.extension_count; i++) {
        struct span its_name;
        enum attribute_type type;
        event_extension(&event, i, &its_name, &type);
        if (span_is(its_name, name))
            return type;
    }
    ck_abort_msg("no extension %s", name);
}

static void extensions(const char *json) {
    rows_minimal(&rows);
    rows_add(&rows, ROW_EXTENSIONS, ROW_FORM_JSON, span_of(json));
}

START_TEST(a_minimal_row_becomes_an_event) {
    expect_accepted();
    expect_attribute("id", "e-1");
    expect_attribute("source", "/orders");
    expect_attribute("type", "com.acme.order.created");
    expect_attribute("position", "7");
    expect_attribute("time", NULL);
    ck_assert_int_eq(type_of("position"), ATTRIBUTE_STRING);
    ck_assert_int_eq(event.position, 7);
    ck_assert(event.recorded_us == INT64_MIN);
    ck_assert_int_eq(event.data_kind, EVENT_DATA_NONE);
}
END_TEST

START_TEST(a_null_in_a_needed_column_is_rejected_by_name) {
    static const struct {
        enum row_role role;
        const char *name;
    } needed[] = {{ROW_POSITION, "position"}, {ROW_ID, "'id'"}, {ROW_SOURCE, "'source'"}, {ROW_TYPE, "'type'"}};
    for (size_t i = 0; i < ARRAY_LENGTH(needed); i++) {
        rows_minimal(&rows);
        rows_set(&rows, needed[i].role, ROW_FORM_TEXT, SPAN_ABSENT);
        expect_rejected(needed[i].name);
    }
}
END_TEST

START_TEST(constants_stand_for_columns) {
    rows.count = 2; /* position, id */
    options.constant_source = span_of("/shop");
    options.constant_type = span_of("com.acme.thing");
    expect_accepted();
    expect_attribute("source", "/shop");
    expect_attribute("type", "com.acme.thing");
}
END_TEST

START_TEST(each_form_has_its_canonical_text) {
    static const char uuid[] = "\x6e\x8b\xc4\x30\x9c\x3a\x11\xd9\x96\x69\x08\x00\x20\x0c\x9a\x66";
    rows_set(&rows, ROW_ID, ROW_FORM_UUID, (struct span){uuid, 16});
    rows_integer(&rows, ROW_EXTENSION, ROW_FORM_INT2, -2);
    rows_name(&rows, "small");
    rows_integer(&rows, ROW_EXTENSION, ROW_FORM_INT4, INT32_MIN);
    rows_name(&rows, "lowest");
    rows_integer(&rows, ROW_EXTENSION, ROW_FORM_INT8, INT64_C(2147483648));
    rows_name(&rows, "large");
    rows_integer(&rows, ROW_EXTENSION, ROW_FORM_INT8, INT64_MIN);
    rows_name(&rows, "least");
    rows_add(&rows, ROW_EXTENSION, ROW_FORM_BOOL, (struct span){"\1", 1});
    rows_name(&rows, "yes");
    rows_add(&rows, ROW_EXTENSION, ROW_FORM_BOOL, (struct span){"\0", 1});
    rows_name(&rows, "no");
    rows_add(&rows, ROW_EXTENSION, ROW_FORM_BYTEA, (struct span){"\xe0\xff\x00\x44\xaa", 5});
    rows_name(&rows, "bin");
    rows_integer(&rows, ROW_EXTENSION, ROW_FORM_TIMESTAMPTZ, ROWS_TIME);
    rows_name(&rows, "when");
    rows_integer(&rows, ROW_EXTENSION, ROW_FORM_DATE, -1);
    rows_name(&rows, "day");
    rows_text(&rows, ROW_EXTENSION, "1.10");
    rows_name(&rows, "amount");
    rows_add(&rows, ROW_EXTENSION, ROW_FORM_JSONB, SPAN_LITERAL("\1\"a\\nb\\u0020c\""));
    rows_name(&rows, "dcbtags");
    const struct span allowed = SPAN_LITERAL("dcbtags");
    options.allow_control_characters = &allowed;
    options.allow_control_characters_count = 1;
    expect_accepted();
    expect_attribute("id", "6e8bc430-9c3a-11d9-9669-0800200c9a66");
    expect_attribute("small", "-2");
    expect_attribute("lowest", "-2147483648");
    expect_attribute("large", "2147483648");
    expect_attribute("least", "-9223372036854775808");
    expect_attribute("yes", "true");
    expect_attribute("no", "false");
    expect_attribute("bin", "4P8ARKo=");
    expect_attribute("when", "2026-01-02T03:04:05.678901Z");
    expect_attribute("day", "1999-12-31");
    expect_attribute("amount", "1.10");
    expect_attribute("dcbtags", "a\nb c");
    ck_assert_int_eq(type_of("lowest"), ATTRIBUTE_INTEGER);
    ck_assert_int_eq(type_of("large"), ATTRIBUTE_STRING);
    ck_assert_int_eq(type_of("yes"), ATTRIBUTE_BOOLEAN);
    ck_assert_int_eq(type_of("bin"), ATTRIBUTE_BINARY);
    ck_assert_int_eq(type_of("when"), ATTRIBUTE_TIMESTAMP);
    ck_assert_int_eq(type_of("day"), ATTRIBUTE_STRING);
}
END_TEST

START_TEST(a_form_of_the_wrong_length_is_rejected_not_read) {
    static const enum row_form forms[] = {ROW_FORM_UUID, ROW_FORM_INT2, ROW_FORM_INT4,        ROW_FORM_INT8,
                                          ROW_FORM_BOOL, ROW_FORM_DATE, ROW_FORM_TIMESTAMPTZ, ROW_FORM_JSONB};
    for (size_t i = 0; i < ARRAY_LENGTH(forms); i++) {
        rows_minimal(&rows);
        rows_add(&rows, ROW_EXTENSION, forms[i], SPAN_LITERAL(""));
        rows_name(&rows, "bad");
        expect_rejected("'bad'");
        rows_set(&rows, ROW_EXTENSION, forms[i], SPAN_LITERAL("123"));
        expect_rejected("'bad'");
    }
}
END_TEST

static void expect_time(enum row_form form, int64_t value, const char *text) {
    rows_minimal(&rows);
    rows_integer(&rows, ROW_TIME, form, value);
    expect_accepted();
    expect_attribute("time", text);
}

static void expect_no_time(enum row_form form, int64_t value, const char *word) {
    rows_minimal(&rows);
    rows_integer(&rows, ROW_TIME, form, value);
    expect_rejected("column time");
    expect_rejected(word);
}

START_TEST(time_is_rfc_3339_in_utc_with_the_digits_it_needs) {
    const int64_t second = 1000000, day = 86400 * second;
    expect_time(ROW_FORM_TIMESTAMPTZ, 0, "2000-01-01T00:00:00Z");
    expect_time(ROW_FORM_TIMESTAMPTZ, ROWS_TIME, "2026-01-02T03:04:05.678901Z");
    expect_time(ROW_FORM_TIMESTAMPTZ, second / 2, "2000-01-01T00:00:00.5Z");
    expect_time(ROW_FORM_TIMESTAMPTZ, -1, "1999-12-31T23:59:59.999999Z");
    expect_time(ROW_FORM_TIMESTAMPTZ, 10, "2000-01-01T00:00:00.00001Z");
    expect_time(ROW_FORM_TIMESTAMP, 60 * second, "2000-01-01T00:01:00Z");
    expect_time(ROW_FORM_DATE, 31, "2000-02-01T00:00:00Z");
    expect_time(ROW_FORM_TIMESTAMPTZ, 2921940 * day - 1, "9999-12-31T23:59:59.999999Z");
    expect_time(ROW_FORM_TIMESTAMPTZ, -730119 * day, "0001-01-01T00:00:00Z");
}
END_TEST

START_TEST(times_without_an_rfc_3339_form_are_rejected) {
    const int64_t day = INT64_C(86400) * 1000000;
    expect_no_time(ROW_FORM_TIMESTAMPTZ, INT64_MAX, "infinity");
    expect_no_time(ROW_FORM_TIMESTAMPTZ, INT64_MIN, "infinity");
    expect_no_time(ROW_FORM_DATE, INT32_MAX, "infinity");
    expect_no_time(ROW_FORM_DATE, INT32_MIN, "infinity");
    expect_no_time(ROW_FORM_TIMESTAMPTZ, INT64_MAX - 1, "years");
    expect_no_time(ROW_FORM_TIMESTAMPTZ, 2921940 * day, "years");     /* year 10000 */
    expect_no_time(ROW_FORM_TIMESTAMPTZ, -730119 * day - 1, "years"); /* 1 BC */
    expect_no_time(ROW_FORM_DATE, 2921940, "years");
    rows_set(&rows, ROW_TIME, ROW_FORM_TEXT, span_of("2018-04-05 17:31:00+00"));
    expect_rejected("RFC 3339");
    rows_set(&rows, ROW_TIME, ROW_FORM_TEXT, span_of("2018-04-05T17:31:00+02:00"));
    expect_accepted();
    expect_attribute("time", "2018-04-05T17:31:00+02:00");
}
END_TEST

/* Numbers and times are not looked at again: what is made of them has to be valid whatever they are. */
START_TEST(what_is_made_of_a_number_or_a_time_is_valid) {
    const int64_t numbers[] = {INT64_MIN, INT32_MIN - INT64_C(1), INT32_MIN, -1, 0, 1, INT32_MAX, INT64_MAX};
    const int64_t times[] = {INT64_C(-63082281600000000) /* year 1 */, -1, 0, 1, 100000, ROWS_TIME,
                             INT64_C(252455615999999999) /* year 9999 */};
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(times); j++) {
            rows_minimal(&rows);
            rows_integer(&rows, ROW_STREAM_VERSION, ROW_FORM_INT8, numbers[i]);
            rows_integer(&rows, ROW_TIME, ROW_FORM_TIMESTAMPTZ, times[j]);
            expect_accepted();
            ck_assert_int_eq(attribute_check_core(EVENT_TIME, event_core_value(&event, EVENT_TIME), &error), 0);
            struct span version = event_get(&event, span_of("streamversion"));
            ck_assert_int_eq(attribute_check_extension(span_of("streamversion"), type_of("streamversion"), version, false,
                                                       &error), 0);
        }
    }
}
END_TEST

START_TEST(stream_and_position_are_extensions) {
    rows_integer(&rows, ROW_STREAM_ID, ROW_FORM_INT8, 4711);
    rows_integer(&rows, ROW_STREAM_VERSION, ROW_FORM_INT8, 12);
    rows_set(&rows, ROW_POSITION, ROW_FORM_TEXT, span_of("9223372036854775807"));
    expect_accepted();
    expect_attribute("streamid", "4711");
    expect_attribute("streamversion", "12");
    expect_attribute("position", "9223372036854775807");
    ck_assert_int_eq(type_of("streamid"), ATTRIBUTE_STRING);
    ck_assert_int_eq(type_of("streamversion"), ATTRIBUTE_INTEGER);
    ck_assert_int_eq(event.position, INT64_MAX);
    rows_set(&rows, ROW_STREAM_ID, ROW_FORM_TEXT, SPAN_ABSENT);
    expect_accepted();
    expect_attribute("streamid", NULL);
}
END_TEST

START_TEST(what_is_not_emitted_is_still_there_for_rules) {
    rows_text(&rows, ROW_STREAM_ID, "s");
    rows_text(&rows, ROW_STREAM_VERSION, "1");
    options.emit_streamid = options.emit_position = options.emit_streamversion = false;
    expect_accepted();
    expect_attribute("streamid", "s");
    for (uint32_t i = 0; i < 3; i++)
        ck_assert(event_extension_internal(&event, i));
}
END_TEST

START_TEST(recorded_is_when_the_row_was_written) {
    rows_integer(&rows, ROW_RECORDED, ROW_FORM_TIMESTAMPTZ, 5);
    expect_accepted();
    ck_assert_int_eq(event.recorded_us, INT64_C(946684800000005));
    rows_set(&rows, ROW_RECORDED, ROW_FORM_TIMESTAMPTZ, SPAN_ABSENT);
    expect_accepted();
    ck_assert(event.recorded_us == INT64_MIN);
    rows_set(&rows, ROW_RECORDED, ROW_FORM_TIMESTAMPTZ, (struct span){"\x7f\xff\xff\xff\xff\xff\xff\xff", 8});
    expect_accepted();
    ck_assert(event.recorded_us == INT64_MIN);
}
END_TEST

START_TEST(an_extension_map_gives_typed_extensions) {
    extensions("{\"tenant\":\"acme\",\"flag\":true,\"off\":false,\"n\":-2147483648,\"zero\":-0,\"gone\":null,"
               "\"big\":2147483648,\"bigger\":12345678901234567890,\"esc\":\"\\u20ac\\\"\",\"empty\":\"\"}");
    expect_accepted();
    expect_attribute("tenant", "acme");
    expect_attribute("flag", "true");
    expect_attribute("off", "false");
    expect_attribute("n", "-2147483648");
    expect_attribute("zero", "0");
    expect_attribute("gone", NULL);
    expect_attribute("big", "2147483648");
    expect_attribute("bigger", "12345678901234567890");
    expect_attribute("esc", "€\"");
    expect_attribute("empty", "");
    ck_assert_int_eq(type_of("flag"), ATTRIBUTE_BOOLEAN);
    ck_assert_int_eq(type_of("n"), ATTRIBUTE_INTEGER);
    ck_assert_int_eq(type_of("big"), ATTRIBUTE_STRING);
    ck_assert_int_eq(type_of("bigger"), ATTRIBUTE_STRING);
}
END_TEST

START_TEST(an_extension_map_may_be_missing_or_empty) {
    rows_add(&rows, ROW_EXTENSIONS, ROW_FORM_JSONB, SPAN_ABSENT);
    expect_accepted();
    rows_set(&rows, ROW_EXTENSIONS, ROW_FORM_JSONB, SPAN_LITERAL("\1{}"));
    expect_accepted();
    rows_set(&rows, ROW_EXTENSIONS, ROW_FORM_JSONB, SPAN_LITERAL("\1null"));
    expect_accepted();
    ck_assert_uint_eq(event.extension_count, 1);
}
END_TEST

START_TEST(extensions_that_no_event_can_carry_are_rejected_by_name) {
    static const char *const maps[][2] = {
        {"{\"d\":1.5}", "'d'"},
        {"{\"d\":1e3}", "'d'"},
        {"{\"o\":{\"a\":1}}", "'o'"},
        {"{\"l\":[]}", "'l'"},
        {"{\"Trace_Id\":\"x\"}", "'Trace_Id'"},
        {"{\"my.ext\":\"x\"}", "'my.ext'"},
        {"{\"data_base64\":\"x\"}", "'data_base64'"},
        {"{\"data\":\"x\"}", "'data'"},
        {"{\"id\":\"x\"}", "'id'"},
        {"{\"subject\":\"x\"}", "'subject'"},
        {"{\"specversion\":\"1.0\"}", "'specversion'"},
        {"{\"position\":\"x\"}", "'position'"},
        {"{\"a\":1,\"a\":2}", "'a'"},
        {"{\"\":1}", "name"},
        {"{\"c\":\"a\\nb\"}", "'c'"},
        {"{\"z\":\"\\u0000\"}", "'z'"},
        {"{\"s\":\"\\ud800\"}", "'s'"},
        {"{\"partitionkey\":\"\"}", "'partitionkey'"},
        {"[]", "extensions"},
        {"\"x\"", "extensions"},
        {"{\"a\":1", "extensions"},
        {"", "extensions"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(maps); i++) {
        extensions(maps[i][0]);
        expect_rejected(maps[i][1]);
    }
    rows_set(&rows, ROW_EXTENSIONS, ROW_FORM_JSONB, SPAN_LITERAL("\2{}"));
    expect_rejected("extensions");
}
END_TEST

START_TEST(what_a_column_gives_cannot_be_replaced_by_a_map) {
    extensions("{\"streamid\":\"forged\"}");
    expect_accepted(); /* no column of that role: an extension like others */
    expect_attribute("streamid", "forged");
    rows_text(&rows, ROW_STREAM_ID, "real");
    expect_rejected("'streamid'");
    expect_attribute("streamid", "real");
    rows_set(&rows, ROW_STREAM_ID, ROW_FORM_TEXT, SPAN_ABSENT);
    expect_rejected("'streamid'");
}
END_TEST

START_TEST(a_mapped_column_and_a_map_may_not_give_the_same_name) {
    extensions("{\"tenant\":\"a\"}");
    rows_text(&rows, ROW_EXTENSION, "b");
    rows_name(&rows, "tenant");
    expect_rejected("'tenant' is given twice");
    rows_set(&rows, ROW_EXTENSION, ROW_FORM_TEXT, SPAN_ABSENT);
    expect_accepted();
}
END_TEST

START_TEST(a_rejected_row_can_be_held_by_its_key) {
    extensions("{\"bad\":1.5}");
    rows_set(&rows, ROW_SOURCE, ROW_FORM_TEXT, span_of("not a uri"));
    rows_text(&rows, ROW_STREAM_ID, "order-1");
    rows_add(&rows, ROW_DATA, ROW_FORM_BYTEA, span_of("secret"));
    expect_rejected("'bad'");
    ck_assert_int_eq(event.position, 7);
    expect_attribute("id", "e-1");
    expect_attribute("streamid", "order-1");
    ck_assert(span_absent(event_data(&event)));
    ck_assert(!strstr(error.text, "secret"));
}
END_TEST

START_TEST(the_first_of_several_faults_is_named_and_the_rest_is_still_read) {
    rows_minimal(&rows);
    rows_integer(&rows, ROW_TIME, ROW_FORM_TIMESTAMPTZ, INT64_MAX);
    rows_text(&rows, ROW_STREAM_ID, "order-1");
    rows_add(&rows, ROW_EXTENSIONS, ROW_FORM_JSON, span_of("{\"bad\":1.5,\"tenant\":\"acme\"}"));
    expect_rejected("column time is infinity");
    expect_attribute("streamid", "order-1");
    expect_attribute("tenant", "acme");
}
END_TEST

static void data(enum row_form form, const char *text, const char *content_type) {
    rows_minimal(&rows);
    rows_add(&rows, ROW_DATA, form, span_of(text));
    rows_text(&rows, ROW_DATACONTENTTYPE, content_type);
}

static void expect_data(enum event_data_kind kind, const char *text, const char *content_type) {
    expect_accepted();
    ck_assert_int_eq(event.data_kind, kind);
    ck_assert(span_is(event_data(&event), text));
    expect_attribute("datacontenttype", content_type);
}

START_TEST(json_data_goes_through_byte_for_byte) {
    static const char text[] = "{ \"n\":12345678901234567890, \"d\" : 1.10,\n \"a\":1, \"a\":1e400}";
    data(ROW_FORM_JSON, text, NULL);
    expect_data(EVENT_DATA_JSON, text, "application/json");
    data(ROW_FORM_JSONB, "\1[1, 2]", "Text/JSON");
    expect_data(EVENT_DATA_JSON, "[1, 2]", "Text/JSON");
    data(ROW_FORM_JSONB, "\1null", "application/vnd.acme+json; charset=UTF-8");
    expect_data(EVENT_DATA_JSON, "null", "application/vnd.acme+json; charset=UTF-8");
}
END_TEST

START_TEST(json_data_under_another_type_is_rejected) {
    data(ROW_FORM_JSON, "{}", "application/xml");
    expect_rejected("datacontenttype");
    data(ROW_FORM_JSON, "{}", "application/json;charset=latin1");
    expect_rejected("charset");
    data(ROW_FORM_JSONB, "\2{}", NULL);
    expect_rejected("jsonb");
}
END_TEST

START_TEST(text_data_needs_a_type_or_a_default) {
    data(ROW_FORM_TEXT, "hello", NULL);
    expect_rejected("datacontenttype");
    options.default_text_type = span_of("text/plain; charset=utf-8");
    expect_data(EVENT_DATA_TEXT, "hello", "text/plain; charset=utf-8");
    data(ROW_FORM_TEXT, "", "text/csv");
    expect_data(EVENT_DATA_TEXT, "", "text/csv");
    data(ROW_FORM_TEXT, "no json", "application/json");
    expect_data(EVENT_DATA_TEXT, "no json", "application/json");
    ck_assert(!event.invalid_json_as_base64);
    options.invalid_json_as_base64 = true;
    expect_data(EVENT_DATA_TEXT, "no json", "application/json");
    ck_assert(event.invalid_json_as_base64);
}
END_TEST

START_TEST(a_charset_that_we_do_not_send_is_rejected) {
    data(ROW_FORM_TEXT, "é", "text/plain; charset=iso-8859-1");
    expect_rejected("charset");
    data(ROW_FORM_TEXT, "é", "text/plain; charset=us-ascii");
    expect_rejected("charset");
    data(ROW_FORM_TEXT, "e", "text/plain; charset=US-ASCII");
    expect_data(EVENT_DATA_TEXT, "e", "text/plain; charset=US-ASCII");
    data(ROW_FORM_TEXT, "é", "text/plain; charset=\"UTF-8\"");
    expect_data(EVENT_DATA_TEXT, "é", "text/plain; charset=\"UTF-8\"");
    data(ROW_FORM_BYTEA, "\xe9", "text/plain; charset=iso-8859-1");
    expect_data(EVENT_DATA_BINARY, "\xe9", "text/plain; charset=iso-8859-1");
    data(ROW_FORM_TEXT, "0123456789012345678901234567890123456789\xe9", "text/plain");
    expect_rejected("UTF-8");
}
END_TEST

START_TEST(bytes_keep_their_type_or_none) {
    data(ROW_FORM_BYTEA, "\xff\xfe", NULL);
    expect_data(EVENT_DATA_BINARY, "\xff\xfe", NULL);
    data(ROW_FORM_BYTEA, "", "application/octet-stream");
    expect_data(EVENT_DATA_BINARY, "", "application/octet-stream");
    data(ROW_FORM_BYTEA, "{}", "application/json");
    expect_data(EVENT_DATA_BINARY, "{}", "application/json");
    data(ROW_FORM_UUID, "0123456789abcdef", NULL);
    expect_rejected("bytea");
}
END_TEST

START_TEST(null_data_is_no_data) {
    data(ROW_FORM_JSONB, NULL, "application/json");
    expect_accepted();
    ck_assert(span_absent(event_data(&event)));
    expect_attribute("datacontenttype", "application/json");
    data(ROW_FORM_TEXT, NULL, NULL);
    expect_accepted();
    expect_attribute("datacontenttype", NULL);
}
END_TEST

START_TEST(data_over_the_maximum_is_rejected_whether_loaded_or_not) {
    options.max_message_bytes = 5;
    data(ROW_FORM_TEXT, "12345", "text/plain");
    expect_data(EVENT_DATA_TEXT, "12345", "text/plain");
    data(ROW_FORM_TEXT, "123456", "text/plain");
    expect_rejected("max_message_bytes");
    data(ROW_FORM_JSON, NULL, NULL);
    rows_integer(&rows, ROW_DATA_BYTES, ROW_FORM_INT4, 16000000);
    expect_rejected("16000000");
    rows_set(&rows, ROW_DATA_BYTES, ROW_FORM_INT4, (struct span){"\0\0\0\5", 4});
    expect_accepted();
}
END_TEST

START_TEST(a_row_over_the_maximum_of_the_event_is_rejected) {
    char big[200];
    memset(big, 'x', sizeof big);
    event_done(&event);
    event_init(&event, 100);
    rows_text(&rows, ROW_STREAM_ID, "s");
    rows_add(&rows, ROW_DATA, ROW_FORM_BYTEA, (struct span){big, sizeof big});
    expect_rejected("100 bytes");
    ck_assert_int_eq(event.position, 7);
    expect_attribute("streamid", "s");
}
END_TEST

START_TEST(a_row_over_the_maximum_can_be_held_by_its_key) {
    char big[200];
    memset(big, 'x', sizeof big);
    event_done(&event);
    event_init(&event, 100);
    rows_add(&rows, ROW_SUBJECT, ROW_FORM_TEXT, (struct span){big, sizeof big});
    rows_text(&rows, ROW_STREAM_ID, "s");
    rows_add(&rows, ROW_EXTENSIONS, ROW_FORM_JSON,
             SPAN_LITERAL("{\"a\":\"01234567890123456789012345678901234567890123456789\",\"t\":\"u\"}"));
    expect_rejected("100 bytes");
    ck_assert_int_eq(event.position, 7);
    expect_attribute("streamid", "s");
    expect_attribute("t", "u");
}
END_TEST

START_TEST(too_many_extensions_are_rejected) {
    for (int i = 0; i < EVENT_EXTENSIONS_MAX; i++) { /* and position */
        char *name = rows.bytes + 500 + i * 8;
        snprintf(name, 8, "ext%d", i);
        rows_text(&rows, ROW_EXTENSION, "v");
        rows_name(&rows, name);
    }
    expect_rejected("96 extensions");
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    extensions("{\"a\":\"\\n1\",\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":true}");
    rows_text(&rows, ROW_STREAM_ID, "order-1");
    rows_add(&rows, ROW_DATA, ROW_FORM_JSON, SPAN_LITERAL("{\"a\":\"0123456789012345678901234567890123456789\"}"));
    const struct span allowed = SPAN_LITERAL("a");
    options.allow_control_characters = &allowed;
    options.allow_control_characters_count = 1;
    struct row row = rows_view(&rows);
    FAIL_ALLOC_EACH(n) {
        event_done(&event);
        event_init(&event, 100000);
        int r = row_to_event(&row, &options, &event, &error);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
    }
}
END_TEST

/* Whatever bytes a peer sends: no crash (address sanitizer), and an answer that is documented. */
START_TEST(random_bytes_are_taken_or_rejected) {
    unsigned seed = 7;
    int accepted = 0;
    for (int turn = 0; turn < 50000; turn++) {
        rows_minimal(&rows);
        size_t columns = 1 + (size_t)rand_r(&seed) % 6;
        char *blocks[8];
        for (size_t i = 0; i < columns; i++) {
            size_t len = (size_t)rand_r(&seed) % 20;
            blocks[i] = malloc(len ? len : 1);
            for (size_t j = 0; j < len; j++)
                blocks[i][j] = rand_r(&seed) % 3 ? "{\"a\":1}\1\0"[rand_r(&seed) % 9] : (char)rand_r(&seed);
            bool null = rand_r(&seed) % 8 == 0;
            rows_add(&rows, (enum row_role)(rand_r(&seed) % ROW_ROLE_COUNT),
                     (enum row_form)(rand_r(&seed) % (ROW_FORM_DATE + 1)),
                     null ? SPAN_ABSENT : (struct span){blocks[i], len});
            rows_name(&rows, "ext");
        }
        int r = convert();
        ck_assert(r == 0 || (r == ROW_E_REJECTED && error.text[0]));
        accepted += r == 0;
        for (size_t i = 0; i < columns; i++)
            free(blocks[i]);
    }
    ck_assert_int_gt(accepted, 500);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("row");
    TCase *cases = tcase_create("row");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, a_minimal_row_becomes_an_event);
    tcase_add_test(cases, a_null_in_a_needed_column_is_rejected_by_name);
    tcase_add_test(cases, constants_stand_for_columns);
    tcase_add_test(cases, each_form_has_its_canonical_text);
    tcase_add_test(cases, a_form_of_the_wrong_length_is_rejected_not_read);
    tcase_add_test(cases, time_is_rfc_3339_in_utc_with_the_digits_it_needs);
    tcase_add_test(cases, times_without_an_rfc_3339_form_are_rejected);
    tcase_add_test(cases, what_is_made_of_a_number_or_a_time_is_valid);
    tcase_add_test(cases, stream_and_position_are_extensions);
    tcase_add_test(cases, what_is_not_emitted_is_still_there_for_rules);
    tcase_add_test(cases, recorded_is_when_the_row_was_written);
    tcase_add_test(cases, an_extension_map_gives_typed_extensions);
    tcase_add_test(cases, an_extension_map_may_be_missing_or_empty);
    tcase_add_test(cases, extensions_that_no_event_can_carry_are_rejected_by_name);
    tcase_add_test(cases, what_a_column_gives_cannot_be_replaced_by_a_map);
    tcase_add_test(cases, a_mapped_column_and_a_map_may_not_give_the_same_name);
    tcase_add_test(cases, a_rejected_row_can_be_held_by_its_key);
    tcase_add_test(cases, the_first_of_several_faults_is_named_and_the_rest_is_still_read);
    tcase_add_test(cases, json_data_goes_through_byte_for_byte);
    tcase_add_test(cases, json_data_under_another_type_is_rejected);
    tcase_add_test(cases, text_data_needs_a_type_or_a_default);
    tcase_add_test(cases, a_charset_that_we_do_not_send_is_rejected);
    tcase_add_test(cases, bytes_keep_their_type_or_none);
    tcase_add_test(cases, null_data_is_no_data);
    tcase_add_test(cases, data_over_the_maximum_is_rejected_whether_loaded_or_not);
    tcase_add_test(cases, a_row_over_the_maximum_of_the_event_is_rejected);
    tcase_add_test(cases, a_row_over_the_maximum_can_be_held_by_its_key);
    tcase_add_test(cases, too_many_extensions_are_rejected);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    tcase_add_test(cases, random_bytes_are_taken_or_rejected);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
