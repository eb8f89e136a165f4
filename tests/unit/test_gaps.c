/* test_gaps: what is asked next, which gaps are open, when one is dead, which places there are */
#include "unit/unit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "source/gaps.h"
#include "unit/fail_alloc.h"

#define RETENTION_US INT64_C(600000000)
#define MS INT64_C(1000)

static struct gaps *gaps;
static struct gaps_statement asked;
static int64_t now_us;

static void make(int64_t retention_us, size_t max) {
    struct gaps_options options = {retention_us, max};
    gaps_free(gaps);
    ck_assert_int_eq(gaps_new(&options, &gaps), 0);
    struct cursor_gaps at = {.position = INT64_MIN};
    ck_assert_int_eq(gaps_open(gaps, &at, now_us), 0);
}

static void setup(void) {
    gaps = NULL;
    now_us = 1000 * MS;
    make(RETENTION_US, 100000);
}

static void teardown(void) {
    gaps_free(gaps);
}

static void want(void) {
    now_us += 100 * MS;
    gaps_want(gaps, 1000, 1 << 20);
}

static void expect(enum gaps_kind kind) {
    ck_assert_int_eq(gaps_next(gaps, now_us, &asked), 0);
    ck_assert_int_eq(asked.kind, kind);
}

static void expect_end(void) {
    ck_assert_int_eq(gaps_next(gaps, now_us, &asked), GAPS_E_END);
    ck_assert_ptr_null(gaps_broken(gaps));
}

static void end(void) {
    ck_assert_int_eq(gaps_end(gaps, now_us), 0);
}

static bool row_of(int64_t position, uint64_t bytes) {
    bool keep;
    ck_assert_int_eq(gaps_row(gaps, position, bytes, &keep), 0);
    return keep;
}

static bool row(int64_t position) {
    return row_of(position, 100);
}

/* Behind a turn of dead gaps, if one is due. */
static void begin_page(int64_t drawn) {
    ck_assert_int_eq(gaps_next(gaps, now_us, &asked), 0);
    if (asked.kind == GAPS_DEAD) {
        end();
        ck_assert_int_eq(gaps_next(gaps, now_us, &asked), 0);
    }
    ck_assert_int_eq(asked.kind, GAPS_PAGE);
    gaps_drawn(gaps, drawn);
}

/* Whatever else is asked: nothing comes of it. */
static void finish(void) {
    while (gaps_next(gaps, now_us, &asked) == 0)
        end();
    ck_assert_ptr_null(gaps_broken(gaps));
}

/* A page with these rows, up to 0. */
static void page(int64_t first, ...) {
    va_list args;
    begin_page(INT64_MAX);
    va_start(args, first);
    for (int64_t position = first; position != 0; position = va_arg(args, int64_t))
        ck_assert(row(position));
    va_end(args);
    end();
}

#define PAGE(...) page(__VA_ARGS__, INT64_C(0))
#define EMPTY_PAGE() page(INT64_C(0))

/* A list of holders, up to NULL. */
static void list(const char *first, ...) {
    va_list args;
    expect(GAPS_LIST);
    va_start(args, first);
    for (const char *id = first; id; id = va_arg(args, const char *))
        ck_assert_int_eq(gaps_holder(gaps, span_of(id)), 0);
    va_end(args);
    end();
}

/* A read of which only the page is of interest: nobody holds a lock. */
static void read_rows(int64_t first, int64_t last) {
    want();
    begin_page(INT64_MAX);
    for (int64_t i = first; i <= last; i++)
        ck_assert(row(i));
    end();
    finish();
}

static void expect_open(struct gaps_mark mark, const char *text) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 20);
    struct cursor_gaps cursor;
    ck_assert_int_eq(gaps_cursor(gaps, mark, &cursor), 0);
    for (size_t i = 0; i < cursor.open.count; i++) {
        ck_assert_int_eq(buf_addf(&b, "%s", i ? " " : ""), 0);
        ck_assert_int_eq(range_print(cursor.open.items[i], &b), 0);
    }
    ck_assert_msg(span_is(buf_span(&b), text), "%.*s instead of %s", SPAN_ARGS(buf_span(&b)), text);
}

static void expect_gaps(const char *text) {
    expect_open(gaps_mark(gaps), text);
}

static void open_at(const char *text) {
    struct cursor_gaps at;
    struct error error;
    ck_assert_int_eq(cursor_parse_gaps(span_of(text), &at, &error), 0);
    ck_assert_int_eq(gaps_open(gaps, &at, now_us), 0);
    cursor_gaps_done(&at);
}

#define AT_TEN "{\"v\": 1, \"mode\": \"gaps\", \"position\": 10, \"open\": []}"

static struct gaps_view view(void) {
    struct gaps_view v;
    gaps_view(gaps, &v);
    return v;
}

/* Reading. ------------------------------------------------------------------ */

START_TEST(rows_are_passed_on_past_the_gaps_before_them) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(11), INT64_C(14), INT64_C(16));
    expect_gaps("12-13 15");
    ck_assert_int_eq(gaps_mark(gaps).position, 16);
    ck_assert(gaps_caught_up(gaps));
}
END_TEST

START_TEST(what_lies_below_the_first_row_is_a_gap_too) {
    want();
    PAGE(INT64_C(3), INT64_C(4));
    expect_gaps("<3");
    list(NULL);
    expect_end();
    want();
    PAGE(INT64_C(1)); /* it was uncommitted while the table looked empty */
    expect_gaps("");
}
END_TEST

START_TEST(an_empty_table_has_no_gap) {
    want();
    EMPTY_PAGE();
    expect_end();
    ck_assert_int_eq(gaps_mark(gaps).position, INT64_MIN);
    expect_gaps("");
}
END_TEST

START_TEST(a_gap_right_behind_the_starting_point_is_one) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12));
    expect_gaps("11");
}
END_TEST

START_TEST(a_late_row_leaves_the_rest_of_its_gap_open) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(20));
    list("3/1", NULL);
    expect_end();
    want();
    PAGE(INT64_C(15), INT64_C(21));
    expect_gaps("11-14 16-19");
    list("3/1", NULL);
    expect_end();
    want();
    PAGE(INT64_C(11), INT64_C(14), INT64_C(19));
    expect_gaps("12-13 16-18");
    ck_assert_int_eq(gaps_mark(gaps).position, 21);
}
END_TEST

START_TEST(every_page_looks_at_all_live_gaps) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12), INT64_C(14));
    list("3/1", NULL);
    expect_end();
    want();
    expect(GAPS_PAGE);
    ck_assert_int_eq(asked.position, 14);
    ck_assert_uint_eq(asked.ranges->count, 2);
    ck_assert_int_eq(asked.ranges->items[0].first, 11);
    ck_assert_int_eq(asked.ranges->items[1].last, 13);
}
END_TEST

START_TEST(what_was_not_asked_for_is_refused) {
    bool keep;
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(15));
    list("3/1", NULL);
    expect_end();
    want();
    expect(GAPS_PAGE);
    gaps_drawn(gaps, INT64_MAX);
    ck_assert_int_eq(gaps_row(gaps, 10, 1, &keep), GAPS_E_ANSWER); /* done */
    ck_assert_int_eq(gaps_row(gaps, 15, 1, &keep), GAPS_E_ANSWER); /* done */
    ck_assert_int_eq(gaps_row(gaps, INT64_MAX, 1, &keep), GAPS_E_ANSWER);
    ck_assert(row(16));
    ck_assert_int_eq(gaps_row(gaps, 12, 1, &keep), GAPS_E_ANSWER); /* out of order */
    ck_assert_int_eq(gaps_holder(gaps, SPAN_LITERAL("3/1")), GAPS_E_ANSWER);
}
END_TEST

START_TEST(a_row_that_does_not_fit_is_read_again_and_its_gap_is_none_yet) {
    open_at(AT_TEN);
    now_us += 100 * MS;
    gaps_want(gaps, 10, 4000);
    begin_page(INT64_MAX);
    ck_assert(row(11));
    ck_assert(!row_of(15, 5000));
    ck_assert(!row(16));
    end();
    expect_end();
    ck_assert(!gaps_caught_up(gaps));
    ck_assert_int_eq(gaps_mark(gaps).position, 11);
    expect_gaps("");
}
END_TEST

START_TEST(rows_of_one_position_go_together) {
    open_at(AT_TEN);
    now_us += 100 * MS;
    gaps_want(gaps, 1, 1 << 20);
    expect(GAPS_PAGE);
    ck_assert_uint_eq(asked.limit, 1);
    end();
    expect_end();
    want();
    expect(GAPS_PAGE);
    gaps_drawn(gaps, INT64_MAX);
    ck_assert(row(12));
    ck_assert(row(12));
    end();
    expect_gaps("11");
}
END_TEST

/* Proof. -------------------------------------------------------------------- */

START_TEST(a_gap_is_dead_when_nobody_held_a_lock_and_it_is_still_missing) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12));
    list(NULL);
    expect_end();
    expect_gaps("11"); /* (d) is still to come */
    want();
    EMPTY_PAGE();
    expect_gaps("");
    ck_assert_uint_eq(view().dead, 1);
}
END_TEST

START_TEST(a_gap_lives_as_long_as_a_holder_of_its_list) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12));
    list("3/1", "4/1", NULL);
    expect_end();
    want();
    EMPTY_PAGE();
    list("4/1", "5/1", NULL);
    expect_end();
    want();
    EMPTY_PAGE();
    expect_gaps("11");
    list("5/1", NULL); /* came later: it can't have drawn 11 */
    expect_end();
    expect_gaps("11");
    want();
    EMPTY_PAGE();
    expect_gaps("");
}
END_TEST

START_TEST(the_row_of_a_holder_that_has_just_ended_is_not_missed) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12));
    list("3/1", NULL);
    expect_end();
    want();
    EMPTY_PAGE(); /* its snapshot was taken before the commit */
    list(NULL);   /* the lock was given up behind it */
    expect_end();
    want();
    PAGE(INT64_C(11));
    expect_gaps("");
    ck_assert_uint_eq(view().dead, 0);
}
END_TEST

START_TEST(a_page_that_was_cut_proves_nothing_behind_its_row) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(20), INT64_C(22));
    list(NULL);
    expect_end();
    now_us += 100 * MS;
    gaps_want(gaps, 10, 4000);
    begin_page(INT64_MAX);
    ck_assert(row(11));
    ck_assert(!row_of(15, 5000)); /* what stands behind it was not seen */
    end();
    expect_gaps("15-19 21");
    ck_assert_uint_eq(view().dead, 1);
}
END_TEST

START_TEST(a_gap_seen_after_the_list_waits_for_the_next) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12));
    list(NULL);
    expect_end();
    want();
    PAGE(INT64_C(14)); /* 13 may be drawn by somebody who came after the list */
    expect_gaps("13");
    list("3/1", NULL);
    expect_end();
    want();
    EMPTY_PAGE();
    finish();
    expect_gaps("13");
}
END_TEST

START_TEST(the_parts_of_a_gap_keep_its_proof) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(20));
    list("3/1", NULL);
    expect_end();
    want();
    PAGE(INT64_C(15));
    list(NULL);
    expect_end();
    want();
    EMPTY_PAGE();
    expect_gaps("");
    ck_assert_uint_eq(view().dead, 2);
}
END_TEST

START_TEST(a_prepared_transaction_holds_its_gap_whatever_it_is_called) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12));
    list("3/1", NULL);
    expect_end();
    want();
    EMPTY_PAGE();
    list("-1/700", NULL);
    expect_end();
    for (int i = 0; i < 5; i++) {
        want();
        EMPTY_PAGE();
        list("-1/700", NULL);
        while (gaps_next(gaps, now_us, &asked) == 0)
            end();
    }
    expect_gaps("11");
}
END_TEST

START_TEST(after_a_reload_the_proof_begins_anew) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12));
    list(NULL);
    expect_end();
    open_at("{\"v\": 1, \"mode\": \"gaps\", \"position\": 12, \"open\": [\"11\"]}");
    want();
    EMPTY_PAGE(); /* what the list of before proved was another server, perhaps */
    expect_gaps("11");
    list("-1/700", NULL);
    expect_end();
    want();
    EMPTY_PAGE();
    expect_gaps("11");
}
END_TEST

START_TEST(a_position_that_the_sequence_has_not_reached_is_not_dead) {
    open_at(AT_TEN);
    want();
    begin_page(14);
    ck_assert(row(20)); /* somebody has chosen it */
    end();
    list(NULL);
    expect_end();
    want();
    begin_page(14);
    end();
    finish();
    expect_gaps("15-19"); /* 11 to 14 were drawn and are missing */
    want();
    begin_page(16);
    end();
    list("3/1", NULL); /* has just drawn 15 and 16 */
    expect_end();
    want();
    begin_page(19);
    end();
    list("3/1", NULL);
    finish();
    expect_gaps("15-19");
    want();
    begin_page(19);
    ck_assert(row(15));
    ck_assert(row(16));
    end();
    finish();
    expect_gaps("17-19");
}
END_TEST

START_TEST(nothing_is_listed_while_there_is_no_gap) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(11), INT64_C(12));
    expect_end();
}
END_TEST

START_TEST(lists_are_made_at_a_slower_pace_when_nothing_is_new) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12));
    list("3/1", NULL);
    expect_end();
    int lists = 0;
    for (int i = 0; i < 100; i++) {
        want();
        while (gaps_next(gaps, now_us, &asked) == 0) {
            if (asked.kind == GAPS_LIST) {
                lists++;
                ck_assert_int_eq(gaps_holder(gaps, SPAN_LITERAL("3/1")), 0);
            }
            end();
        }
    }
    ck_assert_int_ge(lists, 15); /* ten seconds, of which the first is fast */
    ck_assert_int_le(lists, 25);
}
END_TEST

START_TEST(gaps_that_are_not_drawn_yet_ask_for_no_list) {
    open_at(AT_TEN);
    want();
    begin_page(10);
    for (int64_t i = 0; i < 2 * GAPS_LIST_SOON; i++)
        ck_assert(row(12 + 2 * i)); /* somebody has chosen them */
    end();
    expect_end();
    now_us += 10 * GAPS_LIST_SLOW_US;
    want();
    begin_page(10);
    end();
    expect_end();
    want();
    begin_page(11);
    end();
    list("3/1", NULL);
    expect_end();
    want();
    begin_page(11);
    end();
    expect_end();
}
END_TEST

/* Retention. ---------------------------------------------------------------- */

static void make_one_dead_gap(void) {
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(15));
    list(NULL);
    expect_end();
    want();
    EMPTY_PAGE();
    expect_end();
    ck_assert_uint_eq(view().dead, 1);
}

START_TEST(a_dead_gap_is_looked_at_until_its_time_is_over_and_once_more) {
    make_one_dead_gap();
    want();
    expect(GAPS_DEAD);
    ck_assert_uint_eq(asked.ranges->count, 1);
    end();
    EMPTY_PAGE();
    expect_end();
    want(); /* not with every read */
    EMPTY_PAGE();
    expect_end();
    now_us += RETENTION_US;
    want();
    expect(GAPS_DEAD);
    end();
    ck_assert_uint_eq(view().dead, 0);
}
END_TEST

START_TEST(a_row_in_a_dead_gap_is_delivered_and_the_rest_stays) {
    make_one_dead_gap();
    struct gaps_mark before = gaps_mark(gaps);
    want();
    expect(GAPS_DEAD);
    ck_assert(row(13));
    end();
    ck_assert_uint_eq(view().dead, 2);
    ck_assert_uint_gt(gaps_mark(gaps).version, before.version);
    ck_assert_int_eq(gaps_mark(gaps).position, 15);
    now_us += 2000 * MS;
    EMPTY_PAGE();
    expect_end();
    want();
    expect(GAPS_DEAD);
    ck_assert_uint_eq(asked.ranges->count, 2);
    bool keep;
    ck_assert_int_eq(gaps_row(gaps, 13, 1, &keep), GAPS_E_ANSWER);
    ck_assert(row(11));
    ck_assert(row(14));
    end();
    ck_assert_uint_eq(view().dead, 1);
}
END_TEST

START_TEST(several_rows_in_one_dead_gap_are_delivered) {
    make_one_dead_gap();
    want();
    expect(GAPS_DEAD);
    ck_assert(row(11));
    ck_assert(row(13));
    ck_assert(row(14));
    end();
    ck_assert_uint_eq(view().dead, 1);
    ck_assert_ptr_null(gaps_broken(gaps));
}
END_TEST

START_TEST(without_retention_a_dead_gap_is_gone) {
    make(0, 100000);
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(15));
    list(NULL);
    expect_end();
    want();
    EMPTY_PAGE();
    expect_end();
    ck_assert_uint_eq(view().dead, 0);
    expect_gaps("");
}
END_TEST

START_TEST(many_dead_gaps_are_looked_at_in_turns) {
    open_at(AT_TEN);
    int64_t position = 10;
    for (int turn = 0; turn < 5; turn++) {
        want();
        begin_page(INT64_MAX);
        for (int i = 0; i < 500; i++)
            ck_assert(row(position += 2));
        end();
        finish();
    }
    size_t seen = 0;
    int64_t began_us = now_us;
    for (int i = 0; i < 20 && seen < 4500; i++) {
        want();
        while (gaps_next(gaps, now_us, &asked) == 0) {
            ck_assert_uint_le(asked.ranges->count, GAPS_TURN_MAX);
            seen += asked.kind == GAPS_DEAD ? asked.ranges->count : 0;
            end();
        }
    }
    ck_assert_uint_ge(seen, 4500);
    ck_assert_int_lt(now_us - began_us, 3 * GAPS_ROUND_US);
}
END_TEST

/* Caps. --------------------------------------------------------------------- */

START_TEST(dead_gaps_go_first_and_are_counted) {
    make(RETENTION_US, 100);
    open_at(AT_TEN);
    for (int64_t i = 0; i < 300; i++)
        read_rows(12 + 2 * i, 12 + 2 * i);
    ck_assert_uint_le(view().live + view().dead, 100);
    ck_assert_uint_ge(view().dropped, 190);
    ck_assert(!view().full);
    ck_assert_int_eq(gaps_mark(gaps).position, 610);
}
END_TEST

START_TEST(when_live_ones_alone_are_too_many_nothing_is_read_beyond) {
    make(RETENTION_US, 100);
    open_at(AT_TEN);
    want();
    expect(GAPS_PAGE);
    gaps_drawn(gaps, INT64_MAX);
    for (int64_t i = 0; i < 100; i++)
        ck_assert(row(12 + 2 * i));
    ck_assert(row(211)); /* no gap before it */
    ck_assert(!row(213));
    end();
    list("3/1", NULL);
    expect_end();
    ck_assert(view().full);
    ck_assert(!gaps_caught_up(gaps));
    ck_assert_int_eq(gaps_mark(gaps).position, 211);
    want();
    expect(GAPS_PAGE);
    gaps_drawn(gaps, INT64_MAX);
    ck_assert(row(11)); /* late ones are delivered, which makes room */
    ck_assert(row(213));
    end();
    ck_assert_int_eq(gaps_mark(gaps).position, 213);
}
END_TEST

START_TEST(when_nothing_is_read_beyond_gaps_are_proven_all_the_same) {
    make(0, 1);
    open_at(AT_TEN);
    want();
    begin_page(INT64_MAX);
    ck_assert(row(12));
    ck_assert(!row(14));
    end();
    list(NULL);
    expect_end();
    want();
    begin_page(INT64_MAX);
    ck_assert(!row(14)); /* 11 is not there: that was seen before it */
    end();
    finish();
    expect_gaps("");
    want();
    PAGE(INT64_C(14));
    expect_gaps("13");
}
END_TEST

/* As many as a cursor can hold: 1-9, 20, 30, … */
static void open_all_that_fit(void) {
    struct cursor_gaps at = {.position = INT64_C(10000000)};
    ck_assert_int_eq(ranges_add(&at.open, (struct range){1, 9}), 0);
    for (int64_t i = 1; i < CURSOR_OPEN_MAX; i++)
        ck_assert_int_eq(ranges_add(&at.open, (struct range){10 + 10 * i, 10 + 10 * i}), 0);
    ck_assert_int_eq(gaps_open(gaps, &at, now_us), 0);
    cursor_gaps_done(&at);
}

START_TEST(when_the_cursor_is_full_what_makes_no_gap_more_is_taken_all_the_same) {
    open_all_that_fit();
    want();
    begin_page(INT64_MAX);
    ck_assert(row(1));  /* the end of a gap */
    ck_assert(!row(5)); /* inside of 2-9: one more */
    end();
    list("3/1", NULL);
    expect_end();
    ck_assert(view().full);
    want();
    begin_page(INT64_MAX);
    ck_assert(row(9));
    ck_assert(row(20)); /* all of a gap: there is room now */
    end();
    list("3/1", NULL);
    expect_end();
    want();
    begin_page(INT64_MAX);
    ck_assert(row(5));
    end();
    ck_assert(!view().full);
    ck_assert_uint_eq(view().live, CURSOR_OPEN_MAX);
    ck_assert_ptr_null(gaps_broken(gaps));
}
END_TEST

START_TEST(a_row_without_room_proves_what_lies_before_it) {
    make(0, 100000);
    open_all_that_fit();
    want();
    begin_page(INT64_MAX);
    ck_assert(!row(5));
    end();
    list(NULL);
    expect_end();
    want();
    begin_page(INT64_MAX);
    ck_assert(!row(5)); /* 1 to 4 are not there, and nobody is left who could fill them */
    end();
    finish();
    want();
    begin_page(INT64_MAX);
    ck_assert(row(5));
    end();
    finish();
    ck_assert_uint_eq(view().live, 0); /* what lies behind 5 is proven by this page */
}
END_TEST

START_TEST(what_marks_still_need_has_a_maximum) {
    make(0, 1000);
    open_at(AT_TEN);
    int64_t position = 10;
    size_t reads = 0;
    for (bool reads_on = true; reads_on; reads++) {
        ck_assert_uint_lt(reads, 1000);
        want();
        reads_on = false;
        while (gaps_next(gaps, now_us, &asked) == 0) {
            reads_on |= asked.kind == GAPS_PAGE;
            if (asked.kind == GAPS_PAGE)
                gaps_drawn(gaps, INT64_MAX);
            for (int i = 0; asked.kind == GAPS_PAGE && i < 500; i++)
                ck_assert(row(position += 2));
            end();
        }
    }
    ck_assert_uint_ge(gaps_set(gaps)->gone.count, GAPS_GONE_MAX);
    ck_assert_uint_le(gaps_set(gaps)->gone.count, GAPS_GONE_MAX + 2000);
    ck_assert(!gaps_caught_up(gaps));
    gaps_release(gaps, gaps_mark(gaps).version); /* saved */
    read_rows(position + 2, position + 2);
    ck_assert_int_eq(gaps_mark(gaps).position, position + 2);
}
END_TEST

/* Places. ------------------------------------------------------------------- */

START_TEST(each_mark_has_its_own_gaps) {
    struct gaps_mark marks[5];
    open_at(AT_TEN);
    marks[0] = gaps_mark(gaps);
    want();
    expect(GAPS_PAGE);
    gaps_drawn(gaps, INT64_MAX);
    ck_assert(row(12));
    marks[1] = gaps_mark(gaps);
    ck_assert(row(20));
    marks[2] = gaps_mark(gaps);
    end();
    list("3/1", NULL);
    expect_end();
    want();
    expect(GAPS_PAGE);
    gaps_drawn(gaps, INT64_MAX);
    ck_assert(row(15));
    marks[3] = gaps_mark(gaps);
    end();
    list(NULL);
    expect_end();
    want();
    EMPTY_PAGE();
    marks[4] = gaps_mark(gaps);
    expect_open(marks[0], "");
    expect_open(marks[1], "11");
    expect_open(marks[2], "11 13-19");
    expect_open(marks[3], "11 13-14 16-19");
    expect_open(marks[4], "");
    gaps_release(gaps, marks[2].version);
    expect_open(marks[2], "11 13-19");
    expect_open(marks[3], "11 13-14 16-19");
    expect_open(marks[4], "");
}
END_TEST

START_TEST(a_change_beside_the_cursor_changes_the_cursor) {
    struct cursor_gaps cursor;
    make_one_dead_gap();
    ck_assert_int_eq(gaps_cursor(gaps, gaps_mark(gaps), &cursor), 0);
    ck_assert_int_eq(cursor.changes, 1);
    gaps_saved(gaps, gaps_mark(gaps).version);
    ck_assert_int_eq(gaps_cursor(gaps, gaps_mark(gaps), &cursor), 0);
    ck_assert_int_eq(cursor.changes, 1); /* nothing else has */
    want();
    expect(GAPS_DEAD);
    ck_assert(row(13));
    end();
    ck_assert_int_eq(gaps_cursor(gaps, gaps_mark(gaps), &cursor), 0);
    ck_assert_int_eq(cursor.changes, 2);
}
END_TEST

static char more[256], gone[256];

static int note_change(void *context, const struct gap *gap, bool removed) {
    (void)context;
    char *to = removed ? gone : more;
    size_t len = strlen(to);
    snprintf(to + len, sizeof more - len, "%s%lld-%lld", len ? " " : "", (long long)gap->range.first, (long long)gap->range.last);
    return 0;
}

static void expect_changes(struct gaps_mark mark, const char *more_text, const char *gone_text) {
    more[0] = gone[0] = '\0';
    ck_assert_int_eq(gap_set_changes(gaps_set(gaps), mark.version, note_change, NULL), 0);
    ck_assert_str_eq(more, more_text);
    ck_assert_str_eq(gone, gone_text);
}

START_TEST(what_is_stored_of_dead_gaps_follows_the_saved_mark) {
    make_one_dead_gap();
    struct gaps_mark dead = gaps_mark(gaps);
    want();
    expect(GAPS_DEAD);
    ck_assert(row(13));
    end();
    struct gaps_mark filled = gaps_mark(gaps);
    expect_changes(dead, "11-14", "");
    gaps_saved(gaps, dead.version);
    gaps_release(gaps, dead.version);
    expect_changes(dead, "", "");
    expect_changes(filled, "11-12 14-14", "11-14");
    gaps_release(gaps, filled.version); /* what is stored stays known until it has left */
    expect_changes(filled, "11-12 14-14", "11-14");
    gaps_saved(gaps, filled.version);
    expect_changes(filled, "", "");
    gaps_release(gaps, filled.version);
    ck_assert_uint_eq(gaps_set(gaps)->gone.count, 0);
}
END_TEST

START_TEST(what_was_retained_is_taken_up_and_what_cannot_be_is_not) {
    open_at("{\"v\": 1, \"mode\": \"gaps\", \"position\": 100, \"open\": [\"50-59\"]}");
    static const struct range ranges[] = {{20, 29}, {25, 30}, {40, 55}, {59, 60}, {70, 70}, {99, 100}, {101, 110}, {98, 90}};
    for (size_t i = 0; i < ARRAY_LENGTH(ranges); i++)
        ck_assert_int_eq(gaps_retain(gaps, ranges[i], now_us + 1), 0);
    ck_assert_uint_eq(view().dead, 2);
    ck_assert_ptr_null(gaps_broken(gaps));
    want(); /* their time is over already: they are looked at once, then they leave */
    expect(GAPS_DEAD);
    ck_assert(row(22));
    end();
    expect_changes(gaps_mark(gaps), "20-21 23-29", "20-29 70-70");
}
END_TEST

START_TEST(open_gaps_of_the_cursor_are_probed_at_once) {
    open_at("{\"v\": 1, \"mode\": \"gaps\", \"position\": 100, \"open\": [\"<5\", \"7-9\"]}");
    want();
    PAGE(INT64_C(-3), INT64_C(8), INT64_C(101));
    expect_gaps("<-3 -2-4 7 9");
}
END_TEST

/* Waiting. ------------------------------------------------------------------ */

START_TEST(who_keeps_a_gap_open_is_asked_for_once_it_has_waited) {
    struct gaps_wait wait;
    open_at(AT_TEN);
    want();
    PAGE(INT64_C(12));
    list("3/1", "4/1", NULL);
    expect_end();
    ck_assert(!gaps_waits(gaps, now_us, &wait));
    now_us += GAPS_WAIT_US;
    ck_assert(gaps_waits(gaps, now_us, &wait));
    ck_assert_int_eq(wait.range.first, 11);
    want();
    EMPTY_PAGE();
    list("4/1", NULL);
    expect(GAPS_WHO);
    ck_assert_str_eq(asked.holder, "4/1");
    end();
    expect_end();
    ck_assert(gaps_waits(gaps, now_us, &wait));
    ck_assert_str_eq(wait.holder, "4/1");
    want(); /* not with every read */
    EMPTY_PAGE();
    expect_end();
}
END_TEST

START_TEST(running_out_of_memory_is_an_ordinary_result) {
    FAIL_ALLOC_EACH(n) {
        struct gaps_options options = {RETENTION_US, 100000};
        struct gaps_statement statement;
        struct cursor_gaps cursor;
        struct gaps *some = NULL;
        bool keep = true;
        int r = gaps_new(&options, &some);
        int64_t us = now_us, position = 0;
        for (int i = 0; r == 0 && i < 40; i++) {
            us += 100 * MS;
            gaps_want(some, 100, 1 << 20);
            while (r == 0 && (r = gaps_next(some, us, &statement)) == 0) {
                if (statement.kind == GAPS_PAGE)
                    gaps_drawn(some, INT64_MAX);
                for (int j = 0; r == 0 && statement.kind == GAPS_PAGE && j < 3; j++)
                    r = gaps_row(some, position += 2, 1, &keep);
                if (r == 0 && statement.kind == GAPS_LIST && i < 20)
                    r = gaps_holder(some, SPAN_LITERAL("3/1"));
                if (r == 0)
                    r = gaps_end(some, us);
            }
            r = r == GAPS_E_END ? 0 : r;
            if (r == 0)
                r = gaps_cursor(some, gaps_mark(some), &cursor);
        }
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        gaps_free(some);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gaps");
    TCase *cases = tcase_create("gaps");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, rows_are_passed_on_past_the_gaps_before_them);
    tcase_add_test(cases, what_lies_below_the_first_row_is_a_gap_too);
    tcase_add_test(cases, an_empty_table_has_no_gap);
    tcase_add_test(cases, a_gap_right_behind_the_starting_point_is_one);
    tcase_add_test(cases, a_late_row_leaves_the_rest_of_its_gap_open);
    tcase_add_test(cases, every_page_looks_at_all_live_gaps);
    tcase_add_test(cases, what_was_not_asked_for_is_refused);
    tcase_add_test(cases, a_row_that_does_not_fit_is_read_again_and_its_gap_is_none_yet);
    tcase_add_test(cases, rows_of_one_position_go_together);
    tcase_add_test(cases, a_gap_is_dead_when_nobody_held_a_lock_and_it_is_still_missing);
    tcase_add_test(cases, a_gap_lives_as_long_as_a_holder_of_its_list);
    tcase_add_test(cases, the_row_of_a_holder_that_has_just_ended_is_not_missed);
    tcase_add_test(cases, a_page_that_was_cut_proves_nothing_behind_its_row);
    tcase_add_test(cases, a_gap_seen_after_the_list_waits_for_the_next);
    tcase_add_test(cases, the_parts_of_a_gap_keep_its_proof);
    tcase_add_test(cases, a_prepared_transaction_holds_its_gap_whatever_it_is_called);
    tcase_add_test(cases, after_a_reload_the_proof_begins_anew);
    tcase_add_test(cases, a_position_that_the_sequence_has_not_reached_is_not_dead);
    tcase_add_test(cases, nothing_is_listed_while_there_is_no_gap);
    tcase_add_test(cases, lists_are_made_at_a_slower_pace_when_nothing_is_new);
    tcase_add_test(cases, gaps_that_are_not_drawn_yet_ask_for_no_list);
    tcase_add_test(cases, a_dead_gap_is_looked_at_until_its_time_is_over_and_once_more);
    tcase_add_test(cases, a_row_in_a_dead_gap_is_delivered_and_the_rest_stays);
    tcase_add_test(cases, several_rows_in_one_dead_gap_are_delivered);
    tcase_add_test(cases, without_retention_a_dead_gap_is_gone);
    tcase_add_test(cases, many_dead_gaps_are_looked_at_in_turns);
    tcase_add_test(cases, dead_gaps_go_first_and_are_counted);
    tcase_add_test(cases, when_live_ones_alone_are_too_many_nothing_is_read_beyond);
    tcase_add_test(cases, when_nothing_is_read_beyond_gaps_are_proven_all_the_same);
    tcase_add_test(cases, when_the_cursor_is_full_what_makes_no_gap_more_is_taken_all_the_same);
    tcase_add_test(cases, a_row_without_room_proves_what_lies_before_it);
    tcase_add_test(cases, what_marks_still_need_has_a_maximum);
    tcase_add_test(cases, each_mark_has_its_own_gaps);
    tcase_add_test(cases, a_change_beside_the_cursor_changes_the_cursor);
    tcase_add_test(cases, what_is_stored_of_dead_gaps_follows_the_saved_mark);
    tcase_add_test(cases, what_was_retained_is_taken_up_and_what_cannot_be_is_not);
    tcase_add_test(cases, open_gaps_of_the_cursor_are_probed_at_once);
    tcase_add_test(cases, who_keeps_a_gap_open_is_asked_for_once_it_has_waited);
    tcase_add_test(cases, running_out_of_memory_is_an_ordinary_result);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
