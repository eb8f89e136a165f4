/* report_state: what a report knows; private to report.c and report_fill.c */
#ifndef PENSTOCK_FORWARDER_REPORT_STATE_H
#define PENSTOCK_FORWARDER_REPORT_STATE_H

#include <pthread.h>

#include "flow/view.h"
#include "forwarder/news.h"
#include "forwarder/report.h"

/* What keeps a forwarder `held`: of another one it is held since another time. */
struct report_hold {
    enum { HOLD_NOTHING, HOLD_LOCK, HOLD_SAVES, HOLD_EVENT, HOLD_GAP } what;
    int64_t number; /* which one: the locker's pid; the event's position; of gaps, the how many-th that is waited for */
};

struct report {
    const struct forwarder_options *options;
    enum state_database database;
    char database_words[FORWARDER_TEXT_MAX];
    bool unsavable;
    char saving_words[512];
    struct buf findings; /* said last, terminated */
    bool sink_was_up;
    bool has_seen; /* what waits in the table, since it was active last */
    bool gap_waits; /* for a transaction */
    int64_t gaps_waited; /* so far, for how many different ones */
    struct report_hold hold; /* what it is that is held */
    struct source_culprit waiting;
    const struct source_culprit *locker; /* of the checkpoint; for the turn; NULL: nobody */
    int64_t next_copy_us;
    int64_t blocked_since_wall_us;
    struct news news;
    struct forwarder_stats stats; /* being written */
    pthread_mutex_t lock;
    struct forwarder_stats published; /* under lock */
};

/* The database as users are told of it. */
enum state_database report_database_of(const struct report *r, const struct report_view *v, int64_t now_us);
/* Does the first event not settled stay where it is for a reason of its own? */
bool report_event_is_held(const struct report_view *v, const struct flow_view *flow);
struct report_hold report_hold_of(const struct report *r, enum forwarder_state state, const struct report_view *v,
                                  const struct flow_view *flow);
/* Everything of the snapshot but state, since and the sentences. */
void report_fill(struct report *r, const struct report_view *v, const struct flow_view *flow, const struct sink_view *sink,
                 int64_t now_us);

#endif
