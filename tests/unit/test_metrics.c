/* test_metrics: the text for scrapers; whether others can read it, tests/integration/test_metrics.py tries */
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "status/metrics.h"
#include "unit/fail_alloc.h"

static const int64_t now = 5000 * CLOCK_US_PER_S;
static const int64_t wall = INT64_C(1796040000) * CLOCK_US_PER_S;

static const struct document_daemon daemon_facts = {
    .version = "0.1.0", .instance = "host:42", .health_max_age_us = 60 * CLOCK_US_PER_S};

static struct forwarder_stats held(void) {
    struct forwarder_stats s = {
        .name = "orders",
        .state = FORWARDER_HELD,
        .source_connected = true,
        .read_position = 1041,
        .checkpoint_position = 9007199254740993, /* no double holds it */
        .any_unsettled = true,
        .oldest_since_us = now - 840 * CLOCK_US_PER_S,
        .oldest_recorded_wall_us = wall - 840200 * CLOCK_US_PER_MS,
        .window_events = 3,
        .window_bytes = 2210,
        .window_unsaved = 7,
        .counts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
    };
    histogram_add(&s.times.confirm, 400);
    histogram_add(&s.times.confirm, CLOCK_US_PER_S);
    histogram_add(&s.times.confirm, 4000 * CLOCK_US_PER_S);
    return s;
}

static char *text_of(enum metrics_format format, const struct forwarder_stats *s, size_t count) {
    char *text = metrics_text(format, &daemon_facts, s, count, now, wall);
    ck_assert_ptr_nonnull(text);
    return text;
}

static void has_line(const char *text, const char *line) {
    char whole[512];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    ck_assert_msg(strstr(text, whole) != NULL, "no line '%s' in\n%s", line, text);
}

START_TEST(every_figure_has_its_line) {
    struct forwarder_stats s = held();
    CLEANUP(cleanup_free) char *text = text_of(METRICS_PROMETHEUS, &s, 1);
    static const char *const lines[] = {
        "penstock_build_info{version=\"0.1.0\"} 1",
        "penstock_events_total{forwarder=\"orders\",outcome=\"read\"} 1",
        "penstock_events_total{forwarder=\"orders\",outcome=\"parked\"} 11",
        "penstock_lag_seconds{forwarder=\"orders\"} 840.200",
        "penstock_healthy{forwarder=\"orders\"} 0",
        "penstock_state{forwarder=\"orders\",state=\"held\"} 1",
        "penstock_state{forwarder=\"orders\",state=\"idle\"} 0",
        "penstock_checkpoint_position{forwarder=\"orders\"} 9007199254740993",
        "penstock_read_position{forwarder=\"orders\"} 1041",
        "penstock_window_events{forwarder=\"orders\"} 3",
        "penstock_window_bytes{forwarder=\"orders\"} 2210",
        "penstock_unsaved_events{forwarder=\"orders\"} 7",
        "penstock_reconnects_total{forwarder=\"orders\",peer=\"database\"} 12",
        "penstock_reconnects_total{forwarder=\"orders\",peer=\"broker\"} 13",
        "penstock_checkpoint_writes_total{forwarder=\"orders\"} 14",
        "penstock_read_seconds_count{forwarder=\"orders\"} 0",
        "penstock_save_seconds_sum{forwarder=\"orders\"} 0.000000",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
        has_line(text, lines[i]);
}
END_TEST

START_TEST(buckets_of_a_histogram_add_up) {
    struct forwarder_stats s = held();
    CLEANUP(cleanup_free) char *text = text_of(METRICS_PROMETHEUS, &s, 1);
    has_line(text, "penstock_confirm_seconds_bucket{forwarder=\"orders\",le=\"0.0005\"} 1");
    has_line(text, "penstock_confirm_seconds_bucket{forwarder=\"orders\",le=\"0.5\"} 1");
    has_line(text, "penstock_confirm_seconds_bucket{forwarder=\"orders\",le=\"1.0\"} 2");
    has_line(text, "penstock_confirm_seconds_bucket{forwarder=\"orders\",le=\"1800.0\"} 2");
    has_line(text, "penstock_confirm_seconds_bucket{forwarder=\"orders\",le=\"+Inf\"} 3");
    has_line(text, "penstock_confirm_seconds_count{forwarder=\"orders\"} 3");
    has_line(text, "penstock_confirm_seconds_sum{forwarder=\"orders\"} 4001.000400");
}
END_TEST

START_TEST(what_is_unknown_is_left_out) {
    struct forwarder_stats s = {.name = "new", .read_position = INT64_MIN, .checkpoint_position = INT64_MIN};
    CLEANUP(cleanup_free) char *text = text_of(METRICS_PROMETHEUS, &s, 1);
    ck_assert_ptr_null(strstr(text, "\npenstock_read_position{"));
    ck_assert_ptr_null(strstr(text, "\npenstock_checkpoint_position{"));
    has_line(text, "penstock_state{forwarder=\"new\",state=\"starting\"} 1");
}
END_TEST

START_TEST(openmetrics_names_its_families_otherwise_and_ends) {
    struct forwarder_stats s = held();
    CLEANUP(cleanup_free) char *text = text_of(METRICS_OPENMETRICS, &s, 1);
    has_line(text, "# TYPE penstock_build info");
    has_line(text, "# TYPE penstock_events counter");
    has_line(text, "# UNIT penstock_window_bytes bytes");
    has_line(text, "penstock_events_total{forwarder=\"orders\",outcome=\"read\"} 1");
    ck_assert_str_eq(text + strlen(text) - strlen("\n# EOF\n"), "\n# EOF\n");

    CLEANUP(cleanup_free) char *plain = text_of(METRICS_PROMETHEUS, &s, 1);
    has_line(plain, "# TYPE penstock_build_info gauge");
    has_line(plain, "# TYPE penstock_events_total counter");
    ck_assert_ptr_null(strstr(plain, "# UNIT"));
    ck_assert_ptr_null(strstr(plain, "# EOF"));
}
END_TEST

START_TEST(a_name_is_escaped_and_stays_utf8) {
    struct forwarder_stats s = {.name = "a\"b\\c\nd\xff" "b\xc3\xbc"};
    CLEANUP(cleanup_free) char *text = text_of(METRICS_PROMETHEUS, &s, 1);
    has_line(text, "penstock_window_events{forwarder=\"a\\\"b\\\\c\\nd?b\xc3\xbc\"} 0");
}
END_TEST

START_TEST(families_are_not_split_by_forwarder) {
    struct forwarder_stats two[2] = {held(), held()};
    snprintf(two[1].name, sizeof two[1].name, "payments");
    CLEANUP(cleanup_free) char *text = text_of(METRICS_OPENMETRICS, two, 2);
    has_line(text, "penstock_window_events{forwarder=\"orders\"} 3\npenstock_window_events{forwarder=\"payments\"} 3");
    CLEANUP(cleanup_free) char *none = text_of(METRICS_OPENMETRICS, two, 0);
    has_line(none, "# TYPE penstock_state gauge");
}
END_TEST

START_TEST(without_memory_there_is_no_text) {
    struct forwarder_stats s = held();
    FAIL_ALLOC_EACH(n) {
        CLEANUP(cleanup_free) char *text = metrics_text(METRICS_PROMETHEUS, &daemon_facts, &s, 1, now, wall);
        ck_assert_int_eq(fail_alloc_end(), text == NULL);
    }
}
END_TEST

START_TEST(the_accept_header_decides) {
    static const struct {
        const char *accept;
        enum metrics_format format;
    } cases[] = {
        {NULL, METRICS_PROMETHEUS},
        {"", METRICS_PROMETHEUS},
        {"*/*", METRICS_PROMETHEUS},
        {"text/plain", METRICS_PROMETHEUS},
        {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", METRICS_PROMETHEUS},
        {"application/openmetrics-text", METRICS_OPENMETRICS},
        {"Application/OpenMetrics-Text; version=1.0.0", METRICS_OPENMETRICS},
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", METRICS_OPENMETRICS},
        {"application/openmetrics-text;q=0.3,text/plain;q=0.5", METRICS_PROMETHEUS},
        {"text/plain;q=0.5 , application/openmetrics-text ; q=0.5", METRICS_OPENMETRICS},
        {"application/openmetrics-text;q=0", METRICS_PROMETHEUS},
        {"application/openmetrics-text;q=0.000", METRICS_PROMETHEUS},
        {"application/openmetrics-text;q=nan", METRICS_PROMETHEUS},
        {"application/openmetrics-textile", METRICS_PROMETHEUS},
        {",,;q=,;;q=1;", METRICS_PROMETHEUS},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        ck_assert_msg(metrics_format_of(cases[i].accept) == cases[i].format, "%s", cases[i].accept);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("metrics");
    TCase *cases = tcase_create("metrics");
    tcase_add_test(cases, every_figure_has_its_line);
    tcase_add_test(cases, buckets_of_a_histogram_add_up);
    tcase_add_test(cases, what_is_unknown_is_left_out);
    tcase_add_test(cases, openmetrics_names_its_families_otherwise_and_ends);
    tcase_add_test(cases, a_name_is_escaped_and_stays_utf8);
    tcase_add_test(cases, families_are_not_split_by_forwarder);
    tcase_add_test(cases, without_memory_there_is_no_text);
    tcase_add_test(cases, the_accept_header_decides);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
