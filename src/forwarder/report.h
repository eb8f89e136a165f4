/* report: tells users what a forwarder is doing: one log line per change, and the snapshot for the status */
#ifndef PENSTOCK_FORWARDER_REPORT_H
#define PENSTOCK_FORWARDER_REPORT_H

#include "forwarder/database.h"
#include "forwarder/delivery.h"
#include "forwarder/state.h"

/* The forwarder's thread writes, any thread copies. */
struct report;

/* Borrows options; starts in state `starting`. */
int report_new(const struct forwarder_options *options, struct report **ret_report) MUST_CHECK;
void report_free(struct report *r);

/* What the database said last: kept for the reason until it is up again. */
void report_database(struct report *r, enum state_database database, const char *words);

/* What an inspection found, a finding a line; "": nothing. Each is logged as a line of its own, once until they change. */
void report_findings(struct report *r, const char *findings, bool refused);

/* The last save failed with these words; NULL: it did not, or was made good. */
void report_saving(struct report *r, const char *words);

/* The answer to an operator's command: said in the log, and told with the next turn. */
void report_answer(struct report *r, const struct forwarder_answer *answer);

/* What the loop knows; borrowed for the call. */
struct report_view {
    enum state_stop stop;
    bool paused;
    const struct flow *flow;
    struct delivery *delivery;
    const struct database *database;
    const struct forwarder_counts *counts;
    const struct forwarder_times *times;
    int64_t read_position;
};

/* After each turn. Works out the state; logs a change once, with its reason;
 * copies the snapshot on change and at most every 100 ms. */
void report_turn(struct report *r, const struct report_view *view, int64_t now_us);

/* Any thread. */
void report_copy(struct report *r, struct forwarder_stats *ret_stats);

#endif
