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
    struct span owner;
    int64_t epoch;
    bool paused;
};

struct checkpoint;

/* `schema` is where our tables live ("penstock"). Borrows all. The connection is "keep". */
int checkpoint_new(const char *forwarder, const char *schema, bool create, const char *owner, struct pgconn *keep,
                   struct checkpoint **ret_checkpoint) MUST_CHECK;
void checkpoint_free(struct checkpoint *c);

/* Each starts one statement; its end comes by checkpoint_next. Asserts that none is outstanding. */
int checkpoint_inspect(struct checkpoint *c, int64_t now_us) MUST_CHECK; /* server facts and our tables; creates them if asked */
int checkpoint_load(struct checkpoint *c, int64_t now_us) MUST_CHECK;
/* The first row of a new forwarder; the earlier one wins: then CHECKPOINT_LOADED with what is there. */
int checkpoint_create(struct checkpoint *c, struct span cursor, int64_t position, struct span system_identifier,
                      int64_t now_us) MUST_CHECK;
/* Conditional on owner, epoch and the previous cursor as they were loaded; the
 * first save after a load takes the row (owner, epoch + 1). What changes in the
 * table gap (NULL: nothing) changes with it, or not at all. Asserts a loaded row. */
int checkpoint_save(struct checkpoint *c, struct span cursor, const struct source_changes *changes, int64_t position,
                    int64_t now_us) MUST_CHECK;
/* What an operator has commanded. Borrowed until its signal. */
struct checkpoint_command {
    const char *name; /* as it stands in the journal */
    const char *who, *reason;
    const char *before, *after; /* JSON, for the journal; NULL: nothing to say */
    bool pauses, resumes;
};
/* Writes it to the row and to the journal, in one transaction, on the condition that
 * owner and epoch are as loaded or saved last. Asserts a loaded row. */
int checkpoint_command(struct checkpoint *c, const struct checkpoint_command *command, int64_t now_us) MUST_CHECK;
/* pg_cancel_backend on the tail's pid. */
int checkpoint_cancel(struct checkpoint *c, int pid, int64_t now_us) MUST_CHECK;

enum checkpoint_signal {
    CHECKPOINT_NONE,      /* nothing yet, or nothing outstanding */
    CHECKPOINT_INSPECTED,
    CHECKPOINT_MISSING,   /* our tables or rights, or the row is of another cluster: *reterr with the mend, so checkpoint_note */
    CHECKPOINT_LOADED,    /* checkpoint_row */
    CHECKPOINT_ABSENT,    /* no row: a new forwarder */
    CHECKPOINT_SAVED,
    CHECKPOINT_REFUSED,   /* the row is another's, or has moved: *reterr; never saved again without a load */
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
const struct checkpoint_row *checkpoint_row(const struct checkpoint *c);
/* Server facts of the last inspection, which keep and tail must agree on: identifier, start time, address. */
const char *checkpoint_server(const struct checkpoint *c);
const char *checkpoint_note(const struct checkpoint *c);
bool checkpoint_tables_absent(const struct checkpoint *c); /* our tables are not there, or not all of them */
/* The connection was closed. */
void checkpoint_reset(struct checkpoint *c);

/* SQL of our tables, role and grants (`penstock schema`): appended. */
int checkpoint_add_schema_sql(struct span schema, struct span role, struct span event_table, struct buf *b) MUST_CHECK;

#endif
