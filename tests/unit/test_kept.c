/* test_kept: a document is handed out again for a moment, and not past it */
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "status/kept.h"

static struct kept kept;
static const int64_t now = 1000000000;

static void empty(void) {
    kept_done(&kept);
}

static void put(const char *path, enum metrics_format format, uint64_t version, int64_t now_us, unsigned status, const char *text) {
    CLEANUP(cleanup_free) char *copy = strdup(text);
    struct answer answer = {.status = status, .type = "application/json", .text = copy};
    kept_put(&kept, path, format, version, now_us, &answer);
}

/* What is kept; "": nothing. */
static const char *found(const char *path, enum metrics_format format, uint64_t version, int64_t now_us) {
    static char text[64];
    struct answer answer;
    if (!kept_find(&kept, path, format, version, now_us, &answer))
        return "";
    ck_assert_str_eq(answer.type, "application/json");
    snprintf(text, sizeof text, "%s", answer.text);
    free(answer.text);
    return text;
}

START_TEST(it_is_the_same_for_a_moment) {
    put("/status", METRICS_PROMETHEUS, 7, now, 200, "one");
    ck_assert_str_eq(found("/status", METRICS_PROMETHEUS, 7, now), "one");
    ck_assert_str_eq(found("/status", METRICS_PROMETHEUS, 7, now + KEPT_FRESH_US - 1), "one");
    ck_assert_str_eq(found("/status", METRICS_PROMETHEUS, 7, now + KEPT_FRESH_US), "");
    put("/status", METRICS_PROMETHEUS, 7, now + KEPT_FRESH_US, 200, "two");
    ck_assert_str_eq(found("/status", METRICS_PROMETHEUS, 7, now + KEPT_FRESH_US), "two");
}
END_TEST

START_TEST(another_question_or_version_is_another_document) {
    put("/metrics", METRICS_PROMETHEUS, 7, now, 200, "one");
    ck_assert_str_eq(found("/metrics", METRICS_OPENMETRICS, 7, now), "");
    ck_assert_str_eq(found("/status", METRICS_PROMETHEUS, 7, now), "");
    ck_assert_str_eq(found("/metrics", METRICS_PROMETHEUS, 8, now), "");
    put("/health", METRICS_PROMETHEUS, 7, now, 503, "red");
    ck_assert_str_eq(found("/health", METRICS_PROMETHEUS, 7, now), "red");
    ck_assert_str_eq(found("/metrics", METRICS_PROMETHEUS, 7, now), "one");
}
END_TEST

START_TEST(refusals_and_long_paths_take_no_place) {
    char path[2 * KEPT_PATH_BYTES] = "/status/";
    memset(path + 8, 'x', sizeof path - 9);
    put("/nothing", METRICS_PROMETHEUS, 7, now, 404, "no");
    put(path, METRICS_PROMETHEUS, 7, now, 200, "long");
    ck_assert_str_eq(found("/nothing", METRICS_PROMETHEUS, 7, now), "");
    ck_assert_str_eq(found(path, METRICS_PROMETHEUS, 7, now), "");
}
END_TEST

START_TEST(of_more_than_fit_the_oldest_goes) {
    char path[32];
    for (int i = 0; i <= KEPT_MAX; i++) {
        snprintf(path, sizeof path, "/status/%d", i);
        put(path, METRICS_PROMETHEUS, 7, now + i, 200, path);
    }
    ck_assert_str_eq(found("/status/0", METRICS_PROMETHEUS, 7, now + KEPT_MAX), "");
    for (int i = 1; i <= KEPT_MAX; i++) {
        snprintf(path, sizeof path, "/status/%d", i);
        ck_assert_str_eq(found(path, METRICS_PROMETHEUS, 7, now + KEPT_MAX), path);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kept");
    TCase *cases = tcase_create("kept");
    tcase_add_checked_fixture(cases, NULL, empty);
    tcase_add_test(cases, it_is_the_same_for_a_moment);
    tcase_add_test(cases, another_question_or_version_is_another_document);
    tcase_add_test(cases, refusals_and_long_paths_take_no_place);
    tcase_add_test(cases, of_more_than_fit_the_oldest_goes);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
