/* report_fill: what is true at once -> the snapshot for the status */
#include <stdio.h>

#include "base/clock.h"
#include "forwarder/culprit.h"
#include "forwarder/report_state.h"

/* A refusal or two by the broker is its daily business; an event that was tried
 * this often and still does not go is held. */
#define HELD_ATTEMPTS 2
#define SILENT_US (5 * CLOCK_US_PER_S)

/* A statement that runs for so long: frozen server, stalled network, a lock on the event table. */
enum state_database report_database_of(const struct report *r, const struct report_view *v, int64_t now_us) {
    bool asks = r->database == STATE_DATABASE_UP || r->database == STATE_DATABASE_NEW;
    if (asks && now_us - SILENT_US > database_busy_since_us(v->database))
        return STATE_DATABASE_SILENT;
    return r->database;
}

static bool oldest_is_held(const struct flow *flow, const struct flow_view *view) {
    switch (view->oldest_hold) {
    case FLOW_HOLD_NONE:
        return false;
    case FLOW_HOLD_VERDICT:
    case FLOW_HOLD_REJECTED:
        return true;
    case FLOW_HOLD_RETRY:
        break;
    }
    uint32_t attempts = 0;
    int64_t retry_us;
    flow_slot_hold(flow, view->oldest_slot, &attempts, &retry_us);
    return attempts >= HELD_ATTEMPTS;
}

bool report_event_is_held(const struct report_view *v, const struct flow_view *flow) {
    return flow->any_unsettled && oldest_is_held(v->flow, flow);
}

/* The snapshot. --------------------------------------------------------- */

struct report_hold report_hold_of(const struct report *r, enum forwarder_state state, const struct report_view *v,
                                  const struct flow_view *flow) {
    if (state != FORWARDER_HELD)
        return (struct report_hold){HOLD_NOTHING, 0};
    if (r->locker)
        return (struct report_hold){HOLD_LOCK, r->locker->pid};
    if (r->unsavable)
        return (struct report_hold){HOLD_SAVES, 0};
    if (report_event_is_held(v, flow))
        return (struct report_hold){HOLD_EVENT, delivery_event(v->delivery, flow->oldest_slot)->position};
    return (struct report_hold){HOLD_GAP, r->gaps_waited};
}

static void fill_culprit(const struct report *r, struct forwarder_culprit *c, const struct report_view *v,
                         const struct flow_view *flow) {
    *c = (struct forwarder_culprit){0};
    if (r->hold.what == HOLD_LOCK)
        culprit_fill(r->locker, c);
    if (r->hold.what == HOLD_GAP)
        culprit_fill(&r->waiting, c);
    if (r->hold.what != HOLD_EVENT)
        return;
    const struct event *e = delivery_event(v->delivery, flow->oldest_slot);
    snprintf(c->kind, sizeof c->kind, "event");
    c->position = e->position;
    snprintf(c->event_id, sizeof c->event_id, "%.*s", SPAN_ARGS(event_core_value(e, EVENT_ID)));
    snprintf(c->destination, sizeof c->destination, "%s", delivery_describe(v->delivery, flow->oldest_slot));
    snprintf(c->words, sizeof c->words, "%s", delivery_reason(v->delivery, flow->oldest_slot));
}

static void fill_oldest(struct forwarder_stats *s, const struct report_view *v, const struct flow_view *flow) {
    if (!s->source_connected && !flow->any_unsettled)
        return; /* flow has forgotten what waited when the database went away; it waits on, and its lag grows (G8) */
    s->any_unsettled = flow->any_unsettled;
    s->oldest_position = 0;
    s->oldest_recorded_wall_us = s->oldest_since_us = 0;
    if (!flow->any_unsettled)
        return;
    const struct event *e = delivery_event(v->delivery, flow->oldest_slot);
    s->oldest_position = e->position;
    s->oldest_recorded_wall_us = e->recorded_us == INT64_MIN ? 0 : e->recorded_us;
    s->oldest_since_us = flow->oldest_since_us;
}

/* Rows that were not read: as a look has seen, or the last read left them. */
static void fill_waiting(struct forwarder_stats *s, const struct report_view *v, const struct flow_view *flow) {
    const struct database_waiting *waiting = database_waiting(v->database);
    if (!s->source_connected && s->row_seen)
        return; /* it waits on */
    bool seen = waiting->known && !flow->any_unsettled;
    s->rows_wait = seen ? waiting->any : !flow->caught_up && !database_stands_by(v->database);
    s->row_seen = seen && waiting->any;
    if (!s->row_seen)
        return;
    s->oldest_position = waiting->position;
    s->row_since_us = waiting->since_us;
}

/* Since when, for health: 0 while it is not so. */
static void fill_since(int64_t *since_us, bool is_so, int64_t now_us) {
    if (!is_so)
        *since_us = 0;
    else if (*since_us == 0)
        *since_us = now_us;
}

static void fill_lease(struct forwarder_stats *s, const struct database *database, int64_t now_us) {
    int64_t until_us = database_lease_until_us(database);
    s->lease_held = database_connected(database);
    snprintf(s->owner, sizeof s->owner, "%.*s", SPAN_ARGS(database_owner(database)));
    span_copy(s->owner_place, sizeof s->owner_place, database_owner_place(database));
    s->lease_until_wall_us = until_us == INT64_MIN ? 0 : clock_wall_us() + until_us - now_us;
}

/* Standing by, what waits is seen by the one that is active. Away from the start, by nobody. */
static void fill_blind(struct report *r, const struct database *database) {
    bool connected = database_connected(database), stands_by = database_stands_by(database);
    r->has_seen = connected || (r->has_seen && !stands_by);
    r->stats.blind = !r->has_seen;
}

static void fill_gaps(struct forwarder_stats *s, const struct database *database) {
    struct source_gaps gaps = {0};
    s->by_gaps = database_connected(database) && source_gaps(database_source(database), &gaps);
    if (!s->by_gaps)
        return;
    s->gaps_open = gaps.open;
    s->gaps_dead = gaps.dead;
    s->gaps_dropped = gaps.dropped;
}

void report_fill(struct report *r, const struct report_view *v, const struct flow_view *flow, const struct sink_view *sink,
                 int64_t now_us) {
    struct forwarder_stats *s = &r->stats;
    fill_culprit(r, &s->culprit, v, flow);
    snprintf(s->mode, sizeof s->mode, "%s", database_mode(v->database));
    s->source_connected = database_connected(v->database) || database_stands_by(v->database);
    fill_lease(s, v->database, now_us);
    fill_blind(r, v->database);
    fill_since(&s->source_lost_us, !s->source_connected, now_us);
    s->source_silent_us = report_database_of(r, v, now_us) == STATE_DATABASE_SILENT ? database_busy_since_us(v->database) : 0;
    fill_oldest(s, v, flow);
    fill_since(&s->unsavable_since_us, r->unsavable || r->locker, now_us);
    s->read_position = v->read_position;
    fill_gaps(s, v->database);
    s->sink_connected = sink->connected;
    if (!sink->blocked)
        r->blocked_since_wall_us = 0;
    else if (r->blocked_since_wall_us == 0)
        r->blocked_since_wall_us = clock_wall_us();
    s->blocked_since_wall_us = r->blocked_since_wall_us;
    if (v->counts->checkpoint_writes != s->counts.checkpoint_writes)
        s->checkpoint_saved_wall_us = clock_wall_us();
    if (database_stands_by(v->database)) /* by the other one */
        s->checkpoint_saved_wall_us = database_watched_save_wall_us(v->database);
    s->checkpoint_position = database_checkpoint_position(v->database);
    s->epoch = database_epoch(v->database);
    fill_waiting(s, v, flow);
    fill_since(&s->rows_wait_since_us, s->rows_wait, now_us);
    if (flow->last_settled_us > s->last_settled_us)
        s->last_settled_us = flow->last_settled_us;
    if (v->counts->filtered != s->counts.filtered)
        s->last_settled_us = now_us; /* a catch-up through rows that the selection passes over moves */
    s->window_events = flow->events;
    s->window_bytes = flow->bytes;
    s->window_unsaved = flow->unsaved;
    s->window_held = flow->held;
    s->window_followers = flow->followers;
    s->counts = *v->counts;
    s->counts.reconnects_database = database_reconnects(v->database);
    s->counts.reconnects_sink = sink->reconnects;
    rate_note(&s->rate, s->counts.confirmed, now_us);
    s->times = *v->times;
}
