/* inspect: is the event table fit to be tailed, and what would mend it? */
#ifndef PENSTOCK_SOURCE_INSPECT_H
#define PENSTOCK_SOURCE_INSPECT_H

#include "source/explain.h"
#include "source/judge.h"

#define INSPECT_SERVER_VERSION_MIN 130000

enum inspect_step {
    INSPECT_RELATION, /* the server, the table, rights */
    INSPECT_COLUMNS,
    INSPECT_INDEXES,
    INSPECT_SEQUENCE,
    INSPECT_ROWS,  /* transaction ids that can't be of this server */
    INSPECT_PLANS, /* of the very statements */
    INSPECT_ENDED,
};

/* Embedded; borrows tail and table. The findings of one run are all there is to
 * find: a step is only left out when an earlier one has made it meaningless. */
struct inspect {
    struct pgconn *tail;
    struct table *table;
    enum inspect_step step;
    struct findings findings;
    struct judge judge;
    struct explain explain;
    enum source_mode written; /* by the checkpoint; SOURCE_MODE_DEFAULT: there is none */
    bool any_sequence;
    char system_identifier[24];
    char server[PGCONN_SERVER_MAX];
};

void inspect_init(struct inspect *in, struct pgconn *tail, struct table *table);
void inspect_done(struct inspect *in);

/* 0; PGCONN_E_LOST. */
int inspect_start(struct inspect *in, enum source_mode written, int64_t now_us, struct error *reterr) MUST_CHECK;

#define INSPECT_E_AGAIN 1   /* poll */
#define INSPECT_E_REFUSED 2 /* not fit: *reterr (config), all findings in the note */
#define INSPECT_E_FAILED 3  /* a statement was refused: *reterr */
#define INSPECT_E_LOST 4    /* the connection is gone: *reterr */
/* 0: fit (note: warnings). -ENOMEM; -EMSGSIZE (a column's name that can't be one). */
int inspect_next(struct inspect *in, int64_t now_us, struct error *reterr) MUST_CHECK;

/* In which mode the table as it was found is tailed. */
enum source_mode inspect_mode(const struct inspect *in);

/* The findings, one a line; "" if none. */
const char *inspect_note(const struct inspect *in);
bool inspect_note_refuses(const struct inspect *in, unsigned line);

#endif
