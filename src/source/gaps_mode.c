/* gaps_mode: mode gaps: the core's statements in SQL, their answers to the core */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "source/gaps_start.h"
#include "source/mode.h"

struct gaps_mode {
    struct mode mode;
    struct gaps_sql sql;
    struct gaps *gaps;

    struct gaps_start start;
    int64_t drawn; /* highest position that the sequence has given out, as far as it was seen */

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
    struct buf *all[] = {&g->more_first, &g->more_last, &g->more_left, &g->gone};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        buf_done(all[i]);
    gaps_sql_done(&g->sql);
    gaps_free(g->gaps);
    gaps_start_done(&g->start);
    free(g);
}

static int make(struct mode **ret_mode) {
    struct gaps_mode *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    struct buf *all[] = {&g->more_first, &g->more_last, &g->more_left, &g->gone};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        *all[i] = BUF_INIT(SOURCE_ARRAY_MAX);
    gaps_start_init(&g->start, &g->mode, &g->sql);
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

static int open_mode(struct mode *m, struct span cursor, const struct source_retained *retained, int64_t now_us,
                     struct error *reterr) {
    struct gaps_mode *g = of(m);
    g->who_known = false;
    return gaps_start_open(&g->start, cursor, retained, now_us, reterr);
}

static enum mode_answer start(struct mode *m, struct error *reterr) {
    return gaps_start_row(&of(m)->start, reterr);
}

static enum mode_answer started(struct mode *m, int64_t now_us, struct error *reterr) {
    struct gaps_mode *g = of(m);
    enum mode_answer answer = gaps_start_end(&g->start, g->gaps, now_us, reterr);
    g->drawn = g->start.drawn;
    return answer;
}

/* Reading. ------------------------------------------------------------------ */

static void want(struct mode *m, uint32_t events, uint64_t bytes) {
    struct gaps_mode *g = of(m);
    if (m->rewrite)
        gaps_rewrite(g->gaps);
    gaps_want(g->gaps, events, bytes);
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

/* Before any of its rows: the positions still come from where they came from. What became of it the start tells. */
static bool is_as_it_was(struct gaps_mode *g, struct error *reterr) {
    if (span_is(pgconn_value(g->mode.tail, MODE_TEXT), g->start.facts_text))
        return true;
    error_set(reterr, ERROR_RETRY, "the table's sequence was altered, started anew or replaced: looking at the table again");
    return false;
}

/* Of a page: does the table's sequence go forward? */
static enum mode_answer page_head(struct gaps_mode *g, struct error *reterr) {
    struct span drawn = pgconn_value(g->mode.tail, MODE_NUMBER);
    bool readable = mode_bool(pgconn_value(g->mode.tail, MODE_FLAG));
    int64_t before = g->drawn;
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
        return is_as_it_was(g, reterr) ? page_head(g, reterr) : MODE_FAILED;
    case GAPS_DEAD:
        return is_as_it_was(g, reterr) ? MODE_GO_ON : MODE_FAILED;
    case GAPS_WHO:
        g->who_known = false;
        break;
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
    struct span v[GAPS_SQL_WHO_GRANT + 1];
    for (int i = 0; i <= GAPS_SQL_WHO_GRANT; i++)
        v[i] = pgconn_value(g->mode.tail, i);
    struct source_culprit *c = &g->who;
    *c = (struct source_culprit){.known = true, .pid = mode_int4(v[GAPS_SQL_WHO_PID])};
    span_copy(c->prepared, sizeof c->prepared, v[GAPS_SQL_WHO_GID]);
    span_copy(c->application, sizeof c->application, v[GAPS_SQL_WHO_APPLICATION]);
    span_copy(c->user, sizeof c->user, v[GAPS_SQL_WHO_USER]);
    span_copy(c->state, sizeof c->state, v[GAPS_SQL_WHO_STATE]);
    span_copy(c->grant, sizeof c->grant, v[GAPS_SQL_WHO_GRANT]);
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

static int look(struct mode *m, int64_t now_us, struct error *reterr) {
    struct gaps_mode *g = of(m);
    struct cursor_gaps at;
    int r = gaps_cursor(g->gaps, gaps_mark(g->gaps), &at);
    return r ? r : gaps_sql_send_look(&g->sql, m->tail, &at, now_us, reterr);
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
    if (r == 0) {
        cursor.origin = of(m)->start.at.origin;
        r = cursor_print_gaps(&cursor, b);
    }
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
    m->rewrite = false;
    gaps_saved(of(m)->gaps, mark.target);
}

static void release(struct mode *m, uint64_t oldest_target) {
    gaps_release(of(m)->gaps, oldest_target);
}

static bool culprit(const struct mode *m, int64_t now_us, struct source_culprit *ret_culprit) {
    struct gaps_mode *g = of(m);
    struct gaps_wait wait;
    struct gaps_view view;
    if (gaps_start_waits(&g->start, ret_culprit))
        return true;
    if (!gaps_waits(g->gaps, now_us, &wait))
        return false;
    gaps_view(g->gaps, &view);
    bool known = g->who_known && wait.holder && strcmp(wait.holder, g->who_id) == 0;
    *ret_culprit = known ? g->who : (struct source_culprit){0};
    ret_culprit->first = wait.range.first;
    ret_culprit->last = wait.range.last;
    ret_culprit->gaps = wait.count;
    ret_culprit->since_us = wait.since_us;
    ret_culprit->holders = wait.holders;
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
    .look = look,
    .mark = mark,
    .print = print,
    .changes = changes,
    .saved = saved,
    .release = release,
    .culprit = culprit,
    .gaps = count_gaps,
};
