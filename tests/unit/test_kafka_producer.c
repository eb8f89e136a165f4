/* test_kafka_producer: what one instance of librdkafka's producer says, and what of it may be heard */
#include "unit/unit.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "sink/kafka_producer.h"

/* Standard error is a file while a test runs. */
static FILE *written;
static int saved_stderr;

static void set_up(void) {
    written = tmpfile();
    ck_assert_ptr_nonnull(written);
    saved_stderr = dup(STDERR_FILENO);
    ck_assert_int_eq(dup2(fileno(written), STDERR_FILENO), STDERR_FILENO);
    unsetenv("JOURNAL_STREAM");
}

static void tear_down(void) {
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    fclose(written);
}

static char said[65536]; /* by the log */
static char heard[65536]; /* by whoever asks for events */

static void read_log(void) {
    ssize_t len = pread(fileno(written), said, sizeof said - 1, 0);
    said[len < 0 ? 0 : len] = '\0';
}

static void hear(rd_kafka_event_t *event) {
    const char *facility, *text;
    int level;
    size_t len = strlen(heard);
    if (rd_kafka_event_log(event, &facility, &text, &level) == 0)
        snprintf(heard + len, sizeof heard - len, "%s: %s\n", facility, text);
    rd_kafka_event_destroy(event);
}

/* Until the log has said that, or so long. */
static void listen_for(struct kafka_producer *p, const char *word, int64_t for_us) {
    int64_t until_us = clock_now_us() + for_us;
    do {
        rd_kafka_event_t *event = kafka_producer_event(p);
        if (event)
            hear(event);
        else
            (void)poll(&(struct pollfd){.fd = kafka_producer_fd(p), .events = POLLIN}, 1, 10);
        read_log();
    } while (!strstr(said, word) && clock_now_us() < until_us);
}

struct pair {
    const char *name, *value;
};

static struct kafka_producer *open_producer(const struct pair *pairs) {
    char why[512];
    struct error error;
    struct kafka_producer *p = NULL;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log.queue", "true", why, sizeof why);
    rd_kafka_conf_set(conf, "client.id", "penstock-orders", why, sizeof why);
    rd_kafka_conf_set(conf, "bootstrap.servers", "127.0.0.1:1", why, sizeof why);
    for (; pairs->name; pairs++)
        ck_assert_msg(rd_kafka_conf_set(conf, pairs->name, pairs->value, why, sizeof why) == RD_KAFKA_CONF_OK, "%s", why);
    ck_assert_msg(kafka_producer_new(conf, &p, &error) == 0, "%s", error.text);
    heard[0] = '\0';
    return p;
}

START_TEST(what_the_library_says_reaches_the_log_at_its_debug_level) {
    log_open(LOG_LEVEL_DEBUG);
    struct kafka_producer *p = open_producer((const struct pair[]){{"debug", "broker"}, {NULL, NULL}});
    listen_for(p, "debug: librdkafka (penstock-orders#", 10 * CLOCK_US_PER_S);
    ck_assert_msg(strstr(said, "debug: librdkafka (penstock-orders#") != NULL, "%s", said);
    kafka_producer_free(p);
}
END_TEST

START_TEST(at_other_levels_it_does_not) {
    log_open(LOG_LEVEL_INFO);
    struct kafka_producer *p = open_producer((const struct pair[]){{"debug", "broker"}, {NULL, NULL}});
    int64_t until_us = clock_now_us() + 10 * CLOCK_US_PER_S;
    while (!strstr(heard, "BROKER") && clock_now_us() < until_us)
        listen_for(p, "librdkafka", CLOCK_US_PER_S / 100);
    ck_assert_ptr_nonnull(strstr(heard, "BROKER"));
    ck_assert_str_eq(said, "");
    kafka_producer_free(p);
}
END_TEST

/* G14: the library shows the whole command, on every failure of it and when it is debugged. */
START_TEST(the_command_that_gets_a_ticket_is_heard_by_nobody) {
    log_open(LOG_LEVEL_DEBUG);
    struct kafka_producer *p = open_producer((const struct pair[]){{"security.protocol", "sasl_plaintext"},
                                                                   {"sasl.mechanism", "GSSAPI"},
                                                                   {"sasl.kerberos.kinit.cmd", "exit 3 # hunter2"},
                                                                   {"debug", "security"},
                                                                   {NULL, NULL}});
    listen_for(p, "sasl.kerberos.kinit.cmd has failed", 10 * CLOCK_US_PER_S);
    ck_assert_msg(strstr(said, "warning: librdkafka (penstock-orders#") != NULL, "%s", said);
    ck_assert_ptr_null(strstr(said, "hunter2"));
    ck_assert_ptr_null(strstr(heard, "hunter2"));
    kafka_producer_free(p);
}
END_TEST

/* Greeting. -------------------------------------------------------------- */

static uint32_t take_errors(struct kafka_producer *p) {
    uint32_t errors = 0;
    rd_kafka_event_t *event;
    while ((event = kafka_producer_event(p))) {
        errors += rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR;
        rd_kafka_event_destroy(event);
    }
    return errors;
}

/* Whether its first attempt fails before the broker is up is up to the library's threads: so several. */
static void greet_one_that_came_early(rd_kafka_mock_cluster_t *mock) {
    struct error error;
    rd_kafka_mock_broker_set_down(mock, 1);
    struct kafka_producer *p = open_producer((const struct pair[]){
        {"bootstrap.servers", rd_kafka_mock_cluster_bootstraps(mock)}, {"reconnect.backoff.ms", "10"}, {NULL, NULL}});
    (void)poll(&(struct pollfd){.fd = kafka_producer_fd(p), .events = POLLIN}, 1, 50);
    rd_kafka_mock_broker_set_up(mock, 1);
    ck_assert_int_eq(kafka_producer_greet(p, 20 * CLOCK_US_PER_S, &error), 0);
    ck_assert_uint_eq(take_errors(p), 0);
    kafka_producer_free(p);
}

START_TEST(what_went_wrong_before_a_broker_answered_is_not_heard_any_more) {
    rd_kafka_t *host = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), NULL, 0);
    rd_kafka_mock_cluster_t *mock = rd_kafka_mock_cluster_new(host, 1);
    for (int i = 0; i < 10; i++)
        greet_one_that_came_early(mock);
    rd_kafka_mock_cluster_destroy(mock);
    rd_kafka_destroy(host);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_producer");
    TCase *cases = tcase_create("words");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, what_the_library_says_reaches_the_log_at_its_debug_level);
    tcase_add_test(cases, at_other_levels_it_does_not);
    tcase_add_test(cases, the_command_that_gets_a_ticket_is_heard_by_nobody);
    tcase_add_test(cases, what_went_wrong_before_a_broker_answered_is_not_heard_any_more);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
