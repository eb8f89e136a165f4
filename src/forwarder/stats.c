/* stats: what a forwarder tells of itself: a bounded copy, never a pointer into live state */
#include "forwarder/stats.h"

#include <assert.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

static const char *const state_names[] = {
    [FORWARDER_STARTING] = "starting", [FORWARDER_REFUSED] = "refused",
    [FORWARDER_STANDBY] = "standby",   [FORWARDER_DELIVERING] = "delivering",
    [FORWARDER_IDLE] = "idle",         [FORWARDER_HELD] = "held",
    [FORWARDER_BLOCKED] = "blocked",   [FORWARDER_DISCONNECTED] = "disconnected",
    [FORWARDER_AHEAD] = "ahead",       [FORWARDER_PAUSED] = "paused",
    [FORWARDER_STOPPING] = "stopping", [FORWARDER_STOPPED] = "stopped",
};
static_assert(ARRAY_LENGTH(state_names) == FORWARDER_STATE_COUNT, "one name per state");

const char *forwarder_state_name(enum forwarder_state state) {
    ASSERT((unsigned)state < FORWARDER_STATE_COUNT);
    return state_names[state];
}

/* An idle forwarder settled its last event long ago: the wait counts from when rows began to wait. */
static int64_t nothing_settled_since_us(const struct forwarder_stats *s) {
    return s->last_settled_us > s->rows_wait_since_us ? s->last_settled_us : s->rows_wait_since_us;
}

bool forwarder_stats_lag_known(const struct forwarder_stats *s) {
    return !s->blind || s->any_unsettled;
}

double forwarder_stats_lag_seconds(const struct forwarder_stats *s, int64_t now_us, int64_t wall_us) {
    int64_t lag_us = 0;
    if (s->any_unsettled)
        lag_us = now_us - s->oldest_since_us;
    if (s->rows_wait && s->rows_wait_since_us != 0 && now_us - nothing_settled_since_us(s) > lag_us)
        lag_us = now_us - nothing_settled_since_us(s); /* rows that were not even read wait at least so long */
    if (s->row_seen && now_us - s->row_since_us > lag_us)
        lag_us = now_us - s->row_since_us;
    if (s->source_silent_us != 0 && now_us - s->source_silent_us > lag_us)
        lag_us = now_us - s->source_silent_us; /* what waits there can't be seen: perhaps since then */
    if (!s->source_connected && s->source_lost_us != 0 && now_us - s->source_lost_us > lag_us)
        lag_us = now_us - s->source_lost_us;
    if (s->any_unsettled && s->oldest_recorded_wall_us != 0 && wall_us - s->oldest_recorded_wall_us > lag_us)
        lag_us = wall_us - s->oldest_recorded_wall_us;
    return lag_us > 0 ? (double)lag_us / (double)CLOCK_US_PER_S : 0;
}

double forwarder_stats_rate(const struct forwarder_stats *s, int64_t now_us) {
    return rate_per_second(&s->rate, s->counts.confirmed, now_us);
}

static bool waits_on_purpose(enum forwarder_state state) {
    return state == FORWARDER_PAUSED || state == FORWARDER_STANDBY;
}

static bool older(int64_t since_us, int64_t now_us, int64_t max_age_us) {
    return since_us != 0 && now_us - since_us > max_age_us;
}

static const char *why_unhealthy(const struct forwarder_stats *s, int64_t now_us, int64_t max_age_us) {
    if (s->state == FORWARDER_REFUSED)
        return "database or broker lack something that an operator must mend";
    if (s->state == FORWARDER_AHEAD)
        return "the checkpoint does not fit the table, and an operator must decide where to go on";
    if (waits_on_purpose(s->state))
        return NULL;
    if (s->any_unsettled && now_us - s->oldest_since_us > max_age_us)
        return "an event has waited longer than health.max_age";
    if (s->rows_wait && older(nothing_settled_since_us(s), now_us, max_age_us))
        return "rows wait and nothing has settled for health.max_age";
    if (older(s->unsavable_since_us, now_us, max_age_us))
        return "the checkpoint could not be saved for health.max_age";
    if (older(s->source_silent_us, now_us, max_age_us))
        return "the database has not answered a statement for health.max_age: what waits there can't be seen";
    if (!s->source_connected && older(s->source_lost_us, now_us, max_age_us))
        return "the database has been away for health.max_age: what waits there can't be seen";
    return NULL;
}

bool forwarder_stats_healthy(const struct forwarder_stats *s, int64_t now_us, int64_t max_age_us,
                             const char **ret_why) {
    const char *why = why_unhealthy(s, now_us, max_age_us);
    if (ret_why)
        *ret_why = why;
    return why == NULL;
}
