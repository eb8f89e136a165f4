/* test_kafka_look: what a look finds on librdkafka's mock cluster, which knows no configurations */
#include "unit/unit.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>

#include "base/clock.h"
#include "sink/kafka_look.h"
#include "sink/kafka_options.h"
#include "unit/fail_alloc.h"

#define BROKERS 3
#define PARTITIONS 6
#define NOBODY "127.0.0.1:1"
#define PATIENCE_US (60 * CLOCK_US_PER_S)

static rd_kafka_t *host;
static rd_kafka_mock_cluster_t *cluster;
static struct kafka_topics *topics;
static struct kafka_look *look;

static struct sink_options options = {.max_message_bytes = 1000000};
static struct option_property properties[3];
static struct kafka_connection connection = {{properties, 1}};

/* One for all tests: its end takes a second. */
static void start_cluster(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
    ck_assert_ptr_nonnull(host);
    cluster = rd_kafka_mock_cluster_new(host, BROKERS);
    ck_assert_ptr_nonnull(cluster);
    ck_assert_int_eq(rd_kafka_mock_topic_create(cluster, "orders", PARTITIONS, BROKERS), RD_KAFKA_RESP_ERR_NO_ERROR);
    ck_assert_int_eq(rd_kafka_mock_topic_create(cluster, "bills", 1, BROKERS), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_mock_topic_set_error(cluster, "gone", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    rd_kafka_mock_topic_set_error(cluster, "secret", RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
}

static void stop_cluster(void) {
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(host);
}

static void set_up(void) {
    connection.properties.count = 1;
}

static void tear_down(void) {
    kafka_look_free(look);
    kafka_topics_free(topics);
    look = NULL;
    topics = NULL;
}

/* By way of a copy that is gone afterwards. */
static void begin(const char *servers, size_t count, const struct span *named) {
    properties[0] = (struct option_property){(char *)"bootstrap.servers", {SECRET_INLINE, (char *)servers}};
    struct sink_setup setup = {
        .forwarder = "shop",
        .connection = &connection,
        .options = &options,
        .seed = 1,
        .named = named,
        .named_count = count,
    };
    ck_assert_int_eq(kafka_topics_new(&setup, &topics), 0);
    ck_assert_int_eq(kafka_look_new(&setup, topics, &look), 0);
}

static void begin_on_cluster(size_t count, const struct span *named) {
    begin(rd_kafka_mock_cluster_bootstraps(cluster), count, named);
}

/* As a forwarder's loop does it. */
static void turn(void) {
    struct pollfd p = {.fd = kafka_look_fd(look), .events = POLLIN};
    ck_assert_int_ge(clock_poll(&p, 1, kafka_look_deadline_us(look)), 0);
    kafka_look_work(look, clock_now_us());
}

#define UNTIL(condition)                                      \
    for (int64_t end_ = clock_now_us() + PATIENCE_US; !(condition); turn()) \
        ck_assert_msg(clock_now_us() < end_, "never: %s", #condition)

static const struct kafka_topic *find(const char *name) {
    return kafka_topics_find(topics, span_of(name), clock_now_us());
}

/* A later library (2.8 was seen to) dies of what the mock says of a topic with another error: partitions without a
 * leader, as in librdkafka's issue 4907. What a real broker says is looked at by stories of test_kafka_topics. */
static bool mock_can_refuse(void) {
    return rd_kafka_version() < 0x02050000;
}

START_TEST(a_look_finds_what_the_cluster_says) {
    static const struct span named[] = {SPAN_LITERAL("orders"), SPAN_LITERAL("gone"), SPAN_LITERAL("bills"),
                                        SPAN_LITERAL("secret")};
    begin_on_cluster(ARRAY_LENGTH(named) - !mock_can_refuse(), named);
    UNTIL(kafka_topics_ready(topics));
    ck_assert_ptr_null(kafka_look_reason(look));

    const struct kafka_topic *orders = find("orders");
    ck_assert_int_eq(orders->state, KAFKA_TOPIC_FIT);
    ck_assert_int_eq(orders->partitions, PARTITIONS);
    ck_assert_int_eq(orders->replicas, BROKERS);
    const struct kafka_topic *bills = find("bills");
    ck_assert_int_eq(bills->state, KAFKA_TOPIC_FIT);
    ck_assert_int_eq(bills->partitions, 1);
    ck_assert_int_eq(find("gone")->state, KAFKA_TOPIC_MISSING);
    ck_assert_str_eq(find("gone")->reason, "Broker: Unknown topic or partition");
    if (!mock_can_refuse())
        return;
    ck_assert_int_eq(find("secret")->state, KAFKA_TOPIC_REFUSED);
    ck_assert_str_eq(find("secret")->reason, "Broker: Topic authorization failed");
}
END_TEST

START_TEST(a_broker_that_tells_no_configuration_is_no_failure) {
    static const struct span named[] = {SPAN_LITERAL("bills")};
    begin_on_cluster(1, named);
    int64_t before_us = clock_now_us();
    UNTIL(kafka_topics_ready(topics));
    ck_assert_int_lt(clock_now_us() - before_us, KAFKA_LOOK_TIMEOUT_US / 2); /* nor is it waited for */
    ck_assert(!find("bills")->described);
    ck_assert_int_eq(find("bills")->max_message_bytes, 0);
    ck_assert_msg(strstr(find("bills")->reason, "not supported by broker") != NULL, "%s", find("bills")->reason);
    ck_assert_int_eq(kafka_topics_smallest_limit(topics), 0);

    struct sink_notice notice;
    ck_assert(kafka_topics_notice(topics, &notice));
    ck_assert(!notice.warning);
    ck_assert_msg(strstr(notice.text, "configuration of topic 'bills' can't be read") != NULL, "%s", notice.text);
    ck_assert(!kafka_topics_notice(topics, &notice));
}
END_TEST

START_TEST(the_first_event_for_a_topic_starts_a_look) {
    begin_on_cluster(0, NULL);
    ck_assert_int_eq(kafka_look_deadline_us(look), CLOCK_NEVER);
    kafka_look_work(look, clock_now_us());
    ck_assert_int_eq(kafka_look_deadline_us(look), CLOCK_NEVER);
    ck_assert_ptr_null(find("orders"));
    ck_assert_int_le(kafka_look_deadline_us(look), clock_now_us());
    UNTIL(find("orders"));
    ck_assert_int_eq(find("orders")->state, KAFKA_TOPIC_FIT);
}
END_TEST

START_TEST(one_that_comes_to_be_is_found_again) {
    static const struct span named[] = {SPAN_LITERAL("gone")};
    begin_on_cluster(1, named);
    UNTIL(kafka_topics_ready(topics));
    ck_assert_int_eq(find("gone")->state, KAFKA_TOPIC_MISSING);
    rd_kafka_mock_topic_set_error(cluster, "gone", RD_KAFKA_RESP_ERR_NO_ERROR);
    UNTIL(find("gone")->state == KAFKA_TOPIC_FIT);
    rd_kafka_mock_topic_set_error(cluster, "gone", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
}
END_TEST

START_TEST(more_topics_than_fit_into_one_look_take_several) {
    enum { COUNT = 2 * KAFKA_LOOK_TOPICS_MAX + 1 };
    /* The mock makes every topic that it is asked for; a later one only if it may, and a look never lets it. */
    enum kafka_topic_state made = rd_kafka_version() < 0x02050000 ? KAFKA_TOPIC_FIT : KAFKA_TOPIC_MISSING;
    static char names[COUNT][8];
    static struct span named[COUNT];
    for (int i = 0; i < COUNT; i++)
        named[i] = (struct span){names[i], (size_t)snprintf(names[i], sizeof names[i], "t%d", i)};
    begin_on_cluster(COUNT, named);
    UNTIL(kafka_topics_ready(topics));
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(find(names[i])->state, made);
}
END_TEST

START_TEST(a_look_that_fails_says_why_and_is_tried_again) {
    static const struct span named[] = {SPAN_LITERAL("orders")};
    begin(NOBODY, 1, named);
    UNTIL(kafka_look_reason(look));
    ck_assert(!kafka_topics_ready(topics));
    ck_assert_msg(strstr(kafka_look_reason(look), NOBODY) != NULL, "%s", kafka_look_reason(look));
    ck_assert_msg(strstr(kafka_look_reason(look), "Connection refused") != NULL, "%s", kafka_look_reason(look));
    ck_assert_int_gt(kafka_look_deadline_us(look), clock_now_us());

    properties[0].value.value = (char *)rd_kafka_mock_cluster_bootstraps(cluster);
    UNTIL(kafka_topics_ready(topics));
    ck_assert_ptr_null(kafka_look_reason(look));
    ck_assert_int_eq(find("orders")->state, KAFKA_TOPIC_FIT);
}
END_TEST

START_TEST(a_secret_that_can_not_be_read_is_the_reason) {
    static const struct span named[] = {SPAN_LITERAL("orders")};
    unsetenv("PENSTOCK_TEST_PASSWORD");
    properties[1] = (struct option_property){(char *)"sasl.password", {SECRET_ENV, (char *)"PENSTOCK_TEST_PASSWORD"}};
    connection.properties.count = 2;
    begin_on_cluster(1, named);
    kafka_look_work(look, clock_now_us());
    ck_assert_ptr_nonnull(kafka_look_reason(look));
    ck_assert_msg(strstr(kafka_look_reason(look), "PENSTOCK_TEST_PASSWORD") != NULL, "%s", kafka_look_reason(look));
    ck_assert_int_gt(kafka_look_deadline_us(look), clock_now_us());

    setenv("PENSTOCK_TEST_PASSWORD", "x", 1);
    UNTIL(kafka_topics_ready(topics));
    ck_assert_ptr_null(kafka_look_reason(look));
}
END_TEST

START_TEST(what_librdkafka_does_not_take_is_the_reason) {
    static const struct span named[] = {SPAN_LITERAL("orders")};
    properties[1] = (struct option_property){(char *)"ssl.ca.location", {SECRET_INLINE, (char *)"/nonexistent/ca.pem"}};
    properties[2] = (struct option_property){(char *)"security.protocol", {SECRET_INLINE, (char *)"ssl"}};
    connection.properties.count = 3;
    begin_on_cluster(1, named);
    UNTIL(kafka_look_reason(look));
    ck_assert_msg(strstr(kafka_look_reason(look), "ssl.ca.location") != NULL, "%s", kafka_look_reason(look));
}
END_TEST

START_TEST(a_look_that_has_no_end_is_given_up) {
    static const struct span named[] = {SPAN_LITERAL("orders")};
    begin(NOBODY, 1, named);
    int64_t now_us = clock_now_us();
    kafka_look_work(look, now_us);
    int64_t end_us = kafka_look_deadline_us(look);
    ck_assert_int_gt(end_us, now_us + KAFKA_LOOK_TIMEOUT_US);
    kafka_look_work(look, end_us - 1);
    ck_assert_ptr_null(kafka_look_reason(look));
    kafka_look_work(look, end_us);
    ck_assert_ptr_nonnull(kafka_look_reason(look));
    ck_assert_msg(strstr(kafka_look_reason(look), "no end") != NULL, "%s", kafka_look_reason(look));
    ck_assert_int_gt(kafka_look_deadline_us(look), end_us);
}
END_TEST

START_TEST(no_memory_is_an_ordinary_failure) {
    static const struct span named[] = {SPAN_LITERAL("orders")};
    begin_on_cluster(1, named);
    struct sink_setup setup = {.forwarder = "shop", .connection = &connection, .options = &options, .seed = 1};
    FAIL_ALLOC_EACH(n) {
        struct kafka_look *l = NULL;
        int r = kafka_look_new(&setup, topics, &l);
        if (fail_alloc_end()) {
            ck_assert_int_eq(r, -ENOMEM);
        } else {
            ck_assert_int_eq(r, 0);
            kafka_look_free(l);
        }
    }
    for (uint64_t n = 1; n <= 3; n++) {
        fail_alloc_begin(n);
        kafka_look_work(look, clock_now_us() + (int64_t)n * PATIENCE_US);
        ck_assert(fail_alloc_end());
        ck_assert_ptr_nonnull(kafka_look_reason(look));
    }
}
END_TEST

int main(void) {
    setenv("CK_FORK", "no", 1); /* the cluster's threads would not be in a child */
    Suite *suite = suite_create("kafka_look");
    TCase *tcase = tcase_create("mock cluster");
    tcase_add_unchecked_fixture(tcase, start_cluster, stop_cluster);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_look_finds_what_the_cluster_says);
    tcase_add_test(tcase, a_broker_that_tells_no_configuration_is_no_failure);
    tcase_add_test(tcase, the_first_event_for_a_topic_starts_a_look);
    tcase_add_test(tcase, one_that_comes_to_be_is_found_again);
    tcase_add_test(tcase, more_topics_than_fit_into_one_look_take_several);
    tcase_add_test(tcase, a_look_that_fails_says_why_and_is_tried_again);
    tcase_add_test(tcase, a_secret_that_can_not_be_read_is_the_reason);
    tcase_add_test(tcase, what_librdkafka_does_not_take_is_the_reason);
    tcase_add_test(tcase, a_look_that_has_no_end_is_given_up);
    tcase_add_test(tcase, no_memory_is_an_ordinary_failure);
    suite_add_tcase(suite, tcase);
    return unit_run(suite);
}
