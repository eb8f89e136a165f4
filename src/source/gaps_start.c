/* gaps_start: where mode gaps begins: at the stored place, or at what is visible when a forwarder is new */
#include "source/gaps_start.h"

#include <errno.h>
#include <inttypes.h>

#include "base/log.h"

/* So often, and some milliseconds apart, the holders are looked at; then the connections are made anew, and it is said why. */
#define LOOKS_MAX 600
#define PAUSE_SQL "SELECT pg_sleep(0.05)"

void gaps_start_init(struct gaps_start *s, struct mode *mode, struct gaps_sql *sql) {
    *s = (struct gaps_start){.mode = mode, .sql = sql, .left = BUF_INIT(SOURCE_ARRAY_MAX), .sequence = BUF_INIT(4096)};
}

void gaps_start_done(struct gaps_start *s) {
    cursor_gaps_done(&s->at);
    ranges_done(&s->retained);
    buf_done(&s->left);
    buf_done(&s->sequence);
    holders_done(&s->holders);
}

/* What is known already. ---------------------------------------------------- */

/* The next number of an array; false: there is none. */
static bool next_number(const char **at, const char *end, int64_t *ret_number) {
    char *behind;
    while (*at < end && (**at == '{' || **at == ','))
        ++*at;
    if (*at >= end || **at == '}')
        return false;
    *ret_number = strtoll(*at, &behind, 10);
    bool any = behind > *at && behind <= end;
    *at = behind;
    return any;
}

static int read_retained(struct gaps_start *s, const struct source_retained *retained) {
    ranges_clear(&s->retained);
    buf_clear(&s->left);
    if (!retained || span_absent(retained->first) || span_absent(retained->last) || span_absent(retained->left_us))
        return 0;
    const char *first = retained->first.data, *last = retained->last.data, *left = retained->left_us.data;
    const char *first_end = first + retained->first.len, *last_end = last + retained->last.len;
    const char *left_end = left + retained->left_us.len;
    struct range range;
    int64_t left_us;
    int r = 0;
    while (r == 0 && next_number(&first, first_end, &range.first) && next_number(&last, last_end, &range.last) &&
           next_number(&left, left_end, &left_us)) {
        r = ranges_add(&s->retained, range);
        if (r == 0)
            r = buf_add(&s->left, &left_us, sizeof left_us);
    }
    return r;
}

/* What the configured start leaves out: rows that are visible at the start and
 * stand there or below. What commits later is sent wherever it stands. */
static int64_t done_upto(const struct source_options *o) {
    switch (o->start) {
    case SOURCE_START_BEGINNING:
        return INT64_MIN;
    case SOURCE_START_NOW:
        return INT64_MAX;
    case SOURCE_START_POSITION:
        break;
    }
    return o->start_position == INT64_MIN ? INT64_MIN : o->start_position - 1;
}

/* One range more than are kept shows that there are more. */
static int ask(struct gaps_start *s, int64_t now_us, struct error *reterr) {
    s->phase = GAPS_START_READS;
    s->readable = false;
    s->drawn = s->highest = INT64_MIN;
    s->missing = 0;
    buf_clear(&s->sequence);
    if (!s->have_cursor)
        ranges_clear(&s->at.open);
    return gaps_sql_send_start(s->sql, s->mode->tail, !s->have_cursor, done_upto(s->mode->options), GAPS_LIVE_MAX + 1, now_us,
                               reterr);
}

int gaps_start_open(struct gaps_start *s, struct span cursor, const struct source_retained *retained, int64_t now_us,
                    struct error *reterr) {
    s->have_cursor = !span_absent(cursor);
    s->list = 0;
    s->proven_upto = INT64_MIN;
    s->facts = (struct gaps_sql_facts){0};
    s->looks = 0;
    holders_forget(&s->holders);
    cursor_gaps_done(&s->at);
    s->at = (struct cursor_gaps){.position = INT64_MIN};
    int r = s->have_cursor ? cursor_parse_gaps(cursor, &s->at, reterr) : 0;
    if (r)
        return r == -ENOMEM ? r : SOURCE_E_CURSOR;
    r = read_retained(s, retained);
    return r ? r : ask(s, now_us, reterr);
}

/* Rows. --------------------------------------------------------------------- */

/* What was proven of another sequence's positions says nothing. */
static enum mode_answer head(struct gaps_start *s, struct error *reterr) {
    struct pgconn *tail = s->mode->tail;
    struct cursor_origin before = s->facts.origin;
    struct span facts = pgconn_value(tail, MODE_TEXT);
    if (!gaps_sql_read_facts(facts, &s->facts))
        return mode_misfit(reterr);
    span_copy(s->facts_text, sizeof s->facts_text, facts);
    if (before.table != s->facts.origin.table || before.sequence != s->facts.origin.sequence)
        s->proven_upto = INT64_MIN;
    struct span drawn = pgconn_value(tail, MODE_NUMBER);
    s->mode->backend_pid = mode_int4(pgconn_value(tail, MODE_PID));
    s->readable = mode_bool(pgconn_value(tail, MODE_FLAG));
    s->drawn = span_absent(drawn) ? INT64_MIN : mode_int8(drawn);
    return MODE_GO_ON;
}

static enum mode_answer place(struct gaps_start *s) {
    struct span highest = pgconn_value(s->mode->tail, MODE_TEXT), number = pgconn_value(s->mode->tail, MODE_NUMBER);
    s->at.position = span_absent(number) ? INT64_MIN : mode_int8(number);
    s->highest = span_absent(highest) ? INT64_MIN : strtoll(highest.data, NULL, 10);
    return MODE_GO_ON;
}

static enum mode_answer missing(struct gaps_start *s, struct error *reterr) {
    struct range range;
    if (range_parse(pgconn_value(s->mode->tail, MODE_TEXT), &range) != 0)
        return mode_misfit(reterr);
    s->missing = mode_int8(pgconn_value(s->mode->tail, MODE_NUMBER));
    int r = ranges_add(&s->at.open, range);
    return r ? mode_failed(r, reterr) : MODE_GO_ON;
}

static enum mode_answer start_row(struct gaps_start *s, struct error *reterr) {
    struct pgconn *tail = s->mode->tail;
    struct span flag = pgconn_value(tail, MODE_FLAG);
    if (!span_absent(pgconn_value(tail, MODE_PID)))
        return head(s, reterr);
    if (!span_absent(flag))
        return mode_bool(flag) ? place(s) : missing(s, reterr);
    buf_clear(&s->sequence);
    int r = buf_add_span(&s->sequence, pgconn_value(tail, MODE_TEXT));
    return r ? mode_failed(r, reterr) : MODE_GO_ON;
}

static enum mode_answer list_row(struct gaps_start *s, struct error *reterr) {
    if (!span_absent(pgconn_value(s->mode->tail, MODE_PID)))
        return MODE_GO_ON;
    int r = holders_add(&s->holders, pgconn_value(s->mode->tail, MODE_TEXT));
    if (r < 0)
        return mode_failed(r, reterr);
    return r > 0 ? mode_misfit(reterr) : MODE_GO_ON;
}

enum mode_answer gaps_start_row(struct gaps_start *s, struct error *reterr) {
    switch (s->phase) {
    case GAPS_START_READS:
        return start_row(s, reterr);
    case GAPS_START_LISTS:
        return list_row(s, reterr);
    case GAPS_START_PAUSES:
        break;
    }
    return MODE_GO_ON;
}

/* The sequence. --------------------------------------------------------------- */

static enum mode_answer stored_ahead(const struct gaps_start *s, struct error *reterr) {
    error_set(reterr, ERROR_CONFIG,
              "the checkpoint lies beyond this table: it is at position %" PRId64 ", and the table's sequence has given out "
              "none above %" PRId64 " (restored from a backup, or wound back?); what was sent since can't be known: set the "
              "sequence forward (setval) if rows were written past it, else say by penstock rebase where to go on",
              s->at.position, s->drawn == INT64_MIN ? 0 : s->drawn);
    return MODE_AHEAD;
}

/* What was read would be taken for another table's as soon as it is read again. */
static enum mode_answer rows_ahead(const struct gaps_start *s, struct error *reterr) {
    CLEANUP(buf_done) struct buf name = BUF_INIT(8192);
    int r = pgconn_quote_literal(buf_span(&s->sequence), &name);
    if (r)
        return mode_failed(r, reterr);
    error_set(reterr, ERROR_CONFIG,
              "rows of this table stand at positions up to %" PRId64 ", and its sequence has given out none above %" PRId64
              " (written past it, or restored without it?); what it gives out next would stand below them: set it forward: "
              "SELECT setval(%.*s, %" PRId64 ");",
              s->highest, s->drawn == INT64_MIN ? 0 : s->drawn, SPAN_ARGS(buf_span(&name)), s->highest);
    return MODE_AHEAD;
}

static const char *what_changed(struct cursor_origin was, struct cursor_origin is) {
    if (was.table != is.table)
        return "the table was made anew, or another one put in its place";
    if (was.sequence == 0)
        return "the table's positions were given a sequence";
    if (is.sequence == 0)
        return "the table's positions come from no sequence any more";
    return "the table's sequence was started anew, altered or replaced (TRUNCATE RESTART IDENTITY, ALTER SEQUENCE)";
}

static enum mode_answer given_out_again(struct gaps_start *s, struct error *reterr) {
    error_set(reterr, ERROR_CONFIG,
              "since the checkpoint was written, at position %" PRId64 ", %s: positions up to %" PRId64 " may have been given out "
              "again, or will be; which of their rows were sent can't be known: say by penstock rebase where to go on",
              s->at.position, what_changed(s->at.origin, s->facts.origin), s->at.position);
    s->mode->given_out_again = true;
    return MODE_AHEAD;
}

/* The same file of a sequence gives no position out twice (but by setval), whatever table it is put to. A cursor
 * of an earlier version says nothing, nor does one that has reached nothing. */
static bool is_of_this_table(const struct gaps_start *s) {
    struct cursor_origin was = s->at.origin, is = s->facts.origin;
    if (s->mode->options->take_over || was.table == 0 || s->at.position == INT64_MIN)
        return true;
    return was.sequence == is.sequence && (was.sequence != 0 || was.table == is.table);
}

/* What can't lie: the sequence, never which rows there are. */
static enum mode_answer compare(struct gaps_start *s, struct error *reterr) {
    s->mode->given_out_again = false;
    if (s->have_cursor && !is_of_this_table(s))
        return given_out_again(s, reterr);
    if (s->readable && s->have_cursor && s->at.position > s->drawn)
        return stored_ahead(s, reterr);
    if (s->readable && s->highest > s->drawn)
        return rows_ahead(s, reterr);
    return MODE_GO_ON;
}

/* The proof. ------------------------------------------------------------------ */

static enum mode_answer sent(int r, struct error *reterr) {
    return r == 0 ? MODE_AGAIN : r < 0 ? mode_failed(r, reterr) : MODE_LOST;
}

static enum mode_answer list(struct gaps_start *s, int64_t now_us, struct error *reterr) {
    static const struct ranges none;
    struct gaps_statement statement = {.kind = GAPS_LIST, .ranges = &none};
    s->phase = GAPS_START_LISTS;
    holders_begin(&s->holders);
    return sent(gaps_sql_send(s->sql, s->mode->tail, &statement, now_us, reterr), reterr);
}

static enum mode_answer pause_then_list(struct gaps_start *s, int64_t now_us, struct error *reterr) {
    s->phase = GAPS_START_PAUSES;
    return sent(pgconn_send(s->mode->tail, NULL, PAUSE_SQL, NULL, 0, false, now_us, reterr), reterr);
}

static enum mode_answer end_list(struct gaps_start *s, int64_t now_us, struct error *reterr) {
    holders_end(&s->holders);
    if (s->list == 0)
        s->list = s->holders.list;
    if (holders_oldest(&s->holders) > s->list) {
        s->proven_upto = s->readable ? s->drawn : INT64_MAX;
        return sent(ask(s, now_us, reterr), reterr);
    }
    if (++s->looks < LOOKS_MAX)
        return pause_then_list(s, now_us, reterr);
    error_set(reterr, ERROR_RETRY,
              "%" PRId64 " ranges of positions below the start are missing, of which %d can be watched; the others are left "
              "behind when the transactions that may still fill them have ended, and %s (virtualtransaction of pg_locks) has "
              "not: trying again", s->missing, GAPS_LIVE_MAX, holders_first(&s->holders, s->list)->id);
    return MODE_FAILED;
}

/* One more than can be kept was asked for; sorted, it is the first. */
static bool is_too_much(const struct gaps_start *s) {
    return !s->have_cursor && s->at.open.count > GAPS_LIVE_MAX;
}

static enum mode_answer open_gaps(struct gaps_start *s, struct gaps *gaps, int64_t now_us, struct error *reterr) {
    struct span sequence = s->sequence.len ? buf_span(&s->sequence) : SPAN_ABSENT;
    const struct cursor_origin was = s->at.origin, is = s->facts.origin;
    s->mode->rewrite = s->have_cursor && (was.table != is.table || was.sequence != is.sequence);
    s->at.origin = is;
    int r = gaps_sql_make_pages(s->sql, sequence, &s->facts);
    if (r == 0)
        r = gaps_open(gaps, &s->at, now_us);
    for (size_t i = 0; r == 0 && i < s->retained.count; i++) {
        int64_t left_us;
        memcpy(&left_us, s->left.data + i * sizeof left_us, sizeof left_us);
        r = gaps_retain(gaps, s->retained.items[i], now_us + left_us);
    }
    return r ? mode_failed(r, reterr) : MODE_GO_ON;
}

static enum mode_answer end_start(struct gaps_start *s, struct gaps *gaps, int64_t now_us, struct error *reterr) {
    enum mode_answer answer = compare(s, reterr);
    if (answer != MODE_GO_ON)
        return answer;
    ranges_sort(&s->at.open);
    if (is_too_much(s) && s->at.open.items[0].last > s->proven_upto) {
        s->list = 0;
        s->since_us = now_us;
        return list(s, now_us, reterr);
    }
    if (is_too_much(s)) {
        ranges_remove_first(&s->at.open);
        gaps_drop(gaps, (uint64_t)s->missing - GAPS_LIVE_MAX);
    }
    return open_gaps(s, gaps, now_us, reterr);
}

enum mode_answer gaps_start_end(struct gaps_start *s, struct gaps *gaps, int64_t now_us, struct error *reterr) {
    switch (s->phase) {
    case GAPS_START_READS:
        return end_start(s, gaps, now_us, reterr);
    case GAPS_START_LISTS:
        return end_list(s, now_us, reterr);
    case GAPS_START_PAUSES:
        break;
    }
    return list(s, now_us, reterr);
}

bool gaps_start_waits(const struct gaps_start *s, struct source_culprit *ret_culprit) {
    const struct holder *first = s->list ? holders_first(&s->holders, s->list) : NULL;
    if (s->phase == GAPS_START_READS || !first)
        return false;
    *ret_culprit = (struct source_culprit){.starts = true, .gaps = (size_t)s->missing, .since_us = s->since_us,
                                           .holders = holders_count(&s->holders, s->list)};
    span_copy(ret_culprit->holder, sizeof ret_culprit->holder, span_of(first->id));
    return true;
}
