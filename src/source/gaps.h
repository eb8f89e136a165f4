/* gaps: pure: tailing by position: what was read, which gaps are open, when one is proven dead */
#ifndef PENSTOCK_SOURCE_GAPS_H
#define PENSTOCK_SOURCE_GAPS_H

#include "source/cursor.h"
#include "source/gap_set.h"
#include "source/holders.h"

/* Rows are read by position and passed on at once; positions that were not seen
 * on the way are gaps. A writer draws its position while it holds a RowExclusive
 * lock on the table, and gives the lock up after its row can be seen. So a gap is
 * dead when, in this order,
 *
 *   (a) a page has been read that shows it,
 *   (b) then those who hold such a lock have been listed,
 *   (c) in a later list none of these is left,
 *   (d) and a page that was asked for after that list doesn't show it either.
 *
 * Neither transaction ids nor clocks say anything about it. A position that was drawn before the lock was
 * taken is beyond this proof; for its sake a dead gap is probed until a retention is over, and once more behind its end.
 *
 * Every page looks at all live gaps in the snapshot that the new rows come from,
 * so that causes come before their effects. Dead ones are looked at in turns.
 *
 * No clock, no I/O, no SQL. Allocates while there are more gaps than ever before. One thread. */

#define GAPS_LIVE_MAX 100000 /* no row is taken that would make one more; late ones may cut some in two, up to CURSOR_OPEN_MAX */
#define GAPS_GONE_MAX 100000 /* with so many that only unsaved marks need (beside gaps.max that are stored), nothing is read */
#define GAPS_TURN_MAX 1000               /* dead gaps of one statement */
#define GAPS_TURN_US INT64_C(50000)      /* between two of them */
#define GAPS_ROUND_US INT64_C(1000000)   /* all dead gaps: not more often */
#define GAPS_LIST_US INT64_C(50000)      /* between two lists while new gaps come */
#define GAPS_LIST_SLOW_US INT64_C(1000000)
#define GAPS_LIST_SOON 256 /* new gaps that are worth a list of their own */
#define GAPS_WAIT_US INT64_C(2000000)    /* a gap that is open for so long is waited for */

struct gaps_options {
    int64_t retention_us;
    size_t max; /* gaps, live and dead */
};

enum gaps_kind {
    /* Parameters ranges (the live gaps), position, limit. Returns gaps_drawn first,
     * then by position the first `limit` rows that stand in the ranges or above `position`. */
    GAPS_PAGE,
    /* Parameters ranges, limit: the first `limit` rows in the ranges. */
    GAPS_DEAD,
    /* Returns gaps_holder for each transaction that holds a lock of mode
     * RowExclusive or stronger on the table or a part of it. */
    GAPS_LIST,
    /* Parameter holder. Who is that? The core doesn't need to know. */
    GAPS_WHO,
};

/* Borrowed until the next call that changes the core. */
struct gaps_statement {
    enum gaps_kind kind;
    const struct ranges *ranges;
    int64_t position;
    uint32_t limit;
    const char *holder;
};

/* A place: `version` only grows. */
struct gaps_mark {
    int64_t position;
    uint64_t version;
};

struct gaps;

int gaps_new(const struct gaps_options *options, struct gaps **ret_gaps) MUST_CHECK;
void gaps_free(struct gaps *g);

/* (Re)starts from a stored place and forgets what was known. Then gaps_retain for all of our table gap, by position. 0; -ENOMEM. */
int gaps_open(struct gaps *g, const struct cursor_gaps *at, int64_t now_us) MUST_CHECK;
/* The next read ends at another mark, so that the place is saved though nothing has moved. */
void gaps_rewrite(struct gaps *g);
/* So many that could not even be opened were proven dead before. */
void gaps_drop(struct gaps *g, uint64_t count);
/* What can't be (it overlaps an open gap or the one before, lies beyond the place) is left out. */
int gaps_retain(struct gaps *g, struct range range, int64_t until_us) MUST_CHECK;

/* Demand of one read: at most `events` rows (> 0) of `bytes` together (its first
 * row is taken however large it is). Asserts that the last one has ended. */
void gaps_want(struct gaps *g, uint32_t events, uint64_t bytes);

/* Order of one read: gaps_want; while 0: send the statement, hand in what it
 * returns in that order, then gaps_end. GAPS_E_END: the read has ended. -ENOMEM. */
#define GAPS_E_END 1
int gaps_next(struct gaps *g, int64_t now_us, struct gaps_statement *ret_statement) MUST_CHECK;

/* Of GAPS_PAGE, before its rows: the highest position that the sequence has given
 * out; INT64_MAX: unknown, INT64_MIN: none. What lies above it will still be drawn. */
void gaps_drawn(struct gaps *g, int64_t drawn);
/* A row of GAPS_PAGE or GAPS_DEAD. `*ret_keep`: deliver it, gaps_mark is the place
 * behind it; else drop it and all that follow, end the statement (cancelling it if
 * rows are still to come) and call gaps_end. 0; -ENOMEM; GAPS_E_ANSWER: not what was asked for. */
#define GAPS_E_ANSWER 2
int gaps_row(struct gaps *g, int64_t position, uint64_t bytes, bool *ret_keep) MUST_CHECK;
/* Of GAPS_LIST. 0; -ENOMEM; GAPS_E_ANSWER. */
int gaps_holder(struct gaps *g, struct span id) MUST_CHECK;
/* The statement has ended, well or cancelled after a row that was not kept. 0; -ENOMEM. */
int gaps_end(struct gaps *g, int64_t now_us) MUST_CHECK;
/* The read has ended: was everything there is read? */
bool gaps_caught_up(const struct gaps *g);

/* The place that has been reached. */
struct gaps_mark gaps_mark(const struct gaps *g);
/* Its cursor without its origin; `open` is borrowed until the next call. Not of one that was released. 0; -ENOMEM. */
int gaps_cursor(struct gaps *g, struct gaps_mark mark, struct cursor_gaps *ret_cursor) MUST_CHECK;
/* What has to change in our table gap: gap_set_changes. When that and the cursor of the mark were saved: gaps_saved. */
const struct gap_set *gaps_set(const struct gaps *g);
void gaps_saved(struct gaps *g, uint64_t version);
/* Marks with a lower version are needed no more. */
void gaps_release(struct gaps *g, uint64_t version);

/* The gap that has been waited for longest, if it has for GAPS_WAIT_US. */
struct gaps_wait {
    struct range range;
    size_t count;
    int64_t since_us;
    size_t holders;     /* how many may have drawn it */
    const char *holder; /* the first of them; NULL: nobody does, the proof is under way */
    bool undrawn;       /* the sequence has not reached it */
};

bool gaps_waits(const struct gaps *g, int64_t now_us, struct gaps_wait *ret_wait);

struct gaps_view {
    size_t live, dead;
    bool full;        /* live gaps alone are as many as may be: a row that would make one more was not taken */
    uint64_t dropped; /* dead gaps given up before their retention was over, because there were too many */
};

void gaps_view(const struct gaps *g, struct gaps_view *ret_view);
/* NULL, or which invariant is broken. */
const char *gaps_broken(const struct gaps *g);

#endif
