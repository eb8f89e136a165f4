/* inspect: is the event table fit to be tailed, and what would mend it? */
#ifndef PENSTOCK_SOURCE_INSPECT_H
#define PENSTOCK_SOURCE_INSPECT_H

#include "source/table.h"

#define INSPECT_NOTE_MAX 65536
#define INSPECT_SERVER_VERSION_MIN 130000

enum inspect_step {
    INSPECT_RELATION, /* the server, the table, rights */
    INSPECT_COLUMNS,
    INSPECT_INDEXES,
    INSPECT_ROWS, /* transaction ids that can't be of this server */
    INSPECT_ENDED,
};

/* Embedded; borrows tail and table. The findings of one run are all there is to
 * find: a step is only left out when an earlier one has made it meaningless. */
struct inspect {
    struct pgconn *tail;
    struct table *table;
    enum inspect_step step;
    struct buf note; /* one finding a line, terminated */
    unsigned findings;
    int failure; /* of ours: -ENOMEM */
    bool refused;
    bool subscribed; /* the table is filled by logical replication */
    struct error first; /* of the findings that refuse */
    char system_identifier[24];
    char server[PGCONN_SERVER_MAX];
    char role[64];
    uint32_t oid;
};

void inspect_init(struct inspect *in, struct pgconn *tail, struct table *table);
void inspect_done(struct inspect *in);

/* 0; PGCONN_E_LOST. */
int inspect_start(struct inspect *in, int64_t now_us, struct error *reterr) MUST_CHECK;

#define INSPECT_E_AGAIN 1   /* poll */
#define INSPECT_E_REFUSED 2 /* not fit: *reterr (config), all findings in note */
#define INSPECT_E_FAILED 3  /* a statement was refused: *reterr */
#define INSPECT_E_LOST 4    /* the connection is gone: *reterr */
/* 0: fit (note: warnings). -ENOMEM; -EMSGSIZE (a column's name that can't be one). */
int inspect_next(struct inspect *in, int64_t now_us, struct error *reterr) MUST_CHECK;

/* In which mode the table as it was found is tailed, unless a checkpoint says otherwise. */
enum source_mode inspect_mode(const struct inspect *in);

#endif
