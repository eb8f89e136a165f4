/* world: one schedule: writers, server, broker, daemon, faults; and what must hold after every step */
#ifndef PENSTOCK_TESTS_SIM_WORLD_H
#define PENSTOCK_TESTS_SIM_WORLD_H

#include "sim/daemon.h"

enum world_action {
    /* Writers. */
    ACT_SHORT, /* a whole transaction */
    ACT_BEGIN,
    ACT_TAKE_XID,
    ACT_INSERT,
    ACT_DRAW,
    ACT_DRAW_EARLY,
    ACT_SAVEPOINT,
    ACT_UNDO,
    ACT_PREPARE,
    ACT_COMMIT,
    ACT_COMMIT_ASYNC,
    ACT_ROLLBACK,
    ACT_RESTORE,
    ACT_UNLOCK,
    ACT_FLUSH,
    /* What goes its way. */
    ACT_EXECUTE_TAIL,
    ACT_EXECUTE_KEEP,
    ACT_TAKE_TAIL,
    ACT_TAKE_KEEP,
    ACT_BROKER_TAKE,
    ACT_BROKER_ANSWER,
    ACT_WAIT,
    ACT_START,
    ACT_CONNECT_DATABASE,
    ACT_CONNECT_SINK,
    ACT_WAKE,
    ACT_ROUND, /* each of these once */
    /* Faults. */
    ACT_LATE_SAVE,
    ACT_LATE_MESSAGE,
    ACT_FAIL_SAVE,
    ACT_RIVAL, /* another instance takes the lease if it can, or gives it back */
    ACT_LOSE_DATABASE,
    ACT_CRASH_DATABASE,
    ACT_LOSE_SINK,
    ACT_STALL,
    ACT_KILL,
    /* Operators. */
    ACT_STOP,
    ACT_PAUSE,
    ACT_SKIP, /* of what holds everything up */
    ACT_COUNT
};

#define WORLD_TRACE_MAX 524288

struct world {
    struct random random; /* of the schedule */
    struct random luck;   /* of the models, so that leaving an action out changes less */
    struct postgres pg;
    struct broker broker;
    struct daemon daemon;
    int64_t now_us;
    bool paused, stopping;
    int64_t stop_deadline_us;
    bool calm; /* faults have ceased */
    uint32_t weights[ACT_COUNT];
    uint32_t weight_sum;
    uint32_t insert_hold, insert_filtered, insert_poison, insert_unroutable, insert_unkeyed, refuse_percent;
    uint32_t bytes_max, batch_max;

    /* What the consumers have: how often, by row and destination. */
    uint32_t stored[POSTGRES_ROWS_MAX][POSTGRES_DESTINATIONS_MAX];
    bool skipped[POSTGRES_ROWS_MAX]; /* an operator said so, and that is written down */
    uint32_t repeats;
    uint32_t failures; /* after which repeats are allowed */
    uint32_t step;
    char broken[256]; /* "": everything holds */
    char *trace;      /* WORLD_TRACE_MAX bytes, or NULL */
    size_t trace_len;
};

/* A schedule: all of it comes from its number. `left_out`: a bit set of actions
 * that don't happen; `steps`: at most so many, then the faults cease. */
struct world_schedule {
    uint64_t seed;
    uint64_t left_out;
    uint32_t steps;
};

#define WORLD_STEPS_MAX 1500

/* Runs it to its end; true: every promise was kept. The world is plain memory, initialised here. */
bool world_run(struct world *w, const struct world_schedule *schedule, char *trace);

#endif
