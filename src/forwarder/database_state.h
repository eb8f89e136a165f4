/* database_state: what a database knows; private to database.c, database_ask.c and database_view.c */
#ifndef PENSTOCK_FORWARDER_DATABASE_STATE_H
#define PENSTOCK_FORWARDER_DATABASE_STATE_H

#include "base/backoff.h"
#include "base/instance.h"
#include "forwarder/blocker.h"
#include "forwarder/checkpoint.h"
#include "forwarder/database.h"

/* The steps in their order; each waits for the one signal that leads on. */
enum phase {
    PHASE_CLOSED, /* until retry_at_us */
    PHASE_KEEP_DIAL,
    PHASE_KEEP_INSPECT,
    PHASE_TAIL_DIAL,
    PHASE_TAIL_INSPECT,
    PHASE_LOAD,
    PHASE_STANDBY, /* another instance has the lease: until it is free, then PHASE_LOAD again */
    PHASE_OPEN,
    PHASE_CREATE,
    PHASE_TAKE,
    PHASE_UP,
};

struct database {
    const struct forwarder_options *options;
    struct pgconn *keep, *tail;
    struct blocker blocker; /* of a statement of keep; has the tail while it asks */
    bool keep_due, tail_due; /* poll has said something of it since its last work */
    struct checkpoint *checkpoint;
    struct source *source;
    enum phase phase;
    struct backoff backoff;
    int64_t retry_at_us;
    int64_t up_since_us;
    char active[INSTANCE_NAME_MAX]; /* standing by: whose turn it is */
    int64_t watch_us;     /* standing by: when the lease is looked at again */
    int64_t watched_us;   /* when its rest was asked for */
    int64_t leased_us;    /* before the last statement was sent that took or extended ours and succeeded */
    int64_t asked_us;     /* before the one was that is under way */
    bool extend_wanted, yield_wanted; /* wait until keep is free */
    bool extending;

    bool want_waits; /* for the tail, which looks or asks: */
    uint32_t want_events;
    uint64_t want_bytes;
    int64_t look_us; /* when the last look began; 0: none since it is up */
    struct database_waiting waiting;

    bool new_checkpoint;
    int64_t checkpoint_position;
    bool save_wanted; /* asked for; waits until keep is free */
    struct source_mark save_mark;
    int64_t save_position;
    int64_t save_after_us; /* one that was refused is sent again at a slower pace than it is wanted */
    bool save_gone;   /* its place was given up meanwhile: database_next reports it */
    bool saving;
    const struct checkpoint_command *command; /* asked for; NULL: none, or it has been sent */
    int cancel_pid; /* of the tail's backend, waits until keep is free; 0: none */

    bool missing; /* our tables or rights: said together with what the event table lacks */
    struct error missing_error;
    struct buf note;

    bool lost; /* a call has failed: database_next reports it */
    struct error lost_error;
    uint64_t ups, writes;
    struct buf cursor;
};

/* Hands the next thing that was asked for to keep, if that is free. */
void database_use_keep(struct database *d, int64_t now_us);
/* Asks who keeps a statement of keep waiting, if one does. */
void database_ask_blocker(struct database *d, int64_t now_us);
#define DATABASE_BLOCKED_US (500 * INT64_C(1000)) /* a statement of keep that takes so long waits for somebody, perhaps */
int64_t database_blocker_deadline_us(const struct database *d);
/* The tail does something else again. */
void database_go_on(struct database *d, int64_t now_us);
/* SOURCE_LOOKED. */
void database_note_look(struct database *d, int64_t now_us);
/* r of a call that should have sent `what`: what went wrong is reported by the next database_next. */
void database_note_failure(struct database *d, int r, const char *what);

#endif
