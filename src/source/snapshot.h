/* snapshot: the statements of mode snapshot, as SQL for one table */
#ifndef PENSTOCK_SOURCE_SNAPSHOT_H
#define PENSTOCK_SOURCE_SNAPSHOT_H

#include "source/columns.h"
#include "source/plan.h"

/* A page's head is the pid alone: each column costs as much in every row. */
#define SNAPSHOT_PAGE_HEAD_COLUMNS 1

struct snapshot_sql {
    /* Heads are mode.h's. Of start: pid, now's snapshot, does the server lie before $1 (then: ahead), highest position. No rows.
     * $1: a cursor's snapshot or NULL. */
    struct buf start;
    /* plan.h says what they return: N, overflow (NULL: the table is not what was looked at), end; -, -, first; -, -, -. */
    struct buf small, first, page;
    struct buf walk; /* page when nothing ran in S */
    struct buf copy; /* walk to be copied, its parameters as settings; empty: not of this table */
    struct buf look, look_within; /* $1 S, $2 position: in the order of the index, and by position within a backlog */
    struct columns columns; /* behind the head's */
};

/* Data over max_data_bytes is not loaded (NULL; its size is in ROW_DATA_BYTES).
 * Embedded; for a table that is fit. 0; -ENOMEM; -EMSGSIZE. */
int snapshot_init(struct snapshot_sql *s, const struct table *table, int64_t max_data_bytes) MUST_CHECK;
void snapshot_done(struct snapshot_sql *s);

/* SQL that has the server explain the statements as it will run them (source/explain); appended. */
int snapshot_add_explain_sql(const struct snapshot_sql *s, struct buf *b) MUST_CHECK;

int snapshot_send_start(const struct snapshot_sql *s, struct pgconn *tail, struct span cursor_snapshot, int64_t now_us,
                        struct error *reterr) MUST_CHECK;
/* `at`: the place to look behind; n absent: not within a backlog. */
int snapshot_send_look(const struct snapshot_sql *s, struct pgconn *tail, const struct cursor *at, int64_t now_us,
                       struct error *reterr) MUST_CHECK;
int snapshot_send(const struct snapshot_sql *s, struct pgconn *tail, const struct plan_statement *statement,
                  int64_t now_us, struct error *reterr) MUST_CHECK;

#endif
