/* test_kafka_vectors: the Kafka scenarios of the CloudEvents conformance suite, from the sender's side */
#include "unit/unit.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>

#include "event/binding.h"

/* The scenarios say how a message is read. We send: the event with the attributes
 * and the data that they list must become the message that they begin with. */
#define FEATURE "tests/vectors/kafka_binding/kafka-protocol-binding.feature"

enum { LINES_MAX = 200, LINE_MAX_BYTES = 200 };

/* The feature, line by line without the space around each. */
static char lines[LINES_MAX][LINE_MAX_BYTES];
static size_t line_count;

static struct event event;
static struct binding_message message;
static struct error error;

static struct span trim(struct span s) {
    while (s.len > 0 && isspace((unsigned char)s.data[0]))
        s = (struct span){s.data + 1, s.len - 1};
    while (s.len > 0 && isspace((unsigned char)s.data[s.len - 1]))
        s.len--;
    return s;
}

static bool begins(struct span s, const char *word) {
    return s.len >= strlen(word) && memcmp(s.data, word, strlen(word)) == 0;
}

static void load_feature(void) {
    FILE *f = fopen(FEATURE, "r");
    char line[LINE_MAX_BYTES];
    ck_assert_msg(f != NULL, "%s (run from the source directory)", FEATURE);
    for (line_count = 0; fgets(line, sizeof line, f); line_count++) {
        ck_assert_uint_lt(line_count, LINES_MAX);
        snprintf(lines[line_count], sizeof lines[0], "%.*s", SPAN_ARGS(trim(span_of(line))));
    }
    fclose(f);
}

/* The first line at or after `from` that begins so; line_count: there is none. */
static size_t find(size_t from, const char *word) {
    while (from < line_count && !begins(span_of(lines[from]), word))
        from++;
    return from;
}

static size_t must_find(size_t from, const char *word) {
    size_t at = find(from, word);
    ck_assert_msg(at < line_count, "no '%s' after line %zu of %s", word, from + 1, FEATURE);
    return at;
}

/* The text between """ and """ below line `at`; the lines' own indentation is no part of it. */
static void read_text(size_t at, struct buf *b) {
    size_t start = must_find(at, "\"\"\"") + 1, end = must_find(start, "\"\"\"");
    buf_clear(b);
    for (size_t i = start; i < end; i++)
        ck_assert_int_eq(buf_addf(b, "%s%s", i > start ? "\n" : "", lines[i]), 0);
}

/* One cell of "| a | b |", and what follows it. */
static struct span cell(struct span *rest) {
    ck_assert(begins(*rest, "|"));
    *rest = (struct span){rest->data + 1, rest->len - 1};
    const char *end = memchr(rest->data, '|', rest->len);
    ck_assert_ptr_nonnull(end);
    struct span s = {rest->data, (size_t)(end - rest->data)};
    *rest = (struct span){end, rest->len - s.len};
    return trim(s);
}

/* The table below line `at` without its head: {key: value}. */
static json_t *read_table(size_t at) {
    json_t *table = json_object();
    for (size_t i = at + 2; i < line_count && lines[i][0] == '|'; i++) {
        struct span rest = span_of(lines[i]), key = cell(&rest), value = cell(&rest);
        ck_assert_int_eq(json_object_setn_new(table, key.data, key.len, json_stringn(value.data, value.len)), 0);
    }
    ck_assert_uint_gt(json_object_size(table), 0);
    return table;
}

/* What stands below the scenario's "Then": the event that was meant. */
static void read_event(size_t scenario) {
    json_t *attributes = read_table(must_find(scenario, "Then the attributes are:")), *value;
    CLEANUP(buf_done) struct buf data = BUF_INIT(10000);
    const char *name;
    event_clear(&event, 10000);
    json_object_foreach(attributes, name, value) {
        int which = event_core_by_name(span_of(name));
        if (strcmp(name, "specversion") == 0)
            ck_assert(span_is(event_get(&event, span_of(name)), json_string_value(value)));
        else
            ck_assert_int_eq(event_set_core(&event, (enum event_core)which, span_of(json_string_value(value))), 0);
    }
    read_text(must_find(scenario, "And the data is equal to the following JSON:"), &data);
    ck_assert_int_eq(event_set_data(&event, EVENT_DATA_JSON, buf_span(&data)), 0);
    json_decref(attributes);
}

static void encode(enum binding_mode mode) {
    const struct binding_options options = {.mode = mode};
    int r = binding_encode(BINDING_KAFKA, &options, &event, &message, &error);
    ck_assert_msg(r == 0, "%d: %s", r, error.text);
    ck_assert(span_absent(message.content_type)); /* that is AMQP's */
}

/* The message's headers as a table; none of them twice. */
static json_t *sent_headers(void) {
    json_t *table = json_object();
    for (size_t i = 0; i < message.header_count; i++) {
        struct span name = message.headers[i].name, value = message.headers[i].value;
        ck_assert_int_eq(json_object_setn_new(table, name.data, name.len, json_stringn(value.data, value.len)), 0);
    }
    ck_assert_uint_eq(json_object_size(table), message.header_count);
    return table;
}

static void set_up(void) {
    load_feature();
    event_init(&event, 10000);
    binding_message_init(&message, 10000);
}

static void tear_down(void) {
    binding_message_done(&message);
    event_done(&event);
}

START_TEST(binary_scenario) {
    size_t scenario = must_find(0, "Scenario: Binary content mode");
    CLEANUP(buf_done) struct buf payload = BUF_INIT(10000);
    read_event(scenario);
    encode(BINDING_BINARY);
    read_text(must_find(scenario, "Given a Kafka message with payload:"), &payload);
    ck_assert(span_equal(message.body, buf_span(&payload)));
    json_t *wanted = read_table(must_find(scenario, "And Kafka headers:")), *sent = sent_headers();
    ck_assert(json_equal(sent, wanted));
    json_decref(wanted);
    json_decref(sent);
}
END_TEST

/* The payload's members may stand in any order. */
static void expect_document(size_t scenario) {
    CLEANUP(buf_done) struct buf payload = BUF_INIT(10000);
    read_text(must_find(scenario, "Given a Kafka message with payload:"), &payload);
    json_t *wanted = json_loadb(payload.data, payload.len, JSON_REJECT_DUPLICATES, NULL);
    json_t *sent = json_loadb(message.body.data, message.body.len, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(wanted);
    ck_assert_msg(json_equal(sent, wanted), "%.*s", SPAN_ARGS(message.body));
    json_decref(wanted);
    json_decref(sent);
}

/* One example per content type; its parameter is the sender's choice, and we make none. */
START_TEST(structured_scenarios) {
    size_t scenario = must_find(0, "Scenario Outline: Structured content mode"), examples = 0;
    read_event(scenario);
    encode(BINDING_STRUCTURED);
    expect_document(scenario);
    json_t *sent = sent_headers(), *names = read_table(must_find(scenario, "And Kafka headers:"));
    ck_assert_uint_eq(json_object_size(sent), json_object_size(names));
    const char *type = json_string_value(json_object_get(sent, json_object_iter_key(json_object_iter(names))));
    ck_assert_ptr_nonnull(type);
    for (size_t i = must_find(scenario, "Examples:") + 2; i < line_count && lines[i][0] == '|'; i++, examples++) {
        struct span rest = span_of(lines[i]), example = cell(&rest);
        ck_assert(begins(example, type) && (example.len == strlen(type) || example.data[strlen(type)] == ';'));
    }
    ck_assert_uint_eq(examples, 2);
    json_decref(sent);
    json_decref(names);
}
END_TEST

START_TEST(no_scenario_is_left_out) {
    size_t count = 0;
    for (size_t at = find(0, "Scenario"); at < line_count; at = find(at + 1, "Scenario"))
        count++;
    ck_assert_uint_eq(count, 2);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_vectors");
    TCase *cases = tcase_create("scenarios");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, binary_scenario);
    tcase_add_test(cases, structured_scenarios);
    tcase_add_test(cases, no_scenario_is_left_out);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
