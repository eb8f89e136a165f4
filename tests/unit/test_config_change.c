/* test_config_change: what a new configuration changes in the one that is in force */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config_change.h"
#include "unit/fail_alloc.h"

static char directory[] = "/tmp/penstock-test-change-XXXXXX";
static char path[sizeof(directory) + 16];
static struct diag *diag;
static struct config *old, *new;

static void before(void) {
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/t.yaml", directory);
    ck_assert_int_eq(diag_new(&diag), 0);
}

static void after(void) {
    config_free(TAKE(old));
    config_free(TAKE(new));
    diag_free(diag);
    unlink(path);
    rmdir(directory);
    memcpy(directory + strlen(directory) - 6, "XXXXXX", 6);
}

static const char usual[] = "connections:\n"
                            "  db: {postgresql: {conninfo: 'host=/x password=one', password: {file: /a}}}\n"
                            "  rabbit: {rabbitmq: {uri: 'amqp://me:first@localhost/'}}\n"
                            "  kafka: {kafka: {bootstrap.servers: 'x:1', sasl.username: me, sasl.password: seven,\n"
                            "    security.protocol: sasl_plaintext, sasl.mechanism: PLAIN}}\n"
                            "forwarders:\n"
                            "  orders:\n"
                            "    source: {connection: db, table: event}\n"
                            "    sink: {connection: rabbit}\n"
                            "    rules: [{filter: {exact: {type: t}}, to: {exchange: e, routing_key: k}}]\n"
                            "  copies:\n"
                            "    source: {connection: db, table: event, mode: snapshot}\n"
                            "    sink: {connection: kafka}\n"
                            "    rules: [{to: {topic: e}}]\n"
                            "health: {max_age: 60s}\n"
                            "status: {socket: /run/a}\n"
                            "checkpoint: {schema: penstock, create: false}\n";

static struct config *load(const char *text) {
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    fclose(file);
    struct config *config = NULL;
    int r = config_load(path, diag, &config);
    enum diag_level level;
    ck_assert_msg(r == 0, "%s: %s", text, diag_text(diag, 0, &level));
    return config;
}

/* The usual one with one place of it changed. */
static void load_changed(const char *from, const char *to) {
    char text[2 * sizeof usual];
    const char *at = strstr(usual, from);
    ck_assert_msg(at != NULL, "%s is not in it", from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - usual), usual, to, at + strlen(from));
    config_free(TAKE(old));
    config_free(TAKE(new));
    old = load(usual);
    new = load(text);
}

static bool changed(const char *name) {
    bool result;
    const struct config_forwarder *forwarder = config_find_forwarder(new, name);
    ck_assert_ptr_nonnull(forwarder);
    ck_assert_int_eq(config_change_of(old, new, forwarder, &result), 0);
    return result;
}

static void expect(const char *from, const char *to, bool orders, bool copies) {
    load_changed(from, to);
    ck_assert_msg(changed("orders") == orders && changed("copies") == copies, "%s -> %s: orders %d, copies %d", from, to,
                  changed("orders"), changed("copies"));
}

START_TEST(a_forwarder_has_changed_if_anything_of_it_has) {
    expect("exchange: e", "exchange: e", false, false);
    expect("exchange: e", "exchange: f", true, false);
    expect("type: t", "type: u", true, false);
    expect("topic: e", "topic: f", false, true);
    expect("{connection: kafka}", "{connection: kafka, ack_timeout: 9s}", false, true);
    expect("create: false", "create: true", true, true);
    expect("max_age: 60s", "max_age: 30s", false, false);
    /* Written otherwise, but the same. */
    expect("{connection: rabbit}", "{in_flight: 1000, connection: \"rabbit\"}", false, false);
}
END_TEST

START_TEST(a_forwarder_has_changed_if_a_connection_of_it_has) {
    expect("localhost", "elsewhere", true, false);
    expect("'x:1'", "'x:2'", false, true);
    expect("host=/x", "host=/y", true, true);
    expect("{file: /a}", "{file: /b}", true, true);
}
END_TEST

START_TEST(a_secret_that_is_masked_when_shown_is_seen_when_it_changes) {
    expect("me:first", "me:other", true, false);
    expect("password=one", "password=two", true, true);
    expect("sasl.password: seven", "sasl.password: eight", false, true);
}
END_TEST

START_TEST(no_secret_stands_in_what_is_compared) {
    old = load(usual);
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 20);
    struct hash_key key = hash_key_random();
    ck_assert_int_eq(config_print_forwarder(old, config_find_forwarder(old, "orders"), &key, &b), 0);
    ck_assert_int_eq(config_print_forwarder(old, config_find_forwarder(old, "copies"), &key, &b), 0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_ptr_null(strstr(b.data, "first"));
    ck_assert_ptr_null(strstr(b.data, "one"));
    ck_assert_ptr_null(strstr(b.data, "seven"));
}
END_TEST

START_TEST(one_that_was_not_there_has_changed) {
    load_changed("  orders:", "  others:");
    ck_assert(changed("others") && !changed("copies"));
}
END_TEST

static void expect_finding(const char *from, const char *to, const char *words) {
    load_changed(from, to);
    size_t errors = diag_count(diag, DIAG_ERROR);
    config_change_check(old, new, path, diag);
    ck_assert_uint_eq(diag_count(diag, DIAG_ERROR), errors + (words ? 1 : 0));
    for (size_t i = 0; words; i++) {
        enum diag_level level;
        const char *text = diag_text(diag, i, &level);
        ck_assert_msg(text != NULL, "no finding says %s", words);
        if (strstr(text, words) && strstr(text, "restart penstockd"))
            return;
    }
}

START_TEST(what_would_lose_the_place_is_a_finding) {
    expect_finding("exchange: e", "exchange: f", NULL);
    expect_finding("table: event", "table: other", "forwarder orders: source.table was event and is other");
    expect_finding("table: event", "table: event, columns: {position: n}",
                   "source.columns.position was not given and is n");
    expect_finding("table: event", "table: event, columns: {transaction_id: x}", "source.columns.transaction_id");
    expect_finding("  copies:\n    source: {connection: db, table: event, mode: snapshot}",
                   "  copies:\n    source: {connection: db, table: event, mode: gaps}",
                   "forwarder copies: source.mode was snapshot and is gaps");
    expect_finding("  copies:\n    source: {connection: db, table: event, mode: snapshot}",
                   "  copies:\n    source: {connection: db, table: event}", NULL);
    expect_finding("schema: penstock", "schema: other", "checkpoint.schema was penstock and is other");
    expect_finding("/run/a", "/run/b", "status.socket was /run/a and is /run/b");
}
END_TEST

START_TEST(another_name_has_no_place_to_lose) {
    expect_finding("  orders:\n    source: {connection: db, table: event}", "  again:\n    source: {connection: db, table: other}",
                   NULL);
}
END_TEST

START_TEST(without_memory_it_says_so) {
    load_changed("exchange: e", "exchange: e");
    const struct config_forwarder *forwarder = config_find_forwarder(new, "orders");
    bool result;
    FAIL_ALLOC_EACH(n) {
        int r = config_change_of(old, new, forwarder, &result);
        ck_assert_int_eq(r, fail_alloc_end() ? -ENOMEM : 0);
    }
    ck_assert(!result);
}
END_TEST

START_TEST(the_last_owner_frees) {
    old = load(usual);
    struct config *second = config_share(old);
    config_free(old);
    ck_assert_ptr_nonnull(config_find_forwarder(second, "orders"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("config_change");
    TCase *cases = tcase_create("config_change");
    tcase_add_checked_fixture(cases, before, after);
    tcase_add_test(cases, a_forwarder_has_changed_if_anything_of_it_has);
    tcase_add_test(cases, a_forwarder_has_changed_if_a_connection_of_it_has);
    tcase_add_test(cases, a_secret_that_is_masked_when_shown_is_seen_when_it_changes);
    tcase_add_test(cases, no_secret_stands_in_what_is_compared);
    tcase_add_test(cases, one_that_was_not_there_has_changed);
    tcase_add_test(cases, what_would_lose_the_place_is_a_finding);
    tcase_add_test(cases, another_name_has_no_place_to_lose);
    tcase_add_test(cases, without_memory_it_says_so);
    tcase_add_test(cases, the_last_owner_frees);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
