/* cursor: a place in the stream of a table, and its text */
#ifndef PENSTOCK_SOURCE_CURSOR_H
#define PENSTOCK_SOURCE_CURSOR_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "source/range.h"
#include "source/source.h"

/* Of mode snapshot. Everything visible in snapshot `s` is done. In a target (`n` present) also
 * what is visible in `n` and stands at `position` or below; no row of that
 * target stands above `end`. Snapshots are pg_snapshot's own text
 * ("10:20:10,11"); borrowed.
 *
 *   {"v": 1, "mode": "snapshot", "s": "10:20:10,11"}
 *   {"v": 1, "mode": "snapshot", "s": "10:20:10,11", "n": "12:25:", "position": 71, "end": 90} */
struct cursor {
    struct span s, n;
    int64_t position, end; /* meaningless without n */
};

/* Nothing is visible in it: where `start: beginning` starts. */
#define CURSOR_BEGINNING SPAN_LITERAL("1:1:")

#define CURSOR_SNAPSHOT_MAX 65536 /* bytes of one snapshot's text: more than 3,000 running transactions */
#define CURSOR_TEXT_MAX (2 * CURSOR_SNAPSHOT_MAX + 256)

/* Appends. 0; -ENOMEM; -EMSGSIZE. */
int cursor_print(const struct cursor *cursor, struct buf *b) MUST_CHECK;

/* Spans of *ret_cursor point into text. 0; -EINVAL with *reterr (config): newer,
 * of another mode, foreign or damaged; the sentence shows the value and the way out. */
int cursor_parse(struct span text, struct cursor *ret_cursor, struct error *reterr) MUST_CHECK;

bool cursor_equal(const struct cursor *a, const struct cursor *b);

/* What gave the positions out. Another sequence's file, and they may be given out again: TRUNCATE … RESTART IDENTITY
 * and ALTER SEQUENCE make one, as does a sequence that is made anew. Without a sequence the table is all there is. */
struct cursor_origin {
    uint32_t table;    /* its oid; 0: not known (the cursor is of an earlier version) */
    uint32_t sequence; /* relfilenode of the sequence that the position comes from; 0: there is none */
};

/* Of mode gaps. Everything up to `position` is done but what stands in `open`
 * (sorted, no two touch). position INT64_MIN: nothing has been read. `changes`:
 * how often what stands beside it in our table gap has changed; without it a save
 * that changes only that could not be told from none, and one that arrives late
 * would pass for the one before.
 *
 *   {"v": 1, "mode": "gaps", "position": 100, "open": ["5", "7-9"], "changes": 3, "table": "16402/16401"}
 *   {"v": 1, "mode": "gaps", "position": null, "open": [], "table": "16402"} */
struct cursor_gaps {
    int64_t position;
    struct ranges open; /* owned */
    int64_t changes;    /* 0: not printed */
    struct cursor_origin origin;
};

#define CURSOR_OPEN_MAX 120000 /* ranges */
#define CURSOR_GAPS_TEXT_MAX (256 + CURSOR_OPEN_MAX * (RANGE_TEXT_MAX + 4))

void cursor_gaps_done(struct cursor_gaps *cursor);
int cursor_print_gaps(const struct cursor_gaps *cursor, struct buf *b) MUST_CHECK;
/* As cursor_parse; -ENOMEM too. To be done by cursor_gaps_done when 0. */
int cursor_parse_gaps(struct span text, struct cursor_gaps *ret_cursor, struct error *reterr) MUST_CHECK;
bool cursor_equal_gaps(const struct cursor_gaps *a, const struct cursor_gaps *b);

/* Which of both a text is. 0; -EINVAL with *reterr as above. */
int cursor_mode(struct span text, enum source_mode *ret_mode, struct error *reterr) MUST_CHECK;

/* Is it "xmin:xmax:xip,xip" as PostgreSQL prints it (ascending, within bounds)? */
bool cursor_check_snapshot(struct span snapshot);

#endif
