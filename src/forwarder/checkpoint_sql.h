/* checkpoint_sql: the statements on the checkpoint's row and on the gaps beside it */
#ifndef PENSTOCK_FORWARDER_CHECKPOINT_SQL_H
#define PENSTOCK_FORWARDER_CHECKPOINT_SQL_H

#include "base/buf.h"

/* What they name; tables.c makes it. An array of text. */
extern const char checkpoint_sql_columns[];

/* $1 schema, $2 columns. Is it in recovery; PGCONN_SERVER_SQL; role; the table
 * checkpoint, NULL: absent; are all rights there; which columns are not; system
 * identifier; the tables gap and journal, NULL: absent. */
extern const char checkpoint_sql_look[];

/* Embedded. $1 is the forwarder. load and create return cursor, position, system
 * identifier, owner, epoch, paused, how long the lease lasts (µs); load then the gaps
 * beside them: their firsts, lasts and how long each is still probed (µs), as arrays of
 * int8. What writes the row, if it is as it must be, returns true. */
struct checkpoint_sql {
    struct buf load;
    struct buf watch;  /* owner, how long the lease lasts (µs) */
    struct buf create; /* $2 owner, $3 cursor, $4 position, $5 system identifier, $6 the lease (µs) */
    /* $2 the new owner, $3 the lease (µs); $4 to $6 the owner, epoch and cursor that must
     * stand there, $7: although the lease has not run out. */
    struct buf take;
    struct buf extend; /* $2 and $3 owner and epoch that must stand there, $4 the lease (µs): 0 gives it back */
    /* $2 to $4 the owner, epoch and cursor that must stand there, $5 and $6 the new cursor and position, $7 the lease (µs). */
    struct buf save;
    struct buf save_gaps; /* $8 to $11: struct source_changes, all of it or nothing */
    /* $2 and $3 owner and epoch that must stand there, $4 paused (NULL: as it is), $5
     * to $9 command, who, reason, before, after for the journal: both or nothing. */
    struct buf command;
};

/* `schema` is quoted. 0; -ENOMEM. To be done in either case. */
int checkpoint_sql_init(struct checkpoint_sql *s, const char *schema) MUST_CHECK;
void checkpoint_sql_done(struct checkpoint_sql *s);

#endif
