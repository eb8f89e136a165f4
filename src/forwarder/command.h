/* command: an operator's command to a forwarder: written down, done, answered; one is written down at a time */
#ifndef PENSTOCK_FORWARDER_COMMAND_H
#define PENSTOCK_FORWARDER_COMMAND_H

#include "base/mailbox.h"
#include "forwarder/checkpoint.h"
#include "forwarder/database.h"
#include "forwarder/delivery.h"
#include "forwarder/report.h"

/* What it acts on; all borrowed. */
struct command_reach {
    const char *forwarder;
    struct flow *flow;
    struct delivery *delivery;
    struct database *database;
    struct report *report;
    struct forwarder_counts *counts;
};

/* Embedded; `reach` is set, the rest zero. The order that makes it safe: a command
 * is first written to the checkpoint's row and to penstock.journal, in one
 * transaction and fenced like a save; then it is done; a skip is answered when the
 * saved checkpoint is past its event. So whoever got the answer `done` finds it done
 * after kill -9 too, nothing was skipped that the journal doesn't have, and a command
 * that was cut off before can be repeated. */
struct command {
    struct command_reach reach;
    bool paused; /* by the row */
    bool writes; /* a command is being written down: */
    struct mail mail;
    /* A skip that was done waits for its save. What is on the wire comes first, and a broker that blocks may keep
     * it there for long: pause and resume don't wait for it. */
    bool skips;
    struct mail skip;
    uint64_t seq; /* flow's number of its event */
    struct checkpoint_command row;
    char before[2048], after[256];
};

/* MAIL_PAUSE, MAIL_RESUME, MAIL_SKIP. */
void command_begin(struct command *c, const struct mail *mail, int64_t now_us);

/* DATABASE_UP: what the row says counts. */
void command_loaded(struct command *c, int64_t now_us);
/* DATABASE_COMMANDED. */
void command_written(struct command *c, int64_t now_us);
/* DATABASE_COMMAND_FAILED. */
void command_failed(struct command *c, const char *why);
/* DATABASE_SAVED, after flow has heard of it. */
void command_saved(struct command *c);
/* The database is down, or the thread ends: only the next load tells what became of it. */
void command_lost(struct command *c, const char *why);

#endif
