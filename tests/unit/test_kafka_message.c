/* test_kafka_message: keys, null and empty values, and what a message weighs for Kafka */
#include "unit/unit.h"

#include "sink/kafka_message.h"
#include "sink/kafka_options.h"

static struct kafka_message message;
static struct event event;
static struct destination destination;
static struct error error;
static const struct binding_options binary = {.mode = BINDING_BINARY};

static void begin(void) {
    kafka_message_init(&message, 1000000);
    event_init(&event, 2000000);
    destination_init(&destination);
    ck_assert_int_eq(event_set_core(&event, EVENT_ID, SPAN_LITERAL("i")), 0);
    ck_assert_int_eq(event_set_core(&event, EVENT_SOURCE, SPAN_LITERAL("s")), 0);
    ck_assert_int_eq(event_set_core(&event, EVENT_TYPE, SPAN_LITERAL("t")), 0);
}

static void end(void) {
    destination_done(&destination);
    event_done(&event);
    kafka_message_done(&message);
}

static int build(size_t max_message_bytes) {
    return kafka_message_build(&message, &binary, max_message_bytes, &event, &destination, &error);
}

/* Four headers (ce_specversion=1.0, ce_id, ce_source, ce_type), each with two lengths. */
#define HEADERS_BYTES (1 + (1 + 14 + 1 + 3) + (1 + 5 + 1 + 1) + (1 + 9 + 1 + 1) + (1 + 7 + 1 + 1))

/* Batch, length of the record, attributes, two deltas; lengths of key and value. */
#define FRAME_BYTES (61 + 1 + 3 + 1 + 1)

START_TEST(without_data_and_key_both_are_null) {
    ck_assert_int_eq(build(1000), 0);
    ck_assert(span_absent(message.key));
    ck_assert(span_absent(message.value));
    ck_assert_int_eq(message.partition, KAFKA_PARTITION_BY_KEY);
    ck_assert_uint_eq(message.bytes, FRAME_BYTES + HEADERS_BYTES);
}
END_TEST

START_TEST(empty_data_and_key_are_not_null) {
    ck_assert_int_eq(event_set_data(&event, EVENT_DATA_TEXT, SPAN_LITERAL("")), 0);
    destination.fields[KAFKA_KEY] = SPAN_LITERAL("");
    ck_assert_int_eq(build(1000), 0);
    ck_assert(!span_absent(message.key));
    ck_assert(!span_absent(message.value));
    ck_assert_uint_eq(message.bytes, FRAME_BYTES + HEADERS_BYTES);
}
END_TEST

START_TEST(long_lengths_take_more_bytes) {
    static char text[70000];
    static const size_t sizes[][2] = {{63, 1}, {64, 2}, {8191, 2}, {8192, 3}, {70000, 3}};
    size_t data = sizes[_i][0], length = sizes[_i][1];
    memset(text, 'x', sizeof text);
    ck_assert_int_eq(event_set_data(&event, EVENT_DATA_BINARY, (struct span){text, data}), 0);
    ck_assert_int_eq(build(1000000), 0);
    size_t record = 3 + 1 + length + data + HEADERS_BYTES;
    size_t record_length = record < 64 ? 1 : record < 8192 ? 2 : 3;
    ck_assert_uint_eq(message.bytes, 61 + record_length + record);
}
END_TEST

START_TEST(key_and_headers_count) {
    ck_assert_int_eq(build(1000), 0);
    size_t before = message.bytes;
    destination.fields[KAFKA_KEY] = SPAN_LITERAL("key");
    destination.headers[0] = (struct destination_header){SPAN_LITERAL("team"), SPAN_LITERAL("blue")};
    destination.header_count = 1;
    ck_assert_int_eq(build(1000), 0);
    ck_assert_uint_eq(message.bytes, before + 3 + (1 + 4 + 1 + 4) + 1); /* the record's length has two bytes now */
}
END_TEST

START_TEST(the_limit_is_of_the_whole_message) {
    ck_assert_int_eq(build(1000), 0);
    ck_assert_int_eq(build(message.bytes), 0);
    ck_assert_int_eq(build(message.bytes - 1), KAFKA_MESSAGE_E_REJECTED);
    ck_assert_int_eq(error.class, ERROR_PERMANENT);
    ck_assert_ptr_nonnull(strstr(error.text, "max_message_bytes"));
}
END_TEST

START_TEST(a_destination_has_its_own_mode_and_partition) {
    struct kafka_destination own = {.binding.mode = BINDING_STRUCTURED, .partition = 3};
    destination.options = &own;
    ck_assert_int_eq(build(1000), 0);
    ck_assert_int_eq(message.partition, 3);
    ck_assert_int_eq(message.value.data[0], '{');
    ck_assert_uint_eq(message.binding.header_count, 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_message");
    TCase *cases = tcase_create("kafka_message");
    tcase_add_checked_fixture(cases, begin, end);
    tcase_add_test(cases, without_data_and_key_both_are_null);
    tcase_add_test(cases, empty_data_and_key_are_not_null);
    tcase_add_loop_test(cases, long_lengths_take_more_bytes, 0, 5);
    tcase_add_test(cases, key_and_headers_count);
    tcase_add_test(cases, the_limit_is_of_the_whole_message);
    tcase_add_test(cases, a_destination_has_its_own_mode_and_partition);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
