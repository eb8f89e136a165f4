/* gaps_sql: the statements of mode gaps, as SQL for one table */
#ifndef PENSTOCK_SOURCE_GAPS_SQL_H
#define PENSTOCK_SOURCE_GAPS_SQL_H

#include "source/columns.h"
#include "source/gaps.h"

/* Columns of GAPS_WHO behind the head's. */
enum { GAPS_SQL_WHO_PID = 4, GAPS_SQL_WHO_GID, GAPS_SQL_WHO_APPLICATION, GAPS_SQL_WHO_USER, GAPS_SQL_WHO_STATE,
       GAPS_SQL_WHO_BEGAN, GAPS_SQL_WHO_GRANT };

/* Where the positions come from, as one snapshot shows it: oids, 0: there is none. A head begins with the text
 * that the start had, or with another one: then what is read may be given out again, and has to be looked at anew. */
struct gaps_sql_facts {
    struct cursor_origin origin;
    uint32_t sequence, from; /* the sequence itself; the column's default */
    uint32_t number;         /* of the column */
};

#define GAPS_SQL_FACTS_MAX 56 /* "16402/16401/16400/16405/1" */

struct gaps_sql {
    /* Head: pid, gaps_sql_facts as text, is the sequence readable, its last value
     * (NULL: none yet). Then, flag NULL: its name, quoted. */
    struct buf start;
    /* The same, and of the rows that are visible now, flag true: the highest position
     * of all (text), and of those up to $2; flag false: a range of positions up to there
     * at which there is none (at most $1 of them, the highest), and how many ranges there are. */
    struct buf start_now;
    /* gaps.h says what they return. Heads: pid, facts, is the sequence readable, its last value; pid, facts; pid; pid. */
    struct buf page, dead, list, who;
    struct buf look; /* $1, $2 live gaps, $3 position */
    struct buf copy; /* page without gaps to be copied, its parameters as settings; empty: not of this table */
    bool copies;
    struct columns columns;
    struct buf table; /* "s"."t" as a literal */
    struct buf of_table, of_position; /* its oid; the position's name as a literal */
    struct buf first, last; /* arrays that are sent */
};

/* Embedded; for a table that is fit. 0; -ENOMEM; -EMSGSIZE. */
int gaps_sql_init(struct gaps_sql *s, const struct table *table, int64_t max_data_bytes) MUST_CHECK;
void gaps_sql_done(struct gaps_sql *s);

/* `upto` and `max` are only looked at with `now`. */
int gaps_sql_send_start(const struct gaps_sql *s, struct pgconn *tail, bool now, int64_t upto, int64_t max, int64_t now_us,
                        struct error *reterr) MUST_CHECK;
/* false: it is none. */
bool gaps_sql_read_facts(struct span text, struct gaps_sql_facts *ret_facts);
/* SQL of page and dead, by what the start said: the sequence's quoted name (absent: can't be read), and the facts. */
int gaps_sql_make_pages(struct gaps_sql *s, struct span sequence, const struct gaps_sql_facts *facts) MUST_CHECK;
/* SQL that has the server explain page and dead as it will run them (source/explain); appended. Makes the page. */
int gaps_sql_add_explain(struct gaps_sql *s, struct buf *b) MUST_CHECK;
int gaps_sql_send_look(struct gaps_sql *s, struct pgconn *tail, const struct cursor_gaps *at, int64_t now_us,
                       struct error *reterr) MUST_CHECK;
int gaps_sql_send(struct gaps_sql *s, struct pgconn *tail, const struct gaps_statement *statement, int64_t now_us,
                  struct error *reterr) MUST_CHECK;

#endif
