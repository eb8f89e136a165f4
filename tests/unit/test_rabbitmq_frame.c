/* test_rabbitmq_frame: frames as bytes: what a reader of AMQP 0-9-1 4.2.3 finds in them */
#include "unit/unit.h"

#include <errno.h>

#include "sink/rabbitmq_frame.h"
#include "unit/fail_alloc.h"

#define FRAME_MAX 4096

static struct rabbitmq_message message;
static struct buf out;

static void set_up(void) {
    out = BUF_INIT(1 << 20);
    message = (struct rabbitmq_message){
        .method = {.exchange = amqp_cstring_bytes("orders"), .routing_key = amqp_cstring_bytes("key"), .mandatory = 1},
        .properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2},
        .head_bytes = 8 + 4 + 2 + 7 + 4 + 1 + 8 + 12 + 2 + 1,
    };
}

static void tear_down(void) {
    buf_done(&out);
}

static uint32_t get(size_t at, size_t bytes) {
    uint32_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | (uint8_t)out.data[at++];
    return value;
}

/* The frame at *at: checks its ends, returns its payload's size, moves on. */
static size_t next_frame(size_t *at, uint32_t type, uint32_t channel) {
    ck_assert_uint_le(*at + 8, out.len);
    ck_assert_uint_eq(get(*at, 1), type);
    ck_assert_uint_eq(get(*at + 1, 2), channel);
    size_t payload = get(*at + 3, 4);
    ck_assert_uint_le(payload, FRAME_MAX - 8);
    ck_assert_uint_le(*at + 8 + payload, out.len);
    ck_assert_uint_eq(get(*at + 7 + payload, 1), AMQP_FRAME_END);
    *at += 8 + payload;
    return payload;
}

static const size_t sizes[] = {0, 1, 4087, 4088, 4089, 8176, 8177, 100000};

START_TEST(a_message_is_method_header_and_body) {
    CLEANUP(cleanup_free) char *body = malloc(sizes[_i] + 1);
    for (size_t i = 0; i < sizes[_i]; i++)
        body[i] = (char)(i * 7);
    message.body = (amqp_bytes_t){.len = sizes[_i], .bytes = body};
    ck_assert_int_eq(buf_add(&out, "before", 6), 0);
    ck_assert_int_eq(rabbitmq_frame_message(&out, 3, &message, FRAME_MAX), 0);

    size_t at = 6;
    next_frame(&at, AMQP_FRAME_METHOD, 3);
    ck_assert_uint_eq(get(6 + 7, 4), AMQP_BASIC_PUBLISH_METHOD);
    size_t header = at;
    next_frame(&at, AMQP_FRAME_HEADER, 3);
    ck_assert_uint_eq(get(header + 7, 2), AMQP_BASIC_CLASS);
    ck_assert_uint_eq(get(header + 7 + 4, 4), 0);
    ck_assert_uint_eq(get(header + 7 + 8, 4), sizes[_i]);
    ck_assert_uint_eq(at - 6, message.head_bytes);
    for (size_t seen = 0; seen < sizes[_i];) {
        size_t start = at + 7, len = next_frame(&at, AMQP_FRAME_BODY, 3);
        ck_assert_uint_gt(len, 0);
        ck_assert(memcmp(out.data + start, body + seen, len) == 0);
        seen += len;
    }
    ck_assert_uint_eq(at, out.len);
}
END_TEST

START_TEST(a_heartbeat_is_eight_bytes) {
    ck_assert_int_eq(rabbitmq_frame_heartbeat(&out), 0);
    ck_assert_uint_eq(out.len, 8);
    ck_assert(memcmp(out.data, "\x08\0\0\0\0\0\0\xce", 8) == 0);
}
END_TEST

START_TEST(what_finds_no_room_leaves_what_was_there) {
    char body[100] = {0};
    message.body = (amqp_bytes_t){.len = sizeof body, .bytes = body};
    ck_assert_int_eq(buf_add(&out, "before", 6), 0);
    buf_shrink(&out, 6);
    FAIL_ALLOC_EACH(n) {
        int r = rabbitmq_frame_message(&out, 1, &message, FRAME_MAX);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        ck_assert(failed ? out.len == 6 : out.len > 6);
    }
    out.len = 6;
    out.max = 50;
    buf_shrink(&out, 6);
    ck_assert_int_eq(rabbitmq_frame_message(&out, 1, &message, FRAME_MAX), -EMSGSIZE);
    ck_assert_uint_eq(out.len, 6);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rabbitmq_frame");
    TCase *cases = tcase_create("rabbitmq_frame");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_loop_test(cases, a_message_is_method_header_and_body, 0, (int)ARRAY_LENGTH(sizes));
    tcase_add_test(cases, a_heartbeat_is_eight_bytes);
    tcase_add_test(cases, what_finds_no_room_leaves_what_was_there);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
