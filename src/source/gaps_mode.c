/* gaps_mode: mode gaps: the core's statements in SQL, their answers to the core */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "source/gaps_sql.h"
#include "source/mode.h"

struct gaps_mode {
    struct mode mode;
    struct gaps_sql sql;
    struct gaps *gaps;

    /* Opening: what the cursor says, or the start of the options. */
    bool have_cursor;
    struct cursor_gaps at;
    struct ranges retained;
    struct buf left; /* int64_t each: how long the retained ones are still probed */

    char table[16];       /* its oid: another table of that name is another table */
    struct buf sequence;  /* its name, quoted; empty: can't be read */
    int64_t drawn;        /* highest position it has given out, as far as it was seen */

    enum gaps_kind asked;
    struct source_culprit who; /* what the last GAPS_WHO has said */
    bool who_known;
    char who_id[HOLDERS_ID_MAX];

    struct buf more_first, more_last, more_left, gone;
};

static struct gaps_mode *of(const struct mode *m) {
    return (struct gaps_mode *)m;
}

static void release_mode(struct mode *m) {
    struct gaps_mode *g = of(m);
    struct buf *all[] = {&g->left, &g->sequence, &g->more_first, &g->more_last, &g->more_left, &g->gone};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        buf_done(all[i]);
    gaps_sql_done(&g->sql);
    gaps_free(g->gaps);
    cursor_gaps_done(&g->at);
    ranges_done(&g->retained);
    free(g);
}

static int make(struct mode **ret_mode) {
    struct gaps_mode *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    struct buf *all[] = {&g->left, &g->sequence, &g->more_first, &g->more_last, &g->more_left, &g->gone};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        *all[i] = BUF_INIT(GAPS_SQL_ARRAY_MAX);
    *ret_mode = &g->mode;
    return 0;
}

static int prepare(struct mode *m, const struct table *table) {
    struct gaps_mode *g = of(m);
    struct gaps_options options = {m->options->gaps_retention_us, (size_t)m->options->gaps_max};
    gaps_sql_done(&g->sql);
    int r = g->gaps ? 0 : gaps_new(&options, &g->gaps);
    return r ? r : gaps_sql_init(&g->sql, table, m->options->max_message_bytes);
}

/* Opening. ------------------------------------------------------------------ */

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

static int read_retained(struct gaps_mode *g, const struct source_retained *retained) {
    ranges_clear(&g->retained);
    buf_clear(&g->left);
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
        r = ranges_add(&g->retained, range);
        if (r == 0)
            r = buf_add(&g->left, &left_us, sizeof left_us);
    }
    return r;
}

/* What the configured start leaves out: rows that are visible at this moment and
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

static int open_mode(struct mode *m, struct span cursor, const struct source_retained *retained, int64_t now_us,
                     struct error *reterr) {
    struct gaps_mode *g = of(m);
    g->have_cursor = !span_absent(cursor);
    g->drawn = INT64_MIN;
    g->who_known = false;
    buf_clear(&g->sequence);
    cursor_gaps_done(&g->at);
    g->at.position = INT64_MIN;
    int r = g->have_cursor ? cursor_parse_gaps(cursor, &g->at, reterr) : 0;
    if (r)
        return r == -ENOMEM ? r : SOURCE_E_CURSOR;
    r = read_retained(g, retained);
    int64_t done = g->have_cursor ? INT64_MIN : done_upto(m->options);
    return r ? r : gaps_sql_send_start(&g->sql, m->tail, done != INT64_MIN, done, now_us, reterr);
}

static enum mode_answer start_head(struct mode *m, struct error *reterr) {
    struct gaps_mode *g = of(m);
    struct span drawn = pgconn_value(m->tail, MODE_NUMBER);
    m->backend_pid = mode_int4(pgconn_value(m->tail, MODE_PID));
    span_copy(g->table, sizeof g->table, pgconn_value(m->tail, MODE_TEXT));
    bool readable = mode_bool(pgconn_value(m->tail, MODE_FLAG));
    g->drawn = span_absent(drawn) ? INT64_MIN : mode_int8(drawn);
    if (!g->have_cursor || !readable || g->at.position <= g->drawn)
        return MODE_GO_ON;
    error_set(reterr, ERROR_CONFIG,
              "the checkpoint lies beyond this table: it is at position %" PRId64 ", and the table's sequence has given out "
              "none above %" PRId64 " (restored from a backup, or wound back?); what was sent since can't be known: set the "
              "sequence forward (setval), or delete the checkpoint's row to begin anew from the configured start",
              g->at.position, g->drawn == INT64_MIN ? 0 : g->drawn);
    return MODE_AHEAD;
}

/* A start that leaves rows out: what is visible is done, everything else is open. */
static enum mode_answer start_range(struct gaps_mode *g, struct span text, struct error *reterr) {
    struct range range;
    if (range_parse(text, &range) != 0)
        return mode_misfit(reterr);
    int r = ranges_add(&g->at.open, range);
    return r ? mode_failed(r, reterr) : MODE_GO_ON;
}

static enum mode_answer start(struct mode *m, struct error *reterr) {
    struct gaps_mode *g = of(m);
    struct span text = pgconn_value(m->tail, MODE_TEXT), flag = pgconn_value(m->tail, MODE_FLAG);
    struct span number = pgconn_value(m->tail, MODE_NUMBER);
    if (!span_absent(pgconn_value(m->tail, MODE_PID)))
        return start_head(m, reterr);
    if (span_absent(flag)) {
        buf_clear(&g->sequence);
        int r = buf_add_span(&g->sequence, text);
        return r ? mode_failed(r, reterr) : MODE_GO_ON;
    }
    if (!mode_bool(flag))
        return start_range(g, text, reterr);
    if (!span_absent(number))
        g->at.position = mode_int8(number);
    return MODE_GO_ON;
}

static int open_gaps(struct gaps_mode *g, int64_t now_us) {
    ranges_sort(&g->at.open);
    int r = gaps_open(g->gaps, &g->at, now_us);
    for (size_t i = 0; r == 0 && i < g->retained.count; i++) {
        int64_t left_us;
        memcpy(&left_us, g->left.data + i * sizeof left_us, sizeof left_us);
        r = gaps_retain(g->gaps, g->retained.items[i], now_us + left_us);
    }
    return r;
}

static enum mode_answer started(struct mode *m, int64_t now_us, struct error *reterr) {
    struct gaps_mode *g = of(m);
    struct span sequence = g->sequence.len ? buf_span(&g->sequence) : SPAN_ABSENT;
    int r = gaps_sql_make_page(&g->sql, sequence);
    if (r == 0)
        r = open_gaps(g, now_us);
    return r ? mode_failed(r, reterr) : MODE_GO_ON;
}

/* Reading. ------------------------------------------------------------------ */

static void want(struct mode *m, uint32_t events, uint64_t bytes) {
    gaps_want(of(m)->gaps, events, bytes);
}

static int next(struct mode *m, int64_t now_us, struct error *reterr) {
    struct gaps_mode *g = of(m);
    struct gaps_statement statement;
    int r = gaps_next(g->gaps, now_us, &statement);
    if (r == GAPS_E_END)
        return MODE_E_END;
    if (r == 0) {
        g->asked = statement.kind;
        if (statement.kind == GAPS_WHO)
            snprintf(g->who_id, sizeof g->who_id, "%s", statement.holder);
        r = gaps_sql_send(&g->sql, m->tail, &statement, now_us, reterr);
    }
    if (r < 0)
        mode_failed(r, reterr);
    return r;
}

/* Of a page: is it still that table, and does its sequence go forward? */
static enum mode_answer page_head(struct gaps_mode *g, struct error *reterr) {
    struct span drawn = pgconn_value(g->mode.tail, MODE_NUMBER);
    bool readable = mode_bool(pgconn_value(g->mode.tail, MODE_FLAG));
    int64_t before = g->drawn;
    if (!span_is(pgconn_value(g->mode.tail, MODE_TEXT), g->table)) {
        error_set(reterr, ERROR_RETRY, "the event table was dropped and made anew: looking at it again");
        return MODE_FAILED;
    }
    g->drawn = span_absent(drawn) ? INT64_MIN : mode_int8(drawn);
    if (readable && g->drawn < before) {
        error_set(reterr, ERROR_RETRY, "the table's sequence was wound back from %" PRId64 ": looking at the table again", before);
        return MODE_FAILED;
    }
    gaps_drawn(g->gaps, readable ? g->drawn : INT64_MAX);
    return MODE_GO_ON;
}

static enum mode_answer head(struct mode *m, struct error *reterr) {
    struct gaps_mode *g = of(m);
    switch (g->asked) {
    case GAPS_PAGE:
        return page_head(g, reterr);
    case GAPS_WHO:
        g->who_known = false;
        break;
    case GAPS_DEAD:
    case GAPS_LIST:
        break;
    }
    return MODE_GO_ON;
}

static enum mode_answer row(struct gaps_mode *g, struct error *reterr) {
    int64_t position;
    uint64_t bytes;
    bool keep;
    enum mode_answer answer = mode_take_row(&g->mode, &g->sql.columns, MODE_HEAD_COLUMNS, &position, &bytes, reterr);
    if (answer != MODE_GO_ON)
        return answer;
    int r = gaps_row(g->gaps, position, bytes, &keep);
    if (r < 0)
        return mode_failed(r, reterr);
    if (r > 0)
        return mode_misfit(reterr);
    return keep ? MODE_ROW : MODE_CUT;
}

static enum mode_answer holder(struct gaps_mode *g, struct error *reterr) {
    int r = gaps_holder(g->gaps, pgconn_value(g->mode.tail, MODE_TEXT));
    if (r < 0)
        return mode_failed(r, reterr);
    return r > 0 ? mode_misfit(reterr) : MODE_GO_ON;
}

static void who(struct gaps_mode *g) {
    struct span v[GAPS_SQL_WHO_HIDDEN + 1];
    for (int i = 0; i <= GAPS_SQL_WHO_HIDDEN; i++)
        v[i] = pgconn_value(g->mode.tail, i);
    struct source_culprit *c = &g->who;
    *c = (struct source_culprit){.known = true, .pid = mode_int4(v[GAPS_SQL_WHO_PID]), .hidden = mode_bool(v[GAPS_SQL_WHO_HIDDEN])};
    span_copy(c->prepared, sizeof c->prepared, v[GAPS_SQL_WHO_GID]);
    span_copy(c->application, sizeof c->application, v[GAPS_SQL_WHO_APPLICATION]);
    span_copy(c->user, sizeof c->user, v[GAPS_SQL_WHO_USER]);
    span_copy(c->state, sizeof c->state, v[GAPS_SQL_WHO_STATE]);
    if (!span_absent(v[GAPS_SQL_WHO_BEGAN]))
        c->began_wall_us = mode_int8(v[GAPS_SQL_WHO_BEGAN]);
    g->who_known = true;
}

static enum mode_answer data(struct mode *m, struct error *reterr) {
    struct gaps_mode *g = of(m);
    switch (g->asked) {
    case GAPS_PAGE:
    case GAPS_DEAD:
        return row(g, reterr);
    case GAPS_LIST:
        return holder(g, reterr);
    case GAPS_WHO:
        who(g);
        break;
    }
    return MODE_GO_ON;
}

static enum mode_answer end(struct mode *m, int64_t now_us, struct error *reterr) {
    int r = gaps_end(of(m)->gaps, now_us);
    return r ? mode_failed(r, reterr) : MODE_GO_ON;
}

static bool dropped(struct mode *m, uint64_t *ret_target) {
    (void)m, (void)ret_target;
    return false;
}

static bool caught_up(const struct mode *m) {
    return gaps_caught_up(of(m)->gaps);
}

/* Places. ------------------------------------------------------------------- */

static struct source_mark mark(const struct mode *m) {
    struct gaps_mark mark = gaps_mark(of(m)->gaps);
    return (struct source_mark){mark.position, mark.version};
}

static int print(struct mode *m, struct source_mark mark, struct buf *b) {
    struct cursor_gaps cursor, again;
    struct error ignored;
    size_t start = b->len;
    int r = gaps_cursor(of(m)->gaps, (struct gaps_mark){mark.position, mark.target}, &cursor);
    if (r == 0)
        r = cursor_print_gaps(&cursor, b);
    if (r == 0)
        r = cursor_parse_gaps((struct span){b->data + start, b->len - start}, &again, &ignored);
    ASSERT(r <= 0);
    if (r == -EINVAL)
        log_bug(__FILE__, __LINE__, "a printed cursor is read back");
    if (r)
        return r;
    ASSERT(cursor_equal_gaps(&cursor, &again));
    cursor_gaps_done(&again);
    return 0;
}

struct change_context {
    struct gaps_mode *gaps;
    int64_t now_us;
};

static int add_change(void *context, const struct gap *gap, bool removed) {
    struct change_context *c = context;
    struct gaps_mode *g = c->gaps;
    if (removed)
        return param_array_add(&g->gone, gap->range.first);
    int r = param_array_add(&g->more_first, gap->range.first);
    if (r == 0)
        r = param_array_add(&g->more_last, gap->range.last);
    return r ? r : param_array_add(&g->more_left, gap->time_us - c->now_us);
}

static int end_array(struct buf *b, struct span *ret_array) {
    int r = b->len ? param_array_end(b) : 0;
    *ret_array = b->len ? buf_span(b) : SPAN_ABSENT;
    return r;
}

static int changes(struct mode *m, struct source_mark mark, int64_t now_us, struct source_changes *ret_changes) {
    struct gaps_mode *g = of(m);
    struct change_context context = {g, now_us};
    buf_clear(&g->more_first);
    buf_clear(&g->more_last);
    buf_clear(&g->more_left);
    buf_clear(&g->gone);
    int r = gap_set_changes(gaps_set(g->gaps), mark.target, add_change, &context);
    if (r == 0)
        r = end_array(&g->more_first, &ret_changes->more.first);
    if (r == 0)
        r = end_array(&g->more_last, &ret_changes->more.last);
    if (r == 0)
        r = end_array(&g->more_left, &ret_changes->more.left_us);
    return r ? r : end_array(&g->gone, &ret_changes->gone);
}

static void saved(struct mode *m, struct source_mark mark) {
    gaps_saved(of(m)->gaps, mark.target);
}

static void release(struct mode *m, uint64_t oldest_target) {
    gaps_release(of(m)->gaps, oldest_target);
}

static bool culprit(const struct mode *m, int64_t now_us, struct source_culprit *ret_culprit) {
    struct gaps_mode *g = of(m);
    struct gaps_wait wait;
    struct gaps_view view;
    if (!gaps_waits(g->gaps, now_us, &wait))
        return false;
    gaps_view(g->gaps, &view);
    bool known = g->who_known && wait.holder && strcmp(wait.holder, g->who_id) == 0;
    *ret_culprit = known ? g->who : (struct source_culprit){0};
    ret_culprit->first = wait.range.first;
    ret_culprit->last = wait.range.last;
    ret_culprit->gaps = wait.count;
    ret_culprit->since_us = wait.since_us;
    ret_culprit->undrawn = wait.undrawn;
    ret_culprit->full = view.full;
    return true;
}

static bool count_gaps(const struct mode *m, struct source_gaps *ret_gaps) {
    struct gaps_view view;
    gaps_view(of(m)->gaps, &view);
    *ret_gaps = (struct source_gaps){view.live, view.dead, view.dropped};
    return true;
}

const struct mode_kind mode_gaps = {
    .name = "gaps",
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
    .mark = mark,
    .print = print,
    .changes = changes,
    .saved = saved,
    .release = release,
    .culprit = culprit,
    .gaps = count_gaps,
};
