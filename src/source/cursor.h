/* cursor: a place in the stream of a table in mode snapshot, and its text */
#ifndef PENSTOCK_SOURCE_CURSOR_H
#define PENSTOCK_SOURCE_CURSOR_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"

/* Everything visible in snapshot `s` is done. In a target (`n` present) also
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

/* Is it "xmin:xmax:xip,xip" as PostgreSQL prints it (ascending, within bounds)? */
bool cursor_check_snapshot(struct span snapshot);

#endif
