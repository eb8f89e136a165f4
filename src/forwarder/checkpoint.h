/* checkpoint: the row that holds a forwarder's cursor, lease and epoch, in SQL */
#ifndef PENSTOCK_FORWARDER_CHECKPOINT_H
#define PENSTOCK_FORWARDER_CHECKPOINT_H

#include "base/buf.h"
#include "pg/pgconn.h"
#include "source/source.h"

#define CHECKPOINT_CURSOR_MAX (8 << 20) /* bytes */

/* What stands in the row. Texts are owned by the checkpoint, valid until its next load. */
struct checkpoint_row {
    struct span cursor;
    struct source_retained retained; /* as of the load: what stands beside it in the table gap */
    int64_t position; /* for people only: a lower one can still commit */
    struct span system_identifier;
    struct span owner;       /* an instance (base/instance.h), or who has rebased it */
    int64_t lease_left_us;   /* at the load or the last look at it; 0: anybody may take it */
    int64_t epoch;
    int64_t updated_wall_us; /* of a row that is watched: its last save; else 0 */
    bool paused;
};

struct checkpoint;

/* `schema` is where our tables live ("penstock"), `owner` this instance. Borrows all. The connection is "keep". */
int checkpoint_new(const char *forwarder, const char *schema, bool create, const char *owner, int64_t lease_us,
                   struct pgconn *keep, struct checkpoint **ret_checkpoint) MUST_CHECK;
void checkpoint_free(struct checkpoint *c);

/* Each starts one statement; its end comes by checkpoint_next. Asserts that none is outstanding. */
int checkpoint_inspect(struct checkpoint *c, int64_t now_us) MUST_CHECK; /* server facts and our tables; creates them if asked */
int checkpoint_load(struct checkpoint *c, int64_t now_us) MUST_CHECK;
/* The first row of a new forwarder; the earlier one wins: then CHECKPOINT_LOADED with what is there. */
int checkpoint_create(struct checkpoint *c, struct span cursor, int64_t position, struct span system_identifier,
                      int64_t now_us) MUST_CHECK;
/* Owner, rest of the lease, place for people, epoch and last save of a row that is another's. Asserts a loaded row. */
int checkpoint_watch(struct checkpoint *c, int64_t now_us) MUST_CHECK;
/* Makes this instance the owner, with the next epoch, on the condition that the row is as
 * it was loaded and that no other instance holds the lease, unless that one is surely
 * gone. Asserts a loaded row. */
int checkpoint_take(struct checkpoint *c, int64_t now_us) MUST_CHECK;
/* May it be taken, as far as is known since the load or the last look? */
bool checkpoint_is_free(const struct checkpoint *c);
/* Since the last load, or by creating the row: also if another had made the very same one first, it is not. */
bool checkpoint_is_taken(const struct checkpoint *c);
/* All below on the condition that owner and epoch are as taken or created. They assert that they were. */
int checkpoint_extend(struct checkpoint *c, int64_t now_us) MUST_CHECK;
int checkpoint_yield(struct checkpoint *c, int64_t now_us) MUST_CHECK; /* then anybody may take it */
/* On the condition, too, that the previous cursor stands there. It extends the lease. What changes in
 * the table gap (NULL: nothing) changes with it, or not at all. */
int checkpoint_save(struct checkpoint *c, struct span cursor, const struct source_changes *changes, int64_t position,
                    int64_t now_us) MUST_CHECK;
/* What an operator has commanded. Borrowed until its signal. */
struct checkpoint_command {
    const char *name; /* as it stands in the journal */
    const char *who, *reason;
    const char *before, *after; /* JSON, for the journal; NULL: nothing to say */
    bool pauses, resumes;
};
/* Writes it to the row and to the journal, in one transaction. */
int checkpoint_command(struct checkpoint *c, const struct checkpoint_command *command, int64_t now_us) MUST_CHECK;
/* pg_cancel_backend on the tail's pid. */
int checkpoint_cancel(struct checkpoint *c, int pid, int64_t now_us) MUST_CHECK;

enum checkpoint_signal {
    CHECKPOINT_NONE,      /* nothing yet, or nothing outstanding */
    CHECKPOINT_INSPECTED,
    CHECKPOINT_MISSING,   /* our tables or rights, or the row is of another cluster: *reterr with the mend, so checkpoint_note */
    CHECKPOINT_LOADED,    /* checkpoint_row */
    CHECKPOINT_ABSENT,    /* no row: a new forwarder */
    CHECKPOINT_WATCHED,   /* checkpoint_row, but for its cursor */
    CHECKPOINT_TAKEN,
    CHECKPOINT_EXTENDED,
    CHECKPOINT_YIELDED,
    CHECKPOINT_SAVED,
    CHECKPOINT_REFUSED,   /* the row is another's, or has moved: *reterr; never written again without a load */
    CHECKPOINT_CANCELLED,
    CHECKPOINT_COMMANDED,
    CHECKPOINT_COMMAND_FAILED, /* refused by the server: *reterr; nothing of it was done */
    CHECKPOINT_FAILED,    /* the statement was refused: *reterr; the old value stands */
    CHECKPOINT_LOST,      /* the connection is gone: *reterr; whether it was saved only a load can tell */
};

bool checkpoint_busy(const struct checkpoint *c);
enum checkpoint_signal checkpoint_next(struct checkpoint *c, int64_t now_us, struct error *reterr);
/* A row has been loaded or created since the last reset. */
bool checkpoint_has_row(const struct checkpoint *c);
/* The row's cursor as it was seen last, by the inspection or later; absent: no row. */
struct span checkpoint_seen_cursor(const struct checkpoint *c);
const struct checkpoint_row *checkpoint_row(const struct checkpoint *c);
/* Server facts of the last inspection, which keep and tail must agree on: identifier, start time, address. */
const char *checkpoint_server(const struct checkpoint *c);
const char *checkpoint_note(const struct checkpoint *c);
bool checkpoint_tables_absent(const struct checkpoint *c); /* our tables are not there, or not all of them */
/* The connection was closed. */
void checkpoint_reset(struct checkpoint *c);

/* SQL of our tables, and of a role with its grants on them and on an event table unless that is absent
 * (`penstock schema`): appended. */
int checkpoint_add_schema_sql(struct span schema, struct buf *b) MUST_CHECK;
int checkpoint_add_role_sql(struct span schema, struct span role, struct span event_table, struct buf *b) MUST_CHECK;

#endif
