/* state: pure: what is true at once -> the one state that users see */
#ifndef PENSTOCK_FORWARDER_STATE_H
#define PENSTOCK_FORWARDER_STATE_H

#include "forwarder/stats.h"

/* Several are true together: blocked, held and disconnected say different
 * things about different peers. */
enum state_database { STATE_DATABASE_NEW, STATE_DATABASE_UP, STATE_DATABASE_SILENT, STATE_DATABASE_DOWN,
                      STATE_DATABASE_REFUSED, STATE_DATABASE_AHEAD, STATE_DATABASE_STANDBY };
enum state_sink { STATE_SINK_NEW, STATE_SINK_UP, STATE_SINK_DOWN, STATE_SINK_BLOCKED, STATE_SINK_ELSEWHERE };
enum state_stop { STATE_RUNNING, STATE_STOPPING, STATE_STOPPED };

struct state_facts {
    enum state_stop stop;
    enum state_database database;
    enum state_sink sink;
    bool paused;
    bool locked;      /* somebody has the checkpoint's row, whatever else the database does */
    bool unsavable;   /* the checkpoint could not be saved when it was tried last */
    bool oldest_held; /* the first event not settled does not move, for a reason of its own */
    bool gap_waits;   /* for a transaction, long enough to be said */
    bool unsettled;   /* events are read and not settled */
    bool caught_up;
};

/* What an operator should look at first wins: stop, locked, refused, ahead, database,
 * paused, sink, held, then what moves. */
enum forwarder_state state_of(const struct state_facts *facts);

#endif
