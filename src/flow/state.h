/* state: what a flow knows; private to flow.c and view.c */
#ifndef PENSTOCK_FLOW_STATE_H
#define PENSTOCK_FLOW_STATE_H

#include "flow/demand.h"
#include "flow/flow.h"
#include "flow/ledger.h"
#include "flow/order.h"
#include "flow/window.h"
#include "flow/wire.h"

/* Small ones side by side: a sink that is busy, an event that is held and a
 * database that is down can be true at once. */
enum flow_database { DATABASE_DOWN, DATABASE_UP };
enum flow_sink { SINK_DOWN, SINK_BUSY, SINK_READY };
enum flow_yield { YIELD_NOT_YET, YIELD_ASKED, YIELD_DONE };
enum flow_run { RUN_ON, RUN_PAUSED, RUN_STOPPING, RUN_FINISHED };

struct flow {
    struct flow_options options;
    struct window *window;
    struct slot *slots; /* the window's */
    struct order *order;
    struct wire *wire;
    struct ledger ledger;
    struct demand demand;
    enum flow_database database;
    enum flow_sink sink;
    enum flow_run run;
    enum flow_yield yield;
    int64_t stop_deadline_us;
    int64_t ghost_deadline_us;
    int64_t last_settled_us;
    uint64_t random; /* for jitter */
    uint64_t stale_outcomes;
};

#endif
