/* tail: the cores of either mode of tailing, joined to the model of the server */
#include "sim/tail.h"

#include <string.h>

#include "base/log.h"

static bool by_gaps(const struct tail *t) {
    return t->options.mode == SOURCE_MODE_GAPS;
}

void tail_start(struct tail *t, const struct tail_options *options) {
    t->options = *options;
    t->plan = NULL;
    t->gaps = NULL;
    int r = by_gaps(t) ? gaps_new(&options->gaps, &t->gaps) : plan_new(&t->plan);
    ASSERT(r == 0);
}

void tail_stop(struct tail *t) {
    plan_free(t->plan);
    gaps_free(t->gaps);
    t->plan = NULL;
    t->gaps = NULL;
}

/* Places. ------------------------------------------------------------------- */

static void take_text(struct buf *b, char text[POSTGRES_TEXT_MAX]) {
    ASSERT(buf_terminate(b) == 0);
    postgres_copy_text(text, b->data);
}

void tail_print_beginning(const struct tail *t, char text[POSTGRES_TEXT_MAX]) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(POSTGRES_TEXT_MAX);
    if (by_gaps(t))
        ASSERT(cursor_print_gaps(&(struct cursor_gaps){.position = INT64_MIN}, &b) == 0);
    else
        ASSERT(cursor_print(&(struct cursor){.s = CURSOR_BEGINNING}, &b) == 0);
    take_text(&b, text);
}

static void open_gaps(struct tail *t, const char *text, const struct postgres_gaps *gaps, int64_t now_us) {
    struct cursor_gaps cursor;
    struct error error;
    ASSERT(cursor_parse_gaps(span_of(text), &cursor, &error) == 0);
    ASSERT(gaps_open(t->gaps, &cursor, now_us) == 0);
    cursor_gaps_done(&cursor);
    for (uint32_t i = 0; i < gaps->count; i++)
        ASSERT(gaps_retain(t->gaps, gaps->items[i].range, gaps->items[i].until_us) == 0);
    struct gaps_view view;
    gaps_view(t->gaps, &view);
    ASSERT(view.dead == gaps->count); /* what was stored with the cursor fits it */
}

void tail_open(struct tail *t, const char *text, const struct postgres_gaps *gaps, int64_t now_us) {
    struct cursor cursor;
    struct error error;
    if (by_gaps(t)) {
        open_gaps(t, text, gaps, now_us);
        return;
    }
    ASSERT(cursor_parse(span_of(text), &cursor, &error) == 0);
    ASSERT(plan_open(t->plan, &cursor) == 0);
}

struct flow_mark tail_mark(const struct tail *t) {
    if (by_gaps(t)) {
        struct gaps_mark mark = gaps_mark(t->gaps);
        return (struct flow_mark){.position = mark.position, .target = mark.version};
    }
    struct plan_mark mark = plan_mark(t->plan);
    return (struct flow_mark){.position = mark.position, .target = mark.target};
}

static int add_change(void *context, const struct gap *gap, bool removed) {
    struct postgres_changes *changes = context;
    struct postgres_gaps *to = removed ? &changes->gone : &changes->more;
    ASSERT(to->count < POSTGRES_GAPS_MAX);
    to->items[to->count++] = (struct postgres_gap){gap->range, gap->time_us};
    return 0;
}

static void print_gaps(struct tail *t, struct flow_mark mark, char text[POSTGRES_TEXT_MAX], struct postgres_changes *changes) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(POSTGRES_TEXT_MAX);
    struct cursor_gaps cursor;
    ASSERT(gaps_cursor(t->gaps, (struct gaps_mark){mark.position, mark.target}, &cursor) == 0);
    ASSERT(cursor_print_gaps(&cursor, &b) == 0);
    take_text(&b, text);
    ASSERT(gap_set_changes(gaps_set(t->gaps), mark.target, add_change, changes) == 0);
}

bool tail_print(struct tail *t, struct flow_mark mark, char text[POSTGRES_TEXT_MAX], struct postgres_changes *ret_changes,
                int64_t now_us) {
    (void)now_us;
    ret_changes->more.count = ret_changes->gone.count = 0;
    if (by_gaps(t)) {
        print_gaps(t, mark, text, ret_changes);
        return true;
    }
    CLEANUP(buf_done) struct buf b = BUF_INIT(POSTGRES_TEXT_MAX);
    struct cursor cursor;
    if (plan_cursor(t->plan, (struct plan_mark){mark.position, mark.target}, &cursor) != 0)
        return false;
    ASSERT(cursor_print(&cursor, &b) == 0);
    take_text(&b, text);
    return true;
}

void tail_saved(struct tail *t, struct flow_mark mark) {
    if (by_gaps(t))
        gaps_saved(t->gaps, mark.target);
}

void tail_release(struct tail *t, uint64_t oldest_target) {
    if (by_gaps(t))
        gaps_release(t->gaps, oldest_target);
    else
        plan_release(t->plan, oldest_target);
}

/* Reading. ------------------------------------------------------------------ */

void tail_want(struct tail *t, uint32_t events, uint64_t bytes) {
    if (by_gaps(t))
        gaps_want(t->gaps, events, bytes);
    else
        plan_want(t->plan, events, bytes);
}

bool tail_next(struct tail *t, int64_t now_us) {
    if (!by_gaps(t))
        return plan_next(t->plan, &t->plan_statement);
    int r = gaps_next(t->gaps, now_us, &t->gaps_statement);
    ASSERT(r >= 0);
    return r == 0;
}

void tail_execute(struct tail *t, struct postgres *pg) {
    if (by_gaps(t))
        postgres_execute_gaps(pg, &t->gaps_statement, &t->result);
    else
        postgres_execute(pg, &t->plan_statement, &t->result);
    t->at = 0;
    t->begun = false;
}

static void begin_gaps(struct tail *t) {
    const struct postgres_result *r = &t->result;
    if (t->gaps_statement.kind == GAPS_PAGE)
        gaps_drawn(t->gaps, r->drawn);
    for (uint32_t i = 0; i < r->holder_count; i++)
        ASSERT(gaps_holder(t->gaps, span_of(r->holders[i])) == 0);
}

void tail_begin(struct tail *t) {
    if (t->begun)
        return;
    t->begun = true;
    if (by_gaps(t)) {
        begin_gaps(t);
        return;
    }
    if (t->plan_statement.kind == PLAN_SMALL)
        ASSERT(plan_small(t->plan, span_of(t->result.n), t->result.overflow, t->result.end) == 0);
    if (t->plan_statement.kind == PLAN_FIRST)
        plan_first(t->plan, t->result.any, t->result.first);
}

bool tail_more(const struct tail *t) {
    return t->at < t->result.row_count;
}

bool tail_row(struct tail *t, const struct postgres *pg, uint32_t *ret_row) {
    const struct postgres_row *row = &pg->rows[t->result.rows[t->at]];
    bool keep;
    *ret_row = t->result.rows[t->at++];
    int r = by_gaps(t) ? gaps_row(t->gaps, row->position, row->bytes, &keep)
                       : plan_row(t->plan, row->position, row->bytes, &keep);
    ASSERT(r == 0);
    return keep;
}

void tail_end(struct tail *t, int64_t now_us) {
    if (by_gaps(t))
        ASSERT(gaps_end(t->gaps, now_us) == 0);
    else
        plan_end(t->plan);
}

bool tail_dropped(struct tail *t, uint64_t *ret_target) {
    return !by_gaps(t) && plan_dropped(t->plan, ret_target);
}

bool tail_caught_up(const struct tail *t) {
    return by_gaps(t) ? gaps_caught_up(t->gaps) : plan_caught_up(t->plan);
}

const char *tail_broken(const struct tail *t) {
    return by_gaps(t) ? gaps_broken(t->gaps) : NULL;
}

const char *tail_asked(const struct tail *t) {
    static const char *const of_plan[] = {[PLAN_SMALL] = "small", [PLAN_FIRST] = "first", [PLAN_PAGE] = "page"};
    static const char *const of_gaps[] = {
        [GAPS_PAGE] = "page", [GAPS_DEAD] = "dead gaps", [GAPS_LIST] = "list", [GAPS_WHO] = "who"};
    return by_gaps(t) ? of_gaps[t->gaps_statement.kind] : of_plan[t->plan_statement.kind];
}
