/* report: tells users what a forwarder is doing: one log line per change, and the snapshot for the status */
#include "forwarder/report.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/message_id.h"
#include "flow/view.h"
#include "forwarder/culprit.h"
#include "forwarder/lines.h"
#include "forwarder/news.h"
#include "forwarder/words.h"

#define COPY_INTERVAL_US (100 * CLOCK_US_PER_MS)
/* A refusal or two by the broker is its daily business; an event that was tried
 * this often and still does not go is held. */
#define HELD_ATTEMPTS 2
#define FINDINGS_MAX_BYTES 131072
#define SILENT_US (5 * CLOCK_US_PER_S)
#define UNKNOWN_US (5 * CLOCK_US_PER_S) /* a gap is named before it is known who keeps it open */

struct report {
    const struct forwarder_options *options;
    enum state_database database;
    char database_words[FORWARDER_TEXT_MAX];
    bool unsavable;
    char saving_words[512];
    struct buf findings; /* said last, terminated */
    bool sink_was_up;
    bool gap_waits; /* for a transaction */
    struct source_culprit waiting;
    int64_t next_copy_us;
    int64_t blocked_since_wall_us;
    struct news news;
    struct forwarder_stats stats; /* being written */
    pthread_mutex_t lock;
    struct forwarder_stats published; /* under lock */
};

int report_new(const struct forwarder_options *o, struct report **ret_report) {
    struct report *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    r->options = o;
    r->findings = BUF_INIT(FINDINGS_MAX_BYTES);
    pthread_mutex_init(&r->lock, NULL);
    struct forwarder_stats *s = &r->stats;
    snprintf(s->name, sizeof s->name, "%s", o->name);
    snprintf(s->reason, sizeof s->reason, "not connected yet");
    snprintf(s->resumes, sizeof s->resumes, "when database and broker have been reached");
    snprintf(s->source_connection, sizeof s->source_connection, "%s", o->source_connection_name);
    snprintf(s->table, sizeof s->table, "%s", o->source->table);
    snprintf(s->sink_connection, sizeof s->sink_connection, "%s", o->sink_connection_name);
    snprintf(s->sink_kind, sizeof s->sink_kind, "%s", o->sink_kind->name);
    s->state = FORWARDER_STARTING;
    s->since_wall_us = clock_wall_us();
    s->read_position = s->checkpoint_position = INT64_MIN;
    s->window_max_events = o->flow.window_events;
    s->window_max_unsaved = o->flow.unsaved;
    s->window_max_bytes = o->flow.window_bytes;
    r->published = *s;
    *ret_report = r;
    return 0;
}

void report_free(struct report *r) {
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    buf_done(&r->findings);
    free(r);
}

void report_database(struct report *r, enum state_database database, const char *words) {
    r->database = database;
    lines_copy(r->database_words, sizeof r->database_words, words);
}

void report_findings(struct report *r, const char *findings, bool refused) {
    if (span_equal(buf_span(&r->findings), span_of(findings)))
        return;
    buf_clear(&r->findings);
    if (buf_add_span(&r->findings, span_of(findings)) != 0)
        buf_clear(&r->findings); /* said again next time, then */
    struct log_fields fields = {.forwarder = r->options->name};
    lines_say(refused ? LOG_LEVEL_ERR : LOG_LEVEL_WARNING, &fields, r->options->source->table, findings);
}

void report_saving(struct report *r, const char *words) {
    r->unsavable = words != NULL;
    snprintf(r->saving_words, sizeof r->saving_words, "%s", words ? words : "");
}

void report_answer(struct report *r, const struct forwarder_answer *answer) {
    r->stats.answer = *answer;
    r->next_copy_us = 0;
}

/* What is true. --------------------------------------------------------- */

/* A statement that runs for so long: frozen server, stalled network, a lock on the event table. */
static enum state_database database_of(const struct report *r, const struct report_view *v, int64_t now_us) {
    bool asks = r->database == STATE_DATABASE_UP || r->database == STATE_DATABASE_NEW;
    if (asks && now_us - SILENT_US > database_busy_since_us(v->database))
        return STATE_DATABASE_SILENT;
    return r->database;
}

static enum state_sink sink_of(struct report *r, const struct sink_view *sink) {
    if (r->database != STATE_DATABASE_UP)
        r->sink_was_up = false; /* it may go and come with the database (sink.h: lead) */
    if (sink->elsewhere)
        return STATE_SINK_ELSEWHERE;
    if (sink->connected) {
        r->sink_was_up = true;
        return sink->blocked ? STATE_SINK_BLOCKED : STATE_SINK_UP;
    }
    return r->sink_was_up || sink->down_reason ? STATE_SINK_DOWN : STATE_SINK_NEW;
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

/* Said when it ends, however it was shown meanwhile: another reason may have been worth more. */
static void say_end_of_wait(const struct report *r, int64_t now_us) {
    char name[512];
    culprit_name(&r->waiting, name, sizeof name);
    struct log_fields fields = {.forwarder = r->options->name};
    log_say(LOG_LEVEL_NOTICE, &fields, "no gap waits for %s any more, after %.1f s",
            r->waiting.undrawn ? "the sequence" : name, (double)(now_us - r->waiting.since_us) / (double)CLOCK_US_PER_S);
}

static void look_at_gaps(struct report *r, const struct report_view *v, int64_t now_us) {
    struct source_culprit c;
    bool waits = database_connected(v->database) && source_culprit(database_source(v->database), now_us, &c) &&
                 (c.known || c.undrawn || now_us - c.since_us > UNKNOWN_US);
    bool goes_on = waits && (culprit_same(&c, &r->waiting) || !r->waiting.known);
    if (r->gap_waits && !goes_on && database_connected(v->database))
        say_end_of_wait(r, now_us);
    r->gap_waits = waits;
    if (waits)
        r->waiting = c;
}

/* Why, and what ends it. ------------------------------------------------ */

static bool event_is_held(const struct report_view *v, const struct flow_view *flow) {
    return flow->any_unsettled && oldest_is_held(v->flow, flow);
}

static void say_silent(const struct report *r, const struct report_view *v, int64_t now_us, struct words *w) {
    int len = snprintf(w->reason, sizeof w->reason, "database '%s' does not answer a statement (frozen, a stalled network, or "
                       "a lock on %s: pg_stat_activity shows application penstock/%s/…)", r->options->source_connection_name,
                       r->options->source->table, r->options->name);
    w->cause_len = (size_t)len;
    snprintf(w->reason + len, sizeof w->reason - (size_t)len, ", for %.0f s",
             (double)(now_us - database_busy_since_us(v->database)) / 1e6);
    snprintf(w->resumes, sizeof w->resumes, "when it answers, or on a new connection after statement_timeout");
}

static void say_unsavable(const struct report *r, const struct report_view *v, const struct flow_view *flow,
                          struct words *w) {
    snprintf(w->reason, sizeof w->reason, "the checkpoint can't be saved: %s; after a restart all behind position %" PRId64
             " would come again%s", r->saving_words, database_checkpoint_position(v->database),
             flow->unsaved_full ? "; nothing more is read: window.unsaved is full" : "");
    snprintf(w->resumes, sizeof w->resumes, "when a save succeeds, tried every second (for rights see penstock schema)");
}

static void say_disconnected(const struct report *r, const struct report_view *v, const struct sink_view *sink,
                             int64_t now_us, struct words *w) {
    if (database_of(r, v, now_us) == STATE_DATABASE_SILENT) {
        say_silent(r, v, now_us, w);
        return;
    }
    if (r->database == STATE_DATABASE_DOWN) {
        snprintf(w->reason, sizeof w->reason, "%s", r->database_words); /* begins with whom we talk to */
        words_next_attempt(w, database_next_attempt_us(v->database), now_us);
        return;
    }
    snprintf(w->reason, sizeof w->reason, "broker '%s': %s", r->options->sink_connection_name,
             sink->down_reason ? sink->down_reason : "not connected");
    words_next_attempt(w, sink->next_attempt_us, now_us);
}

static void say_held(const struct report *r, const struct report_view *v, const struct flow_view *flow, int64_t now_us,
                     struct words *w) {
    const struct event *e = delivery_event(v->delivery, flow->oldest_slot);
    words_held(w, r->options->name, e->position, event_core_value(e, EVENT_ID), delivery_reason(v->delivery, flow->oldest_slot),
               flow, now_us);
}

static void say_gap(const struct report *r, int64_t now_us, struct words *w) {
    w->cause_len = culprit_reason(&r->waiting, now_us, w->reason, sizeof w->reason);
    culprit_resumes(&r->waiting, w->resumes, sizeof w->resumes);
}

static void say_standby(const struct report *r, const struct sink_view *sink, struct words *w) {
    if (r->database != STATE_DATABASE_STANDBY) {
        words_elsewhere(w, r->options->sink_connection_name, sink);
        return;
    }
    snprintf(w->reason, sizeof w->reason, "%s", r->database_words);
    snprintf(w->resumes, sizeof w->resumes, "when that one stops, or when its lease of %.3g s has run out",
             (double)r->options->lease_us / (double)CLOCK_US_PER_S);
}

static void find_words(const struct report *r, enum forwarder_state state, const struct report_view *v,
                       const struct flow_view *flow, const struct sink_view *sink, int64_t now_us, struct words *w) {
    struct source_culprit c;
    *w = (struct words){.cause_len = SIZE_MAX};
    switch (state) {
    case FORWARDER_STARTING:
        if (source_culprit(database_source(v->database), now_us, &c) && c.starts) {
            w->cause_len = culprit_start(&c, now_us, w->reason, sizeof w->reason);
            culprit_resumes(&c, w->resumes, sizeof w->resumes);
            return;
        }
        snprintf(w->reason, sizeof w->reason, "connecting to %s",
                 r->database == STATE_DATABASE_UP ? r->options->sink_connection_name : r->options->source_connection_name);
        snprintf(w->resumes, sizeof w->resumes, "when database and broker have been reached");
        return;
    case FORWARDER_REFUSED:
        snprintf(w->reason, sizeof w->reason, "%s", r->database_words);
        snprintf(w->resumes, sizeof w->resumes, "when this is mended; looked at again every 30 s");
        return;
    case FORWARDER_AHEAD:
        snprintf(w->reason, sizeof w->reason, "%s", r->database_words);
        words_ahead(w, r->options->name, strcmp(database_mode(v->database), "gaps") == 0,
                    source_given_out_again(database_source(v->database)));
        return;
    case FORWARDER_DISCONNECTED:
        say_disconnected(r, v, sink, now_us, w);
        return;
    case FORWARDER_BLOCKED:
        words_blocked(w, r->options->sink_connection_name, sink);
        return;
    case FORWARDER_HELD:
        if (r->unsavable)
            say_unsavable(r, v, flow, w);
        else if (event_is_held(v, flow))
            say_held(r, v, flow, now_us, w);
        else
            say_gap(r, now_us, w);
        return;
    case FORWARDER_PAUSED:
        snprintf(w->reason, sizeof w->reason, "paused by an operator");
        snprintf(w->resumes, sizeof w->resumes, "with penstock resume %s", r->options->name);
        return;
    case FORWARDER_STANDBY:
        say_standby(r, sink, w);
        return;
    case FORWARDER_DELIVERING:
    case FORWARDER_IDLE:
    case FORWARDER_STOPPING:
    case FORWARDER_STOPPED:
    case FORWARDER_STATE_COUNT:
        return;
    }
}

/* Changes. -------------------------------------------------------------- */

struct change {
    enum log_level level;
    const char *message_id;
};

static struct change change_to(enum forwarder_state state) {
    switch (state) {
    case FORWARDER_REFUSED:
        return (struct change){LOG_LEVEL_ERR, MESSAGE_ID_REFUSED};
    case FORWARDER_AHEAD:
        return (struct change){LOG_LEVEL_ERR, MESSAGE_ID_AHEAD};
    case FORWARDER_HELD:
        return (struct change){LOG_LEVEL_WARNING, MESSAGE_ID_HELD};
    case FORWARDER_BLOCKED:
        return (struct change){LOG_LEVEL_WARNING, MESSAGE_ID_BLOCKED};
    case FORWARDER_DISCONNECTED:
        return (struct change){LOG_LEVEL_WARNING, MESSAGE_ID_DISCONNECTED};
    case FORWARDER_STANDBY:
        return (struct change){LOG_LEVEL_NOTICE, MESSAGE_ID_STANDBY};
    case FORWARDER_PAUSED:
    case FORWARDER_STOPPING:
    case FORWARDER_STOPPED:
        return (struct change){LOG_LEVEL_NOTICE, NULL};
    case FORWARDER_STARTING:
    case FORWARDER_DELIVERING:
    case FORWARDER_IDLE:
    case FORWARDER_STATE_COUNT:
        break;
    }
    return (struct change){LOG_LEVEL_DEBUG, NULL};
}

static const char *message_id_of(enum news_kind kind, enum forwarder_state from, enum forwarder_state to) {
    if (kind == NEWS_RECOVERED)
        return from == FORWARDER_STARTING ? NULL : MESSAGE_ID_RECOVERED;
    return change_to(to).message_id;
}

static enum log_level level_of(enum news_kind kind, enum forwarder_state to) {
    return kind == NEWS_RECOVERED ? LOG_LEVEL_NOTICE : change_to(to).level;
}

/* Which event it is about, if it is about one: of what the snapshot shows. */
static void add_culprit(struct log_fields *fields, const struct forwarder_culprit *c, char position[24]) {
    if (strcmp(c->kind, "event") != 0)
        return;
    snprintf(position, 24, "%" PRId64, c->position);
    fields->position = position;
    fields->event_id = c->event_id;
    fields->destination = c->destination[0] ? c->destination : NULL;
}

/* "held -> delivering: …; goes on …" */
static void say_news(struct report *r, enum forwarder_state state, const struct words *w, int64_t now_us) {
    char cause[NEWS_CAUSE_MAX], more[64] = "", position[24];
    snprintf(cause, sizeof cause, "%.*s", w->cause_len < sizeof cause ? (int)w->cause_len : (int)sizeof cause - 1, w->reason);
    enum forwarder_state from;
    uint64_t unsaid;
    enum news_kind kind = news_next(&r->news, state, cause, now_us, &from, &unsaid);
    if (kind == NEWS_NONE)
        return;
    if (unsaid > 0 && kind != NEWS_MOVES)
        snprintf(more, sizeof more, " (%" PRIu64 " changes between were not listed)", unsaid);
    size_t len = strlen(w->reason);
    const char *goes_on = !w->resumes[0] ? "" : len > 0 && w->reason[len - 1] == ';' ? " goes on " : "; goes on ";
    struct log_fields fields = {.forwarder = r->options->name, .state = forwarder_state_name(state),
                                .message_id = message_id_of(kind, from, state), .error = len > 0 ? w->reason : NULL};
    add_culprit(&fields, &r->stats.culprit, position);
    bool same = kind == NEWS_CAUSE;
    log_say(level_of(kind, state), &fields, "%s%s%s%s%s%s%s%s", same ? "still" : forwarder_state_name(from),
            same ? " " : " -> ", forwarder_state_name(state), len > 0 ? ": " : "", w->reason, goes_on, w->resumes, more);
}

/* The snapshot. --------------------------------------------------------- */

static void fill_culprit(const struct report *r, struct forwarder_culprit *c, enum forwarder_state state,
                         const struct report_view *v, const struct flow_view *flow) {
    *c = (struct forwarder_culprit){0};
    if (state != FORWARDER_HELD || r->unsavable)
        return;
    if (!event_is_held(v, flow)) {
        culprit_fill(&r->waiting, c);
        return;
    }
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
    s->lease_until_wall_us = until_us == INT64_MIN ? 0 : clock_wall_us() + until_us - now_us;
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

static void fill(struct report *r, enum forwarder_state state, const struct report_view *v, const struct flow_view *flow,
                 const struct sink_view *sink, int64_t now_us) {
    struct forwarder_stats *s = &r->stats;
    fill_culprit(r, &s->culprit, state, v, flow);
    snprintf(s->mode, sizeof s->mode, "%s", database_mode(v->database));
    s->source_connected = database_connected(v->database) || database_stands_by(v->database);
    fill_lease(s, v->database, now_us);
    fill_since(&s->source_lost_us, !s->source_connected, now_us);
    s->source_silent_us = database_of(r, v, now_us) == STATE_DATABASE_SILENT ? database_busy_since_us(v->database) : 0;
    fill_oldest(s, v, flow);
    fill_since(&s->unsavable_since_us, r->unsavable, now_us);
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
    s->checkpoint_position = database_checkpoint_position(v->database);
    s->epoch = database_epoch(v->database);
    s->rows_wait = !flow->caught_up && !database_stands_by(v->database);
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

static void publish(struct report *r) {
    pthread_mutex_lock(&r->lock);
    r->published = r->stats;
    pthread_mutex_unlock(&r->lock);
}

void report_turn(struct report *r, const struct report_view *v, int64_t now_us) {
    struct flow_view flow;
    struct sink_view sink;
    flow_view(v->flow, &flow);
    delivery_view(v->delivery, &sink);
    if (now_us >= r->next_copy_us)
        look_at_gaps(r, v, now_us);
    struct state_facts facts = {
        .stop = v->stop,
        .database = database_of(r, v, now_us),
        .sink = sink_of(r, &sink),
        .paused = v->paused,
        .unsavable = r->unsavable,
        .oldest_held = event_is_held(v, &flow),
        .gap_waits = r->gap_waits,
        .unsettled = flow.any_unsettled,
        .caught_up = flow.caught_up,
    };
    enum forwarder_state state = state_of(&facts);
    bool changed = state != r->stats.state;
    if (!changed && now_us < r->next_copy_us)
        return;
    r->next_copy_us = now_us + COPY_INTERVAL_US;

    struct words words;
    find_words(r, state, v, &flow, &sink, now_us, &words);
    fill(r, state, v, &flow, &sink, now_us);
    say_news(r, state, &words, now_us);
    if (changed) {
        r->stats.state = state;
        r->stats.since_wall_us = clock_wall_us();
    }
    memcpy(r->stats.reason, words.reason, sizeof words.reason);
    memcpy(r->stats.resumes, words.resumes, sizeof words.resumes);
    publish(r);
}

void report_copy(struct report *r, struct forwarder_stats *ret_stats) {
    pthread_mutex_lock(&r->lock);
    *ret_stats = r->published;
    pthread_mutex_unlock(&r->lock);
}
