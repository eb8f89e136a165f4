/* explain: pure: does a plan find the rows of its tables by index conditions, in the index's order? */
#ifndef PENSTOCK_SOURCE_EXPLAIN_H
#define PENSTOCK_SOURCE_EXPLAIN_H

#include "base/span.h"

#define EXPLAIN_DEPTH_MAX 64
#define EXPLAIN_LINE_MAX 160

/* Reads what EXPLAIN (FORMAT TEXT, COSTS OFF) prints, of one plan or of several
 * one behind the other. A plan is bad when it walks a whole table or a whole
 * index, or sorts all rows that it found before it takes its first few: the
 * reading is then as slow as the table is large. Embedded; zero is valid. */
struct explain {
    struct {
        size_t column; /* where its name begins */
        bool sorts, limits;
    } path[EXPLAIN_DEPTH_MAX]; /* from the root to the last node */
    size_t depth;
    char scan[EXPLAIN_LINE_MAX]; /* the last node, while it is an index scan whose condition hasn't come; else "" */
    char bad[EXPLAIN_LINE_MAX];
};

void explain_line(struct explain *e, struct span line);
/* After the last line. NULL: nothing is bad; else the first such node as PostgreSQL words it. */
const char *explain_bad(struct explain *e);

#endif
