/* test_pgconn: conninfo, quoting and failing to connect; what needs a server is tests/integration's */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "pg/pgconn.h"
#include "unit/fail_alloc.h"

#define PATIENCE_US (30 * CLOCK_US_PER_S)

static int check(const char *conninfo, struct error *reterr) {
    struct pgconn_options o = {.conninfo = (char *)conninfo};
    return pgconn_check_options(&o, reterr);
}

START_TEST(what_libpq_honours_is_accepted) {
    static const char *const good[] = {
        "", "host=/run/postgresql dbname=shop user=penstock", "host=a,b port=1,2 target_session_attrs=any",
        "postgresql://u:p@h:5432/d?sslmode=verify-full", "password='a b'", "service=shop"};
    struct error error;
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        ck_assert_msg(check(good[i], &error) == 0, "%s", good[i]);
    ck_assert_int_eq(check(NULL, &error), 0);
}
END_TEST

START_TEST(a_bad_conninfo_is_refused_in_libpqs_words) {
    struct error error;
    ck_assert_int_eq(check("hots=a", &error), -EINVAL);
    ck_assert_msg(strstr(error.text, "invalid connection option \"hots\""), "%s", error.text);
    ck_assert_int_eq(check("nonsense", &error), -EINVAL);
    ck_assert_int_eq(error.class, ERROR_CONFIG);
}
END_TEST

/* G14: libpq quotes what it stumbles over. */
START_TEST(a_bad_conninfo_with_a_password_does_not_show_it) {
    static const char *const bad[] = {"host=h password=one tr0ub4dor", "PASSWORD='tr0ub4dor", "password=x tr0ub4dor=3",
                                      "postgresql://u:tr0ub4dor@[h/d", "postgresql://u@h/d?tr0ub4dor=1", "passfile=a tr0ub4dor"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct error error = {0};
        ck_assert_msg(check(bad[i], &error) == -EINVAL, "%s", bad[i]);
        ck_assert_msg(!strstr(error.text, "tr0ub4dor"), "%s", error.text);
    }
}
END_TEST

static const char *quoted(int (*quote)(struct span, struct buf *), const char *text, struct buf *b) {
    buf_clear(b);
    ck_assert_int_eq(quote(span_of(text), b), 0);
    ck_assert_int_eq(buf_terminate(b), 0);
    return b->data;
}

START_TEST(names_and_texts_are_quoted_for_sql) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    ck_assert_str_eq(quoted(pgconn_quote_identifier, "Event Log", &b), "\"Event Log\"");
    ck_assert_str_eq(quoted(pgconn_quote_identifier, "a\"; DROP--", &b), "\"a\"\"; DROP--\"");
    ck_assert_str_eq(quoted(pgconn_quote_literal, "it's", &b), "'it''s'");
    ck_assert_str_eq(quoted(pgconn_quote_literal, "\\'", &b), " E'\\\\'''");
    ck_assert_str_eq(quoted(pgconn_quote_literal, "", &b), "''");
    CLEANUP(buf_done) struct buf small = BUF_INIT(5);
    ck_assert_int_eq(pgconn_quote_identifier(SPAN_LITERAL("abcdef"), &small), -EMSGSIZE);
}
END_TEST

/* Dials and works until the state is no longer DIALING. */
static int dial(struct pgconn *c, struct error *reterr) {
    int64_t end = clock_now_us() + PATIENCE_US;
    int r = pgconn_dial(c, clock_now_us());
    ck_assert_int_eq(r, 0);
    ck_assert_int_eq(pgconn_state(c), PGCONN_DIALING);
    while (r == 0 && pgconn_state(c) == PGCONN_DIALING) {
        struct pollfd fd;
        ck_assert(clock_now_us() < end);
        pgconn_poll(c, &fd);
        ck_assert_int_ge(fd.fd, 0);
        ck_assert_int_eq(fd.events, POLLIN);
        clock_poll(&fd, 1, pgconn_deadline_us(c));
        r = pgconn_work(c, clock_now_us(), reterr);
    }
    return r;
}

static void expect_failure(const struct pgconn_options *o, const char *says) {
    struct pgconn *c;
    struct error error = {0};
    struct pollfd fd;
    ck_assert_int_eq(pgconn_new(o, "shop-db", "f", "tail", NULL, &c), 0);
    ck_assert_int_eq(dial(c, &error), PGCONN_E_LOST);
    ck_assert_msg(strstr(error.text, says), "%s", error.text);
    ck_assert_msg(strstr(error.text, "'shop-db'"), "%s", error.text);
    ck_assert_int_eq(pgconn_state(c), PGCONN_CLOSED);
    ck_assert_int_eq(pgconn_deadline_us(c), CLOCK_NEVER);
    pgconn_poll(c, &fd);
    ck_assert_int_eq(fd.fd, -1);
    pgconn_free(c);
}

static struct pgconn_options options_to(char *conninfo) {
    return (struct pgconn_options){.conninfo = conninfo,
                                   .connect_timeout_us = 2 * CLOCK_US_PER_S,
                                   .statement_timeout_us = 2 * CLOCK_US_PER_S};
}

START_TEST(a_server_that_is_away_is_a_failed_attempt) {
    struct pgconn_options o = options_to((char *)"host=/nowhere user=x");
    expect_failure(&o, "/nowhere");
}
END_TEST

START_TEST(a_secret_that_can_not_be_read_is_a_failed_attempt) {
    struct pgconn_options o = options_to((char *)"host=/nowhere user=x");
    o.password = (struct secret){SECRET_FILE, (char *)"/nowhere/password"};
    expect_failure(&o, "/nowhere/password");
}
END_TEST

/* A socket that takes connections and never says a word. */
static int listen_silently(char conninfo[96]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(listen(fd, 5), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(conninfo, 96, "host=127.0.0.1 gssencmode=disable user=x port=%d", ntohs(a.sin_port));
    return fd;
}

START_TEST(a_server_that_says_nothing_is_given_up_in_time) {
    char conninfo[96];
    CLEANUP(cleanup_close) int fd = listen_silently(conninfo);
    struct pgconn_options o = options_to(conninfo);
    int64_t before = clock_now_us();
    expect_failure(&o, "timeout expired");
    ck_assert_int_lt(clock_now_us() - before, 10 * CLOCK_US_PER_S);
}
END_TEST

START_TEST(an_attempt_that_hangs_past_its_deadline_is_left_behind) {
    char conninfo[96];
    CLEANUP(cleanup_close) int fd = listen_silently(conninfo);
    struct pgconn_options o = options_to(conninfo);
    struct pgconn *c;
    struct error error;
    ck_assert_int_eq(pgconn_new(&o, "shop-db", "f", "tail", NULL, &c), 0);
    ck_assert_int_eq(pgconn_dial(c, 0), 0);
    ck_assert_int_eq(pgconn_work(c, pgconn_deadline_us(c) - 1, &error), 0);
    ck_assert_int_eq(pgconn_work(c, pgconn_deadline_us(c), &error), PGCONN_E_LOST);
    ck_assert_msg(strstr(error.text, "no answer in time"), "%s", error.text);
    ck_assert_int_eq(pgconn_state(c), PGCONN_CLOSED);
    ck_assert_int_eq(pgconn_dial(c, 0), 0); /* a new one may start at once */
    pgconn_free(c);
}
END_TEST

START_TEST(running_out_of_memory_is_an_ordinary_result) {
    struct pgconn_options o = options_to((char *)"host=/nowhere user=x");
    FAIL_ALLOC_EACH(n) {
        struct pgconn *c = NULL;
        int r = pgconn_new(&o, "shop-db", "f", "tail", NULL, &c);
        bool made = r == 0;
        if (made)
            r = pgconn_dial(c, 0);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? made ? -EAGAIN : -ENOMEM : 0);
        if (made)
            pgconn_free(c);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pgconn");
    TCase *cases = tcase_create("pgconn");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, what_libpq_honours_is_accepted);
    tcase_add_test(cases, a_bad_conninfo_is_refused_in_libpqs_words);
    tcase_add_test(cases, a_bad_conninfo_with_a_password_does_not_show_it);
    tcase_add_test(cases, names_and_texts_are_quoted_for_sql);
    tcase_add_test(cases, a_server_that_is_away_is_a_failed_attempt);
    tcase_add_test(cases, a_secret_that_can_not_be_read_is_a_failed_attempt);
    tcase_add_test(cases, a_server_that_says_nothing_is_given_up_in_time);
    tcase_add_test(cases, an_attempt_that_hangs_past_its_deadline_is_left_behind);
    tcase_add_test(cases, running_out_of_memory_is_an_ordinary_result);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
