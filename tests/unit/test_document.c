/* test_document: the JSON documents of the status socket */
#include "unit/unit.h"

#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "status/document.h"

static const int64_t now = 5000 * INT64_C(1000000);
static const int64_t wall = INT64_C(1796040000) * 1000000; /* 2026-11-30T12:00:00Z */

static const struct document_daemon daemon_facts = {
    .version = "0.1.0",
    .instance = "host:42",
    .started_wall_us = INT64_C(1796032800) * 1000000,
    .health_max_age_us = 60 * INT64_C(1000000),
};

static struct forwarder_stats held_forwarder(void) {
    return (struct forwarder_stats){
        .name = "order-status",
        .state = FORWARDER_HELD,
        .reason = "broker 'shop-rabbit' returned event 1039 (NO_ROUTE)",
        .resumes = "when the exchange routes it",
        .since_wall_us = wall - 840200000,
        .culprit = {.kind = "event",
                    .position = 1039,
                    .event_id = "e-1039",
                    .destination = "orders order.paid",
                    .words = "NO_ROUTE"},
        .source_connection = "shop-db",
        .table = "public.event",
        .mode = "snapshot",
        .source_connected = true,
        .read_position = 1041,
        .sink_connection = "shop-rabbit",
        .sink_kind = "rabbitmq",
        .sink_connected = true,
        .blocked_since_wall_us = wall - 1500000,
        .checkpoint_position = 1038,
        .checkpoint_saved_wall_us = wall - 250000,
        .epoch = 3,
        .owner = "host:42",
        .owner_place = "1a2b3c4d",
        .lease_held = true,
        .any_unsettled = true,
        .rows_wait = true,
        .oldest_position = 1039,
        .oldest_recorded_wall_us = wall - 840200000,
        .oldest_since_us = now - 840000000,
        .last_settled_us = now - 840000000,
        .window_events = 3,
        .window_bytes = 2210,
        .window_unsaved = 7,
        .window_held = 2,
        .window_followers = 86,
        .window_max_events = 2000,
        .window_max_bytes = 16777216,
        .window_max_unsaved = 10000,
        .counts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
        .rate = {.counts = {0}, .at_us = {now - 1600000}, .next = 1},
    };
}

static struct forwarder_stats new_forwarder(void) {
    return (struct forwarder_stats){.name = "fresh", .read_position = INT64_MIN, .checkpoint_position = INT64_MIN};
}

static json_t *parse(const char *text) {
    ck_assert_ptr_nonnull(text);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(root != NULL, "%s in: %s", error.text, text);
    return root;
}

static const char *const golden_held = "{\n"
                                       " \"name\": \"order-status\",\n"
                                       " \"state\": \"held\",\n"
                                       " \"reason\": \"broker 'shop-rabbit' returned event 1039 (NO_ROUTE)\",\n"
                                       " \"resumes\": \"when the exchange routes it\",\n"
                                       " \"since\": \"2026-11-30T11:45:59.8Z\",\n"
                                       " \"healthy\": false,\n"
                                       " \"culprit\": {\n"
                                       "  \"kind\": \"event\",\n"
                                       "  \"position\": 1039,\n"
                                       "  \"event_id\": \"e-1039\",\n"
                                       "  \"destination\": \"orders order.paid\",\n"
                                       "  \"words\": \"NO_ROUTE\"\n"
                                       " },\n"
                                       " \"source\": {\n"
                                       "  \"connection\": \"shop-db\",\n"
                                       "  \"table\": \"public.event\",\n"
                                       "  \"mode\": \"snapshot\",\n"
                                       "  \"connected\": true,\n"
                                       "  \"read_position\": 1041\n"
                                       " },\n"
                                       " \"sink\": {\n"
                                       "  \"connection\": \"shop-rabbit\",\n"
                                       "  \"kind\": \"rabbitmq\",\n"
                                       "  \"connected\": true,\n"
                                       "  \"blocked_since\": \"2026-11-30T11:59:58.5Z\"\n"
                                       " },\n"
                                       " \"checkpoint\": {\n"
                                       "  \"position\": 1038,\n"
                                       "  \"saved\": \"2026-11-30T11:59:59.75Z\",\n"
                                       "  \"epoch\": 3\n"
                                       " },\n"
                                       " \"lag\": {\n"
                                       "  \"events\": 3,\n"
                                       "  \"estimated\": true,\n"
                                       "  \"seconds\": 840.2,\n"
                                       "  \"oldest_position\": 1039\n"
                                       " },\n"
                                       " \"rate\": 2.5,\n"
                                       " \"window\": {\n"
                                       "  \"events\": 3,\n"
                                       "  \"bytes\": 2210,\n"
                                       "  \"unsaved\": 7,\n"
                                       "  \"held\": 2,\n"
                                       "  \"followers\": 86,\n"
                                       "  \"max_events\": 2000,\n"
                                       "  \"max_bytes\": 16777216,\n"
                                       "  \"max_unsaved\": 10000\n"
                                       " },\n"
                                       " \"counts\": {\n"
                                       "  \"read\": 1,\n"
                                       "  \"filtered\": 2,\n"
                                       "  \"published\": 3,\n"
                                       "  \"confirmed\": 4,\n"
                                       "  \"returned\": 5,\n"
                                       "  \"nacked\": 6,\n"
                                       "  \"retried\": 7,\n"
                                       "  \"rejected\": 8,\n"
                                       "  \"unmatched\": 9,\n"
                                       "  \"skipped\": 10,\n"
                                       "  \"parked\": 11,\n"
                                       "  \"reconnects\": 25\n"
                                       " },\n"
                                       " \"lease\": {\n"
                                       "  \"held\": true,\n"
                                       "  \"owner\": \"host:42\",\n"
                                       "  \"place\": \"1a2b3c4d\",\n"
                                       "  \"until\": null\n"
                                       " }\n"
                                       "}\n";

START_TEST(one_forwarder_is_told_whole) {
    struct forwarder_stats s = held_forwarder();
    CLEANUP(cleanup_free) char *text = document_forwarder(&daemon_facts, &s, now, wall);
    ck_assert_str_eq(text, golden_held);
}
END_TEST

START_TEST(the_daemon_is_told_with_every_forwarder) {
    struct forwarder_stats both[] = {held_forwarder(), new_forwarder()};
    CLEANUP(cleanup_free) char *text = document_status(&daemon_facts, both, 2, now, wall);
    json_t *root = parse(text);
    ck_assert_str_eq(json_string_value(json_object_get(root, "version")), "0.1.0");
    ck_assert_str_eq(json_string_value(json_object_get(root, "instance")), "host:42");
    ck_assert_str_eq(json_string_value(json_object_get(root, "started")), "2026-11-30T10:00:00Z");
    ck_assert(json_is_false(json_object_get(root, "healthy")));
    json_t *forwarders = json_object_get(root, "forwarders");
    ck_assert_uint_eq(json_array_size(forwarders), 2);
    json_t *expected = parse(golden_held);
    ck_assert(json_equal(json_array_get(forwarders, 0), expected));
    json_decref(expected);
    json_decref(root);
}
END_TEST

START_TEST(what_is_unknown_is_null) {
    struct forwarder_stats s = new_forwarder();
    CLEANUP(cleanup_free) char *text = document_forwarder(&daemon_facts, &s, now, wall);
    json_t *root = parse(text);
    static const char *const paths[][2] = {
        {"reason", NULL},
        {"resumes", NULL},
        {"since", NULL},
        {"culprit", NULL},
        {"source", "connection"},
        {"source", "mode"},
        {"source", "read_position"},
        {"sink", "blocked_since"},
        {"checkpoint", "position"},
        {"checkpoint", "saved"},
        {"lag", "oldest_position"},
        {"lease", "owner"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        json_t *value = json_object_get(root, paths[i][0]);
        if (paths[i][1])
            value = json_object_get(value, paths[i][1]);
        ck_assert_msg(json_is_null(value), "%s.%s", paths[i][0], paths[i][1] ? paths[i][1] : "");
    }
    ck_assert_ptr_null(json_object_get(json_object_get(root, "lag"), "estimated"));
    json_decref(root);
}
END_TEST

START_TEST(a_transaction_that_keeps_a_gap_open_is_told) {
    struct forwarder_stats s = held_forwarder();
    s.culprit = (struct forwarder_culprit){.kind = "transaction", .position = 5, .pid = 7731, .application = "billing",
                                           .user = "app", .session = "idle in transaction", .began_wall_us = wall};
    s.by_gaps = true;
    s.gaps_open = 2;
    s.gaps_dead = 7;
    CLEANUP(cleanup_free) char *text = document_forwarder(&daemon_facts, &s, now, wall);
    json_t *root = parse(text);
    json_t *expected = parse("{\"kind\": \"transaction\", \"position\": 5, \"pid\": 7731, \"application\": \"billing\","
                             " \"user\": \"app\", \"state\": \"idle in transaction\", \"since\": \"2026-11-30T12:00:00Z\","
                             " \"prepared\": null, \"words\": null}");
    json_t *gaps = parse("{\"open\": 2, \"dead\": 7, \"dropped\": 0}");
    ck_assert_msg(json_equal(json_object_get(root, "culprit"), expected), "%s", text);
    ck_assert_msg(json_equal(json_object_get(json_object_get(root, "source"), "gaps"), gaps), "%s", text);
    json_decref(gaps);
    json_decref(expected);
    json_decref(root);
}
END_TEST

START_TEST(lag_grows_by_the_reading_time) {
    struct forwarder_stats s = held_forwarder();
    CLEANUP(cleanup_free) char *text = document_forwarder(&daemon_facts, &s, now + 1500000, wall + 1500000);
    ck_assert_ptr_nonnull(strstr(text, "\"seconds\": 841.7,"));
}
END_TEST

START_TEST(a_lag_that_cannot_be_seen_is_null_and_not_zero) {
    struct forwarder_stats s = held_forwarder();
    s.blind = true; /* what was read is known all the same */
    CLEANUP(cleanup_free) char *known = document_forwarder(&daemon_facts, &s, now, wall);
    ck_assert_ptr_nonnull(strstr(known, "\"seconds\": 840.2,"));
    s.any_unsettled = false;
    CLEANUP(cleanup_free) char *unknown = document_forwarder(&daemon_facts, &s, now, wall);
    ck_assert_ptr_nonnull(strstr(unknown, "\"seconds\": null,"));
}
END_TEST

START_TEST(numbers_are_exact_integers) {
    struct forwarder_stats s = held_forwarder();
    s.read_position = INT64_MAX;
    s.checkpoint_position = INT64_C(9007199254740993); /* no double holds it */
    s.counts.read = UINT64_MAX;
    CLEANUP(cleanup_free) char *text = document_forwarder(&daemon_facts, &s, now, wall);
    ck_assert_ptr_nonnull(strstr(text, "\"read_position\": 9223372036854775807\n"));
    ck_assert_ptr_nonnull(strstr(text, "\"position\": 9007199254740993,"));
    ck_assert_ptr_nonnull(strstr(text, "\"read\": 9223372036854775807,"));
}
END_TEST

/* What a broker says may be anything, and a bounded copy ends anywhere. */
START_TEST(words_that_are_no_utf8_come_out_as_utf8) {
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F"},
        {"cut \xE2\x82", "cut ??"},
        {"\xFF\xFE", "??"},
        {"overlong \xC0\xAF \xE0\x80\xAF \xF0\x80\x80\xAF", "overlong ?? ??? ????"},
        {"surrogate \xED\xA0\x80", "surrogate ???"},
        {"beyond \xF4\x90\x80\x80 \xF5\x80\x80\x80", "beyond ???? ????"},
        {"kept \xF0\x9F\x98\x80 \xED\x9F\xBF \xEE\x80\x80 \xF4\x8F\xBF\xBF",
         "kept \xF0\x9F\x98\x80 \xED\x9F\xBF \xEE\x80\x80 \xF4\x8F\xBF\xBF"},
        {"lines\n\"quoted\"\x1b[31m", "lines\n\"quoted\"\x1b[31m"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(cleanup_free) char *text = document_problem(404, "Not Found", cases[i].in);
        json_t *root = parse(text);
        ck_assert_str_eq(json_string_value(json_object_get(root, "detail")), cases[i].out);
        json_decref(root);
    }
}
END_TEST

START_TEST(health_names_who_is_not_and_why) {
    struct forwarder_stats both[] = {new_forwarder(), held_forwarder()};
    bool healthy = true;
    CLEANUP(cleanup_free) char *text = document_health(&daemon_facts, both, 2, now, wall, &healthy);
    ck_assert(!healthy);
    ck_assert_str_eq(text, "{\n"
                           " \"healthy\": false,\n"
                           " \"unhealthy\": [\n"
                           "  {\n"
                           "   \"name\": \"order-status\",\n"
                           "   \"state\": \"held\",\n"
                           "   \"since\": \"2026-11-30T11:45:59.8Z\",\n"
                           "   \"lag_seconds\": 840.2,\n"
                           "   \"why\": \"an event has waited longer than health.max_age\",\n"
                           "   \"reason\": \"broker 'shop-rabbit' returned event 1039 (NO_ROUTE)\"\n"
                           "  }\n"
                           " ]\n"
                           "}\n");
}
END_TEST

START_TEST(health_of_the_healthy_is_short) {
    struct forwarder_stats s = new_forwarder();
    bool healthy = false;
    CLEANUP(cleanup_free) char *text = document_health(&daemon_facts, &s, 1, now, wall, &healthy);
    ck_assert(healthy);
    ck_assert_str_eq(text, "{\n \"healthy\": true,\n \"unhealthy\": []\n}\n");
}
END_TEST

START_TEST(ready_waits_for_who_is_starting) {
    struct forwarder_stats both[] = {new_forwarder(), held_forwarder()};
    bool ready = true;
    CLEANUP(cleanup_free) char *waiting = document_ready(both, 2, &ready);
    ck_assert(!ready);
    ck_assert_str_eq(waiting, "{\n \"ready\": false,\n \"starting\": [\n  \"fresh\"\n ]\n}\n");
    both[0].state = FORWARDER_REFUSED;
    CLEANUP(cleanup_free) char *past = document_ready(both, 2, &ready);
    ck_assert(ready);
    ck_assert_str_eq(past, "{\n \"ready\": true,\n \"starting\": []\n}\n");
}
END_TEST

START_TEST(a_document_past_its_maximum_is_not_made) {
    enum { MANY = 2000 };
    CLEANUP(cleanup_free) struct forwarder_stats *many = calloc(MANY, sizeof *many);
    for (int i = 0; i < MANY; i++) {
        many[i] = held_forwarder();
        memset(many[i].reason, 'x', sizeof many[i].reason - 1);
    }
    CLEANUP(cleanup_free) char *none = document_status(&daemon_facts, many, MANY, now, wall);
    ck_assert_ptr_null(none);
    CLEANUP(cleanup_free) char *some = document_status(&daemon_facts, many, 1000, now, wall);
    ck_assert_ptr_nonnull(some);
    ck_assert_uint_le(strlen(some), DOCUMENT_MAX_BYTES);
}
END_TEST

/* Fails the n-th allocation of the library. */
static long allocations_left;
static void *failing_malloc(size_t size) {
    return allocations_left-- == 0 ? NULL : malloc(size);
}

typedef char *(*make_document)(const struct forwarder_stats *both);
static char *make_status(const struct forwarder_stats *both) {
    return document_status(&daemon_facts, both, 2, now, wall);
}
static char *make_one(const struct forwarder_stats *both) {
    return document_forwarder(&daemon_facts, both, now, wall);
}
static char *make_health(const struct forwarder_stats *both) {
    bool healthy;
    return document_health(&daemon_facts, both, 2, now, wall, &healthy);
}
static char *make_ready(const struct forwarder_stats *both) {
    bool ready;
    return document_ready(both, 2, &ready);
}
static char *make_problem(const struct forwarder_stats *both) {
    return document_problem(404, "Not Found", both[0].name);
}

START_TEST(without_memory_a_document_is_whole_or_not_there) {
    static const make_document makers[] = {make_status, make_one, make_health, make_ready, make_problem};
    struct forwarder_stats both[] = {held_forwarder(), new_forwarder()};
    CLEANUP(cleanup_free) char *undisturbed = makers[_i](both);
    ck_assert_ptr_nonnull(undisturbed);
    json_set_alloc_funcs(failing_malloc, free);
    long n = 0, failures = 0;
    do {
        allocations_left = n++;
        CLEANUP(cleanup_free) char *text = makers[_i](both);
        ck_assert(!text || strcmp(text, undisturbed) == 0);
        failures += text == NULL;
    } while (allocations_left < 0 && n < 10000);
    json_set_alloc_funcs(malloc, free);
    ck_assert_int_ge(allocations_left, 0);
    ck_assert_int_gt(failures, 4);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("document");
    TCase *cases = tcase_create("document");
    tcase_add_test(cases, one_forwarder_is_told_whole);
    tcase_add_test(cases, the_daemon_is_told_with_every_forwarder);
    tcase_add_test(cases, what_is_unknown_is_null);
    tcase_add_test(cases, a_transaction_that_keeps_a_gap_open_is_told);
    tcase_add_test(cases, lag_grows_by_the_reading_time);
    tcase_add_test(cases, a_lag_that_cannot_be_seen_is_null_and_not_zero);
    tcase_add_test(cases, numbers_are_exact_integers);
    tcase_add_test(cases, words_that_are_no_utf8_come_out_as_utf8);
    tcase_add_test(cases, health_names_who_is_not_and_why);
    tcase_add_test(cases, health_of_the_healthy_is_short);
    tcase_add_test(cases, ready_waits_for_who_is_starting);
    tcase_add_test(cases, a_document_past_its_maximum_is_not_made);
    tcase_add_loop_test(cases, without_memory_a_document_is_whole_or_not_there, 0, 5);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
