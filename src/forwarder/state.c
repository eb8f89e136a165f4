/* state: pure: what is true at once -> the one state that users see */
#include "forwarder/state.h"

/* Decided by the database alone, or FORWARDER_STATE_COUNT: look further. */
static enum forwarder_state by_database(enum state_database database) {
    switch (database) {
    case STATE_DATABASE_NEW:
        return FORWARDER_STARTING;
    case STATE_DATABASE_SILENT:
    case STATE_DATABASE_DOWN:
        return FORWARDER_DISCONNECTED;
    case STATE_DATABASE_REFUSED:
        return FORWARDER_REFUSED;
    case STATE_DATABASE_AHEAD:
        return FORWARDER_AHEAD;
    case STATE_DATABASE_STANDBY:
        return FORWARDER_STANDBY;
    case STATE_DATABASE_UP:
        break;
    }
    return FORWARDER_STATE_COUNT;
}

static enum forwarder_state by_sink(enum state_sink sink) {
    switch (sink) {
    case STATE_SINK_NEW:
        return FORWARDER_STARTING;
    case STATE_SINK_DOWN:
        return FORWARDER_DISCONNECTED;
    case STATE_SINK_BLOCKED:
        return FORWARDER_BLOCKED;
    case STATE_SINK_ELSEWHERE:
        return FORWARDER_STANDBY;
    case STATE_SINK_UP:
        break;
    }
    return FORWARDER_STATE_COUNT;
}

enum forwarder_state state_of(const struct state_facts *facts) {
    if (facts->stop == STATE_STOPPED)
        return FORWARDER_STOPPED;
    if (facts->stop == STATE_STOPPING)
        return FORWARDER_STOPPING;
    if (facts->locked)
        return FORWARDER_HELD;
    enum forwarder_state state = by_database(facts->database);
    if (state != FORWARDER_STATE_COUNT)
        return state;
    if (facts->paused)
        return FORWARDER_PAUSED;
    state = by_sink(facts->sink);
    if (state != FORWARDER_STATE_COUNT)
        return state;
    if (facts->unsavable || facts->oldest_held || facts->gap_waits)
        return FORWARDER_HELD;
    return facts->unsettled || !facts->caught_up ? FORWARDER_DELIVERING : FORWARDER_IDLE;
}
