/* checkpoint_look: what a look at the database has found: which server, and what our tables lack */
#ifndef PENSTOCK_FORWARDER_CHECKPOINT_LOOK_H
#define PENSTOCK_FORWARDER_CHECKPOINT_LOOK_H

#include "base/buf.h"
#include "base/error.h"
#include "pg/pgconn.h"

/* Embedded. */
struct checkpoint_look {
    const char *schema; /* quoted; borrowed */
    bool absent;        /* a table of ours is not there */
    bool missing;       /* something is: error and note say what, and what mends it */
    struct error error;
    struct buf note; /* terminated, or empty */
    char server[PGCONN_SERVER_MAX], identifier[24];
};

void checkpoint_look_init(struct checkpoint_look *l, const char *schema);
void checkpoint_look_done(struct checkpoint_look *l);

/* A new look: nothing is missing so far. */
void checkpoint_look_begin(struct checkpoint_look *l);
/* The row that checkpoint_sql_look has returned. */
void checkpoint_look_at(struct checkpoint_look *l, const struct pgconn *keep);
/* One sentence: what is missing, and its mend. */
void checkpoint_look_miss(struct checkpoint_look *l, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
