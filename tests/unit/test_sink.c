/* test_sink: the contract of every sink, for those that need no server; and what is special about stdout */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "unit/fail_alloc.h"
#include "unit/sink_contract.h"

static const struct sink_options options = {.ack_timeout_us = 5000000, .max_message_bytes = 100000};
static struct destination nowhere;
static struct rig rig; /* large */

/* Standard output is a pipe for the length of a test. */
static int saved_stdout, reader;
static size_t read_bytes, read_lines;
static char read_last;
static bool reading_paused;

static void drain_pipe(void) {
    char bytes[8192];
    ssize_t n;
    while (!reading_paused && (n = read(reader, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            read_lines += bytes[i] == '\n';
        read_bytes += (size_t)n;
        read_last = bytes[n - 1];
    }
}

static void redirect(void) {
    int fds[2];
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    fflush(stdout);
    saved_stdout = dup(STDOUT_FILENO);
    dup2(fds[1], STDOUT_FILENO);
    close(fds[1]);
    reader = fds[0];
    fcntl(reader, F_SETFL, O_NONBLOCK);
    read_bytes = read_lines = 0;
    reading_paused = false;
    signal(SIGPIPE, SIG_IGN);
}

static void restore(void) {
    dup2(saved_stdout, STDOUT_FILENO);
    close(saved_stdout);
    if (reader >= 0)
        close(reader);
}

static struct contract contract_of(const char *name) {
    return (struct contract){
        .kind = sink_kind_find(span_of(name)),
        .options = &options,
        .destination = &nowhere,
        .in_flight = 50,
        .drain = strcmp(name, "stdout") == 0 ? drain_pipe : NULL,
    };
}

static const char *const local_kinds[] = {"stdout", "null"};

START_TEST(the_contract_is_kept) {
    struct contract c = contract_of(local_kinds[_i / contract_clause_count]);
    contract_clauses[_i % contract_clause_count].check(&c);
}
END_TEST

START_TEST(a_kind_is_found_by_its_name_and_by_number) {
    size_t count = 0;
    while (sink_kind_at(count)) {
        const struct sink_kind *kind = sink_kind_at(count++);
        ck_assert_ptr_eq(sink_kind_find(span_of(kind->name)), kind);
        ck_assert_uint_ge(kind->options_size, sizeof(struct sink_options));
    }
    ck_assert_uint_ge(count, 2);
    ck_assert_ptr_null(sink_kind_find(SPAN_LITERAL("carrier-pigeon")));
    ck_assert_ptr_null(sink_kind_find(SPAN_ABSENT));
}
END_TEST

START_TEST(each_event_is_one_line) {
    struct contract c = contract_of("stdout");
    rig_open(&rig, &c);
    ck_assert_int_eq(event_set_core(&rig.event, EVENT_DATACONTENTTYPE, SPAN_LITERAL("application/json")), 0);
    ck_assert_int_eq(event_set_data(&rig.event, EVENT_DATA_JSON, SPAN_LITERAL("{\n \"a\":\r\n1}")), 0);
    rig_publish(&rig, 500);
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(read_lines, 500);
    ck_assert_int_eq(read_last, '\n');
    rig_close(&rig);
}
END_TEST

START_TEST(a_full_pipe_is_waited_for_without_blocking) {
    struct contract c = contract_of("stdout");
    rig_open(&rig, &c);
    rig_until(&rig, rig_connected, 5, "connected");
    reading_paused = true;
    CLEANUP(cleanup_free) char *data = malloc(50000);
    memset(data, 'x', 50000);
    rig_event(&rig, (struct span){data, 50000});
    while (rig_submit(&rig) == 0) /* far more than a pipe holds */
        c.kind->flush(rig.sink);
    ck_assert_uint_gt(rig.accepted, 1);
    rig_turn(&rig, clock_now_us() + 20000);
    ck_assert_uint_lt(rig.answered, rig.accepted);
    ck_assert_uint_eq(fcntl(STDOUT_FILENO, F_GETFL) & O_NONBLOCK, 0);
    reading_paused = false;
    drain_pipe();
    rig_until(&rig, rig_all_answered, 10, "answered");
    ck_assert_uint_eq(read_lines, rig.accepted);
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], rig.accepted);
    rig_close(&rig);
}
END_TEST

START_TEST(a_reader_that_goes_away_is_down_and_loses_nothing) {
    struct contract c = contract_of("stdout");
    rig_open(&rig, &c);
    rig_until(&rig, rig_connected, 5, "connected");
    reading_paused = true;
    while (rig_submit(&rig) == 0)
        continue;
    close(reader);
    reader = -1;
    c.kind->flush(rig.sink);
    rig_until(&rig, rig_all_answered, 5, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_LOST], rig.accepted);
    ck_assert_ptr_nonnull(strstr(rig.reason, "reader is gone"));
    ck_assert(!rig_connected(&rig));
    struct pollfd fds[SINK_POLL_MAX];
    ck_assert_int_eq(c.kind->poll(rig.sink, fds), 0);
    ck_assert_int_gt(c.kind->deadline(rig.sink), clock_now_us());
    rig_close(&rig);
}
END_TEST

START_TEST(a_line_that_was_cut_is_ended_before_the_next) {
    struct contract c = contract_of("stdout");
    rig_open(&rig, &c);
    rig_until(&rig, rig_connected, 5, "connected");
    reading_paused = true;
    CLEANUP(cleanup_free) char *data = malloc(90000);
    memset(data, 'x', 90000);
    rig_event(&rig, (struct span){data, 90000});
    ck_assert_int_eq(rig_submit(&rig), 0);
    c.kind->flush(rig.sink); /* a pipe takes 64 KiB */
    c.kind->renew(rig.sink, clock_now_us(), "a test wants it");
    reading_paused = false;
    drain_pipe();
    ck_assert_uint_eq(read_lines, 0);
    rig_event(&rig, SPAN_LITERAL("next"));
    rig_publish(&rig, 1);
    rig_until(&rig, rig_all_answered, 5, "answered");
    ck_assert_uint_eq(read_lines, 2);
    rig_close(&rig);
}
END_TEST

/* Without ck_assert, which allocates. */
static uint64_t confirm_many(const struct sink_kind *kind, struct sink *sink, uint64_t n) {
    uint64_t submitted = 0, confirmed = 0;
    struct sink_outcome outcome;
    struct error error;
    int64_t deadline_us = clock_now_us() + 30 * CLOCK_US_PER_S;
    while (confirmed < n && clock_now_us() < deadline_us) {
        while (submitted < n && kind->submit(sink, &rig.event, &nowhere, submitted, 0, &error) == 0)
            submitted++;
        kind->flush(sink);
        kind->work(sink, 0);
        while (kind->next(sink, &outcome))
            confirmed += outcome.kind == SINK_CONFIRMED;
        drain_pipe();
    }
    return confirmed;
}

START_TEST(nothing_is_allocated_in_steady_state) {
    struct contract c = contract_of(local_kinds[_i]);
    rig_open(&rig, &c);
    ck_assert_uint_eq(confirm_many(c.kind, rig.sink, 1000), 1000);
    fail_alloc_begin(0);
    uint64_t confirmed = confirm_many(c.kind, rig.sink, 100000);
    fail_alloc_end();
    ck_assert_uint_eq(confirmed, 100000);
    ck_assert_uint_eq(fail_alloc_count(), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_answer) {
    struct contract c = contract_of(local_kinds[_i]);
    struct sink_setup setup = {.options = c.options, .in_flight = 10};
    FAIL_ALLOC_EACH(n) {
        struct sink *sink = NULL;
        int r = c.kind->open(&setup, &sink);
        if (fail_alloc_end()) {
            ck_assert_int_eq(r, -ENOMEM);
        } else {
            ck_assert_int_eq(r, 0);
            c.kind->close(sink);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sink");
    TCase *cases = tcase_create("sink");
    tcase_add_checked_fixture(cases, redirect, restore);
    tcase_add_loop_test(cases, the_contract_is_kept, 0, (int)ARRAY_LENGTH(local_kinds) * contract_clause_count);
    tcase_add_test(cases, a_kind_is_found_by_its_name_and_by_number);
    tcase_add_test(cases, each_event_is_one_line);
    tcase_add_test(cases, a_full_pipe_is_waited_for_without_blocking);
    tcase_add_test(cases, a_reader_that_goes_away_is_down_and_loses_nothing);
    tcase_add_test(cases, a_line_that_was_cut_is_ended_before_the_next);
    tcase_add_loop_test(cases, nothing_is_allocated_in_steady_state, 0, (int)ARRAY_LENGTH(local_kinds));
    tcase_add_loop_test(cases, out_of_memory_is_an_ordinary_answer, 0, (int)ARRAY_LENGTH(local_kinds));
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
