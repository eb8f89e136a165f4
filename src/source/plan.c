/* plan: pure: what the statements returned -> rows to keep, places, the next statement */
#include "source/plan.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>

#include "base/log.h"
#include "source/portion.h"

static_assert(PLAN_TARGETS_MAX >= 3, "a target in the middle is neither the oldest nor the newest");

/* Rows visible in n and not in s. The buffers live as long as the plan. */
struct target {
    uint64_t number;
    struct buf s, n;
    int64_t end;
};

enum stage {
    STAGE_RESTING, /* no read is wanted */
    STAGE_READY,   /* plan_next decides */
    STAGE_ASKED,   /* a statement is out; PLAN_SMALL, PLAN_FIRST: its head is not there */
    STAGE_ROWS,    /* its head is there */
    STAGE_ENDED,   /* the read has what it can get */
};

struct plan {
    /* By number, the newest last. While it is not done (position below INT64_MAX)
     * it is read by pages; then its n is where the next small statement starts. */
    struct target targets[PLAN_TARGETS_MAX];
    size_t count;
    uint64_t next_number;
    int64_t position; /* reached in the newest target */
    bool first_known;
    int64_t first;

    enum stage stage;
    struct portion portion;
    bool caught_up;

    struct plan_statement asked;
    uint32_t rows;        /* it has returned so far */
    int64_t row_position; /* of the last one */
    bool cut;
    struct buf small_n; /* a small statement's snapshot, until it has become a target */
    int64_t small_end;
    bool small_overflow;

    bool any_dropped;
    uint64_t dropped;
};

int plan_new(struct plan **ret_plan) {
    struct plan *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    for (size_t i = 0; i < PLAN_TARGETS_MAX; i++) {
        p->targets[i].s = BUF_INIT(CURSOR_SNAPSHOT_MAX);
        p->targets[i].n = BUF_INIT(CURSOR_SNAPSHOT_MAX);
    }
    p->small_n = BUF_INIT(CURSOR_SNAPSHOT_MAX);
    p->next_number = 1;
    portion_init(&p->portion);
    *ret_plan = p;
    return 0;
}

void plan_free(struct plan *p) {
    if (!p)
        return;
    for (size_t i = 0; i < PLAN_TARGETS_MAX; i++) {
        buf_done(&p->targets[i].s);
        buf_done(&p->targets[i].n);
    }
    buf_done(&p->small_n);
    free(p);
}

/* Targets. ---------------------------------------------------------------- */

static struct target *newest(const struct plan *p) {
    ASSERT(p->count > 0);
    return (struct target *)&p->targets[p->count - 1];
}

/* Takes it out of the row; its buffers go to the end, to be used again. */
static void remove_target(struct plan *p, size_t index) {
    ASSERT(index < p->count);
    struct target removed = p->targets[index];
    memmove(&p->targets[index], &p->targets[index + 1], (p->count - index - 1) * sizeof removed);
    p->targets[--p->count] = removed;
}

static int copy_snapshot(struct buf *to, struct span snapshot) {
    buf_clear(to);
    return buf_add_span(to, snapshot);
}

/* The newest target from now on; the place is before its first row. */
static int add_target(struct plan *p, struct span s, struct span n, int64_t end) {
    if (p->count == PLAN_TARGETS_MAX) {
        p->any_dropped = true;
        p->dropped = p->targets[PLAN_TARGETS_MAX / 2].number;
        remove_target(p, PLAN_TARGETS_MAX / 2);
    }
    struct target *t = &p->targets[p->count];
    int r = copy_snapshot(&t->s, s);
    if (r == 0)
        r = copy_snapshot(&t->n, n);
    if (r)
        return r;
    t->number = p->next_number++;
    t->end = end;
    p->count++;
    p->position = INT64_MIN;
    p->first_known = false;
    return 0;
}

int plan_open(struct plan *p, const struct cursor *at) {
    bool inside = !span_absent(at->n);
    ASSERT(cursor_check_snapshot(at->s));
    ASSERT(!inside || cursor_check_snapshot(at->n));
    p->count = 0;
    p->stage = STAGE_RESTING;
    p->any_dropped = false;
    int r = add_target(p, at->s, inside ? at->n : at->s, inside ? at->end : INT64_MAX);
    if (r)
        return r;
    p->position = inside ? at->position : INT64_MAX;
    ASSERT(p->count == 1);
    return 0;
}

static int find_target(const struct plan *p, uint64_t number, size_t *ret_index) {
    for (size_t i = 0; i < p->count; i++) {
        if (p->targets[i].number == number) {
            *ret_index = i;
            return 0;
        }
    }
    return PLAN_E_GONE;
}

int plan_cursor(const struct plan *p, struct plan_mark mark, struct cursor *ret_cursor) {
    size_t i;
    if (find_target(p, mark.target, &i) != 0)
        return PLAN_E_GONE;
    const struct target *t = &p->targets[i];
    if (mark.position == INT64_MAX)
        *ret_cursor = (struct cursor){.s = buf_span(&t->n)};
    else if (mark.position == INT64_MIN)
        *ret_cursor = (struct cursor){.s = buf_span(&t->s)};
    else
        *ret_cursor = (struct cursor){buf_span(&t->s), buf_span(&t->n), mark.position, t->end};
    ASSERT(mark.position <= t->end || mark.position == INT64_MAX);
    return 0;
}

void plan_release(struct plan *p, uint64_t oldest_target) {
    while (p->count > 1 && p->targets[0].number < oldest_target)
        remove_target(p, 0);
}

bool plan_dropped(struct plan *p, uint64_t *ret_target) {
    bool any = p->any_dropped;
    p->any_dropped = false;
    *ret_target = p->dropped;
    return any;
}

struct plan_mark plan_mark(const struct plan *p) {
    return (struct plan_mark){p->position, newest(p)->number};
}

/* Statements. ------------------------------------------------------------- */

void plan_want(struct plan *p, uint32_t events, uint64_t bytes) {
    ASSERT(p->stage == STAGE_RESTING);
    ASSERT(p->count > 0);
    portion_want(&p->portion, events, bytes);
    p->caught_up = false;
    p->stage = STAGE_READY;
}

static enum plan_kind next_kind(struct plan *p) {
    if (p->position == INT64_MAX)
        return PLAN_SMALL;
    /* Before all rows there is no need to ask where they begin. */
    if (!p->first_known && span_equal(buf_span(&newest(p)->s), CURSOR_BEGINNING)) {
        p->first_known = true;
        p->first = INT64_MIN;
    }
    return p->first_known ? PLAN_PAGE : PLAN_FIRST;
}

bool plan_next(struct plan *p, struct plan_statement *ret_statement) {
    ASSERT(p->stage != STAGE_ASKED);
    ASSERT(p->stage != STAGE_ROWS);
    if (p->stage != STAGE_READY) {
        p->stage = STAGE_RESTING;
        return false;
    }
    const struct target *t = newest(p);
    enum plan_kind kind = next_kind(p);
    p->asked = (struct plan_statement){.kind = kind, .limit = portion_limit(&p->portion)};
    if (kind == PLAN_SMALL) {
        p->asked.s = buf_span(&t->n);
    } else {
        p->asked.s = buf_span(&t->s);
        p->asked.n = buf_span(&t->n);
        p->asked.position = p->position;
        p->asked.end = t->end;
        p->asked.first = p->first;
    }
    p->rows = 0;
    p->row_position = INT64_MIN;
    p->cut = false;
    p->stage = kind == PLAN_PAGE ? STAGE_ROWS : STAGE_ASKED;
    *ret_statement = p->asked;
    return true;
}

bool plan_caught_up(const struct plan *p) {
    return p->caught_up;
}

int plan_small(struct plan *p, struct span n, bool overflow, int64_t end) {
    ASSERT(p->stage == STAGE_ASKED);
    ASSERT(p->asked.kind == PLAN_SMALL);
    if (!cursor_check_snapshot(n))
        return PLAN_E_ANSWER;
    int r = copy_snapshot(&p->small_n, n);
    if (r)
        return r;
    p->small_overflow = overflow;
    p->small_end = end;
    p->stage = STAGE_ROWS;
    return overflow ? add_target(p, buf_span(&newest(p)->n), buf_span(&p->small_n), end) : 0;
}

void plan_first(struct plan *p, bool any, int64_t first) {
    ASSERT(p->stage == STAGE_ASKED);
    ASSERT(p->asked.kind == PLAN_FIRST);
    p->first_known = true;
    p->first = any ? first : INT64_MAX;
    p->stage = STAGE_ROWS;
}

/* Rows. ------------------------------------------------------------------- */

static bool fits_question(const struct plan *p, int64_t position) {
    bool small = p->asked.kind == PLAN_SMALL;
    if (p->asked.kind == PLAN_FIRST || (small && p->small_overflow) || p->rows >= p->asked.limit)
        return false;
    /* These two stand for "all" and "nothing yet" in a place. */
    if (position == INT64_MIN || position == INT64_MAX)
        return false;
    int64_t end = small ? p->small_end : p->asked.end;
    return position >= p->row_position && position <= end && (small || position > p->asked.position);
}

static bool has_room(const struct plan *p, int64_t position, uint64_t bytes) {
    /* Rows of one position can't be told apart by a place: they go together. */
    bool same_place = p->portion.any_kept && p->rows > 0 && position == p->row_position;
    return same_place || portion_has_room(&p->portion, bytes);
}

int plan_row(struct plan *p, int64_t position, uint64_t bytes, bool *ret_keep) {
    ASSERT(p->stage == STAGE_ROWS);
    if (!fits_question(p, position))
        return PLAN_E_ANSWER;
    bool keep = !p->cut && has_room(p, position, bytes);
    if (keep && p->asked.kind == PLAN_SMALL && p->rows == 0) {
        int r = add_target(p, buf_span(&newest(p)->n), buf_span(&p->small_n), p->small_end);
        if (r)
            return r;
    }
    portion_row(&p->portion, bytes, keep);
    p->rows++;
    p->row_position = position;
    p->cut = !keep;
    if (keep)
        p->position = position;
    ASSERT(p->position <= newest(p)->end || p->position == INT64_MAX);
    *ret_keep = keep;
    return 0;
}

/* A small statement without rows: nothing became visible between the newest
 * target's n and this snapshot, so the later one says the same and costs no target. */
static void renew_snapshot(struct plan *p) {
    struct target *t = newest(p);
    struct buf older = t->n;
    t->n = p->small_n;
    p->small_n = older;
}

static void end_small(struct plan *p) {
    if (p->small_overflow) {
        p->stage = STAGE_READY;
        return;
    }
    if (p->rows == 0)
        renew_snapshot(p);
    else if (!p->cut)
        p->position = INT64_MAX;
    p->caught_up = !p->cut;
    p->stage = STAGE_ENDED;
}

static void end_page(struct plan *p) {
    bool all = !p->cut && (p->rows < p->asked.limit || p->row_position == p->asked.end);
    if (all)
        p->position = INT64_MAX;
    p->stage = STAGE_ENDED;
}

void plan_end(struct plan *p) {
    ASSERT(p->stage == STAGE_ROWS);
    switch (p->asked.kind) {
    case PLAN_SMALL:
        end_small(p);
        break;
    case PLAN_FIRST:
        p->stage = STAGE_READY;
        break;
    case PLAN_PAGE:
        end_page(p);
        break;
    }
    ASSERT(p->stage == STAGE_READY || p->stage == STAGE_ENDED);
}
