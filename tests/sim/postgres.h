/* postgres: a model of what a reader sees of a table while writers come, go and crash */
#ifndef PENSTOCK_TESTS_SIM_POSTGRES_H
#define PENSTOCK_TESTS_SIM_POSTGRES_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/flow.h"
#include "sim/random.h"
#include "source/gaps.h"
#include "source/plan.h"

/* Transactions get their id late (with the first write) or early (a write
 * elsewhere), rows their position from a sequence when they are inserted; a
 * second writer of a stream waits until the first one has ended (it has a unique
 * index). Commits become visible in any order and, when asynchronous, durable
 * later: a crash forgets those after the last flush and gives their transaction
 * ids out again.
 *
 * A writer locks the table before it draws a position for its row, and gives the
 * lock up some time after its commit can be seen; a position can also be drawn long before
 * its row (a slow trigger), or even before the lock (an explicit nextval). The
 * sequence goes its own way: what it has given out it has logged up to 32 ahead,
 * so that it jumps in a crash. Everything is in plain arrays. */

#define POSTGRES_ROWS_MAX 256
#define POSTGRES_WRITERS_MAX 256
#define POSTGRES_DESTINATIONS_MAX 3
#define POSTGRES_KEYS 4
#define POSTGRES_TEXT_MAX 8192
#define POSTGRES_GAPS_MAX 1024
#define POSTGRES_LOGGED_AHEAD 32 /* SEQ_LOG_VALS */

struct postgres_row {
    int64_t position;
    uint64_t xid;
    uint32_t writer;
    bool undone;  /* its savepoint was rolled back */
    bool foreign; /* brought by a restore: an id from the future */
    bool early;   /* its position was drawn before it was written: by position it may stand before its causes */

    /* What it will be as an event. */
    uint32_t key;
    bool keyed, filtered;
    enum flow_verdict verdict;
    uint16_t destinations;
    uint64_t bytes;
    bool poison;     /* the sink rejects it, until it is mended */
    bool unroutable; /* its destination 0 is returned, until a binding appears */
};

enum postgres_state { WRITER_RUNNING, WRITER_PREPARED, WRITER_COMMITTED, WRITER_ENDED /* rolled back, or forgotten */ };

struct postgres_writer {
    enum postgres_state state;
    uint64_t xid;           /* 0: none yet */
    uint64_t first_record;  /* in the log; 0: none */
    uint64_t commit_record;
    uint32_t committed_at; /* rows from here on were inserted after its commit */
    bool in_savepoint;
    uint32_t savepoint_row; /* rows from here on are undone with it */
    uint64_t savepoint_xid;
    bool locked;         /* holds the table's lock */
    bool savepoint_lock; /* took it within the savepoint */
    bool renamed;        /* pg_locks shows it as -1/xid */
    int64_t drawn, drawn_last; /* positions that its next rows will take; 0: none */
};

/* The rows of our table gap. */
struct postgres_gap {
    struct range range;
    int64_t until_us;
};

struct postgres_gaps {
    struct postgres_gap items[POSTGRES_GAPS_MAX];
    uint32_t count;
};

struct postgres_changes {
    struct postgres_gaps more, gone;
};

/* Who may save, and until when nobody else may become the one. */
struct postgres_lease {
    uint32_t owner; /* an instance; 0: none */
    uint32_t epoch;
    int64_t until_us;
};

struct postgres {
    struct postgres_row rows[POSTGRES_ROWS_MAX];
    uint32_t row_count;
    struct postgres_writer writers[POSTGRES_WRITERS_MAX];
    uint32_t writer_count;
    uint64_t next_xid, latest_completed, durable_next_xid;
    uint64_t log, flushed; /* records written, and on disk */
    int64_t sequence, sequence_logged, sequence_durable;
    bool renames; /* PREPARE renames the holder at once (older minor releases) */
    struct postgres_gaps gaps;
    char checkpoint[POSTGRES_TEXT_MAX]; /* the cursor's text; "": no row */
    struct postgres_lease lease;        /* beside it */
};

/* Asserts that it fits; both have POSTGRES_TEXT_MAX bytes. */
void postgres_copy_text(char *to, const char *from);

void postgres_init(struct postgres *pg);

/* Writers. Each does nothing if it can't be done now. */
void postgres_begin(struct postgres *pg);
/* A write elsewhere: an id, long before any row. */
void postgres_take_xid(struct postgres *pg, uint32_t writer);
/* false: it waits for the stream's other writer, or there is no room. */
bool postgres_insert(struct postgres *pg, uint32_t writer, const struct postgres_row *row);
/* Positions for rows to come; under the table's lock or without. */
void postgres_draw(struct postgres *pg, uint32_t writer, uint32_t count, bool locked);
/* Locks of transactions that have ended are given up. */
void postgres_unlock(struct postgres *pg);
void postgres_savepoint(struct postgres *pg, uint32_t writer);
void postgres_rollback_to_savepoint(struct postgres *pg, uint32_t writer);
void postgres_prepare(struct postgres *pg, uint32_t writer);
void postgres_commit(struct postgres *pg, uint32_t writer, bool synchronous);
void postgres_rollback(struct postgres *pg, uint32_t writer);
/* Any writer still open; UINT32_MAX: none. */
uint32_t postgres_any_open(const struct postgres *pg, struct random *random);
/* A row with a transaction id that this server hasn't reached. */
void postgres_restore_row(struct postgres *pg);

void postgres_flush(struct postgres *pg);
void postgres_crash(struct postgres *pg);

/* Was it committed, and does it still exist? */
bool postgres_exists(const struct postgres *pg, uint32_t row);
/* Can it still become visible, or is it? */
bool postgres_may_exist(const struct postgres *pg, uint32_t row);

/* What a statement of the plan returns: rows by position. */
struct postgres_result {
    char n[POSTGRES_TEXT_MAX];
    bool overflow, any;
    int64_t end, first;
    uint32_t rows[POSTGRES_ROWS_MAX];
    uint32_t row_count;
    int64_t drawn;
    char holders[POSTGRES_WRITERS_MAX][HOLDERS_ID_MAX];
    uint32_t holder_count;
};

void postgres_execute_gaps(const struct postgres *pg, const struct gaps_statement *statement, struct postgres_result *ret_result);
void postgres_execute(struct postgres *pg, const struct plan_statement *statement, struct postgres_result *ret_result);

/* UPDATE … WHERE cursor = previous, owner and epoch as in `lease`, synchronous; false: refused. "": INSERT of the first row. */
bool postgres_save(struct postgres *pg, const char *previous, const char *text, const struct postgres_lease *lease,
                   int64_t until_us);
/* The same cursor and lease as they were loaded, and the lease has run out, or its owner is known to be gone. */
bool postgres_take(struct postgres *pg, const char *previous, const struct postgres_lease *loaded, uint32_t owner,
                   bool gone, int64_t now_us, int64_t until_us);
/* Also to a moment that has passed: given back. */
bool postgres_extend(struct postgres *pg, const struct postgres_lease *lease, int64_t until_us);

/* In the same transaction. */
void postgres_change_gaps(struct postgres *pg, const struct postgres_changes *changes);

/* A checkpoint's text, read. */
struct postgres_snapshot {
    uint64_t xmin, xmax;
    uint64_t running[POSTGRES_WRITERS_MAX];
    uint32_t count;
};

struct postgres_place {
    struct postgres_snapshot s, n;
    bool in_target;
    int64_t position;
    bool by_gaps;
    struct postgres_gaps open; /* and those that are dead, but probed */
};

void postgres_read_place(const char *text, const struct postgres_gaps *gaps, struct postgres_place *ret_place);
/* Does it say that the row is behind it? */
bool postgres_is_behind(const struct postgres *pg, const struct postgres_place *place, uint32_t row);

#endif
