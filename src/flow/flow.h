/* flow: pure: facts about rows, outcomes, database and sink -> wants (read, submit, save, …) */
#ifndef PENSTOCK_FLOW_FLOW_H
#define PENSTOCK_FLOW_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/cleanup.h"

/* No clock, no I/O, no library. Every fact carries `now_us` (monotonic). Wants
 * are computed, not queued: after each fact the forwarder asks flow_next until
 * it says no. Allocates at flow_new only. One thread. What it shows: view.h. */
struct flow;

#define FLOW_DESTINATIONS_MAX 16 /* of one event; rule/rule.h has the same */

enum flow_order { FLOW_BY_KEY, FLOW_BY_NONE, FLOW_BY_ALL };

struct flow_options {
    uint32_t window_events;  /* read and not settled */
    uint64_t window_bytes;
    uint32_t unsaved;        /* settled and not behind the saved checkpoint; reading stops at either cap, so that
                              * both together are never exceeded (G7) */
    uint32_t sink_in_flight; /* deliveries on the wire */
    enum flow_order order;
    uint32_t key_in_flight; /* events of one key at once */
    struct backoff_options retry;
    int64_t poll_min_us, poll_max_us;
    int64_t save_interval_us; /* 100 ms */
    int64_t lease_us;         /* of the checkpoint; 0: nobody else can take it */
    int64_t ghost_timeout_us; /* after a reload: how long to wait for tokens of before */
    uint64_t seed;
};

/* A place in the source's stream: `target` is the source's number of a snapshot
 * pair, growing; position INT64_MAX: everything of that target. */
struct flow_mark {
    int64_t position;
    uint64_t target;
};

enum flow_verdict {
    FLOW_DELIVER, /* to `destinations` destinations */
    FLOW_SKIP,    /* by rule: settled at once, in its order */
    FLOW_HOLD,    /* unmatched or rejected: holds its key, until an operator acts */
};

struct flow_event {
    enum flow_verdict verdict;
    uint16_t destinations; /* 1 to FLOW_DESTINATIONS_MAX for FLOW_DELIVER */
    bool keyed;            /* false: a key of its own */
    uint64_t key;
    uint64_t bytes;
    struct flow_mark mark; /* the place behind it */
};

int flow_new(const struct flow_options *options, struct flow **ret_flow) MUST_CHECK;
void flow_free(struct flow *f);

/* Facts: reading. ------------------------------------------------------- */

/* Checkpoint loaded, source at `saved`: everything not settled before is forgotten. */
void flow_database_up(struct flow *f, int64_t now_us, struct flow_mark saved);
/* Either connection died: events not settled are forgotten;
 * tokens on the wire become ghosts, whose outcomes are waited for. Again and
 * again is fine, also before the first flow_database_up. */
void flow_database_down(struct flow *f, int64_t now_us);

/* The slot that the next flow_add will take: build the event there first. Asserts room. */
uint32_t flow_next_slot(const struct flow *f);
/* A row that was asked for. */
void flow_add(struct flow *f, int64_t now_us, const struct flow_event *event);
/* The place has moved without an event (filtered row, end of page), past `rows` rows (0: nothing that needs a save). */
void flow_mark(struct flow *f, int64_t now_us, struct flow_mark mark, uint32_t rows);
/* The read that was wanted has ended; caught_up: nothing more was there. */
void flow_read_done(struct flow *f, int64_t now_us, bool caught_up);
/* The source gave a target up (it keeps a bounded number): no mark of it can be saved. */
void flow_target_dropped(struct flow *f, uint64_t target);
void flow_wake(struct flow *f, int64_t now_us); /* something was written (LISTEN): the next poll is due now */

/* Facts: publishing. ---------------------------------------------------- */

enum flow_outcome { FLOW_CONFIRMED, FLOW_RETRY, FLOW_LOST, FLOW_REJECTED };

void flow_sink_up(struct flow *f, int64_t now_us);
void flow_sink_down(struct flow *f, int64_t now_us); /* after its tokens got FLOW_LOST */
void flow_sink_ready(struct flow *f, int64_t now_us, bool ready); /* takes submits right now? */
/* For a token that was submitted; stale and double ones are counted, ignored: false.
 * ret_slot (may be NULL): whose it is. FLOW_RETRY waits by `retry`; FLOW_LOST
 * goes again as soon as the sink is up; FLOW_REJECTED holds. */
bool flow_outcome(struct flow *f, int64_t now_us, uint64_t token, enum flow_outcome outcome, uint32_t *ret_slot);
/* Whose it is, while it is on the wire; false: nobody's any more. For messages, before flow_outcome. */
bool flow_whose(const struct flow *f, uint64_t token, uint32_t *ret_slot, uint16_t *ret_destination);
/* The sink didn't take it: as if it had not been wanted. */
void flow_not_taken(struct flow *f, int64_t now_us, uint64_t token);

/* Facts: checkpoint, operator. ------------------------------------------ */

void flow_saved(struct flow *f, int64_t now_us);
void flow_save_failed(struct flow *f, int64_t now_us); /* try again */
void flow_pause(struct flow *f, int64_t now_us, bool paused);
/* Gives up the oldest event; asserts that there is one. It settles when nothing of it is
 * on the wire any more, whatever the sink answers. Returns its number by arrival. */
uint64_t flow_skip(struct flow *f, int64_t now_us);
bool flow_is_saved(const struct flow *f, uint64_t seq); /* is it behind the saved checkpoint? Until the database is down */
/* No new reads, no new events on their way but those before one that is, no further attempt of one that failed: what
 * is under way (all destinations of a started event, while the sink is up) settles and is saved until the deadline. */
void flow_stop(struct flow *f, int64_t now_us, int64_t deadline_us);

/* Wants. ---------------------------------------------------------------- */

enum flow_want_kind {
    FLOW_WANT_READ,   /* up to `events` rows of `bytes` together; one at a time */
    FLOW_WANT_SUBMIT, /* destination number `destination` of the event in `slot` */
    FLOW_WANT_SAVE,   /* `mark`, and `position` for people; one at a time */
    FLOW_WANT_EXTEND, /* the lease; a save does it too */
    FLOW_WANT_YIELD,  /* stopped clean: the lease may go to another at once */
    FLOW_WANT_RENEW,  /* ghosts do not come: renew the sink's connection */
    FLOW_WANT_FINISH, /* stopped: everything that could be done is done */
};

struct flow_want {
    enum flow_want_kind kind;
    uint32_t events;
    uint64_t bytes;
    uint64_t token;   /* its lower half is a number below sink_in_flight, no other's until its outcome */
    uint32_t slot;
    uint16_t destination;
    struct flow_mark mark;
    int64_t position; /* the highest settled in order; INT64_MIN: none since the checkpoint was loaded */
};

/* true: *ret_want is taken as being done from now on. */
bool flow_next(struct flow *f, int64_t now_us, struct flow_want *ret_want);
/* When flow_next may say something new without a fact; CLOCK_NEVER: no timer. */
int64_t flow_deadline_us(const struct flow *f);
uint64_t flow_oldest_target(const struct flow *f); /* marks of targets below it are needed no more */

#endif
