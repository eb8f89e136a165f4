/* gap_set: pure: positions that have not been seen, as they are now and as they were at each mark */
#ifndef PENSTOCK_SOURCE_GAP_SET_H
#define PENSTOCK_SOURCE_GAP_SET_H

#include "source/range.h"

/* A gap is a range of positions below the place that no row was seen at.
 *
 *   live   a transaction may still fill it: stored in the cursor
 *   dead   proven that none can (gaps.h); probed all the same until its time is
 *          over, because a writer may have drawn the position before it took the
 *          table's lock: stored in our table gap
 *   gone   no gap any more, or a smaller one; kept because marks that are not
 *          saved yet still need it, or because it is still stored
 *
 * What a mark needs is not copied: every gap carries the versions between which
 * it existed, and a mark is a version. Embedded. */

#define GAP_SET_NEVER UINT64_MAX

struct gap {
    struct range range;
    uint64_t born, died; /* part of versions born <= v < died */
    int64_t time_us;     /* live: when it was seen; dead: until when it is probed */
    uint64_t listing;    /* live: the first list of holders after it was seen; 0: none yet */
    bool dead;
    bool stored; /* dead: stands in our table gap */
};

struct gap_list {
    struct gap *items;
    size_t count, capacity;
};

struct gap_set {
    struct gap_list live; /* by position */
    struct gap_list dead; /* those known longest first; what a row has left of one comes last */
    struct gap_list gone; /* by `died` */
    uint64_t version;     /* of now; grows with every change */
    struct ranges scratch;
};

void gap_set_done(struct gap_set *s);
/* Forgets all; the version goes on growing. */
void gap_set_clear(struct gap_set *s);

/* All that change may return -ENOMEM; then nothing has changed. */

/* A live gap above all others. */
int gap_set_add_live(struct gap_set *s, struct range range, int64_t since_us) MUST_CHECK;
/* A dead one that is stored already. */
int gap_set_add_stored(struct gap_set *s, struct range range, int64_t until_us) MUST_CHECK;

/* The index of the live gap that holds the position; live.count: none. */
size_t gap_set_find(const struct gap_set *s, int64_t position);
/* Is any of it in a live gap? */
bool gap_set_touches(const struct gap_set *s, struct range range);
/* A row was seen there: what is left of the gap goes on as one or two gaps. */
int gap_set_fill_live(struct gap_set *s, size_t index, int64_t position) MUST_CHECK;
/* Of a dead gap; what is left comes last. */
int gap_set_fill_dead(struct gap_set *s, size_t index, int64_t position) MUST_CHECK;

/* The live gap that was seen first; NULL. */
const struct gap *gap_set_oldest(const struct gap_set *s);
/* How many live gaps that begin at `drawn` or below have no listing; counts no further than `enough`. */
size_t gap_set_unlisted(const struct gap_set *s, int64_t drawn, size_t enough);

/* Of the live gaps without a listing: those up to `drawn` get this one; one that
 * reaches beyond is split there and the rest stays without. */
int gap_set_list(struct gap_set *s, uint64_t listing, int64_t drawn) MUST_CHECK;
/* What of the live gaps with a listing below `oldest` stands at `upto` or below
 * is dead from now on. until_us INT64_MIN: and not probed either. */
int gap_set_bury(struct gap_set *s, uint64_t oldest, int64_t upto, int64_t until_us) MUST_CHECK;
/* The dead gaps whose bit is set in `which` (by index; NULL: all) from `first` on, `count` of them, are no longer probed. */
int gap_set_forget(struct gap_set *s, size_t first, size_t count, const bool *which) MUST_CHECK;

/* The live ranges at that version, sorted; touching ones are one. Borrowed until the next call. */
int gap_set_open_at(struct gap_set *s, uint64_t version, const struct ranges **ret_open) MUST_CHECK;

/* What has to change in our table so that it is as at that version: calls with
 * each gap to be stored, and each that is to be removed. */
typedef int gap_set_change(void *context, const struct gap *gap, bool removed);
int gap_set_changes(const struct gap_set *s, uint64_t version, gap_set_change *change, void *context) MUST_CHECK;
bool gap_set_changed(const struct gap_set *s, uint64_t version);
/* Those changes took place. */
void gap_set_stored(struct gap_set *s, uint64_t version);
/* Versions below are needed no more. */
void gap_set_release(struct gap_set *s, uint64_t version);

/* NULL, or which invariant is broken. */
const char *gap_set_broken(const struct gap_set *s);

#endif
