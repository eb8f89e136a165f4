/* test_penstock_view: the status documents as a person reads them */
#include "unit/unit.h"

#include <string.h>

#include "base/cleanup.h"
#include "penstock_view.h"

static const int64_t wall = INT64_C(1796040000) * 1000000; /* 2026-11-30T12:00:00Z */

static const char *const two_forwarders =
    "[{\"name\": \"order-status\", \"state\": \"held\", \"since\": \"2026-11-30T11:45:59.8Z\", \"healthy\": false,"
    "  \"reason\": \"event at position 1039 (id e-1): NO_ROUTE\", \"resumes\": \"next attempt in 2.0 s\","
    "  \"culprit\": {\"kind\": \"event\", \"position\": 1039, \"event_id\": \"e-1\", \"destination\": \"orders "
    "order.paid\", \"words\": \"NO_ROUTE\"},"
    "  \"source\": {\"connection\": \"shop-db\", \"table\": \"public.event\", \"mode\": \"snapshot\", \"connected\": "
    "true, \"read_position\": 1041},"
    "  \"sink\": {\"connection\": \"shop-rabbit\", \"kind\": \"rabbitmq\", \"connected\": true, \"blocked_since\": "
    "null},"
    "  \"checkpoint\": {\"position\": 1038, \"saved\": \"2026-11-30T11:59:30Z\", \"epoch\": 3},"
    "  \"lag\": {\"events\": 3, \"estimated\": true, \"seconds\": 840.2, \"oldest_position\": 1039}, \"rate\": 2.5,"
    "  \"window\": {\"events\": 3, \"bytes\": 2210, \"unsaved\": 7, \"held\": 2, \"followers\": 86, "
    "\"max_events\": 2000, \"max_bytes\": 16777216, "
    "\"max_unsaved\": 10000},"
    "  \"counts\": {\"read\": 12, \"confirmed\": 9}, \"lease\": {\"held\": true, \"owner\": \"host:42\", \"place\": \"1a2b\", "
    "\"until\": "
    "null}},"
    " {\"name\": \"b\\u00fccher\", \"state\": \"idle\", \"since\": \"2026-11-28T10:00:00Z\", \"healthy\": true, "
    "\"reason\": null,"
    "  \"checkpoint\": {\"position\": 7}, \"lag\": {\"events\": 0, \"seconds\": 0.0, \"oldest_position\": null}, \"rate\": 0.0}]";

/* Shows the document; the caller frees. */
static char *show(const char *json, bool one, bool color, unsigned width) {
    json_error_t error;
    json_t *root = json_loads(json, 0, &error);
    ck_assert_msg(root != NULL, "%s", error.text);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct penstock_view view = {.out = out, .color = color, .width = width, .wall_us = wall};
    if (one)
        penstock_view_forwarder(&view, root);
    else
        penstock_view_table(&view, root);
    fclose(out);
    json_decref(root);
    return text;
}

START_TEST(one_line_per_forwarder_in_aligned_columns) {
    CLEANUP(cleanup_free) char *text = show(two_forwarders, false, false, 0);
    ck_assert_str_eq(
        text, "FORWARDER     STATE    SINCE  POSITION     LAG  WAITING   RATE  REASON\n"
              "order-status  held    14 min      1038  14 min       3+  2.5/s  event at position 1039 (id e-1): NO_ROUTE\n"
              "b\u00fccher        idle   2 d 2 h         7       -        0    0/s  -\n");
}
END_TEST

START_TEST(a_refused_reload_is_said_with_its_age) {
    CLEANUP(cleanup_free) char *text = NULL;
    size_t size;
    json_t *root = json_loads("{\"configuration\": {\"refused\": \"2 errors: a.yaml:1:\\u001b[31m\", "
                              "\"refused_at\": \"2026-11-30T11:59:30Z\"}}", 0, NULL);
    FILE *out = open_memstream(&text, &size);
    struct penstock_view view = {.out = out, .wall_us = wall};
    penstock_view_daemon(&view, "> ", root);
    json_object_set_new(json_object_get(root, "configuration"), "refused", json_null());
    penstock_view_daemon(&view, "> ", root);
    fclose(out);
    json_decref(root);
    ck_assert_str_eq(text, "> the configuration as it is now was refused 30 s ago, the one before it is in force: "
                           "2 errors: a.yaml:1: [31m\n");
}
END_TEST

START_TEST(no_forwarders_are_the_titles_alone) {
    CLEANUP(cleanup_free) char *text = show("[]", false, false, 0);
    ck_assert_str_eq(text, "FORWARDER  STATE  SINCE  POSITION  LAG  WAITING  RATE  REASON\n");
}
END_TEST

START_TEST(nothing_that_waits_is_not_what_cannot_be_seen) {
    CLEANUP(cleanup_free)
    char *text = show("[{\"name\": \"a\", \"lag\": {\"events\": 0, \"seconds\": 0.0, \"oldest_position\": null}},"
                      " {\"name\": \"b\", \"lag\": {\"events\": 0, \"seconds\": null, \"oldest_position\": null}},"
                      " {\"name\": \"c\", \"lag\": {\"events\": 0, \"seconds\": 75.0, \"oldest_position\": null}}]",
                      false, false, 0);
    ck_assert_str_eq(text, "FORWARDER  STATE  SINCE  POSITION    LAG  WAITING  RATE  REASON\n"
                           "a          -          -         -      -        0     -  -\n"
                           "b          -          -         -      ?        ?     -  -\n"
                           "c          -          -         -  1 min        0     -  -\n");
}
END_TEST

START_TEST(everything_about_one) {
    json_t *all = json_loads(two_forwarders, 0, NULL);
    CLEANUP(cleanup_free) char *first = json_dumps(json_array_get(all, 0), 0);
    json_decref(all);
    CLEANUP(cleanup_free) char *text = show(first, true, false, 0);
    ck_assert_str_eq(text, "order-status  held for 14 min, not healthy\n"
                           "  reason      event at position 1039 (id e-1): NO_ROUTE\n"
                           "  resumes     next attempt in 2.0 s\n"
                           "  culprit     event at position 1039, id e-1, to orders order.paid: NO_ROUTE\n"
                           "  source      shop-db, table public.event, mode snapshot, connected, read up to 1041\n"
                           "  sink        shop-rabbit, kind rabbitmq, connected\n"
                           "  checkpoint  1038, saved 30 s ago, epoch 3\n"
                           "  lag         14 min, oldest position 1039, 3+ waiting\n"
                           "  rate        2.5/s\n"
                           "  window      3 of 2000 events, 2210 of 16777216 bytes, 7 of 10000 unsaved, 2 held, 86 behind "
                           "them\n"
                           "  counts      read 12, confirmed 9\n"
                           "  lease       held, owner host:42, place 1a2b\n");
}
END_TEST

START_TEST(a_transaction_that_keeps_a_gap_open_is_shown) {
    CLEANUP(cleanup_free)
    char *text = show("{\"name\": \"a\", \"state\": \"held\", \"culprit\": {\"kind\": \"transaction\", \"position\": 5,"
                      " \"pid\": 7731, \"application\": \"billing\", \"user\": \"app\", \"state\": \"idle in transaction\","
                      " \"since\": \"2026-11-30T11:00:00Z\", \"prepared\": null, \"words\": null},"
                      " \"source\": {\"mode\": \"gaps\", \"gaps\": {\"open\": 2, \"dead\": 7, \"dropped\": 0}}}",
                      true, false, 0);
    ck_assert_msg(strstr(text, "  culprit     transaction at position 5, pid 7731, application billing, user app, idle in"
                               " transaction, since 2026-11-30T11:00:00Z\n"), "%s", text);
    ck_assert_msg(strstr(text, "  gaps        2 open, 7 dead and looked at, 0 given up early\n"), "%s", text);
}
END_TEST

START_TEST(a_line_is_cut_at_the_edge_of_the_terminal) {
    CLEANUP(cleanup_free) char *text = show(two_forwarders, false, false, 70);
    ck_assert_ptr_nonnull(strstr(text, "  3+  2.5/s  event\u2026\n"));
}
END_TEST

START_TEST(a_terminal_without_room_is_survived) {
    for (unsigned width = 1; width < 80; width++) {
        CLEANUP(cleanup_free) char *text = show(two_forwarders, false, true, width);
        ck_assert_ptr_nonnull(text);
    }
}
END_TEST

START_TEST(colors_say_who_is_well) {
    CLEANUP(cleanup_free) char *text = show(two_forwarders, false, true, 0);
    ck_assert_ptr_nonnull(strstr(text, "\033[31mheld\033[0m"));
    ck_assert_ptr_nonnull(strstr(text, "\033[32midle\033[0m"));
    CLEANUP(cleanup_free)
    char *paused = show("[{\"name\": \"a\", \"state\": \"paused\", \"healthy\": true}]", false, true, 0);
    ck_assert_ptr_nonnull(strstr(paused, "\033[33mpaused\033[0m"));
}
END_TEST

START_TEST(no_peer_steers_the_terminal) {
    CLEANUP(cleanup_free)
    char *text = show("[{\"name\": \"a\", \"state\": \"held\", \"reason\": \"x\\u001b[2J\\u0007\\u009b\\u007f\\ny\"}]",
                      false, false, 0);
    ck_assert_ptr_nonnull(strstr(text, "x [2J    y\n"));
}
END_TEST

START_TEST(strange_documents_are_survived) {
    static const char *const strange[] = {"[]", "{}", "[1, null, [], {}]",
                                          "[{\"name\": 3, \"since\": \"soon\", \"lag\": 5, \"counts\": []}]"};
    for (size_t i = 0; i < ARRAY_LENGTH(strange); i++) {
        CLEANUP(cleanup_free) char *table = show(strange[i], false, false, 0);
        CLEANUP(cleanup_free) char *one = show(strange[i], true, false, 0);
        ck_assert_ptr_nonnull(table);
        ck_assert_ptr_nonnull(strstr(one, "not healthy"));
    }
}
END_TEST

START_TEST(a_file_is_no_terminal) {
    FILE *file = tmpfile();
    struct penstock_view view = penstock_view_of(file);
    ck_assert(!view.color);
    ck_assert_uint_eq(view.width, 0);
    fclose(file);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("penstock_view");
    TCase *cases = tcase_create("penstock_view");
    tcase_add_test(cases, one_line_per_forwarder_in_aligned_columns);
    tcase_add_test(cases, a_refused_reload_is_said_with_its_age);
    tcase_add_test(cases, no_forwarders_are_the_titles_alone);
    tcase_add_test(cases, everything_about_one);
    tcase_add_test(cases, nothing_that_waits_is_not_what_cannot_be_seen);
    tcase_add_test(cases, a_transaction_that_keeps_a_gap_open_is_shown);
    tcase_add_test(cases, a_line_is_cut_at_the_edge_of_the_terminal);
    tcase_add_test(cases, a_terminal_without_room_is_survived);
    tcase_add_test(cases, colors_say_who_is_well);
    tcase_add_test(cases, no_peer_steers_the_terminal);
    tcase_add_test(cases, strange_documents_are_survived);
    tcase_add_test(cases, a_file_is_no_terminal);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
