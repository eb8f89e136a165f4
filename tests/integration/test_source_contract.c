/* test_source_contract: what every mode of tailing must keep, case by case with the rule of Reactive Streams that it comes from */
#include "integration/reader.h"
#include "unit/unit.h"

/* Rules by their numbers in the specification (README of reactive-streams-jvm,
 * v1.0.4), read for a stage boundary without threads: source_want is request(n),
 * the signals of source_next are onNext and onComplete of one page, SOURCE_FAILED
 * and SOURCE_LOST are onError, source_reset is cancel. Each case runs for each mode. */

static const struct {
    enum source_mode mode;
    const char *name;
} modes[] = {{SOURCE_MODE_SNAPSHOT, "snapshot"}, {SOURCE_MODE_GAPS, "gaps"}};

static struct reader reader;
static PGconn *pg;

static void setup(void) {
    pg = direct_open();
    direct_run(pg, "DROP TABLE IF EXISTS contract; CREATE TABLE contract (position bigserial PRIMARY KEY, id text NOT NULL DEFAULT"
               " gen_random_uuid(), source text DEFAULT '/s', type text DEFAULT 'a.b', data text,"
               " xid xid8 NOT NULL DEFAULT pg_current_xact_id()); CREATE INDEX ON contract (xid, position)");
    reader_init(&reader, "contract");
}

static void teardown(void) {
    reader_done(&reader);
    PQfinish(pg);
}

/* Rows of so many bytes each. */
static void insert(int count, int bytes) {
    direct_run(pg, "INSERT INTO contract (data) SELECT repeat('x', %d) FROM generate_series(1, %d)", bytes, count);
}

static void open_in(int mode, const char *cursor) {
    reader.options.mode = (int)modes[mode].mode;
    enum source_signal signal = reader_open(&reader, cursor);
    ck_assert_msg(signal == SOURCE_OPENED, "%d: %s", signal, reader.error.text);
    ck_assert_str_eq(source_mode(reader.source), modes[mode].name);
}

/* One page; how many rows it had. They come by position, from `first` on without a hole. */
static int read_page(uint32_t events, uint64_t bytes, int64_t first) {
    int rows = 0;
    ck_assert_int_eq(source_want(reader.source, events, bytes, clock_now_us()), 0);
    enum source_signal signal;
    while ((signal = reader_next(&reader)) != SOURCE_DONE) {
        ck_assert_msg(signal == SOURCE_ROW || signal == SOURCE_MARK, "%d: %s", signal, reader.error.text);
        if (signal == SOURCE_ROW)
            ck_assert_int_eq(reader_integer(source_row(reader.source), ROW_POSITION), first + rows++);
    }
    return rows;
}

static char *place(void) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 20);
    reader_save(&reader, source_row_mark(reader.source), &b);
    return strndup(b.data, b.len);
}

START_TEST(rule_1_1_never_more_is_delivered_than_was_asked_for) {
    insert(500, 10);
    open_in(_i, NULL);
    int64_t next = 1;
    for (int n = 1; n <= 20; n++) {
        int rows = read_page((uint32_t)n, UINT64_MAX, next);
        ck_assert_int_le(rows, n);
        next += rows;
    }
    ck_assert_int_gt(next, 100);
}
END_TEST

START_TEST(rule_1_1_nor_more_bytes_but_one_row_that_alone_is_larger) {
    insert(20, 1000);
    insert(1, 100000);
    insert(20, 1000);
    open_in(_i, NULL);
    int64_t next = 1;
    for (int pages = 0; next <= 41; pages++) {
        int rows = read_page(100, 3500, next);
        ck_assert_int_le(rows, 3);
        next += rows;
        ck_assert_int_lt(pages, 100);
    }
    ck_assert_int_eq(next, 42);
}
END_TEST

START_TEST(rule_1_2_less_may_be_delivered_and_the_page_ends_all_the_same) {
    open_in(_i, NULL);
    ck_assert_int_eq(read_page(10, 1 << 20, 1), 0);
    ck_assert(source_caught_up(reader.source));
    insert(3, 10);
    ck_assert_int_eq(read_page(10, 1 << 20, 1), 3);
    ck_assert(source_caught_up(reader.source));
}
END_TEST

START_TEST(rule_1_3_signals_are_serial_and_one_page_is_asked_for_at_a_time) {
    insert(3, 10);
    open_in(_i, NULL);
    ck_assert_int_eq(source_want(reader.source, 10, 1 << 20, clock_now_us()), 0);
    ck_assert_bug((void)!source_want(reader.source, 10, 1 << 20, clock_now_us()));
}
END_TEST

START_TEST(rule_1_4_a_failure_is_a_signal_and_1_7_nothing_comes_behind_it) {
    insert(3, 10);
    open_in(_i, NULL);
    direct_run(pg, "ALTER TABLE contract RENAME data TO other");
    ck_assert_int_eq(source_want(reader.source, 10, 1 << 20, clock_now_us()), 0);
    ck_assert_int_eq(reader_next(&reader), SOURCE_FAILED);
    ck_assert_str_ne(reader.error.text, "");
    source_reset(reader.source); /* 1.6: it counts as cancelled */
    ck_assert_int_eq(source_next(reader.source, clock_now_us(), &reader.error), SOURCE_NONE);
}
END_TEST

START_TEST(rule_1_4_a_connection_that_is_gone_is_a_signal) {
    insert(3, 10);
    open_in(_i, NULL);
    direct_run(pg, "SELECT pg_terminate_backend(%d)", source_cancel_pid(reader.source));
    ck_assert_int_eq(source_want(reader.source, 10, 1 << 20, clock_now_us()) < 0, 0);
    ck_assert_int_eq(reader_next(&reader), SOURCE_LOST);
}
END_TEST

START_TEST(rule_2_1_without_demand_nothing_comes) {
    insert(50, 10);
    open_in(_i, NULL);
    ck_assert_int_eq(source_next(reader.source, clock_now_us(), &reader.error), SOURCE_NONE);
    ck_assert_int_eq(read_page(10, UINT64_MAX, 1), 10);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(source_next(reader.source, clock_now_us(), &reader.error), SOURCE_NONE);
    ck_assert(!source_caught_up(reader.source));
}
END_TEST

START_TEST(rule_2_8_a_page_that_was_cut_begins_again_where_it_was_cut) {
    insert(300, 20000);
    open_in(_i, NULL);
    int64_t next = 1;
    for (uint64_t bytes = 30000; next <= 300; bytes += 30000)
        next += read_page(1000, bytes, next);
    ck_assert_int_eq(next, 301);
}
END_TEST

START_TEST(rule_3_6_and_3_7_after_a_cancel_nothing_is_asked_and_a_second_one_does_nothing) {
    insert(50, 10);
    open_in(_i, NULL);
    ck_assert_int_eq(source_want(reader.source, 10, 1 << 20, clock_now_us()), 0);
    source_reset(reader.source);
    source_reset(reader.source);
    ck_assert_int_eq(source_next(reader.source, clock_now_us(), &reader.error), SOURCE_NONE);
    ck_assert_bug((void)!source_want(reader.source, 10, 1 << 20, clock_now_us()));
}
END_TEST

START_TEST(rule_3_8_demands_add_up) {
    insert(1000, 10);
    open_in(_i, NULL);
    int64_t next = 1;
    for (uint32_t wanted = 1; wanted <= 30; wanted++)
        next += read_page(wanted, UINT64_MAX, next);
    ck_assert_int_eq(next, 1 + 30 * 31 / 2);
}
END_TEST

START_TEST(rule_3_9_a_demand_of_nothing_is_a_bug_of_ours) {
    open_in(_i, NULL);
    ck_assert_bug((void)!source_want(reader.source, 0, 1 << 20, clock_now_us()));
}
END_TEST

START_TEST(rule_3_17_the_largest_demand_overflows_nothing) {
    insert(2500, 10);
    open_in(_i, NULL);
    int64_t next = 1;
    while (!source_caught_up(reader.source))
        next += read_page(UINT32_MAX, UINT64_MAX, next);
    ck_assert_int_eq(next, 2501);
}
END_TEST

/* Beyond Reactive Streams: what was delivered is known by its place. ---------- */

START_TEST(a_place_that_was_told_has_nothing_before_it_that_comes_later) {
    insert(12, 10);
    open_in(_i, NULL);
    for (int64_t next = 1; next <= 12; next++) {
        ck_assert_int_eq(read_page(1, 1 << 20, next), 1);
        CLEANUP(cleanup_free) char *cursor = place();
        open_in(_i, cursor);
    }
    ck_assert_int_eq(read_page(10, 1 << 20, 13), 0);
}
END_TEST

START_TEST(what_commits_late_comes_late_and_once) {
    PGconn *late = direct_open();
    open_in(_i, NULL);
    direct_run(late, "BEGIN; INSERT INTO contract (data) VALUES ('late')");
    insert(2, 10);
    ck_assert_int_eq(read_page(10, 1 << 20, 2), 2);
    CLEANUP(cleanup_free) char *cursor = place();
    open_in(_i, cursor);
    ck_assert_int_eq(read_page(10, 1 << 20, 4), 0);
    direct_run(late, "COMMIT");
    ck_assert_int_eq(read_page(10, 1 << 20, 1), 1);
    insert(1, 10);
    ck_assert_int_eq(read_page(10, 1 << 20, 4), 1);
    PQfinish(late);
}
END_TEST

START_TEST(no_transaction_and_no_snapshot_stays_open_between_pages) {
    insert(50, 10);
    open_in(_i, NULL);
    read_page(10, 1 << 20, 1);
    int pid = source_cancel_pid(reader.source);
    ck_assert_int_eq(direct_number(pg, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND (state <> 'idle'"
                                   " OR backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)", pid), 0);
    ck_assert_int_eq(direct_number(pg, "SELECT count(*) FROM pg_locks WHERE pid = %d AND locktype = 'relation'", pid), 0);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        rule_1_1_never_more_is_delivered_than_was_asked_for,
        rule_1_1_nor_more_bytes_but_one_row_that_alone_is_larger,
        rule_1_2_less_may_be_delivered_and_the_page_ends_all_the_same,
        rule_1_3_signals_are_serial_and_one_page_is_asked_for_at_a_time,
        rule_1_4_a_failure_is_a_signal_and_1_7_nothing_comes_behind_it,
        rule_1_4_a_connection_that_is_gone_is_a_signal,
        rule_2_1_without_demand_nothing_comes,
        rule_2_8_a_page_that_was_cut_begins_again_where_it_was_cut,
        rule_3_6_and_3_7_after_a_cancel_nothing_is_asked_and_a_second_one_does_nothing,
        rule_3_8_demands_add_up,
        rule_3_9_a_demand_of_nothing_is_a_bug_of_ours,
        rule_3_17_the_largest_demand_overflows_nothing,
        a_place_that_was_told_has_nothing_before_it_that_comes_later,
        what_commits_late_comes_late_and_once,
        no_transaction_and_no_snapshot_stays_open_between_pages,
    };
    Suite *suite = suite_create("source contract");
    TCase *cases = tcase_create("source contract");
    tcase_add_checked_fixture(cases, setup, teardown);
    for (size_t i = 0; i < ARRAY_LENGTH(tests); i++)
        tcase_add_loop_test(cases, tests[i], 0, ARRAY_LENGTH(modes));
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
