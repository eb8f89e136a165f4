/* blocker: whose transaction keeps a statement of the keep connection waiting, asked over the tail */
#ifndef PENSTOCK_FORWARDER_BLOCKER_H
#define PENSTOCK_FORWARDER_BLOCKER_H

#include "pg/pgconn.h"
#include "source/source.h"

/* A row that somebody has locked by hand (SELECT … FOR UPDATE in psql) looks like a
 * server that says nothing. Embedded; zero but for `tail` is valid. */
struct blocker {
    struct pgconn *tail; /* borrowed */
    bool asks;           /* its statement is out: nobody else may use the tail */
    bool any;            /* it has brought somebody */
    int64_t asked_us;    /* when it was sent last; 0: never */
    int64_t found_us;    /* when `who` was true; 0: nobody */
    struct source_culprit who;
};

/* When it may be asked (again). */
#define BLOCKER_AGAIN_US (2 * INT64_C(1000000))
int64_t blocker_due_us(const struct blocker *b);
/* Who blocks that backend? Asserts an idle tail. 0; PGCONN_E_LOST; -ENOMEM. */
int blocker_ask(struct blocker *b, int pid, int64_t now_us) MUST_CHECK;
/* While it asks. 0: answered; PGCONN_E_AGAIN; PGCONN_E_LOST with *reterr. */
int blocker_work(struct blocker *b, int64_t now_us, struct error *reterr) MUST_CHECK;
/* The statement has ended: nobody blocks it. */
void blocker_clear(struct blocker *b);
/* The connection was closed; what was found stands until it is too old. */
void blocker_reset(struct blocker *b);

/* NULL: nobody that is known, as of late. */
#define BLOCKER_FRESH_US (10 * INT64_C(1000000))
const struct source_culprit *blocker_who(const struct blocker *b, int64_t now_us);

#endif
