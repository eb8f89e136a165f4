/* report: tells users what a forwarder is doing: one log line per change, and the snapshot for the status */
#include "forwarder/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/message_id.h"
#include "forwarder/culprit.h"
#include "forwarder/lines.h"
#include "forwarder/report_state.h"
#include "forwarder/words.h"

#define COPY_INTERVAL_US (100 * CLOCK_US_PER_MS)
#define FINDINGS_MAX_BYTES 131072
#define UNKNOWN_US (5 * CLOCK_US_PER_S) /* a gap is named before it is known who keeps it open */

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
    r->gaps_waited += waits && !goes_on;
    if (waits)
        r->waiting = c;
}

/* Why, and what ends it. ------------------------------------------------ */

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

static void say_locked(const struct report *r, struct words *w) {
    w->cause_len = culprit_lock_reason(r->locker, r->options->checkpoint_schema, w->reason, sizeof w->reason);
    culprit_resumes(r->locker, w->resumes, sizeof w->resumes);
}

static void say_disconnected(const struct report *r, const struct report_view *v, const struct sink_view *sink,
                             int64_t now_us, struct words *w) {
    if (report_database_of(r, v, now_us) == STATE_DATABASE_SILENT) {
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
        if (r->locker)
            say_locked(r, w);
        else if (r->unsavable)
            say_unsavable(r, v, flow, w);
        else if (report_event_is_held(v, flow))
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

/* The turn. ------------------------------------------------------------- */

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
    r->locker = database_blocker(v->database, now_us);
    struct state_facts facts = {
        .stop = v->stop,
        .database = report_database_of(r, v, now_us),
        .sink = sink_of(r, &sink),
        .paused = v->paused,
        .locked = r->locker,
        .unsavable = r->unsavable,
        .oldest_held = report_event_is_held(v, &flow),
        .gap_waits = r->gap_waits,
        .unsettled = flow.any_unsettled,
        .caught_up = flow.caught_up,
    };
    enum forwarder_state state = state_of(&facts);
    struct report_hold hold = report_hold_of(r, state, v, &flow);
    bool changed = state != r->stats.state || hold.what != r->hold.what || hold.number != r->hold.number;
    r->hold = hold;
    if (!changed && now_us < r->next_copy_us)
        return;
    r->next_copy_us = now_us + COPY_INTERVAL_US;

    struct words words;
    find_words(r, state, v, &flow, &sink, now_us, &words);
    report_fill(r, v, &flow, &sink, now_us);
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
