/* daemon: a forwarder without a world: joins flow, tail and confirms to the models */
#ifndef PENSTOCK_TESTS_SIM_DAEMON_H
#define PENSTOCK_TESTS_SIM_DAEMON_H

#include "flow/flow.h"
#include "flow/view.h"
#include "sim/broker.h"
#include "sim/postgres.h"
#include "sim/tail.h"
#include "sink/confirms.h"

#define DAEMON_WINDOW_MAX 64
#define DAEMON_LATE_MAX 4

/* A statement on one of the two connections. */
enum daemon_call { CALL_NONE, CALL_SENT, CALL_EXECUTED };
enum daemon_keep { KEEP_LOAD, KEEP_TAKE, KEEP_CREATE, KEEP_SAVE, KEEP_EXTEND, KEEP_YIELD };

/* A save that a daemon had sent when it or its connection died. */
struct daemon_save {
    char previous[POSTGRES_TEXT_MAX], text[POSTGRES_TEXT_MAX];
    struct postgres_changes changes;
    struct flow_mark mark;
    struct postgres_lease lease; /* whose it must be */
};

struct daemon {
    struct postgres *pg;
    struct broker *broker;
    struct random *random;
    struct flow_options options;
    struct tail_options tail_options;
    bool mended; /* rules and rows are in order now */

    bool running;
    uint32_t instance;     /* each start is another one */
    bool predecessor_gone; /* it knows that the one before is dead */
    struct flow *flow;
    struct tail tail;
    struct confirms *confirms;
    uint32_t rows[DAEMON_WINDOW_MAX]; /* by slot */

    bool database_up;
    enum daemon_call tail_call, keep_call;
    enum daemon_keep keep_kind;
    bool reading;
    uint32_t reads; /* that have ended */
    uint32_t asked_events;
    uint64_t asked_bytes, got_bytes;
    uint32_t got_events;
    char stored[POSTGRES_TEXT_MAX]; /* what stands in the row, as far as it knows */
    struct postgres_gaps loaded;    /* what stood beside it */
    struct postgres_lease lease;    /* likewise */
    int64_t asked_us;               /* since when the lease that is asked for counts */
    int64_t look_us;                /* standing by: when it looks again */
    bool refused;
    bool save_waits, extend_waits; /* until keep is free */
    struct daemon_save save;
    struct daemon_save late[DAEMON_LATE_MAX];
    uint32_t late_count;

    bool finished;
    uint32_t renewals; /* of the sink's connection, by itself */
    uint32_t reloads;  /* because a save was refused, or the lease may have run out */
    const char *broken; /* something it must never do */
};

void daemon_init(struct daemon *d, struct postgres *pg, struct broker *broker, struct random *random);
void daemon_start(struct daemon *d, int64_t now_us);
/* kill -9, at whatever it was doing. */
void daemon_kill(struct daemon *d);

void daemon_connect_database(struct daemon *d, int64_t now_us);
void daemon_lose_database(struct daemon *d, int64_t now_us);
void daemon_connect_sink(struct daemon *d, int64_t now_us);
void daemon_lose_sink(struct daemon *d, int64_t now_us);

/* The server executes what was sent; false: nothing was. A save goes through *save. */
typedef bool daemon_saver(void *world, const struct daemon_save *save);
bool daemon_execute_tail(struct daemon *d);
bool daemon_execute_keep(struct daemon *d, int64_t now_us, daemon_saver *saver, void *world);
bool daemon_execute_late(struct daemon *d, daemon_saver *saver, void *world);
/* The server refuses a save for a reason of its own. */
bool daemon_fail_save(struct daemon *d, int64_t now_us);
/* Replies arrive: up to `rows` rows. */
bool daemon_take_tail(struct daemon *d, int64_t now_us, uint32_t rows);
bool daemon_take_keep(struct daemon *d, int64_t now_us);
/* Outcomes are taken, then up to `wants` wants are done. */
void daemon_work(struct daemon *d, int64_t now_us, uint32_t wants);
/* The next moment at which something is due by itself. */
int64_t daemon_deadline_us(const struct daemon *d);

#endif
