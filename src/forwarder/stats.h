/* stats: what a forwarder tells of itself: a bounded copy, never a pointer into live state */
#ifndef PENSTOCK_FORWARDER_STATS_H
#define PENSTOCK_FORWARDER_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"
#include "base/rate.h"

/* One at a time; what each means to an operator stands in penstockd(8). */
enum forwarder_state {
    FORWARDER_STARTING,
    FORWARDER_REFUSED,
    FORWARDER_STANDBY,
    FORWARDER_DELIVERING,
    FORWARDER_IDLE,
    FORWARDER_HELD,
    FORWARDER_BLOCKED,
    FORWARDER_DISCONNECTED,
    FORWARDER_AHEAD,
    FORWARDER_PAUSED,
    FORWARDER_STOPPING,
    FORWARDER_STOPPED,
    FORWARDER_STATE_COUNT
};

/* "starting", … */
const char *forwarder_state_name(enum forwarder_state state);

/* Who or what keeps events from moving. kind "" : nobody known. */
struct forwarder_culprit {
    char kind[16]; /* event; transaction, sequence (mode gaps) */
    int64_t position;
    char event_id[256];
    char destination[512]; /* exchange and key, or topic and key */
    char words[512];       /* the peer's own */
    /* Of a transaction. */
    int pid; /* 0: a prepared one, or unknown */
    char prepared[256], application[64], user[64], session[32];
    int64_t began_wall_us; /* 0: unknown */
};

struct forwarder_counts {
    uint64_t read, filtered, published, confirmed, returned, nacked, retried, rejected, unmatched, skipped, parked,
        reconnects_database, reconnects_sink, checkpoint_writes;
};

/* To the turn of the forwarder's loop in which it began and ended. */
struct forwarder_times {
    struct histogram read;     /* asking for rows until the last of them, empty answers too */
    struct histogram confirm;  /* handing over to the sink until its confirm, for each destination */
    struct histogram save;     /* a write of the checkpoint that succeeded */
    struct histogram delivery; /* the row's recorded time until the confirm, for each destination */
};

#define FORWARDER_E_NOBODY 1 /* there is no forwarder of that name */

/* To an operator's command. */
enum forwarder_verdict { FORWARDER_DONE, FORWARDER_REFUSES, FORWARDER_CANNOT };
struct forwarder_answer {
    uint64_t number; /* of the command (base/mailbox.h); 0: there was none yet */
    enum forwarder_verdict verdict; /* refuses: it makes no sense now; cannot: try again */
    char words[512];
};

#define FORWARDER_NAME_MAX 128
#define FORWARDER_TEXT_MAX 2048

/* Times named _us are of clock_now_us (0: never), _wall_us since 1970: the
 * reader computes ages when it reads, so a hung forwarder's lag grows. */
struct forwarder_stats {
    char name[FORWARDER_NAME_MAX];
    enum forwarder_state state;
    char reason[FORWARDER_TEXT_MAX];
    char resumes[512];
    int64_t since_wall_us;
    struct forwarder_culprit culprit;

    char source_connection[FORWARDER_NAME_MAX], table[256], mode[16];
    bool source_connected;
    int64_t source_lost_us; /* since when the database is away (at first: since the start); 0: it is there */
    int64_t source_silent_us; /* since when it doesn't answer a statement; 0: it answers */
    int64_t read_position;  /* INT64_MIN: none yet */
    bool by_gaps;           /* mode gaps: */
    uint64_t gaps_open, gaps_dead, gaps_dropped;

    char sink_connection[FORWARDER_NAME_MAX], sink_kind[32];
    bool sink_connected;
    int64_t blocked_since_wall_us; /* 0: not blocked */

    int64_t checkpoint_position; /* INT64_MIN: none yet */
    int64_t checkpoint_saved_wall_us;
    int64_t epoch;
    char owner[FORWARDER_NAME_MAX]; /* of the lease: this instance or another one; "": unknown */
    char owner_place[32];           /* its place (base/instance.h); "": unknown */
    bool lease_held;                /* by this one */
    int64_t lease_until_wall_us;    /* 0: unknown */

    int64_t unsavable_since_us; /* the checkpoint can't be saved */
    bool blind; /* what waits in the table can't be seen, nor could it be before */
    bool any_unsettled;
    bool rows_wait;             /* the last read was full: more are there */
    int64_t rows_wait_since_us; /* when rows_wait became true; 0: unknown */
    bool row_seen;              /* the first of them, by a look: its position, and since when it waits: */
    int64_t row_since_us;
    int64_t oldest_position;
    int64_t oldest_recorded_wall_us; /* 0: unknown */
    int64_t oldest_since_us;
    int64_t last_settled_us;

    uint32_t window_events, window_unsaved, window_max_events, window_max_unsaved;
    uint32_t window_held, window_followers; /* of its events: hold their key, wait behind such a one */
    uint64_t window_bytes, window_max_bytes;
    struct forwarder_counts counts;
    struct forwarder_answer answer; /* to the last command */
    struct rate rate; /* of counts.confirmed */
    struct forwarder_times times;
};

/* Seconds that the oldest unsettled event has waited, at `now`; 0 if none. By
 * its recorded time, never less than since it was read: a skewed clock hides nothing. */
bool forwarder_stats_lag_known(const struct forwarder_stats *s); /* 0 is nothing waits, and not that it can't be seen */
double forwarder_stats_lag_seconds(const struct forwarder_stats *s, int64_t now_us, int64_t wall_us);
/* Confirmed events per second, over the last seconds. */
double forwarder_stats_rate(const struct forwarder_stats *s, int64_t now_us);
/* Health is about waiting, not about backlog: a catch-up that moves is healthy.
 * *ret_why (may be NULL) is a static phrase when not healthy, else NULL. */
bool forwarder_stats_healthy(const struct forwarder_stats *s, int64_t now_us, int64_t max_age_us, const char **ret_why);

#endif
