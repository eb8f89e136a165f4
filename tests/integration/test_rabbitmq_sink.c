/* test_rabbitmq_sink: the RabbitMQ sink against a broker of its own, in all its moods */
#include "unit/unit.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "integration/broker.h"
#include "sink/rabbitmq_options.h"
#include "unit/sink_contract.h"

static struct rabbitmq_connection connection;
static struct rabbitmq_sink_options options;
static struct contract contract;
static struct destination to;
static struct rig rig, other; /* large */

static const struct destination *at(const char *exchange, const char *key) {
    to.literal = 1U << RABBITMQ_EXCHANGE;
    to.fields[RABBITMQ_EXCHANGE] = span_of(exchange);
    to.fields[RABBITMQ_ROUTING_KEY] = span_of(key);
    return &to;
}

static void set_up(void) {
    connection = (struct rabbitmq_connection){
        .uri = broker.uri,
        .heartbeat_us = 30 * CLOCK_US_PER_S,
        .connect_timeout_us = 10 * CLOCK_US_PER_S,
        .tls_ca_file = broker.ca_file,
    };
    options = (struct rabbitmq_sink_options){
        .common = {.ack_timeout_us = 20 * CLOCK_US_PER_S, .max_message_bytes = 2 * 1024 * 1024}};
    contract = (struct contract){
        .kind = sink_kind_find(SPAN_LITERAL("rabbitmq")),
        .connection = &connection,
        .options = &options.common,
        .destination = at("", "kept"),
        .in_flight = 200,
    };
}

static void tear_down(void) {
    if (rig.sink)
        rig_close(&rig);
    if (other.sink)
        rig_close(&other);
    rig.sink = other.sink = NULL;
}

static void connect_sink(void) {
    rig_open(&rig, &contract);
    rig_until(&rig, rig_connected, 30, "connected");
}

static struct sink_view view(void) {
    struct sink_view v;
    contract.kind->view(rig.sink, &v);
    return v;
}

static bool is_down(const struct rig *r) {
    return !rig_connected(r);
}
static bool is_blocked(const struct rig *r) {
    (void)r;
    return view().blocked;
}
static bool is_unblocked(const struct rig *r) {
    (void)r;
    return !view().blocked;
}
static bool is_ready(const struct rig *r) {
    return r->sink->kind->ready(r->sink);
}
static bool has_failed(const struct rig *r) {
    return is_down(r) && view().down_reason != NULL;
}

static void fill(char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)('a' + i % 26);
}

START_TEST(the_contract_is_kept) {
    connection.uri = _i < contract_clause_count ? broker.uri : broker.uri_tls;
    contract_clauses[_i % contract_clause_count].check(&contract);
}
END_TEST

/* What arrives. ---------------------------------------------------------- */

START_TEST(an_event_arrives_with_all_that_belongs_to_it) {
    broker_queue("arrives", "");
    broker_exchange("orders", "topic");
    broker_bind("arrives", "orders", "order.#");
    connect_sink();
    rig_event(&rig, SPAN_LITERAL("hello"));
    at("orders", "order.paid");
    to.headers[0] = (struct destination_header){SPAN_LITERAL("tenant"), SPAN_LITERAL("acme")};
    to.header_count = 1;
    rig_publish(&rig, 1);
    to.header_count = 0;
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], 1);

    CLEANUP(broker_message_done) struct broker_message m;
    ck_assert(broker_get("arrives", &m));
    ck_assert(span_is(m.exchange, "orders"));
    ck_assert(span_is(m.routing_key, "order.paid"));
    ck_assert(span_is(m.content_type, "text/plain"));
    ck_assert(span_is(m.message_id, "id-1"));
    ck_assert_int_eq(m.delivery_mode, 2);
    ck_assert(span_is(m.body, "hello"));
    ck_assert(span_is(broker_header(&m, "cloudEvents_specversion"), "1.0"));
    ck_assert(span_is(broker_header(&m, "cloudEvents_id"), "id-1"));
    ck_assert(span_is(broker_header(&m, "cloudEvents_type"), "com.acme.order"));
    ck_assert(span_is(broker_header(&m, "tenant"), "acme"));
    ck_assert(span_is(broker_header(&m, "x-penstock-tag"), "1"));
}
END_TEST

START_TEST(a_large_body_arrives_whole) {
    static const size_t sizes[] = {0, 1, 35000, 131064, 131065, 1000000, 2097152};
    broker_queue("large", "");
    connect_sink();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        CLEANUP(cleanup_free) char *data = malloc(sizes[i] + 1);
        fill(data, sizes[i]);
        rig_event(&rig, (struct span){data, sizes[i]});
        at("", "large");
        rig_publish(&rig, 1);
        rig_until(&rig, rig_all_answered, 20, "answered");
        CLEANUP(broker_message_done) struct broker_message m;
        ck_assert(broker_get("large", &m));
        ck_assert(span_equal(m.body, ((struct span){data, sizes[i]})));
    }
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], ARRAY_LENGTH(sizes));
    ck_assert_uint_eq(view().reconnects, 0);
}
END_TEST

/* What can't be routed. -------------------------------------------------- */

START_TEST(each_return_finds_its_own_event) {
    static const size_t sizes[] = {0, 10, 300000};
    broker_queue("routed", "");
    CLEANUP(cleanup_free) char *data = malloc(300000);
    fill(data, 300000);
    connect_sink();
    for (uint64_t i = 0; i < 150; i++) {
        rig_event(&rig, (struct span){data, sizes[i % 3]});
        at("", i % 2 ? "routed" : "nowhere");
        rig_publish(&rig, 1);
    }
    rig_until(&rig, rig_all_answered, 30, "answered");
    for (uint64_t i = 0; i < 150; i++)
        ck_assert_msg(rig.last[i] == (i % 2 ? SINK_CONFIRMED : SINK_RETURNED), "token %" PRIu64 ": outcome %d", i, rig.last[i]);
    ck_assert_str_eq(rig.reason, "NO_ROUTE (312), exchange '', routing key 'nowhere'");
    broker_queue("nowhere", "");
    rig_publish(&rig, 1);
    at("", "nowhere");
    rig_publish(&rig, 1);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_int_eq(rig.last[151], SINK_CONFIRMED);
    broker_queue_delete("nowhere");
    broker_queue_delete("routed");
}
END_TEST

/* Submits to it again and again, as a forwarder does, until it is confirmed. */
static void until_taken(const char *exchange, int seconds) {
    int64_t deadline_us = clock_now_us() + seconds * CLOCK_US_PER_S;
    uint64_t confirmed = rig.by_kind[SINK_CONFIRMED];
    while (rig.by_kind[SINK_CONFIRMED] == confirmed) {
        ck_assert_msg(clock_now_us() < deadline_us, "%s was not taken in %d s: %s", exchange, seconds, rig.refusal.text);
        (void)!rig_submit_to(&rig, at(exchange, "key"));
        contract.kind->flush(rig.sink);
        rig_turn(&rig, clock_now_us() + 50000);
        rig_until(&rig, rig_all_answered, 10, "answered");
    }
}

START_TEST(a_missing_exchange_is_not_spun_on_and_found_when_it_appears) {
    connect_sink();
    rig_publish(&rig, 20);
    ck_assert_int_eq(rig_submit_to(&rig, at("not-yet", "key")), 0);
    at("", "kept");
    rig_publish(&rig, 20);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_int_eq(rig.last[20], SINK_LOST);
    ck_assert_ptr_nonnull(strstr(rig.reason, "no exchange 'not-yet' in vhost '/' (404)"));
    ck_assert_msg(rig_connected(&rig), "the connection outlives the channel");

    /* Refused without a byte on the wire, while others go on. */
    rig_until(&rig, is_ready, 10, "ready");
    ck_assert_int_eq(rig_submit_to(&rig, at("not-yet", "key")), SINK_E_RETRY);
    ck_assert_ptr_nonnull(strstr(rig.refusal.text, "no exchange 'not-yet'"));
    uint64_t lost = rig.by_kind[SINK_LOST];
    int64_t until_us = clock_now_us() + 2500000; /* two probes */
    while (clock_now_us() < until_us) {
        at("", "kept");
        rig_publish(&rig, 10);
        rig_until(&rig, rig_all_answered, 10, "answered");
        ck_assert_int_eq(rig_submit_to(&rig, at("not-yet", "key")), SINK_E_RETRY);
    }
    ck_assert_uint_eq(rig.by_kind[SINK_LOST], lost);

    broker_exchange("not-yet", "fanout");
    broker_queue("late", "");
    broker_bind("late", "not-yet", "");
    until_taken("not-yet", 10);
    ck_assert_uint_eq(broker_count("late"), 1);
    ck_assert_uint_eq(view().reconnects, 0);
    broker_exchange_delete("not-yet");
}
END_TEST

START_TEST(many_missing_exchanges_are_each_learned_once) {
    char name[32];
    connect_sink();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++) {
            snprintf(name, sizeof name, "missing-%d", i);
            rig_until(&rig, is_ready, 10, "ready");
            (void)!rig_submit_to(&rig, at(name, "key"));
            contract.kind->flush(rig.sink);
            rig_until(&rig, rig_all_answered, 10, "answered");
        }
    }
    ck_assert_uint_eq(rig.accepted, 10);
    ck_assert_uint_eq(rig.by_kind[SINK_LOST], 10);
    /* Tags have started again at 1, returns still find their events. */
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(rig_submit_to(&rig, at("", i % 2 ? "kept" : "nowhere")), 0);
    rig_until(&rig, rig_all_answered, 10, "answered");
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(rig.last[10 + i], i % 2 ? SINK_CONFIRMED : SINK_RETURNED);
    ck_assert_str_eq(rig.reason, "NO_ROUTE (312), exchange '', routing key 'nowhere'");
}
END_TEST

START_TEST(a_name_that_the_broker_cuts_is_known_by_its_beginning) {
    char name[256];
    fill(name, 255);
    name[255] = '\0';
    connect_sink();
    ck_assert_int_eq(rig_submit_to(&rig, at(name, "key")), 0);
    rig_until(&rig, rig_all_answered, 10, "answered");
    rig_until(&rig, is_ready, 10, "ready");
    ck_assert_int_eq(rig_submit_to(&rig, at(name, "key")), SINK_E_RETRY);
    broker_exchange(name, "fanout");
    broker_queue("cut", "");
    broker_bind("cut", name, "");
    until_taken(name, 10);
    broker_exchange_delete(name);
}
END_TEST

/* As one that may configure nothing. */
static void connect_as_user(const char *user, const char *write, const char *read) {
    static char uri[128];
    snprintf(uri, sizeof uri, "amqp://%s:secret@127.0.0.1:%d", user, broker.port);
    broker_do("ctl", "add_user", user, "secret", NULL);
    broker_do("ctl", "set_permissions", user, "", write, read, NULL);
    connection.uri = uri;
}

START_TEST(a_forbidden_exchange_is_refused_in_the_brokers_words) {
    connect_as_user("limited", "^amq.default$", "");
    connect_sink();
    ck_assert_int_eq(rig_submit_to(&rig, at("amq.topic", "key")), 0);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_LOST], 1);
    rig_until(&rig, is_ready, 10, "ready");
    ck_assert_int_eq(rig_submit_to(&rig, at("amq.topic", "key")), SINK_E_RETRY);
    ck_assert_ptr_nonnull(strstr(rig.refusal.text, "ACCESS_REFUSED"));
    ck_assert_ptr_nonnull(strstr(rig.refusal.text, "amq.topic"));
    at("", "kept");
    rig_publish(&rig, 5);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], 5);
}
END_TEST

/* What the sink itself refuses. ------------------------------------------ */

START_TEST(what_is_too_long_is_rejected_before_the_wire) {
    char key[257];
    fill(key, 256);
    key[256] = '\0';
    connect_sink();
    ck_assert_int_eq(rig_submit_to(&rig, at("", key)), SINK_E_REJECTED);
    ck_assert_str_eq(rig.refusal.text, "its routing key is 256 bytes; 255 are allowed");
    ck_assert_int_eq(rig_submit_to(&rig, at(key, "")), SINK_E_REJECTED);
    ck_assert_str_eq(rig.refusal.text, "its exchange is 256 bytes; 255 are allowed");
    to.headers[0] = (struct destination_header){{key, 256}, SPAN_LITERAL("value")};
    to.header_count = 1;
    ck_assert_int_eq(rig_submit_to(&rig, at("", "kept")), SINK_E_REJECTED);
    ck_assert_str_eq(rig.refusal.text, "the name of one of its headers is 256 bytes; 255 are allowed");
    to.headers[0].name.len = 255;
    ck_assert_int_eq(rig_submit_to(&rig, at("", "kept")), 0);
    to.header_count = 0;
    key[255] = '\0';
    ck_assert_int_eq(rig_submit_to(&rig, at("", key)), 0);
    contract.kind->flush(rig.sink);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_int_eq(rig.last[0], SINK_CONFIRMED);
    ck_assert_int_eq(rig.last[1], SINK_RETURNED);
}
END_TEST

START_TEST(headers_fill_a_frame_to_the_last_byte_and_not_beyond) {
    CLEANUP(cleanup_free) char *value = malloc(200000);
    fill(value, 200000);
    connect_sink();
    to.header_count = 1;
    to.headers[0] = (struct destination_header){SPAN_LITERAL("big"), {value, 200000}};
    ck_assert_int_eq(rig_submit_to(&rig, at("", "kept")), SINK_E_REJECTED);
    size_t encoded = 0;
    static const char said[] = "its headers frame (attributes and headers together) is %zu bytes; 131072 are allowed";
    ck_assert_int_eq(sscanf(rig.refusal.text, said, &encoded), 1);
    size_t fits = 200000 - (encoded - 131072);
    to.headers[0].value.len = fits + 1;
    ck_assert_int_eq(rig_submit_to(&rig, at("", "kept")), SINK_E_REJECTED);
    to.headers[0].value.len = fits;
    ck_assert_int_eq(rig_submit_to(&rig, at("", "kept")), 0);
    to.header_count = 0;
    rig_publish(&rig, 10);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], 11);
    ck_assert_uint_eq(view().reconnects, 0);
}
END_TEST

START_TEST(a_full_queue_nacks_and_the_channel_is_kept) {
    broker_queue("full", "x-max-length=1,x-overflow=reject-publish");
    connect_sink();
    at("", "full");
    rig_publish(&rig, 50);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_ge(rig.by_kind[SINK_NACKED], 40);
    ck_assert_uint_eq(rig.by_kind[SINK_NACKED] + rig.by_kind[SINK_CONFIRMED], 50);
    ck_assert_ptr_nonnull(strstr(rig.reason, "basic.nack"));
    at("", "kept");
    rig_publish(&rig, 1);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_int_eq(rig.last[50], SINK_CONFIRMED);
    ck_assert_uint_eq(view().reconnects, 0);
}
END_TEST

/* The broker's moods. ---------------------------------------------------- */

static void publish_again(void) {
    rig_until(&rig, rig_connected, 60, "connected again");
    uint64_t confirmed = rig.by_kind[SINK_CONFIRMED];
    at("", "kept");
    rig_publish(&rig, 50);
    rig_until(&rig, rig_all_answered, 30, "answered");
    ck_assert_uint_ge(rig.by_kind[SINK_CONFIRMED], confirmed + 50);
}

START_TEST(a_broker_that_stops_or_dies_loses_nothing_and_is_found_again) {
    const char *verb = _i == 0 ? "stop" : "kill";
    connect_sink();
    rig_publish(&rig, 150);
    broker_do(verb, NULL);
    rig_until(&rig, is_down, 10, "down");
    rig_until(&rig, rig_all_answered, 5, "answered");
    ck_assert_ptr_nonnull(view().down_reason);
    if (_i == 0)
        ck_assert_ptr_nonnull(strstr(view().down_reason, "CONNECTION_FORCED"));
    int64_t until_us = clock_now_us() + 500000;
    while (clock_now_us() < until_us)
        rig_turn(&rig, until_us);
    ck_assert_int_eq(rig_submit(&rig), SINK_E_DOWN);
    ck_assert_ptr_nonnull(strstr(view().down_reason, "can't connect"));
    broker_start();
    publish_again();
    ck_assert_uint_eq(view().reconnects, 1);
}
END_TEST

/* As many as the sink takes, for so long; the longest call of it. */
static int64_t press(int64_t for_us) {
    int64_t until_us = clock_now_us() + for_us, longest_us = 0;
    while (clock_now_us() < until_us) {
        int64_t before_us = clock_now_us();
        int result = rig_submit(&rig);
        contract.kind->flush(rig.sink);
        int64_t took_us = clock_now_us() - before_us;
        longest_us = took_us > longest_us ? took_us : longest_us;
        if (result != 0)
            rig_turn(&rig, until_us);
    }
    return longest_us;
}

START_TEST(a_memory_alarm_blocks_without_hanging_and_passes) {
    CLEANUP(cleanup_free) char *data = malloc(20000);
    fill(data, 20000);
    options.common.ack_timeout_us = 1000000; /* stands still meanwhile */
    contract.in_flight = 5000;
    connect_sink();
    rig_event(&rig, (struct span){data, 20000});
    broker_do("ctl", "set_vm_memory_high_watermark", "0.00001", NULL);
    int64_t longest_us = press(1000000);
    rig_until(&rig, is_blocked, 10, "blocked");
    ck_assert_str_eq(view().blocked_reason, "it has told us to stop publishing: low on memory");
    ck_assert_str_eq(view().blocked_ends, "when its alarm ends");
    ck_assert_int_eq(rig_submit(&rig), SINK_E_BUSY);
    int64_t more_us = press(2500000);
    ck_assert(view().blocked);
    broker_do("ctl", "set_vm_memory_high_watermark", "0.4", NULL);
    rig_until(&rig, is_unblocked, 20, "unblocked");
    rig_until(&rig, rig_all_answered, 30, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], rig.accepted);
    ck_assert_uint_eq(view().reconnects, 0);
    longest_us = more_us > longest_us ? more_us : longest_us;
    printf("longest call under the alarm: %.1f ms\n", (double)longest_us / 1000);
    ck_assert_int_lt(longest_us, 500000);
}
END_TEST

START_TEST(a_large_body_waits_through_an_alarm_without_hanging) {
    CLEANUP(cleanup_free) char *data = malloc(2000000);
    fill(data, 2000000);
    options.common.ack_timeout_us = 1000000;
    connect_sink();
    rig_event(&rig, (struct span){data, 2000000});
    broker_do("ctl", "set_vm_memory_high_watermark", "0.00001", NULL);
    int64_t longest_us = press(1500000);
    broker_do("ctl", "set_vm_memory_high_watermark", "0.4", NULL);
    rig_until(&rig, is_unblocked, 20, "unblocked");
    rig_until(&rig, rig_all_answered, 30, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], rig.accepted);
    ck_assert_uint_eq(view().reconnects, 0);
    ck_assert_int_lt(longest_us, 500000);
}
END_TEST

START_TEST(a_frozen_broker_is_noticed_by_its_silence) {
    CLEANUP(cleanup_free) char *data = malloc(20000);
    fill(data, 20000);
    connection.heartbeat_us = CLOCK_US_PER_S;
    options.common.ack_timeout_us = 60 * CLOCK_US_PER_S;
    contract.in_flight = 5000;
    connect_sink();
    rig_event(&rig, (struct span){data, 20000});
    broker_freeze(true);
    int64_t longest_us = press(1000000);
    rig_until(&rig, is_down, 6, "down");
    rig_until(&rig, rig_all_answered, 5, "answered");
    broker_freeze(false);
    ck_assert_ptr_nonnull(strstr(rig.reason, "heartbeat"));
    ck_assert_uint_eq(rig.by_kind[SINK_LOST], rig.accepted);
    printf("longest call to a frozen broker: %.1f ms\n", (double)longest_us / 1000);
    ck_assert_int_lt(longest_us, 500000);
    rig_event(&rig, SPAN_LITERAL("small"));
    publish_again();
}
END_TEST

START_TEST(an_idle_connection_is_kept_by_heartbeats) {
    connection.heartbeat_us = CLOCK_US_PER_S;
    connection.uri = _i == 0 ? broker.uri : broker.uri_tls;
    connect_sink();
    int64_t until_us = clock_now_us() + 5 * CLOCK_US_PER_S;
    int turns = 0;
    while (clock_now_us() < until_us) {
        rig_turn(&rig, until_us);
        turns++;
        ck_assert_msg(rig_connected(&rig), "%s", view().down_reason);
    }
    ck_assert_int_lt(turns, 50);
    rig_publish(&rig, 1);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], 1);
}
END_TEST

START_TEST(a_confirm_that_does_not_come_renews_the_connection) {
    options.common.ack_timeout_us = 500000;
    connect_sink();
    broker_freeze(true);
    rig_publish(&rig, 10);
    rig_until(&rig, is_down, 5, "down");
    rig_until(&rig, rig_all_answered, 5, "answered");
    broker_freeze(false);
    ck_assert_uint_eq(rig.by_kind[SINK_LOST], 10);
    ck_assert_ptr_nonnull(strstr(rig.reason, "ack_timeout (0.5 s)"));
    options.common.ack_timeout_us = 20 * CLOCK_US_PER_S;
    publish_again();
}
END_TEST

START_TEST(a_quorum_queue_deleted_under_load_leaves_no_token_open) {
    options.common.ack_timeout_us = 2000000;
    broker_queue("quorum", "x-queue-type=quorum");
    connect_sink();
    at("", "quorum");
    rig_publish(&rig, 2000);
    for (int i = 0; i < 150; i++)
        ck_assert_int_ne(rig_submit(&rig), SINK_E_REJECTED);
    contract.kind->flush(rig.sink);
    broker_queue_delete("quorum");
    rig_until(&rig, rig_all_answered, 20, "answered");
    publish_again();
}
END_TEST

/* Connecting. ------------------------------------------------------------ */

START_TEST(tls_is_verified) {
    char wrong_host[128];
    connection.uri = broker.uri_tls;
    connect_sink();
    rig_publish(&rig, 100);
    rig_until(&rig, rig_all_answered, 20, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], 100);
    tear_down();

    connection.tls_ca_file = (char *)"/etc/ssl/certs/ca-certificates.crt";
    rig_open(&rig, &contract);
    rig_until(&rig, has_failed, 20, "refused for its certificate");
    ck_assert_msg(strstr(view().down_reason, "cert verification failed"), "%s", view().down_reason);
    tear_down();

    connection.tls_ca_file = (char *)"/nonexistent.pem";
    rig_open(&rig, &contract);
    rig_until(&rig, has_failed, 20, "refused for its CA file");
    ck_assert_msg(strstr(view().down_reason, "tls.ca_file"), "%s", view().down_reason);
    tear_down();

    connection.tls_ca_file = broker.ca_file;
    snprintf(wrong_host, sizeof wrong_host, "amqps://guest:guest@127.0.0.1:%d", broker.tls_port);
    connection.uri = wrong_host;
    rig_open(&rig, &contract);
    rig_until(&rig, has_failed, 20, "refused for its name");
    ck_assert_msg(strstr(view().down_reason, "hostname"), "%s", view().down_reason);
}
END_TEST

START_TEST(a_large_body_goes_through_tls) {
    CLEANUP(cleanup_free) char *data = malloc(2000000);
    fill(data, 2000000);
    connection.uri = broker.uri_tls;
    broker_queue("large-tls", "");
    connect_sink();
    rig_event(&rig, (struct span){data, 2000000});
    at("", "large-tls");
    rig_publish(&rig, 10);
    rig_until(&rig, rig_all_answered, 30, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], 10);
    CLEANUP(broker_message_done) struct broker_message m;
    ck_assert(broker_get("large-tls", &m));
    ck_assert(span_equal(m.body, ((struct span){data, 2000000})));
    broker_queue_delete("large-tls");
}
END_TEST

START_TEST(what_was_gathered_when_it_goes_down_is_not_waited_for) {
    connection.uri = _i == 0 ? broker.uri : broker.uri_tls;
    connect_sink();
    ck_assert_int_eq(rig_submit(&rig), 0);
    ck_assert_int_eq(contract.kind->deadline(rig.sink), 0);
    contract.kind->renew(rig.sink, clock_now_us(), "a test wants it");
    rig_until(&rig, rig_all_answered, 5, "answered");
    ck_assert_int_gt(contract.kind->deadline(rig.sink), 0);
}
END_TEST

/* G12. What lies in the socket is answered, gathered by TLS or flushed by us; what does not, never gets there. */
static void fence_after(int submitted, bool flush, enum sink_outcome_kind expected) {
    unsigned before = broker_count("fenced");
    uint64_t answers = rig.by_kind[expected], accepted = rig.accepted;
    while (submitted-- > 0 && rig_submit_to(&rig, at("", "fenced")) == 0)
        ;
    ck_assert_uint_gt(rig.accepted, accepted);
    accepted = rig.accepted - accepted;
    if (flush)
        contract.kind->flush(rig.sink);
    contract.kind->fence(rig.sink, clock_now_us(), "a test wants it");
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(rig.by_kind[expected], answers + accepted);
    rig_until(&rig, rig_connected, 10, "connected");
    if (expected == SINK_CONFIRMED)
        ck_assert_uint_eq(broker_count("fenced"), before + accepted);
}

START_TEST(a_fence_keeps_back_what_no_socket_has) {
    broker_queue("fenced", "");
    connect_sink();
    fence_after(1, true, SINK_CONFIRMED);
    ck_assert_uint_eq(view().reconnects, 0);
    fence_after(1, false, SINK_LOST);
    ck_assert_uint_eq(view().reconnects, 1);
    ck_assert_uint_eq(broker_count("fenced"), 1);
    broker_queue_delete("fenced");
}
END_TEST

START_TEST(a_fence_keeps_back_what_no_tls_socket_has) {
    CLEANUP(cleanup_free) char *data = malloc(2000000);
    fill(data, 2000000);
    connection.uri = broker.uri_tls;
    broker_queue("fenced", "");
    connect_sink();
    fence_after(1, false, SINK_CONFIRMED);
    ck_assert_uint_eq(view().reconnects, 0);
    rig_event(&rig, (struct span){data, 2000000});
    fence_after(100, false, SINK_LOST); /* until the last body is in the way */
    ck_assert_uint_lt(rig.accepted, 100);
    ck_assert_uint_eq(view().reconnects, 1);
    ck_assert_uint_lt(broker_count("fenced"), rig.accepted); /* the last one was kept back */
    broker_queue_delete("fenced");
}
END_TEST

START_TEST(hosts_are_tried_in_turn) {
    char good[64];
    char *hosts[] = {(char *)"127.0.0.1:1", (char *)"[::1]:1", good};
    snprintf(good, sizeof good, "127.0.0.1:%d", broker.port);
    connection.hosts = (struct option_texts){.items = hosts, .count = 3};
    connect_sink();
    rig_publish(&rig, 1);
    rig_until(&rig, rig_all_answered, 10, "answered");
}
END_TEST

START_TEST(a_wrong_password_is_said_without_it) {
    connection.password = (struct secret){.kind = SECRET_INLINE, .value = (char *)"hunter2"};
    rig_open(&rig, &contract);
    rig_until(&rig, has_failed, 20, "refused");
    ck_assert_ptr_nonnull(strstr(view().down_reason, "ACCESS_REFUSED"));
    ck_assert_ptr_null(strstr(view().down_reason, "hunter2"));
    ck_assert_ptr_null(strstr(view().down_reason, "guest"));
    /* It is read anew at each attempt. */
    connection.password.value = (char *)"guest";
    rig_until(&rig, rig_connected, 20, "connected");
}
END_TEST

/* The exclusive queue. --------------------------------------------------- */

static struct sink_view view_of(const struct rig *r) {
    struct sink_view v;
    contract.kind->view(r->sink, &v);
    return v;
}
static bool is_elsewhere(const struct rig *r) {
    return view_of(r).elsewhere;
}

static void open_leading(struct rig *r) {
    options.lease_queue = (char *)"only one";
    rig_open(r, &contract);
    contract.kind->lead(r->sink, clock_now_us(), true);
}

START_TEST(the_queue_lets_one_connection_publish_and_the_next_when_it_is_gone) {
    open_leading(&rig);
    rig_until(&rig, rig_connected, 10, "connected");
    open_leading(&other);
    rig_until(&other, is_elsewhere, 10, "elsewhere");
    ck_assert(!view_of(&other).connected);
    ck_assert_msg(strstr(view_of(&other).down_reason, "the queue 'only one' belongs to another connection"), "%s",
                  view_of(&other).down_reason);
    ck_assert_int_le(view_of(&other).next_attempt_us, clock_now_us() + CLOCK_US_PER_S);
    ck_assert_int_eq(rig_submit(&other), SINK_E_DOWN);
    rig_publish(&rig, 5);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], 5);
    rig_submit(&rig);
    contract.kind->lead(rig.sink, clock_now_us(), false);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert(!view_of(&rig).connected);
    ck_assert_ptr_null(view_of(&rig).down_reason);
    rig_until(&other, rig_connected, 10, "connected");
    ck_assert(!view_of(&other).elsewhere);
    ck_assert_int_eq(contract.kind->deadline(rig.sink), CLOCK_NEVER);
    contract.kind->lead(rig.sink, clock_now_us(), true);
    rig_until(&rig, is_elsewhere, 10, "elsewhere");
    rig_close(&other);
    other.sink = NULL;
    rig_until(&rig, rig_connected, 10, "connected");
}
END_TEST

START_TEST(whoever_only_looks_leaves_the_queue_alone) {
    open_leading(&rig);
    rig_until(&rig, rig_connected, 10, "connected");
    rig_open(&other, &contract);
    rig_until(&other, rig_connected, 10, "connected");
}
END_TEST

START_TEST(without_a_queue_nobody_is_kept_out) {
    connect_sink();
    contract.kind->lead(rig.sink, clock_now_us(), false);
    ck_assert(rig_connected(&rig));
}
END_TEST

START_TEST(a_queue_that_may_not_be_made_is_said_as_that) {
    connect_as_user("noconfigure", ".*", ".*");
    open_leading(&rig);
    rig_until(&rig, has_failed, 10, "refused");
    ck_assert(!view().elsewhere);
    ck_assert_msg(strstr(view().down_reason, "'only one' can't be declared (give the user the right to configure it"), "%s",
                  view().down_reason);
    ck_assert_ptr_nonnull(strstr(view().down_reason, "ACCESS_REFUSED"));
    broker_do("ctl", "set_permissions", "noconfigure", "^only one$", ".*", ".*", NULL);
    rig_until(&rig, rig_connected, 20, "connected");
}
END_TEST

/* RESOURCE_LOCKED too, but nobody will ever let go of it. */
START_TEST(a_queue_that_is_there_for_all_is_no_standby) {
    broker_queue("only one", "");
    open_leading(&rig);
    rig_until(&rig, has_failed, 10, "refused");
    ck_assert(!view().elsewhere);
    ck_assert_msg(strstr(view().down_reason, "not exclusive"), "%s", view().down_reason);
    broker_queue_delete("only one");
    rig_until(&rig, rig_connected, 20, "connected");
}
END_TEST

START_TEST(the_queue_takes_no_event) {
    open_leading(&rig);
    rig_until(&rig, rig_connected, 10, "connected");
    ck_assert_int_eq(rig_submit_to(&rig, at("", "only one")), 0);
    contract.kind->flush(rig.sink);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_NACKED], 1);
}
END_TEST

START_TEST(a_virtual_host_that_is_missing_is_said) {
    char uri[128];
    snprintf(uri, sizeof uri, "amqp://guest:guest@127.0.0.1:%d/elsewhere", broker.port);
    connection.uri = uri;
    rig_open(&rig, &contract);
    rig_until(&rig, has_failed, 20, "refused");
    ck_assert_msg(strstr(view().down_reason, "vhost elsewhere not found"), "%s", view().down_reason);
}
END_TEST

/* Figures. --------------------------------------------------------------- */

START_TEST(a_thousand_in_flight_are_fast) {
    static const char *const types[] = {"classic", "quorum"};
    char data[500], arguments[64];
    fill(data, sizeof data);
    contract.in_flight = 1000;
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        snprintf(arguments, sizeof arguments, "x-queue-type=%s", types[i]);
        broker_queue("fast", arguments);
        connect_sink();
        rig_event(&rig, (struct span){data, sizeof data});
        at("", "fast");
        int64_t start_us = clock_now_us();
        clock_t cpu = clock();
        rig_publish(&rig, 40000);
        rig_until(&rig, rig_all_answered, 30, "answered");
        double seconds = (double)(clock_now_us() - start_us) / 1e6;
        printf("%s: %.0f events/s with 1,000 in flight, %.1f us of our CPU each\n", types[i], 40000 / seconds,
               (double)(clock() - cpu) / CLOCKS_PER_SEC * 1e6 / 40000);
        ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], 40000);
        tear_down();
        broker_queue_delete("fast");
    }
}
END_TEST

static void start_broker(void) {
    broker_start();
    broker_queue("kept", "");
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    Suite *suite = suite_create("rabbitmq_sink");
    TCase *cases = tcase_create("rabbitmq_sink");
    tcase_set_timeout(cases, 180);
    tcase_add_unchecked_fixture(cases, start_broker, broker_clean);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_loop_test(cases, the_contract_is_kept, 0, 2 * contract_clause_count);
    tcase_add_test(cases, an_event_arrives_with_all_that_belongs_to_it);
    tcase_add_test(cases, a_large_body_arrives_whole);
    tcase_add_test(cases, each_return_finds_its_own_event);
    tcase_add_test(cases, a_missing_exchange_is_not_spun_on_and_found_when_it_appears);
    tcase_add_test(cases, many_missing_exchanges_are_each_learned_once);
    tcase_add_test(cases, a_name_that_the_broker_cuts_is_known_by_its_beginning);
    tcase_add_test(cases, a_forbidden_exchange_is_refused_in_the_brokers_words);
    tcase_add_test(cases, what_is_too_long_is_rejected_before_the_wire);
    tcase_add_test(cases, headers_fill_a_frame_to_the_last_byte_and_not_beyond);
    tcase_add_test(cases, a_full_queue_nacks_and_the_channel_is_kept);
    tcase_add_test(cases, a_memory_alarm_blocks_without_hanging_and_passes);
    tcase_add_test(cases, a_large_body_waits_through_an_alarm_without_hanging);
    tcase_add_test(cases, a_quorum_queue_deleted_under_load_leaves_no_token_open);
    tcase_add_test(cases, tls_is_verified);
    tcase_add_test(cases, a_large_body_goes_through_tls);
    tcase_add_loop_test(cases, what_was_gathered_when_it_goes_down_is_not_waited_for, 0, 2);
    tcase_add_test(cases, a_fence_keeps_back_what_no_socket_has);
    tcase_add_test(cases, a_fence_keeps_back_what_no_tls_socket_has);
    tcase_add_test(cases, hosts_are_tried_in_turn);
    tcase_add_test(cases, a_wrong_password_is_said_without_it);
    tcase_add_test(cases, a_virtual_host_that_is_missing_is_said);
    tcase_add_test(cases, the_queue_lets_one_connection_publish_and_the_next_when_it_is_gone);
    tcase_add_test(cases, whoever_only_looks_leaves_the_queue_alone);
    tcase_add_test(cases, without_a_queue_nobody_is_kept_out);
    tcase_add_test(cases, a_queue_that_may_not_be_made_is_said_as_that);
    tcase_add_test(cases, a_queue_that_is_there_for_all_is_no_standby);
    tcase_add_test(cases, the_queue_takes_no_event);
    tcase_add_test(cases, a_thousand_in_flight_are_fast);
    tcase_add_test(cases, a_frozen_broker_is_noticed_by_its_silence);
    tcase_add_loop_test(cases, an_idle_connection_is_kept_by_heartbeats, 0, 2);
    tcase_add_test(cases, a_confirm_that_does_not_come_renews_the_connection);
    tcase_add_loop_test(cases, a_broker_that_stops_or_dies_loses_nothing_and_is_found_again, 0, 2);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
