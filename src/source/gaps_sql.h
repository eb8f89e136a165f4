/* gaps_sql: the statements of mode gaps, as SQL for one table */
#ifndef PENSTOCK_SOURCE_GAPS_SQL_H
#define PENSTOCK_SOURCE_GAPS_SQL_H

#include "source/columns.h"
#include "source/gaps.h"

/* Columns of GAPS_WHO behind the head's. */
enum { GAPS_SQL_WHO_PID = 4, GAPS_SQL_WHO_GID, GAPS_SQL_WHO_APPLICATION, GAPS_SQL_WHO_USER, GAPS_SQL_WHO_STATE,
       GAPS_SQL_WHO_BEGAN, GAPS_SQL_WHO_GRANT };

struct gaps_sql {
    /* Head: pid, the table's oid, is the sequence readable, its last value (NULL:
     * none yet). Then, flag NULL: its name, quoted. */
    struct buf start;
    /* The same, and of the rows that are visible now, flag true: the highest position
     * of all (text), and of those up to $2; flag false: a range of positions up to there
     * at which there is none (at most $1 of them, the highest), and how many ranges there are. */
    struct buf start_now;
    /* gaps.h says what they return. Heads: pid, oid, is the sequence readable, its last value; pid; pid; pid. */
    struct buf page, dead, list, who;
    struct buf look; /* $1, $2 live gaps, $3 position */
    struct buf copy; /* page without gaps to be copied, its parameters as settings; empty: not of this table */
    bool copies;
    struct columns columns;
    struct buf table; /* "s"."t" as a literal */
    struct buf first, last; /* arrays that are sent */
};

/* Embedded; for a table that is fit. 0; -ENOMEM; -EMSGSIZE. */
int gaps_sql_init(struct gaps_sql *s, const struct table *table, int64_t max_data_bytes) MUST_CHECK;
void gaps_sql_done(struct gaps_sql *s);

/* `upto` and `max` are only looked at with `now`. */
int gaps_sql_send_start(const struct gaps_sql *s, struct pgconn *tail, bool now, int64_t upto, int64_t max, int64_t now_us,
                        struct error *reterr) MUST_CHECK;
/* The page's SQL, by what the start said: the sequence's quoted name (absent: can't be read). */
int gaps_sql_make_page(struct gaps_sql *s, struct span sequence) MUST_CHECK;
/* SQL that has the server explain page and dead as it will run them (source/explain); appended. Makes the page. */
int gaps_sql_add_explain(struct gaps_sql *s, struct buf *b) MUST_CHECK;
int gaps_sql_send_look(struct gaps_sql *s, struct pgconn *tail, const struct cursor_gaps *at, int64_t now_us,
                       struct error *reterr) MUST_CHECK;
int gaps_sql_send(struct gaps_sql *s, struct pgconn *tail, const struct gaps_statement *statement, int64_t now_us,
                  struct error *reterr) MUST_CHECK;

#endif
