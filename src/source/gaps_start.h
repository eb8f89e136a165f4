/* gaps_start: where mode gaps begins: at the stored place, or at what is visible when a forwarder is new */
#ifndef PENSTOCK_SOURCE_GAPS_START_H
#define PENSTOCK_SOURCE_GAPS_START_H

#include "source/gaps_sql.h"
#include "source/mode.h"

/* What the configured start of a new forwarder leaves out is visible at one
 * moment; every position below that is missing then is a gap that a later commit
 * may fill. There may be more of them than can be kept (rows deleted, positions
 * burnt by rollbacks). Then the moment waits for the proof of gaps.h, once for all
 * of them: whoever held a lock when the sequence's value was read has ended, so
 * that what the sequence had given out by then and is missing now is dead. The
 * highest are kept, the others dropped as at gaps.max.
 *
 * Embedded; borrows mode and sql. */
struct gaps_start {
    struct mode *mode;
    struct gaps_sql *sql;

    /* What the cursor says, or what was found. */
    bool have_cursor;
    struct cursor_gaps at;
    struct ranges retained;
    struct buf left; /* int64_t each: how long the retained ones are still probed */

    struct buf sequence; /* its name, quoted; empty: can't be read */
    struct gaps_sql_facts facts;
    char facts_text[GAPS_SQL_FACTS_MAX];
    bool readable;
    int64_t drawn;   /* highest position it has given out; INT64_MIN: none */
    int64_t highest; /* position of a row that is visible, wherever the start is */
    int64_t missing; /* ranges below the start, kept or not */

    /* The proof. */
    enum { GAPS_START_READS, GAPS_START_LISTS, GAPS_START_PAUSES } phase;
    struct holders holders;
    uint64_t list;       /* the first one; 0: none was made */
    int64_t proven_upto; /* what is missing there or below is dead; INT64_MIN: nothing */
    int looks;
    int64_t since_us; /* it is under way */
};

void gaps_start_init(struct gaps_start *s, struct mode *mode, struct gaps_sql *sql);
void gaps_start_done(struct gaps_start *s);

/* Sends the start statement; as mode.h has it of open. */
int gaps_start_open(struct gaps_start *s, struct span cursor, const struct source_retained *retained, int64_t now_us,
                    struct error *reterr) MUST_CHECK;
/* A row of an answer. */
enum mode_answer gaps_start_row(struct gaps_start *s, struct error *reterr);
/* An answer has ended. MODE_AGAIN: another statement was sent. MODE_GO_ON: `gaps` is at its place. */
enum mode_answer gaps_start_end(struct gaps_start *s, struct gaps *gaps, int64_t now_us, struct error *reterr);

/* Does the proof wait for somebody? Then for whom, in the members that are of a start. */
bool gaps_start_waits(const struct gaps_start *s, struct source_culprit *ret_culprit);

#endif
