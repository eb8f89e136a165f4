/* test_kafka: the Kafka sink against librdkafka's mock cluster: the contract, order, failures, what is on the wire */
#include "unit/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/fail_alloc.h"
#include "unit/kafka_rig.h"

static struct kafka_rig kafka;
static struct kafka_drive drive;

static void one_broker(void) {
    kafka_rig_open(&kafka, 1, 50);
}

static void close_broker(void) {
    kafka_rig_close(&kafka);
}

START_TEST(the_contract_is_kept) {
    contract_clauses[_i].check(&kafka.contract);
}
END_TEST

/* What is on the wire. --------------------------------------------------- */

static struct kafka_found found[100];

static size_t publish_one(struct rig *r) {
    rig_publish(r, 1);
    rig_until(r, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(r->by_kind[SINK_CONFIRMED], r->accepted);
    return kafka_rig_consume(&kafka, KAFKA_RIG_TOPIC, found, ARRAY_LENGTH(found));
}

static void open_drive_for_one(void) {
    kafka_drive_open(&drive, &kafka, 1, 1);
}

START_TEST(binary_mode_has_attributes_as_headers) {
    open_drive_for_one();
    kafka.destination.headers[0] = (struct destination_header){SPAN_LITERAL("team"), SPAN_LITERAL("blue")};
    kafka.destination.header_count = 1;
    ck_assert_uint_eq(publish_one(&drive.rig), 1);
    ck_assert_str_eq(found[0].headers, "ce_specversion=1.0;ce_id=id-1;ce_source=/test;ce_type=com.acme.order;"
                                       "content-type=text/plain;team=blue;");
    ck_assert_str_eq(found[0].value, "{\"a\":1}");
    ck_assert(found[0].no_key);
    kafka_drive_close(&drive);
}
END_TEST

START_TEST(structured_mode_has_one_json_document) {
    open_drive_for_one();
    kafka.own.binding.mode = BINDING_STRUCTURED;
    rig_event(&drive.rig, SPAN_LITERAL("x"));
    ck_assert_uint_eq(publish_one(&drive.rig), 1);
    ck_assert_str_eq(found[0].headers, "content-type=application/cloudevents+json;");
    ck_assert_int_eq(found[0].value[0], '{');
    kafka_drive_close(&drive);
}
END_TEST

START_TEST(no_data_is_null_and_empty_data_is_empty) {
    open_drive_for_one();
    ck_assert_int_eq(event_set_data(&drive.rig.event, EVENT_DATA_NONE, SPAN_ABSENT), 0);
    kafka.destination.fields[KAFKA_KEY] = SPAN_LITERAL("same");
    publish_one(&drive.rig);
    ck_assert_int_eq(event_set_data(&drive.rig.event, EVENT_DATA_TEXT, SPAN_LITERAL("")), 0);
    ck_assert_uint_eq(publish_one(&drive.rig), 2);
    ck_assert(found[0].no_value);
    ck_assert(!found[1].no_value);
    ck_assert_str_eq(found[1].value, "");
    kafka_drive_close(&drive);
}
END_TEST

START_TEST(the_key_is_the_destinations_else_partitionkey_else_streamid) {
    open_drive_for_one();
    struct event *e = &drive.rig.event;
    kafka.own.partition = 2;
    publish_one(&drive.rig);
    ck_assert_int_eq(event_set_extension(e, SPAN_LITERAL("streamid"), ATTRIBUTE_STRING, SPAN_LITERAL("s-1")), 0);
    event_make_internal(e, SPAN_LITERAL("streamid"));
    publish_one(&drive.rig);
    ck_assert_int_eq(event_set_extension(e, SPAN_LITERAL("partitionkey"), ATTRIBUTE_STRING, SPAN_LITERAL("p-1")), 0);
    publish_one(&drive.rig);
    kafka.destination.fields[KAFKA_KEY] = SPAN_LITERAL("");
    publish_one(&drive.rig);
    kafka.destination.fields[KAFKA_KEY] = SPAN_LITERAL("d-1");
    ck_assert_uint_eq(publish_one(&drive.rig), 5);
    ck_assert(found[0].no_key);
    ck_assert_str_eq(found[1].key, "s-1");
    ck_assert_str_eq(found[2].key, "p-1");
    ck_assert(!found[3].no_key);
    ck_assert_str_eq(found[3].key, "");
    ck_assert_str_eq(found[4].key, "d-1");
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(found[i].partition, 2);
    kafka_drive_close(&drive);
}
END_TEST

/* Refused before it is sent. --------------------------------------------- */

static int submit_to(const char *topic) {
    kafka.destination.fields[KAFKA_TOPIC] = span_of(topic);
    kafka.destination.literal = 0;
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    int result;
    while ((result = rig_submit(&drive.rig)) == SINK_E_BUSY) {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        rig_turn(&drive.rig, deadline_us);
    }
    return result;
}

/* As a forwarder does: a machine that is busy may take longer for a look, or for a partition's first confirm, than
 * everything waits for it, and that wait has become shorter by one that was in vain. */
static void submit_again_and_again(const char *topic) {
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    int result;
    while ((result = submit_to(topic)) == SINK_E_RETRY) {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        rig_turn(&drive.rig, clock_now_us() + 20 * CLOCK_US_PER_MS);
    }
    ck_assert_int_eq(result, 0);
}

/* It takes connections and says nothing. */
static int listen_silently(int *ret_port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, len), 0);
    ck_assert_int_eq(listen(fd, 10), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

START_TEST(no_topic_can_have_that_name) {
    open_drive_for_one();
    ck_assert_int_eq(submit_to("to pic"), SINK_E_REJECTED);
    ck_assert_int_eq(drive.rig.refusal.class, ERROR_PERMANENT);
    ck_assert_int_eq(submit_to(""), SINK_E_REJECTED);
    ck_assert_int_eq(submit_to(".."), SINK_E_REJECTED);
    kafka_drive_close(&drive);
}
END_TEST

START_TEST(a_missing_topic_is_tried_again_and_harms_no_other) {
    rd_kafka_mock_topic_set_error(kafka.mock, "gone", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    open_drive_for_one();
    ck_assert_int_eq(submit_to("gone"), SINK_E_RETRY);
    ck_assert_int_eq(drive.rig.refusal.class, ERROR_RETRY);
    submit_again_and_again(KAFKA_RIG_TOPIC);
    rig_until(&drive.rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(drive.rig.by_kind[SINK_CONFIRMED], 1);
    kafka_drive_close(&drive);
}
END_TEST

/* Tries until `words` are said about it. */
static void refused_with(const char *topic, const char *words) {
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    do {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        rig_turn(&drive.rig, clock_now_us() + 20 * CLOCK_US_PER_MS);
        ck_assert_int_eq(submit_to(topic), SINK_E_RETRY);
        ck_assert_ptr_nonnull(strstr(drive.rig.refusal.text, topic));
    } while (!strstr(drive.rig.refusal.text, words));
}

static void the_other_topic_goes_on(void) {
    submit_again_and_again(KAFKA_RIG_TOPIC);
    rig_until(&drive.rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(drive.rig.by_kind[SINK_CONFIRMED], drive.rig.accepted);
}

START_TEST(a_topic_whose_look_hangs_holds_no_other) {
    int port;
    int silent = listen_silently(&port);
    char server[32];
    snprintf(server, sizeof server, "127.0.0.1:%d", port);
    open_drive_for_one();
    the_other_topic_goes_on();
    kafka.properties[0].value.value = server; /* for what connects from now on */
    int64_t begin_us = clock_now_us();
    ck_assert_int_eq(submit_to("new"), SINK_E_RETRY);
    ck_assert_int_lt(clock_now_us() - begin_us, 3 * CLOCK_US_PER_S); /* far less than a look takes */
    ck_assert_ptr_nonnull(strstr(drive.rig.refusal.text, "topic new"));
    ck_assert_int_eq(rig_submit(&drive.rig), SINK_E_RETRY); /* without any further wait */
    the_other_topic_goes_on();
    kafka_drive_close(&drive);
    close(silent);
}
END_TEST

START_TEST(a_topic_whose_looks_fail_holds_no_other_and_the_reason_is_said) {
    char good[256], bad[] = "127.0.0.1:1";
    open_drive_for_one();
    the_other_topic_goes_on();
    snprintf(good, sizeof good, "%s", kafka.properties[0].value.value);
    kafka.properties[0].value.value = bad;
    refused_with("new", bad);
    ck_assert_int_eq(rig_submit(&drive.rig), SINK_E_RETRY);
    the_other_topic_goes_on();
    /* The mock of librdkafka 2.0 would make it when it is asked for it. */
    ck_assert_int_eq(rd_kafka_mock_topic_create(kafka.mock, "new", 1, 1), 0);
    kafka.properties[0].value.value = good;
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    while (submit_to("new") != 0) {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        rig_turn(&drive.rig, clock_now_us() + 20 * CLOCK_US_PER_MS);
    }
    kafka_drive_close(&drive);
}
END_TEST

START_TEST(a_partition_that_is_not_there_is_tried_again) {
    kafka.own.partition = KAFKA_RIG_PARTITIONS;
    open_drive_for_one();
    ck_assert_int_eq(submit_to(KAFKA_RIG_TOPIC), SINK_E_RETRY);
    ck_assert_ptr_nonnull(strstr(drive.rig.refusal.text, "partition"));
    kafka_drive_close(&drive);
}
END_TEST

/* Order and failures. ---------------------------------------------------- */

START_TEST(keys_stay_in_order_with_many_in_flight) {
    kafka.contract.in_flight = 1000;
    kafka_drive_open(&drive, &kafka, 20000, 7);
    kafka_drive_finish(&drive, 60);
    ck_assert_uint_eq(drive.lost, 0);
    kafka_drive_check(&drive);
    kafka_drive_close(&drive);
}
END_TEST

/* The mock writes a request whatever came of the one before, in every
 * partition; a broker does so only where it doesn't know the producer. With one
 * request at a time to a partition that makes no difference. */
static void open_failing(uint32_t events) {
    kafka.contract.in_flight = 300;
    kafka_rig_set(&kafka, "max.in.flight", "1");
    kafka_rig_set(&kafka, "linger.ms", "10"); /* what is in one request isn't in the next */
    kafka_drive_open(&drive, &kafka, events, 5);
}

static bool has_settled_some(const struct kafka_drive *d) {
    return d->confirmed >= 10;
}

/* Every partition knows the instance, and much is under way. */
static void warm_up(struct kafka_drive *d) {
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    while (!has_settled_some(d)) {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        kafka_drive_turn(d);
    }
}

static const rd_kafka_resp_err_t passing[] = {
    RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
    RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,   RD_KAFKA_RESP_ERR__TRANSPORT, /* closes the connection */
};

START_TEST(errors_that_pass_lose_nothing_and_reorder_nothing) {
    open_failing(3000);
    for (int round = 0; round < 10; round++) {
        rd_kafka_mock_push_request_errors(kafka.mock, KAFKA_RIG_PRODUCE, 1, passing[_i]);
        kafka_drive_turn(&drive);
    }
    kafka_drive_finish(&drive, 60);
    kafka_drive_check(&drive);
    ck_assert_uint_eq(drive.confirmed, drive.events);
    kafka_drive_close(&drive);
}
END_TEST

/* Else librdkafka would report the first one as delivered because the second one was. */
START_TEST(to_a_partition_that_does_not_know_the_instance_one_message_goes_first) {
    kafka.own.partition = 1;
    kafka_drive_open(&drive, &kafka, 20, 2);
    rd_kafka_mock_broker_set_rtt(kafka.mock, 1, 100);
    rd_kafka_mock_push_request_errors(kafka.mock, KAFKA_RIG_PRODUCE, 1, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS);
    kafka_drive_turn(&drive);
    ck_assert_uint_eq(drive.rig.accepted, 1);
    ck_assert(!drive.rig.sink->kind->ready(drive.rig.sink));
    kafka_drive_finish(&drive, 60);
    ck_assert_uint_eq(drive.confirmed, 20);
    kafka_drive_check(&drive);
    kafka_drive_close(&drive);
}
END_TEST

/* Partition 0 is led by a broker of its own. */
static void open_two_brokers(uint32_t in_flight) {
    close_broker();
    kafka_rig_open(&kafka, 2, in_flight);
    for (int32_t p = 0; p < KAFKA_RIG_PARTITIONS; p++)
        ck_assert_int_eq(rd_kafka_mock_partition_set_leader(kafka.mock, KAFKA_RIG_TOPIC, p, p == 0 ? 2 : 1), 0);
    open_drive_for_one();
}

/* All but `open` of them. */
static void answer_all_but(uint64_t open) {
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    while (drive.rig.answered + open < drive.rig.accepted) {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        rig_turn(&drive.rig, deadline_us);
    }
}

/* More than any number in flight, to the other partitions. */
static void others_go_on(uint64_t open) {
    for (int i = 0; i < 1000; i++) {
        kafka.own.partition = 1 + i % 3;
        submit_again_and_again(KAFKA_RIG_TOPIC);
    }
    answer_all_but(open);
    ck_assert_uint_ge(drive.rig.by_kind[SINK_CONFIRMED], 1000);
}

START_TEST(a_partition_that_has_confirmed_nothing_yet_holds_no_other) {
    open_two_brokers(50);
    rd_kafka_mock_broker_set_rtt(kafka.mock, 2, 20000);
    kafka.own.partition = 0;
    int64_t begin_us = clock_now_us();
    ck_assert_int_eq(submit_to(KAFKA_RIG_TOPIC), 0);
    ck_assert_int_eq(rig_submit(&drive.rig), SINK_E_BUSY);
    ck_assert_int_eq(submit_to(KAFKA_RIG_TOPIC), SINK_E_RETRY);
    ck_assert_ptr_nonnull(strstr(drive.rig.refusal.text, "orders"));
    ck_assert_ptr_nonnull(strstr(drive.rig.refusal.text, "partition 0"));
    ck_assert_int_eq(rig_submit(&drive.rig), SINK_E_RETRY); /* without any further wait */
    ck_assert_int_lt(clock_now_us() - begin_us, CLOCK_US_PER_S);
    others_go_on(1);
    kafka_drive_close(&drive);
    rd_kafka_mock_broker_set_rtt(kafka.mock, 2, 0);
}
END_TEST

START_TEST(a_partition_that_no_longer_answers_takes_not_all_that_may_be_in_flight) {
    open_two_brokers(50);
    kafka.own.partition = 0;
    submit_again_and_again(KAFKA_RIG_TOPIC);
    rig_until(&drive.rig, rig_all_answered, 10, "answered");
    rd_kafka_mock_broker_set_rtt(kafka.mock, 2, 20000);
    uint64_t open = 0;
    while (submit_to(KAFKA_RIG_TOPIC) == 0)
        open++;
    ck_assert_uint_gt(open, 25);
    ck_assert_uint_lt(open, 50);
    others_go_on(open);
    kafka_drive_close(&drive);
    rd_kafka_mock_broker_set_rtt(kafka.mock, 2, 0);
}
END_TEST

static uint32_t lost_for_good(void) {
    static struct kafka_found all[2 * KAFKA_RIG_EVENTS_MAX];
    static bool there[KAFKA_RIG_EVENTS_MAX];
    memset(there, 0, sizeof there);
    size_t count = kafka_rig_consume(&kafka, KAFKA_RIG_TOPIC, all, ARRAY_LENGTH(all));
    for (size_t n = 0; n < count; n++)
        there[strtoul(all[n].value, NULL, 10)] = true;
    uint32_t lost = 0;
    for (uint32_t i = 0; i < drive.events; i++)
        lost += !there[i];
    return lost;
}

static void in_a_request_of_its_own(struct kafka_drive *d, uint32_t i) {
    static bool refused; /* asked again and again while the sink is busy */
    if (i == 20 && !refused) {
        refused = true;
        rd_kafka_mock_broker_set_rtt(d->kafka->mock, 1, 200);
        rd_kafka_mock_push_request_errors(d->kafka->mock, KAFKA_RIG_PRODUCE, 1, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    }
    rig_turn(&d->rig, clock_now_us() + 10 * CLOCK_US_PER_MS);
}

/* As if the topic had been deleted and made again meanwhile: its partitions know nothing of the instance, and take
 * the second of two requests after having refused the first. Their order is lost by that, but no event. */
START_TEST(what_librdkafka_only_infers_is_not_taken_for_confirmed) {
    kafka.contract.in_flight = 300;
    kafka.own.partition = 1;
    kafka_drive_open(&drive, &kafka, 60, 60);
    drive.before = in_a_request_of_its_own;
    kafka_drive_finish(&drive, 60);
    ck_assert_uint_eq(drive.confirmed, drive.events);
    ck_assert_uint_eq(lost_for_good(), 0);
    ck_assert_uint_gt(drive.lost, 0);
    kafka_drive_close(&drive);
}
END_TEST

/* A poison event: in a batch of its own it is refused, and with others the batch is. The mock
 * can't look into a batch; so one fails, and then the poison, which goes when nothing else is under way. */
static uint32_t poison;
static char poison_reason[ERROR_TEXT_MAX];

static void answer_all(struct rig *r) {
    rig_until(r, rig_all_answered, 10, "answered");
}

static void refuse_poison_alone(struct kafka_drive *d, uint32_t i) {
    static bool refused; /* asked again and again while the sink is busy */
    if (d->lost == 0)
        return;
    if (poison == 0) {
        poison = i + 5; /* among the next ones */
        refused = false;
    }
    if (i == poison || d->state[poison] == FLYING)
        answer_all(&d->rig);
    if (d->state[poison] == FLYING)
        snprintf(poison_reason, sizeof poison_reason, "%s", d->rig.reason);
    if (i == poison && !refused) {
        refused = true;
        rd_kafka_mock_push_request_errors(d->kafka->mock, KAFKA_RIG_PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    }
}

START_TEST(of_a_batch_that_is_refused_exactly_the_one_that_fails_alone_is_rejected) {
    poison = 0;
    open_failing(1000);
    warm_up(&drive);
    drive.before = refuse_poison_alone;
    rd_kafka_mock_push_request_errors(kafka.mock, KAFKA_RIG_PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    kafka_drive_finish(&drive, 60);
    ck_assert_uint_gt(drive.lost, 1);
    ck_assert_uint_eq(drive.rejected, 1);
    ck_assert_int_eq(drive.state[poison], REJECTED);
    ck_assert_ptr_nonnull(strstr(poison_reason, "MSG_SIZE_TOO_LARGE"));
    kafka_drive_check(&drive);
    kafka_drive_close(&drive);
}
END_TEST

static uint64_t reconnects(void) {
    struct sink_view view;
    drive.rig.sink->kind->view(drive.rig.sink, &view);
    return view.reconnects;
}

/* Once to send one at a time, once for smaller batches. */
START_TEST(a_batch_in_which_nobody_is_guilty_makes_batches_smaller) {
    open_failing(1000);
    warm_up(&drive);
    rd_kafka_mock_push_request_errors(kafka.mock, KAFKA_RIG_PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    kafka_drive_finish(&drive, 60);
    ck_assert_uint_eq(drive.rejected, 0);
    ck_assert_uint_eq(drive.confirmed, drive.events);
    ck_assert_uint_eq(reconnects(), 2);
    kafka_drive_check(&drive);
    kafka_drive_close(&drive);
}
END_TEST

static bool is_lost(const struct rig *r) {
    return r->by_kind[SINK_LOST] == 1;
}

START_TEST(a_topic_that_may_not_be_written_to_is_left_alone_and_harms_no_other) {
    ck_assert_int_eq(rd_kafka_mock_topic_create(kafka.mock, "secret", 1, 1), 0);
    open_drive_for_one();
    rd_kafka_mock_push_request_errors(kafka.mock, KAFKA_RIG_PRODUCE, 1, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    submit_again_and_again("secret");
    rig_until(&drive.rig, is_lost, 10, "lost");
    rig_until(&drive.rig, rig_connected, 10, "connected");
    ck_assert_int_eq(submit_to("secret"), SINK_E_RETRY);
    ck_assert_ptr_nonnull(strstr(drive.rig.refusal.text, "secret"));
    submit_again_and_again(KAFKA_RIG_TOPIC);
    rig_until(&drive.rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(drive.rig.by_kind[SINK_CONFIRMED], 1);
    ck_assert_uint_eq(reconnects(), 1);
    kafka_drive_close(&drive);
}
END_TEST

START_TEST(what_fails_in_a_batch_of_its_own_is_rejected_at_once) {
    kafka_drive_open(&drive, &kafka, 20, 20);
    rd_kafka_mock_push_request_errors(kafka.mock, KAFKA_RIG_PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    kafka_drive_finish(&drive, 60);
    ck_assert_uint_eq(drive.rejected, 1);
    ck_assert_uint_eq(drive.confirmed, 19);
    kafka_drive_check(&drive);
    kafka_drive_close(&drive);
}
END_TEST

static const rd_kafka_resp_err_t fatal[] = {
    RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
    RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
    RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID,
    RD_KAFKA_RESP_ERR_UNKNOWN, /* of no known class */
};

START_TEST(a_fatal_error_makes_a_new_instance_and_everything_goes_again) {
    open_failing(3000);
    warm_up(&drive);
    rd_kafka_mock_push_request_errors(kafka.mock, KAFKA_RIG_PRODUCE, 1, fatal[_i]);
    kafka_drive_finish(&drive, 60);
    ck_assert_uint_eq(drive.rejected, 0);
    ck_assert_uint_eq(drive.confirmed, drive.events);
    kafka_drive_check(&drive);
    kafka_drive_close(&drive);
}
END_TEST

/* Away. ------------------------------------------------------------------ */

static bool is_blocked(const struct rig *r) {
    struct sink_view view;
    r->sink->kind->view(r->sink, &view);
    return view.blocked && view.blocked_reason && view.blocked_since_us > 0;
}

/* Publishing meanwhile: all that was may just have been confirmed. */
static void publish_until_blocked(struct kafka_drive *d) {
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    while (!is_blocked(&d->rig)) {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        kafka_drive_turn(d);
    }
}

static bool is_not_blocked(const struct rig *r) {
    struct sink_view view;
    r->sink->kind->view(r->sink, &view);
    return view.connected && !view.blocked;
}

/* Two in a batch that is refused, which don't come again: somebody has mended the rows, or the window was forgotten. */
START_TEST(a_search_is_shown_while_it_goes_on_and_not_while_nothing_is_under_way) {
    struct rig *r = &drive.rig;
    kafka_rig_set(&kafka, "linger.ms", "10");
    kafka.own.partition = 1;
    open_drive_for_one();
    publish_one(r);
    rd_kafka_mock_push_request_errors(kafka.mock, KAFKA_RIG_PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    rig_publish(r, 2);
    rig_until(r, is_blocked, 10, "blocked");
    struct sink_view view;
    r->sink->kind->view(r->sink, &view);
    ck_assert_ptr_nonnull(strstr(view.blocked_reason, "looking for the message"));
    ck_assert_ptr_nonnull(view.blocked_ends);
    rig_until(r, is_not_blocked, 10, "unblocked");
    ck_assert_uint_eq(r->by_kind[SINK_LOST], 2);
    kafka_drive_close(&drive);
}
END_TEST

START_TEST(a_broker_that_is_away_is_a_stall_and_then_it_goes_on) {
    kafka.options.ack_timeout_us = 300000;
    kafka_drive_open(&drive, &kafka, 500, 5);
    kafka_drive_turn(&drive);
    rd_kafka_mock_broker_set_down(kafka.mock, 1);
    publish_until_blocked(&drive);
    rd_kafka_mock_broker_set_up(kafka.mock, 1);
    kafka_drive_finish(&drive, 60);
    ck_assert(!is_blocked(&drive.rig));
    ck_assert_uint_eq(drive.confirmed, drive.events);
    kafka_drive_check(&drive);
    kafka_drive_close(&drive);
}
END_TEST

static bool is_down(const struct rig *r) {
    return !rig_connected(r);
}

START_TEST(a_broker_that_goes_away_while_nothing_is_under_way_is_noticed) {
    kafka_drive_open(&drive, &kafka, 10, 1);
    kafka_drive_finish(&drive, 20);
    rd_kafka_mock_broker_set_down(kafka.mock, 1);
    rig_until(&drive.rig, is_down, 10, "down");
    struct sink_view view;
    drive.rig.sink->kind->view(drive.rig.sink, &view);
    ck_assert_ptr_nonnull(view.down_reason);
    rd_kafka_mock_broker_set_up(kafka.mock, 1);
    rig_until(&drive.rig, rig_connected, 30, "connected");
    kafka_drive_close(&drive);
}
END_TEST

/* As after connections.max.idle.ms of the broker: the sink lives in a later time than the library. */
START_TEST(an_idle_connection_that_is_closed_is_no_outage) {
    kafka_drive_open(&drive, &kafka, 1, 1);
    rd_kafka_mock_broker_set_down(kafka.mock, 1);
    rd_kafka_mock_broker_set_up(kafka.mock, 1);
    struct pollfd fds[SINK_POLL_MAX];
    const struct sink_kind *kind = drive.rig.sink->kind;
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    while (reconnects() == 0) {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        poll(fds, (nfds_t)kind->poll(drive.rig.sink, fds), 10);
        kind->work(drive.rig.sink, clock_now_us() + 100 * CLOCK_US_PER_S);
        ck_assert(rig_connected(&drive.rig));
    }
    kafka_drive_close(&drive);
}
END_TEST

/* Two in one batch that is refused: a new instance has to find out which one it was, and the broker is away. */
START_TEST(an_outage_while_the_instance_is_made_anew_is_said) {
    char bad[] = "127.0.0.1:1";
    kafka_rig_set(&kafka, "linger.ms", "10");
    kafka_drive_open(&drive, &kafka, 1000, 1);
    warm_up(&drive);
    kafka.properties[0].value.value = bad;
    rd_kafka_mock_push_request_errors(kafka.mock, KAFKA_RIG_PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    while (rig_connected(&drive.rig)) {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        kafka_drive_turn(&drive);
    }
    struct sink_view view;
    drive.rig.sink->kind->view(drive.rig.sink, &view);
    ck_assert_ptr_nonnull(strstr(view.down_reason, bad));
    ck_assert_int_eq(rig_submit(&drive.rig), SINK_E_DOWN);
    kafka_drive_close(&drive);
}
END_TEST

START_TEST(without_a_broker_it_says_why_and_comes_up_when_there_is_one) {
    rd_kafka_mock_broker_set_down(kafka.mock, 1);
    struct rig *r = &drive.rig;
    rig_open(r, &kafka.contract);
    int64_t deadline_us = clock_now_us() + 30 * CLOCK_US_PER_S;
    struct sink_view view = {0};
    while (!view.down_reason) {
        ck_assert_int_lt(clock_now_us(), deadline_us);
        rig_turn(r, deadline_us);
        r->sink->kind->view(r->sink, &view);
    }
    ck_assert(!view.connected);
    rd_kafka_mock_broker_set_up(kafka.mock, 1);
    rig_until(r, rig_connected, 30, "connected");
    rig_close(r);
}
END_TEST

/* Never waits. ----------------------------------------------------------- */

START_TEST(a_broker_that_is_far_is_reached) {
    rd_kafka_mock_broker_set_rtt(kafka.mock, 1, 450);
    open_drive_for_one();
    kafka_drive_close(&drive);
    rd_kafka_mock_broker_set_rtt(kafka.mock, 1, 0);
}
END_TEST

START_TEST(close_and_renew_do_not_wait_for_a_broker_that_hangs) {
    kafka_drive_open(&drive, &kafka, 500, 5);
    rd_kafka_mock_broker_set_rtt(kafka.mock, 1, 30000);
    kafka_drive_turn(&drive);
    kafka_drive_turn(&drive);
    ck_assert_uint_gt(drive.rig.accepted, 0);
    int64_t begin_us = clock_now_us();
    if (_i == 0)
        kafka.contract.kind->renew(drive.rig.sink, begin_us, "a test wants it");
    kafka_drive_close(&drive);
    ck_assert_int_lt(clock_now_us() - begin_us, 200000);
    rd_kafka_mock_broker_set_rtt(kafka.mock, 1, 0);
}
END_TEST

START_TEST(a_renewed_sink_sends_everything_again_in_order) {
    kafka.contract.in_flight = 300;
    kafka_drive_open(&drive, &kafka, 3000, 5);
    for (int round = 0; round < 3; round++) {
        kafka_drive_turn(&drive);
        kafka_drive_turn(&drive);
        kafka.contract.kind->renew(drive.rig.sink, clock_now_us(), "a test wants it");
        rig_until(&drive.rig, rig_connected, 20, "connected");
    }
    kafka_drive_finish(&drive, 60);
    ck_assert_uint_eq(drive.confirmed, drive.events);
    kafka_drive_check(&drive);
    kafka_drive_close(&drive);
}
END_TEST

/* Memory. ---------------------------------------------------------------- */

/* Without ck_assert, which allocates. */
static uint64_t confirm_many(struct rig *r, uint64_t n) {
    const struct sink_kind *kind = r->sink->kind;
    uint64_t submitted = 0, confirmed = 0;
    struct sink_outcome outcome;
    struct pollfd fds[SINK_POLL_MAX];
    struct error error;
    int64_t deadline_us = clock_now_us() + 30 * CLOCK_US_PER_S;
    while (confirmed < n && clock_now_us() < deadline_us) {
        while (submitted < n && kind->ready(r->sink) &&
               kind->submit(r->sink, &r->event, &kafka.destination, submitted, clock_now_us(), &error) == 0)
            submitted++;
        kind->flush(r->sink);
        poll(fds, (nfds_t)kind->poll(r->sink, fds), 10);
        kind->work(r->sink, clock_now_us());
        while (kind->next(r->sink, &outcome))
            confirmed += outcome.kind == SINK_CONFIRMED;
    }
    return confirmed;
}

START_TEST(nothing_of_ours_is_allocated_in_steady_state) {
    open_drive_for_one();
    ck_assert_uint_eq(confirm_many(&drive.rig, 1000), 1000);
    fail_alloc_begin(0);
    uint64_t confirmed = confirm_many(&drive.rig, 20000);
    fail_alloc_end();
    ck_assert_uint_eq(confirmed, 20000);
    ck_assert_uint_eq(fail_alloc_count(), 0);
    kafka_drive_close(&drive);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    struct sink_setup setup = {
        .forwarder = "f", .connection_name = "c", .connection = &kafka.connection, .options = &kafka.options, .in_flight = 10};
    FAIL_ALLOC_EACH(n) {
        struct sink *sink = NULL;
        int result = kafka.contract.kind->open(&setup, &sink);
        if (fail_alloc_end()) {
            ck_assert_int_eq(result, -ENOMEM);
        } else {
            ck_assert_int_eq(result, 0);
            kafka.contract.kind->close(sink);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka");
    TCase *cases = tcase_create("kafka");
    tcase_add_checked_fixture(cases, one_broker, close_broker);
    tcase_add_loop_test(cases, the_contract_is_kept, 0, contract_clause_count);
    tcase_add_test(cases, binary_mode_has_attributes_as_headers);
    tcase_add_test(cases, structured_mode_has_one_json_document);
    tcase_add_test(cases, no_data_is_null_and_empty_data_is_empty);
    tcase_add_test(cases, the_key_is_the_destinations_else_partitionkey_else_streamid);
    tcase_add_test(cases, no_topic_can_have_that_name);
    tcase_add_test(cases, a_missing_topic_is_tried_again_and_harms_no_other);
    tcase_add_test(cases, a_topic_whose_look_hangs_holds_no_other);
    tcase_add_test(cases, a_topic_whose_looks_fail_holds_no_other_and_the_reason_is_said);
    tcase_add_test(cases, a_partition_that_is_not_there_is_tried_again);
    tcase_add_test(cases, keys_stay_in_order_with_many_in_flight);
    tcase_add_loop_test(cases, errors_that_pass_lose_nothing_and_reorder_nothing, 0, (int)ARRAY_LENGTH(passing));
    tcase_add_test(cases, what_librdkafka_only_infers_is_not_taken_for_confirmed);
    tcase_add_test(cases, to_a_partition_that_does_not_know_the_instance_one_message_goes_first);
    tcase_add_test(cases, a_partition_that_has_confirmed_nothing_yet_holds_no_other);
    tcase_add_test(cases, a_partition_that_no_longer_answers_takes_not_all_that_may_be_in_flight);
    tcase_add_test(cases, a_batch_in_which_nobody_is_guilty_makes_batches_smaller);
    tcase_add_test(cases, a_topic_that_may_not_be_written_to_is_left_alone_and_harms_no_other);
    tcase_add_test(cases, what_fails_in_a_batch_of_its_own_is_rejected_at_once);
    tcase_add_test(cases, of_a_batch_that_is_refused_exactly_the_one_that_fails_alone_is_rejected);
    tcase_add_loop_test(cases, a_fatal_error_makes_a_new_instance_and_everything_goes_again, 0, (int)ARRAY_LENGTH(fatal));
    tcase_add_test(cases, a_search_is_shown_while_it_goes_on_and_not_while_nothing_is_under_way);
    tcase_add_test(cases, a_broker_that_is_away_is_a_stall_and_then_it_goes_on);
    tcase_add_test(cases, a_broker_that_goes_away_while_nothing_is_under_way_is_noticed);
    tcase_add_test(cases, an_idle_connection_that_is_closed_is_no_outage);
    tcase_add_test(cases, an_outage_while_the_instance_is_made_anew_is_said);
    tcase_add_test(cases, without_a_broker_it_says_why_and_comes_up_when_there_is_one);
    tcase_add_test(cases, a_broker_that_is_far_is_reached);
    tcase_add_loop_test(cases, close_and_renew_do_not_wait_for_a_broker_that_hangs, 0, 2);
    tcase_add_test(cases, a_renewed_sink_sends_everything_again_in_order);
    tcase_add_test(cases, nothing_of_ours_is_allocated_in_steady_state);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_answer);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
