/* database: the two connections, the checkpoint row and the source of one forwarder, brought up in order */
#ifndef PENSTOCK_FORWARDER_DATABASE_H
#define PENSTOCK_FORWARDER_DATABASE_H

#include "forwarder/forwarder.h"

/* keep (checkpoint, cancelling) is opened first, then tail (reading). They must
 * reach the same server. If either dies both are closed, and the checkpoint is
 * loaded anew: memory is not the truth.
 * Belongs to the forwarder's thread; never waits. */
struct database;

/* Borrows options and guard. No connection yet: database_next makes it. */
int database_new(const struct forwarder_options *options, struct guard *guard, uint64_t seed,
                 struct database **ret_database) MUST_CHECK;
void database_free(struct database *d);

#define DATABASE_POLL_MAX 2
/* rows_wait: rows are in no hurry, so that the server's every 8 KiB of them wake nobody. */
int database_poll(const struct database *d, bool rows_wait, struct pollfd fds[DATABASE_POLL_MAX]);
/* What poll(2) said of them: a connection that has nothing to say costs no system call. */
void database_polled(struct database *d, const struct pollfd fds[DATABASE_POLL_MAX]);
int64_t database_deadline_us(const struct database *d);

enum database_signal {
    DATABASE_NONE,      /* nothing yet: poll */
    DATABASE_UP,        /* reading may start at database_row_mark */
    DATABASE_DOWN,      /* was up, or an attempt failed: *reterr; tries again by itself */
    DATABASE_STANDBY,   /* another instance has the lease: *reterr; looks until it is free */
    DATABASE_REFUSED,   /* only an operator can mend it: *reterr, database_note; looks again in 30 s */
    DATABASE_AHEAD,     /* the checkpoint lies beyond the server, or is of another table: *reterr; looks again in 30 s */
    DATABASE_ROW,       /* database_row, database_row_mark */
    DATABASE_MARK,      /* database_row_mark, database_mark_counts */
    DATABASE_READ_DONE, /* database_caught_up */
    DATABASE_DROPPED,   /* database_dropped: that target can't be saved any more */
    DATABASE_SAVED,
    DATABASE_SAVE_FAILED, /* *reterr; the old value stands */
    DATABASE_EXTENDED,
    DATABASE_EXTEND_FAILED, /* *reterr; the lease ends as before */
    DATABASE_YIELDED,
    DATABASE_COMMANDED,
    DATABASE_COMMAND_FAILED, /* *reterr; nothing of it was done */
};

/* One fact at a time, until DATABASE_NONE. */
enum database_signal database_next(struct database *d, int64_t now_us, struct error *reterr);

const struct row *database_row(const struct database *d);
struct source_mark database_row_mark(const struct database *d);
bool database_mark_counts(const struct database *d);
bool database_caught_up(const struct database *d);
uint64_t database_dropped(const struct database *d);

/* Has a notification come since the last call? The next read may bring rows. */
bool database_notified(struct database *d);
/* Only while up. DATABASE_DOWN comes by database_next if it can't be sent. */
void database_want(struct database *d, uint32_t events, uint64_t bytes, int64_t now_us);
/* Only while up and nothing is read: looks what waits, now and then (DATABASE_LOOK_US); the place stays. A read that is
 * wanted meanwhile begins behind it. */
#define DATABASE_LOOK_US (3 * INT64_C(1000000))
void database_look(struct database *d, int64_t now_us);
struct database_waiting {
    bool known; /* by a look since it is up, or since the last read began */
    bool any;
    int64_t position;
    int64_t since_us; /* of the row's recorded time, or when it was seen first */
};
const struct database_waiting *database_waiting(const struct database *d);
/* Only while up, one at a time: DATABASE_SAVED or DATABASE_SAVE_FAILED follows. */
void database_save(struct database *d, struct source_mark mark, int64_t position, int64_t now_us);
/* Only while up, one at a time: DATABASE_EXTENDED or DATABASE_EXTEND_FAILED follows. */
void database_extend(struct database *d, int64_t now_us);
/* Only while up, once: DATABASE_YIELDED or a signal of the end follows. */
void database_yield(struct database *d, int64_t now_us);
/* Only while up, one at a time: DATABASE_COMMANDED or DATABASE_COMMAND_FAILED follows,
 * or a signal of the end: then only the next load tells. Borrowed until then. */
struct checkpoint_command;
void database_command(struct database *d, const struct checkpoint_command *command, int64_t now_us);
/* Gives both connections up: DATABASE_DOWN with `why` is the next fact. */
void database_drop(struct database *d, const char *why);
/* Nothing while a save is under way, which may be of a place before. */
void database_release(struct database *d, uint64_t oldest_target);

/* For messages and status. */
bool database_connected(const struct database *d);
bool database_stands_by(const struct database *d);
/* Since when our lease counts. Only while up. */
int64_t database_leased_us(const struct database *d);
/* Whose the lease is, ours or another's, and until when, by our clock; INT64_MIN: unknown or over. */
struct span database_owner(const struct database *d);
struct span database_owner_place(const struct database *d);
/* Standing by: the other one's last save, by the database's clock. */
int64_t database_watched_save_wall_us(const struct database *d);
int64_t database_lease_until_us(const struct database *d);
/* Since when the longest of its statements has been running; CLOCK_NEVER: none is. */
int64_t database_busy_since_us(const struct database *d);
/* Who has the checkpoint's row, or its table, locked; NULL: nobody that is known. */
const struct source_culprit *database_blocker(const struct database *d, int64_t now_us);
const char *database_note(const struct database *d);
int64_t database_next_attempt_us(const struct database *d); /* CLOCK_NEVER while one runs or it is up */
int64_t database_checkpoint_position(const struct database *d); /* of the loaded or saved row; INT64_MIN: none */
bool database_paused(const struct database *d); /* by that row */
int64_t database_epoch(const struct database *d);
bool database_new_checkpoint(const struct database *d); /* the row was made when this connection came up */
uint64_t database_reconnects(const struct database *d);
uint64_t database_writes(const struct database *d);
const char *database_mode(const struct database *d);
const struct source *database_source(const struct database *d); /* for what it tells of gaps */

#endif
