/* snapshot_mode: mode snapshot: the plan's statements in SQL, their answers to the plan */
#include <errno.h>

#include "base/log.h"
#include "source/mode.h"
#include "source/snapshot.h"

struct snapshot_mode {
    struct mode mode;
    struct snapshot_sql sql;
    struct plan *plan;
    struct buf cursor; /* the text that open was given */
    bool have_cursor;
    enum plan_kind asked;
};

static struct snapshot_mode *of(const struct mode *m) {
    return (struct snapshot_mode *)m;
}

static void release_mode(struct mode *m) {
    struct snapshot_mode *s = of(m);
    snapshot_done(&s->sql);
    plan_free(s->plan);
    buf_done(&s->cursor);
    free(s);
}

static int make(struct mode **ret_mode) {
    struct snapshot_mode *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    s->cursor = BUF_INIT(CURSOR_TEXT_MAX);
    int r = plan_new(&s->plan);
    if (r) {
        release_mode(&s->mode);
        return r;
    }
    *ret_mode = &s->mode;
    return 0;
}

static int prepare(struct mode *m, const struct table *table) {
    snapshot_done(&of(m)->sql);
    return snapshot_init(&of(m)->sql, table, m->options->max_message_bytes);
}

/* Opening. ------------------------------------------------------------------ */

static struct span latest_snapshot(const struct cursor *c) {
    return span_absent(c->n) ? c->s : c->n;
}

static int open_mode(struct mode *m, struct span cursor, const struct source_retained *retained, int64_t now_us,
                     struct error *reterr) {
    (void)retained; /* this mode needs none */
    struct snapshot_mode *s = of(m);
    struct cursor parsed = {0};
    s->have_cursor = !span_absent(cursor);
    buf_clear(&s->cursor);
    if (s->have_cursor) {
        if (cursor_parse(cursor, &parsed, reterr) != 0)
            return SOURCE_E_CURSOR;
        int r = buf_add_span(&s->cursor, cursor);
        if (r)
            return r;
    }
    return snapshot_send_start(&s->sql, m->tail, latest_snapshot(&parsed), now_us, reterr);
}

/* What the configured start means now: rows that are visible at this moment and
 * stand below the first wanted position are done. */
static struct cursor start_cursor(const struct source_options *options, struct span now, struct span highest) {
    struct cursor beginning = {.s = CURSOR_BEGINNING}, all_done = {.s = now};
    switch (options->start) {
    case SOURCE_START_BEGINNING:
        return beginning;
    case SOURCE_START_NOW:
        return all_done;
    case SOURCE_START_POSITION:
        break;
    }
    if (options->start_position == INT64_MIN)
        return beginning;
    int64_t position = options->start_position - 1;
    if (span_absent(highest) || position >= mode_int8(highest))
        return all_done;
    return (struct cursor){.s = CURSOR_BEGINNING, .n = now, .position = position, .end = mode_int8(highest)};
}

static int open_plan(struct snapshot_mode *s, struct span now, struct span highest) {
    struct cursor at;
    struct error ignored;
    if (s->have_cursor)
        ASSERT(cursor_parse(buf_span(&s->cursor), &at, &ignored) == 0);
    else
        at = start_cursor(s->mode.options, now, highest);
    return plan_open(s->plan, &at);
}

static enum mode_answer start(struct mode *m, struct error *reterr) {
    struct snapshot_mode *s = of(m);
    struct span now = pgconn_value(m->tail, MODE_TEXT);
    m->backend_pid = mode_int4(pgconn_value(m->tail, MODE_PID));
    if (mode_bool(pgconn_value(m->tail, MODE_FLAG))) {
        error_set(reterr, ERROR_CONFIG,
                  "the checkpoint lies beyond this server: its cursor %.*s knows of transactions that the server, now at "
                  "%.*s, has not reached (restored from a backup?); what was sent since can't be known: say by "
                  "penstock rebase where to go on",
                  (int)(s->cursor.len < 200 ? s->cursor.len : 200), s->cursor.data, (int)(now.len < 100 ? now.len : 100),
                  now.data);
        return MODE_AHEAD;
    }
    if (!cursor_check_snapshot(now)) {
        error_set(reterr, ERROR_RETRY, "the server's snapshot is over %d bytes long: too many transactions are running",
                  CURSOR_SNAPSHOT_MAX);
        return MODE_FAILED;
    }
    int r = open_plan(s, now, pgconn_value(m->tail, MODE_NUMBER));
    return r ? mode_failed(r, reterr) : MODE_GO_ON;
}

static enum mode_answer started(struct mode *m, int64_t now_us, struct error *reterr) {
    (void)m, (void)now_us, (void)reterr;
    return MODE_GO_ON;
}

/* Reading. ------------------------------------------------------------------ */

static void want(struct mode *m, uint32_t events, uint64_t bytes) {
    plan_want(of(m)->plan, events, bytes);
}

static int next(struct mode *m, int64_t now_us, struct error *reterr) {
    struct snapshot_mode *s = of(m);
    struct plan_statement statement;
    if (!plan_next(s->plan, &statement))
        return MODE_E_END;
    s->asked = statement.kind;
    return snapshot_send(&s->sql, m->tail, &statement, now_us, reterr);
}

static enum mode_answer head(struct mode *m, struct error *reterr) {
    struct snapshot_mode *s = of(m);
    if (s->asked == PLAN_PAGE)
        return MODE_GO_ON;
    struct span number = pgconn_value(m->tail, MODE_NUMBER);
    int64_t value = span_absent(number) ? INT64_MIN : mode_int8(number);
    if (s->asked == PLAN_FIRST)
        plan_first(s->plan, !span_absent(number), value);
    if (s->asked != PLAN_SMALL)
        return MODE_GO_ON;
    struct span overflow = pgconn_value(m->tail, MODE_FLAG);
    if (span_absent(overflow)) {
        error_set(reterr, ERROR_RETRY, "the transaction id of the event table may be NULL now: looking at the table again");
        return MODE_FAILED;
    }
    int r = plan_small(s->plan, pgconn_value(m->tail, MODE_TEXT), mode_bool(overflow), value);
    if (r < 0)
        return mode_failed(r, reterr);
    return r == 0 ? MODE_GO_ON : mode_misfit(reterr);
}

static enum mode_answer data(struct mode *m, struct error *reterr) {
    struct snapshot_mode *s = of(m);
    int64_t position;
    uint64_t bytes;
    bool keep;
    int head_columns = s->asked == PLAN_PAGE ? SNAPSHOT_PAGE_HEAD_COLUMNS : MODE_HEAD_COLUMNS;
    enum mode_answer answer = mode_take_row(m, &s->sql.columns, head_columns, &position, &bytes, reterr);
    if (answer != MODE_GO_ON)
        return answer;
    int r = plan_row(s->plan, position, bytes, &keep);
    if (r < 0)
        return mode_failed(r, reterr);
    if (r > 0)
        return mode_misfit(reterr);
    return keep ? MODE_ROW : MODE_CUT;
}

static enum mode_answer end(struct mode *m, int64_t now_us, struct error *reterr) {
    (void)now_us, (void)reterr;
    plan_end(of(m)->plan);
    return MODE_GO_ON;
}

static bool dropped(struct mode *m, uint64_t *ret_target) {
    return plan_dropped(of(m)->plan, ret_target);
}

static bool caught_up(const struct mode *m) {
    return plan_caught_up(of(m)->plan);
}

static int look(struct mode *m, int64_t now_us, struct error *reterr) {
    struct snapshot_mode *s = of(m);
    struct cursor at;
    int r = plan_cursor(s->plan, plan_mark(s->plan), &at);
    ASSERT(r == 0); /* the place itself is never given up */
    return snapshot_send_look(&s->sql, m->tail, &at, now_us, reterr);
}

/* Places. ------------------------------------------------------------------- */

static struct source_mark mark(const struct mode *m) {
    struct plan_mark mark = plan_mark(of(m)->plan);
    return (struct source_mark){mark.position, mark.target};
}

static int print(struct mode *m, struct source_mark mark, struct buf *b) {
    struct cursor cursor, again;
    struct error ignored;
    size_t start = b->len;
    if (plan_cursor(of(m)->plan, (struct plan_mark){mark.position, mark.target}, &cursor) != 0)
        return SOURCE_E_GONE;
    int r = cursor_print(&cursor, b);
    if (r)
        return r;
    ASSERT(cursor_parse((struct span){b->data + start, b->len - start}, &again, &ignored) == 0);
    ASSERT(cursor_equal(&cursor, &again));
    return 0;
}

static int changes(struct mode *m, struct source_mark mark, int64_t now_us, struct source_changes *ret_changes) {
    (void)m, (void)mark, (void)now_us;
    *ret_changes = (struct source_changes){0};
    return 0;
}

static void saved(struct mode *m, struct source_mark mark) {
    (void)m, (void)mark;
}

static void release(struct mode *m, uint64_t oldest_target) {
    plan_release(of(m)->plan, oldest_target);
}

/* No statement here tells a row that is not visible yet from one that never will be. */
static bool culprit(const struct mode *m, int64_t now_us, struct source_culprit *ret_culprit) {
    (void)m, (void)now_us, (void)ret_culprit;
    return false;
}

static bool gaps(const struct mode *m, struct source_gaps *ret_gaps) {
    (void)m, (void)ret_gaps;
    return false;
}

const struct mode_kind mode_snapshot = {
    .name = "snapshot",
    .make = make,
    .free = release_mode,
    .prepare = prepare,
    .open = open_mode,
    .start = start,
    .started = started,
    .want = want,
    .next = next,
    .head = head,
    .data = data,
    .end = end,
    .dropped = dropped,
    .caught_up = caught_up,
    .look = look,
    .mark = mark,
    .print = print,
    .changes = changes,
    .saved = saved,
    .release = release,
    .culprit = culprit,
    .gaps = gaps,
};
