/* plan: pure: what the statements returned -> rows to keep, places, the next statement */
#ifndef PENSTOCK_SOURCE_PLAN_H
#define PENSTOCK_SOURCE_PLAN_H

#include "source/cursor.h"

/* Reads the difference of two snapshots: what is visible in N and not in S,
 * sorted by position, is a *target*. Only visibility keeps causes before their
 * effects; neither the transaction ids nor the positions do. When a target is
 * done, its N is the next S.
 *
 * No clock, no I/O, no SQL: a statement is described here, and source/snapshot
 * asks PostgreSQL (or the simulation its model) for what it returns. Allocates
 * only while snapshots get longer than ever before. One thread. */

#define PLAN_TARGETS_MAX 64

/* How a running transaction appears: its id is in the list of a snapshot, or at
 * or above its xmax. "Visible in X" below is pg_visible_in_snapshot(xid, X). */
enum plan_kind {
    /* Parameters s, limit. The statement takes N, its own snapshot, and looks for
     * the rows visible in N and not in s, by two branches of at most limit + 1 rows:
     * xid >= xmax(s) and xid < xmax(N); xid in the list of s and not in that of N.
     * It returns plan_small first. `overflow`: more than `limit` rows were found;
     * then no row follows and `end` is the highest position of the whole table.
     * Else all rows follow by position, and `end` is the highest of them. */
    PLAN_SMALL,
    /* Parameters s, n, position. Returns plan_first: the lowest position above
     * `position` with xid >= xmax(s) and xid < xmax(n), if there is one. No rows. */
    PLAN_FIRST,
    /* Parameters s, n, position, end, first, limit. Returns by position the first
     * `limit` rows with position < p <= end of: xid in the list of s and not in
     * that of n; p >= first and xid >= xmax(s) and visible in n. */
    PLAN_PAGE,
};

/* Snapshots are borrowed until the next call that changes the plan. */
struct plan_statement {
    enum plan_kind kind;
    struct span s, n;
    int64_t position, end, first;
    uint32_t limit;
};

/* A place, by which every row and page end is known: `target` is a number that
 * only grows; position INT64_MAX: all of that target. */
struct plan_mark {
    int64_t position;
    uint64_t target;
};

struct plan;

int plan_new(struct plan **ret_plan) MUST_CHECK;
void plan_free(struct plan *p);

/* (Re)starts from a stored place; what was known is forgotten, target numbers
 * go on growing. plan_mark is the place. 0; -ENOMEM. */
int plan_open(struct plan *p, const struct cursor *at) MUST_CHECK;

/* Demand of one read: at most `events` rows (> 0) of `bytes` together (its first
 * row is taken however large it is). Asserts that the last one has ended. */
void plan_want(struct plan *p, uint32_t events, uint64_t bytes);

/* Order of one read: plan_want; while plan_next is true: send the statement,
 * hand in what it returns in that order, then plan_end. */
bool plan_next(struct plan *p, struct plan_statement *ret_statement);
/* The read has ended (plan_next said no): was everything there is read? */
bool plan_caught_up(const struct plan *p);

/* What PLAN_SMALL returns before its rows. 0; -ENOMEM; PLAN_E_ANSWER: not what
 * was asked for (a snapshot too long or no snapshot); the read can't go on. */
#define PLAN_E_ANSWER 1
int plan_small(struct plan *p, struct span n, bool overflow, int64_t end) MUST_CHECK;
/* What PLAN_FIRST returns. any false: no such row. */
void plan_first(struct plan *p, bool any, int64_t first);

/* A row of PLAN_SMALL or PLAN_PAGE. `*ret_keep`: deliver it, plan_mark is the
 * place behind it; else it no longer fits: drop it and all that follow, end the
 * statement (cancelling it if rows are still to come) and call plan_end; the next
 * read starts with it. 0; -ENOMEM; PLAN_E_ANSWER: out of order, below the place or
 * more than was asked for. */
int plan_row(struct plan *p, int64_t position, uint64_t bytes, bool *ret_keep) MUST_CHECK;

/* The statement has ended, well or cancelled after a row that was not kept. The
 * place may have moved without a row (plan_mark). */
void plan_end(struct plan *p);

/* The place that has been reached. */
struct plan_mark plan_mark(const struct plan *p);

/* The cursor of a place; borrowed until the next call that changes the plan. 0;
 * PLAN_E_GONE: its target was given up or released. */
#define PLAN_E_GONE 2
int plan_cursor(const struct plan *p, struct plan_mark mark, struct cursor *ret_cursor) MUST_CHECK;

/* Targets below are needed no more. */
void plan_release(struct plan *p, uint64_t oldest_target);
/* A target from the middle was given up because PLAN_TARGETS_MAX others are
 * kept: true once for each, with its number. Ask after each row. */
bool plan_dropped(struct plan *p, uint64_t *ret_target);

#endif
