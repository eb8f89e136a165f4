/* rebase: moves a checkpoint where only an operator can decide, and writes that down */
#ifndef PENSTOCK_FORWARDER_REBASE_H
#define PENSTOCK_FORWARDER_REBASE_H

#include "base/buf.h"
#include "forwarder/forwarder.h"

/* After a dump and restore, pg_upgrade or a restored backup the cursor of a
 * checkpoint says nothing about the server, or too much. What was sent can't be
 * known then; an operator says where to go on. */
struct rebase {
    const char *forwarder, *connection_name; /* borrowed, all of them */
    const struct pgconn_options *database;
    const struct source_options *source;
    const char *schema;
    /* true: transactions and positions went on (pg_upgrade, ALTER SEQUENCE), the place stays as it is. Else: what is visible now
     * and stands at `position` or below counts as settled; what stands above it, or commits later, is sent. */
    bool upgraded;
    int64_t position;
    const char *who, *reason;
};

/* What stood in the row and what stands there now, a JSON object each; terminated. */
struct rebase_result {
    struct buf before, after;
};

void rebase_result_done(struct rebase_result *r);

/* For the operator's command: waits, at most as long as the connection's own
 * deadlines let it. One statement moves the row and adds to the journal; nothing
 * is done while a daemon has the forwarder open, and a daemon that has loaded the
 * row before can't save any more. 0; -ENOMEM; REBASE_E_REFUSED: nothing was
 * changed, *ret_why is terminated (a line each if the table is unfit). */
#define REBASE_E_REFUSED 1
int rebase_run(const struct rebase *rebase, struct rebase_result *ret_result, struct buf *ret_why) MUST_CHECK;

#endif
