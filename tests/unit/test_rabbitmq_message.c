/* test_rabbitmq_message: what basic.publish carries, what came back; and the options of a connection */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include "sink/rabbitmq_connect.h"
#include "sink/rabbitmq_message.h"
#include "sink/rabbitmq_returns.h"
#include "sink/sink.h"
#include "unit/fail_alloc.h"

static struct rabbitmq_message message;
static struct rabbitmq_limits limits;
static struct binding_options options;
static struct destination to;
static struct event event;
static struct error error;

static void set_up(void) {
    limits = (struct rabbitmq_limits){.frame_max = 131072, .max_message_bytes = 1000};
    options = (struct binding_options){0};
    destination_init(&to);
    to.fields[RABBITMQ_EXCHANGE] = SPAN_LITERAL("orders");
    to.fields[RABBITMQ_ROUTING_KEY] = SPAN_LITERAL("order.paid");
    rabbitmq_message_init(&message, limits.max_message_bytes);
    event_init(&event, 1 << 20);
    ck_assert_int_eq(event_set_core(&event, EVENT_ID, SPAN_LITERAL("id-1")), 0);
    ck_assert_int_eq(event_set_core(&event, EVENT_SOURCE, SPAN_LITERAL("/test")), 0);
    ck_assert_int_eq(event_set_core(&event, EVENT_TYPE, SPAN_LITERAL("com.acme.order")), 0);
    ck_assert_int_eq(event_set_core(&event, EVENT_DATACONTENTTYPE, SPAN_LITERAL("text/plain")), 0);
    ck_assert_int_eq(event_set_data(&event, EVENT_DATA_TEXT, SPAN_LITERAL("hello")), 0);
}

static void tear_down(void) {
    rabbitmq_message_done(&message);
    destination_done(&to);
    event_done(&event);
}

static int build(uint64_t serial) {
    return rabbitmq_message_build(&message, &limits, &options, &event, &to, serial, &error);
}

static bool is(amqp_bytes_t bytes, const char *text) {
    return span_is((struct span){bytes.bytes, bytes.len}, text);
}

START_TEST(it_is_mandatory_persistent_and_named) {
    ck_assert_int_eq(build(42), 0);
    ck_assert(is(message.method.exchange, "orders"));
    ck_assert(is(message.method.routing_key, "order.paid"));
    ck_assert(message.method.mandatory);
    ck_assert(!message.method.immediate);
    const amqp_basic_properties_t *p = &message.properties;
    ck_assert_uint_eq(p->_flags, AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
                                     AMQP_BASIC_MESSAGE_ID_FLAG);
    ck_assert_int_eq(p->delivery_mode, 2);
    ck_assert(is(p->content_type, "text/plain"));
    ck_assert(is(p->message_id, "id-1"));
    ck_assert(is(message.body, "hello"));
    ck_assert(is(p->headers.entries[0].key, "x-penstock-tag"));
    ck_assert(is(p->headers.entries[0].value.value.bytes, "42"));
    for (int i = 0; i < p->headers.num_entries; i++)
        ck_assert_int_eq(p->headers.entries[i].value.kind, AMQP_FIELD_KIND_UTF8);
}
END_TEST

START_TEST(its_size_is_what_the_library_would_write) {
    to.headers[0] = (struct destination_header){SPAN_LITERAL("tenant"), SPAN_LITERAL("acme")};
    to.header_count = 1;
    ck_assert_int_eq(build(7), 0);
    char bytes[4096];
    amqp_bytes_t room = {.len = sizeof bytes, .bytes = bytes};
    int method = amqp_encode_method(AMQP_BASIC_PUBLISH_METHOD, &message.method, room);
    int properties = amqp_encode_properties(AMQP_BASIC_CLASS, &message.properties, room);
    ck_assert_int_gt(method, 0);
    ck_assert_int_gt(properties, 0);
    ck_assert_uint_eq(message.head_bytes, (size_t)(8 + 4 + method + 8 + 12 + properties));
}
END_TEST

START_TEST(an_id_too_long_for_its_property_stands_in_its_header_only) {
    char id[300];
    memset(id, 'i', sizeof id);
    ck_assert_int_eq(event_set_core(&event, EVENT_ID, (struct span){id, 255}), 0);
    ck_assert_int_eq(build(1), 0);
    ck_assert(message.properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG);
    ck_assert_int_eq(event_set_core(&event, EVENT_ID, (struct span){id, 256}), 0);
    ck_assert_int_eq(build(1), 0);
    ck_assert(!(message.properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG));
}
END_TEST

START_TEST(the_default_exchange_is_taken_and_none_is_not) {
    to.fields[RABBITMQ_EXCHANGE] = SPAN_LITERAL("");
    to.fields[RABBITMQ_ROUTING_KEY] = SPAN_ABSENT;
    to.literal = 1U << RABBITMQ_EXCHANGE;
    ck_assert_int_eq(build(1), 0);
    ck_assert_uint_eq(message.method.exchange.len, 0);
    to.literal = 0; /* it came out of a template: no template can produce an empty exchange silently */
    ck_assert_int_eq(build(1), RABBITMQ_MESSAGE_E_REJECTED);
    ck_assert_ptr_nonnull(strstr(error.text, "exchange came out empty"));
    to.fields[RABBITMQ_EXCHANGE] = SPAN_ABSENT;
    ck_assert_int_eq(build(1), RABBITMQ_MESSAGE_E_REJECTED);
    ck_assert_int_eq(error.class, ERROR_PERMANENT);
}
END_TEST

START_TEST(what_is_too_large_is_said_with_its_size) {
    char text[1001];
    memset(text, 'x', sizeof text);
    ck_assert_int_eq(event_set_data(&event, EVENT_DATA_TEXT, (struct span){text, 1000}), 0);
    ck_assert_int_eq(build(1), 0);
    ck_assert_int_eq(event_set_data(&event, EVENT_DATA_TEXT, (struct span){text, 1001}), 0);
    ck_assert_int_eq(build(1), RABBITMQ_MESSAGE_E_REJECTED);
    ck_assert_str_eq(error.text, "its body is 1001 bytes; max_message_bytes allows 1000");
    ck_assert_int_eq(event_set_data(&event, EVENT_DATA_TEXT, (struct span){text, 1}), 0);
    ck_assert_int_eq(build(1), 0);
    limits.frame_max = message.head_bytes - 8 - 9 - strlen("orders") - strlen("order.paid");
    ck_assert_int_eq(build(1), 0);
    limits.frame_max--;
    ck_assert_int_eq(build(1), RABBITMQ_MESSAGE_E_REJECTED);
    ck_assert_ptr_nonnull(strstr(error.text, "its headers frame"));
}
END_TEST

START_TEST(a_destination_overrides_how_it_is_bound) {
    options.mode = BINDING_STRUCTURED;
    ck_assert_int_eq(build(1), 0);
    amqp_bytes_t type = message.properties.content_type;
    ck_assert_ptr_nonnull(memmem(type.bytes, type.len, "cloudevents+json", 16));
    ck_assert_int_eq(message.properties.headers.num_entries, 1);
}
END_TEST

START_TEST(nothing_is_allocated_in_steady_state) {
    ck_assert_int_eq(build(1), 0);
    fail_alloc_begin(0);
    int bad = 0;
    for (uint64_t serial = 2; serial < 100000; serial++)
        bad += build(serial) != 0;
    fail_alloc_end();
    ck_assert_int_eq(bad, 0);
    ck_assert_uint_eq(fail_alloc_count(), 0);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    FAIL_ALLOC_EACH(n) {
        struct rabbitmq_message fresh;
        rabbitmq_message_init(&fresh, 1000);
        int r = rabbitmq_message_build(&fresh, &limits, &options, &event, &to, 1, &error);
        bool failed = fail_alloc_end();
        rabbitmq_message_done(&fresh);
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
    }
}
END_TEST

START_TEST(a_sink_that_can_not_be_made_leaves_nothing_behind) {
    struct rabbitmq_connection connection = {.uri = (char *)"amqp://localhost"};
    struct rabbitmq_sink_options sink_options = {.common = {.max_message_bytes = 1000}};
    struct sink_setup setup = {.forwarder = "f", .connection = &connection, .options = &sink_options, .in_flight = 10};
    const struct sink_kind *kind = sink_kind_find(SPAN_LITERAL("rabbitmq"));
    FAIL_ALLOC_EACH(n) {
        struct sink *sink = NULL;
        int r = kind->open(&setup, &sink);
        bool failed = fail_alloc_end();
        if (r == 0)
            kind->close(sink);
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
    }
    FAIL_ALLOC_EACH(n) {
        struct rabbitmq_call *call = NULL;
        struct rabbitmq_probe probe = {.count = 1};
        int r = rabbitmq_call_new(&connection, "f", 0, &probe, "queue", &call);
        bool failed = fail_alloc_end();
        if (r == 0)
            rabbitmq_probe_ops.free_argument(call);
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
    }
}
END_TEST

START_TEST(a_message_that_came_back_is_known_by_its_tag) {
    struct rabbitmq_returns *returns;
    uint64_t serial = 0;
    ck_assert_int_eq(rabbitmq_returns_new(&returns), 0);
    ck_assert_int_eq(build(UINT64_MAX), 0);
    amqp_basic_return_t method = {
        .reply_code = 312,
        .reply_text = amqp_cstring_bytes("NO_ROUTE"),
        .exchange = message.method.exchange,
        .routing_key = message.method.routing_key,
    };
    rabbitmq_returns_method(returns, &method);
    ck_assert_int_eq(rabbitmq_returns_header(returns, &message.properties, &serial), 0);
    ck_assert_uint_eq(serial, UINT64_MAX);
    ck_assert_str_eq(rabbitmq_returns_reason(returns, serial), "NO_ROUTE (312), exchange 'orders', routing key 'order.paid'");
    ck_assert_str_eq(rabbitmq_returns_reason(returns, 1), "returned: it could not be routed");
    rabbitmq_returns_free(returns);
}
END_TEST

static const char *const foreign_tags[] = {"", "x", "1x", "-1", " 1", "18446744073709551616", "99999999999999999999999"};

START_TEST(a_foreign_tag_is_nobodys) {
    uint64_t serial = 0;
    ck_assert_int_eq(build(1), 0);
    message.properties.headers.entries[0].value.value.bytes = amqp_cstring_bytes(foreign_tags[_i]);
    ck_assert_int_eq(rabbitmq_message_serial(&message.properties, &serial), -ENOENT);
    /* Members without their flag are uninitialised memory. */
    message.properties.headers.num_entries = 1583104060;
    message.properties._flags = 0;
    ck_assert_int_eq(rabbitmq_message_serial(&message.properties, &serial), -ENOENT);
}
END_TEST

static const struct {
    const char *text, *host; /* NULL: refused */
    int port;
} hosts[] = {
    {"rabbit", "rabbit", 0},         {"rabbit:5673", "rabbit", 5673}, {"[::1]:5673", "::1", 5673}, {"[::1]", "::1", 0},
    {"rabbit:65535", "rabbit", 65535}, {"", NULL, 0},                   {":5672", NULL, 0},          {"rabbit:", NULL, 0},
    {"rabbit:0", NULL, 0},           {"rabbit:65536", NULL, 0},       {"rabbit:x", NULL, 0},       {"[::1", NULL, 0},
    {"[::1]5672", NULL, 0},          {"user@rabbit", NULL, 0},        {"rabbit/vhost", NULL, 0},   {"[]:1", NULL, 0},
};

START_TEST(a_host_may_have_a_port) {
    struct span host = SPAN_ABSENT;
    int port = 0;
    int r = rabbitmq_host_parse(span_of(hosts[_i].text), &host, &port);
    ck_assert_msg(r == (hosts[_i].host ? 0 : -EINVAL), "'%s' gave %d", hosts[_i].text, r);
    if (r < 0)
        return;
    ck_assert(span_is(host, hosts[_i].host));
    ck_assert_int_eq(port, hosts[_i].port);
}
END_TEST

static const struct {
    const char *uri, *vhost; /* NULL: refused */
} uris[] = {
    {"amqp://localhost", "/"},       {"amqp://localhost/", "/"},        {"amqps://u@h:5671/shop", "shop"},
    {"amqp://u:secret@h/%2f", "/"},  {"amqp://[::1]:5672/x", "x"},      {"http://localhost", NULL},
    {"amqp://h/a/b:secret", NULL},   {"amqp://u:secret@h:99999", NULL}, {"amqp://u:secret@h?x=1", NULL},
    {"amqp://u:secret@h:0", NULL},
};

START_TEST(a_uri_is_checked_without_being_shown) {
    const struct option *option = rabbitmq_connection_table;
    ck_assert_str_eq(option->key, "uri");
    int r = option->check(span_of(uris[_i].uri), &error);
    ck_assert_msg(r == (uris[_i].vhost ? 0 : -EINVAL), "%s gave %d", uris[_i].uri, r);
    if (r < 0) {
        ck_assert_ptr_null(strstr(error.text, "secret"));
        return;
    }
    CLEANUP(cleanup_free) char *vhost = rabbitmq_vhost(uris[_i].uri);
    ck_assert_str_eq(vhost, uris[_i].vhost);
}
END_TEST

START_TEST(a_certificate_needs_its_key) {
    struct rabbitmq_connection c = {.tls_cert_file = (char *)"cert.pem"};
    const char *key = NULL;
    ck_assert_int_eq(rabbitmq_connection_check(&c, &key, &error), -EINVAL);
    ck_assert_str_eq(key, "tls.cert_file");
    ck_assert_ptr_nonnull(strstr(error.text, "tls.key_file"));
    c.tls_key_file = (char *)"key.pem";
    ck_assert_int_eq(rabbitmq_connection_check(&c, &key, &error), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rabbitmq_message");
    TCase *cases = tcase_create("rabbitmq_message");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, it_is_mandatory_persistent_and_named);
    tcase_add_test(cases, its_size_is_what_the_library_would_write);
    tcase_add_test(cases, an_id_too_long_for_its_property_stands_in_its_header_only);
    tcase_add_test(cases, the_default_exchange_is_taken_and_none_is_not);
    tcase_add_test(cases, what_is_too_large_is_said_with_its_size);
    tcase_add_test(cases, a_destination_overrides_how_it_is_bound);
    tcase_add_test(cases, nothing_is_allocated_in_steady_state);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    tcase_add_test(cases, a_sink_that_can_not_be_made_leaves_nothing_behind);
    tcase_add_test(cases, a_message_that_came_back_is_known_by_its_tag);
    tcase_add_loop_test(cases, a_foreign_tag_is_nobodys, 0, (int)ARRAY_LENGTH(foreign_tags));
    tcase_add_loop_test(cases, a_host_may_have_a_port, 0, (int)ARRAY_LENGTH(hosts));
    tcase_add_loop_test(cases, a_uri_is_checked_without_being_shown, 0, (int)ARRAY_LENGTH(uris));
    tcase_add_test(cases, a_certificate_needs_its_key);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
