/* document: what the forwarders tell -> the JSON documents of the status socket */
#include "status/document.h"

#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/instance.h"
#include "base/utf8.h"

/* Jansson takes NULL for a value that could not be made: it releases and
 * returns -1. So a part is filled to its end and its failures are summed up in
 * one `r`; `whole` looks at it once. */
static json_t *whole(json_t *value, int r) {
    if (r == 0)
        return value;
    json_decref(value);
    return NULL;
}

static int put(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value);
}

static json_t *text(const char *s) {
    char clean[FORWARDER_TEXT_MAX];
    size_t len = 0;
    const char *end = s + strlen(s);
    while (s < end && len + 4 < sizeof clean) {
        uint32_t code;
        size_t bytes = utf8_next(s, end, &code);
        if (bytes == 0)
            clean[len++] = '?';
        else
            memcpy(clean + len, s, bytes);
        len += bytes;
        s += bytes ? bytes : 1;
    }
    return json_stringn_nocheck(clean, len);
}

static json_t *text_or_null(const char *s) {
    return s[0] ? text(s) : json_null();
}

static json_t *time_or_null(int64_t wall_us) {
    char rfc3339[CLOCK_RFC3339_SIZE];
    if (wall_us == 0 || clock_format_rfc3339(wall_us, rfc3339) < 0)
        return json_null();
    return json_string(rfc3339);
}

static json_t *position_or_null(int64_t position) {
    return position == INT64_MIN ? json_null() : json_integer(position);
}

static json_t *number(uint64_t n) {
    return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

static json_t *culprit_part(const struct forwarder_culprit *c) {
    if (!c->kind[0])
        return json_null();
    json_t *o = json_object();
    int r = put(o, "kind", text(c->kind));
    r |= put(o, "position", position_or_null(c->position));
    if (strcmp(c->kind, "event") == 0) {
        r |= put(o, "event_id", text_or_null(c->event_id));
        r |= put(o, "destination", text_or_null(c->destination));
    } else {
        r |= put(o, "pid", c->pid ? json_integer(c->pid) : json_null());
        r |= put(o, "application", text_or_null(c->application));
        r |= put(o, "user", text_or_null(c->user));
        r |= put(o, "state", text_or_null(c->session));
        r |= put(o, "since", time_or_null(c->began_wall_us));
        r |= put(o, "prepared", text_or_null(c->prepared));
    }
    r |= put(o, "words", text_or_null(c->words));
    return whole(o, r);
}

/* Positions that were not seen. */
static json_t *gaps_part(const struct forwarder_stats *s) {
    json_t *o = json_object();
    int r = put(o, "open", number(s->gaps_open));
    r |= put(o, "dead", number(s->gaps_dead));
    r |= put(o, "dropped", number(s->gaps_dropped));
    return whole(o, r);
}

static json_t *source_part(const struct forwarder_stats *s) {
    json_t *o = json_object();
    int r = put(o, "connection", text_or_null(s->source_connection));
    r |= put(o, "table", text_or_null(s->table));
    r |= put(o, "mode", text_or_null(s->mode));
    r |= put(o, "connected", json_boolean(s->source_connected));
    r |= put(o, "read_position", position_or_null(s->read_position));
    if (s->by_gaps)
        r |= put(o, "gaps", gaps_part(s));
    return whole(o, r);
}

static json_t *sink_part(const struct forwarder_stats *s) {
    json_t *o = json_object();
    int r = put(o, "connection", text_or_null(s->sink_connection));
    r |= put(o, "kind", text_or_null(s->sink_kind));
    r |= put(o, "connected", json_boolean(s->sink_connected));
    r |= put(o, "blocked_since", time_or_null(s->blocked_since_wall_us));
    return whole(o, r);
}

static json_t *checkpoint_part(const struct forwarder_stats *s) {
    json_t *o = json_object();
    int r = put(o, "position", position_or_null(s->checkpoint_position));
    r |= put(o, "saved", time_or_null(s->checkpoint_saved_wall_us));
    r |= put(o, "epoch", json_integer(s->epoch));
    return whole(o, r);
}

/* To the millisecond. */
static json_t *lag_seconds(const struct forwarder_stats *s, int64_t now_us, int64_t wall_us) {
    if (!forwarder_stats_lag_known(s))
        return json_null();
    int64_t lag_ms = (int64_t)(forwarder_stats_lag_seconds(s, now_us, wall_us) * 1000 + 0.5);
    return json_real((double)lag_ms / 1000);
}

static json_t *lag_part(const struct forwarder_stats *s, int64_t now_us, int64_t wall_us) {
    json_t *o = json_object();
    int r = put(o, "events", number(s->window_events));
    if (s->rows_wait) /* what is read is known, what lies behind it is not */
        r |= put(o, "estimated", json_true());
    r |= put(o, "seconds", lag_seconds(s, now_us, wall_us));
    r |= put(o, "oldest_position", s->any_unsettled || s->row_seen ? position_or_null(s->oldest_position) : json_null());
    return whole(o, r);
}

/* Of confirmed events per second, to a tenth. */
static json_t *rate(const struct forwarder_stats *s, int64_t now_us) {
    return json_real((double)(int64_t)(forwarder_stats_rate(s, now_us) * 10 + 0.5) / 10);
}

static json_t *window_part(const struct forwarder_stats *s) {
    json_t *o = json_object();
    int r = put(o, "events", number(s->window_events));
    r |= put(o, "bytes", number(s->window_bytes));
    r |= put(o, "unsaved", number(s->window_unsaved));
    r |= put(o, "held", number(s->window_held));
    r |= put(o, "followers", number(s->window_followers));
    r |= put(o, "max_events", number(s->window_max_events));
    r |= put(o, "max_bytes", number(s->window_max_bytes));
    r |= put(o, "max_unsaved", number(s->window_max_unsaved));
    return whole(o, r);
}

static json_t *counts_part(const struct forwarder_counts *c) {
    json_t *o = json_object();
    int r = put(o, "read", number(c->read));
    r |= put(o, "filtered", number(c->filtered));
    r |= put(o, "published", number(c->published));
    r |= put(o, "confirmed", number(c->confirmed));
    r |= put(o, "returned", number(c->returned));
    r |= put(o, "nacked", number(c->nacked));
    r |= put(o, "retried", number(c->retried));
    r |= put(o, "rejected", number(c->rejected));
    r |= put(o, "unmatched", number(c->unmatched));
    r |= put(o, "skipped", number(c->skipped));
    r |= put(o, "parked", number(c->parked));
    r |= put(o, "reconnects", number(c->reconnects_database + c->reconnects_sink));
    return whole(o, r);
}

static json_t *lease_part(const struct forwarder_stats *s) {
    json_t *o = json_object();
    int r = put(o, "held", json_boolean(s->lease_held));
    r |= put(o, "owner", text_or_null(s->owner));
    r |= put(o, "place", text_or_null(s->owner_place));
    r |= put(o, "until", time_or_null(s->lease_until_wall_us));
    return whole(o, r);
}

static json_t *forwarder_part(const struct document_daemon *d, const struct forwarder_stats *s, int64_t now_us,
                              int64_t wall_us) {
    json_t *o = json_object();
    int r = put(o, "name", text(s->name));
    r |= put(o, "state", json_string(forwarder_state_name(s->state)));
    r |= put(o, "reason", text_or_null(s->reason));
    r |= put(o, "resumes", text_or_null(s->resumes));
    r |= put(o, "since", time_or_null(s->since_wall_us));
    r |= put(o, "healthy", json_boolean(forwarder_stats_healthy(s, now_us, d->health_max_age_us, NULL)));
    r |= put(o, "culprit", culprit_part(&s->culprit));
    r |= put(o, "source", source_part(s));
    r |= put(o, "sink", sink_part(s));
    r |= put(o, "checkpoint", checkpoint_part(s));
    r |= put(o, "lag", lag_part(s, now_us, wall_us));
    r |= put(o, "rate", rate(s, now_us));
    r |= put(o, "window", window_part(s));
    r |= put(o, "counts", counts_part(&s->counts));
    r |= put(o, "lease", lease_part(s));
    return whole(o, r);
}

static json_t *unhealthy_part(const struct forwarder_stats *s, const char *why, int64_t now_us, int64_t wall_us) {
    json_t *o = json_object();
    int r = put(o, "name", text(s->name));
    r |= put(o, "state", json_string(forwarder_state_name(s->state)));
    r |= put(o, "since", time_or_null(s->since_wall_us));
    r |= put(o, "lag_seconds", lag_seconds(s, now_us, wall_us));
    r |= put(o, "why", json_string(why));
    r |= put(o, "reason", text_or_null(s->reason));
    return whole(o, r);
}

static json_t *configuration_part(const struct document_daemon *d) {
    json_t *o = json_object();
    int r = put(o, "since", time_or_null(d->configuration_wall_us));
    r |= put(o, "refused", text_or_null(d->configuration_refused ? d->configuration_refused : ""));
    r |= put(o, "refused_at", time_or_null(d->configuration_refused_wall_us));
    return whole(o, r);
}

static int add_to_buf(const char *bytes, size_t len, void *b) {
    return buf_add(b, bytes, len) < 0 ? -1 : 0;
}

/* Takes root, which may be NULL: then a part of it could not be made. Fifteen
 * digits are what a double keeps of a decimal, so 840.2 is printed as 840.2. */
static char *print(json_t *root) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(DOCUMENT_MAX_BYTES);
    int r = root ? json_dump_callback(root, add_to_buf, &b, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : -1;
    json_decref(root);
    if (r < 0 || buf_add_char(&b, '\n') < 0 || buf_terminate(&b) < 0)
        return NULL;
    return TAKE(b.data);
}

char *document_status(const struct document_daemon *d, const struct forwarder_stats *stats, size_t count,
                      int64_t now_us, int64_t wall_us) {
    json_t *forwarders = json_array();
    bool healthy = true;
    int r = 0;
    for (size_t i = 0; i < count; i++) {
        healthy = forwarder_stats_healthy(&stats[i], now_us, d->health_max_age_us, NULL) && healthy;
        r |= json_array_append_new(forwarders, forwarder_part(d, &stats[i], now_us, wall_us));
    }
    json_t *o = json_object();
    r |= put(o, "version", text(d->version));
    struct span instance = instance_brief(span_of(d->instance));
    r |= put(o, "instance", json_stringn(instance.data, instance.len));
    struct span place = instance_place(span_of(d->instance));
    r |= put(o, "place", span_absent(place) ? json_null() : json_stringn(place.data, place.len));
    r |= put(o, "started", time_or_null(d->started_wall_us));
    r |= put(o, "healthy", json_boolean(healthy));
    r |= put(o, "configuration", configuration_part(d));
    r |= put(o, "forwarders", forwarders);
    return print(whole(o, r));
}

char *document_forwarder(const struct document_daemon *d, const struct forwarder_stats *stats, int64_t now_us,
                         int64_t wall_us) {
    return print(forwarder_part(d, stats, now_us, wall_us));
}

char *document_health(const struct document_daemon *d, const struct forwarder_stats *stats, size_t count,
                      int64_t now_us, int64_t wall_us, bool *ret_healthy) {
    json_t *unhealthy = json_array();
    bool healthy = true;
    int r = 0;
    for (size_t i = 0; i < count; i++) {
        const char *why;
        if (forwarder_stats_healthy(&stats[i], now_us, d->health_max_age_us, &why))
            continue;
        healthy = false;
        r |= json_array_append_new(unhealthy, unhealthy_part(&stats[i], why, now_us, wall_us));
    }
    json_t *o = json_object();
    r |= put(o, "healthy", json_boolean(healthy));
    r |= put(o, "unhealthy", unhealthy);
    *ret_healthy = healthy;
    return print(whole(o, r));
}

char *document_ready(const struct forwarder_stats *stats, size_t count, bool *ret_ready) {
    json_t *starting = json_array();
    bool ready = true;
    int r = 0;
    for (size_t i = 0; i < count; i++) {
        if (stats[i].state != FORWARDER_STARTING)
            continue;
        ready = false;
        r |= json_array_append_new(starting, text(stats[i].name));
    }
    json_t *o = json_object();
    r |= put(o, "ready", json_boolean(ready));
    r |= put(o, "starting", starting);
    *ret_ready = ready;
    return print(whole(o, r));
}

char *document_problem(int status, const char *title, const char *detail) {
    json_t *o = json_object();
    int r = put(o, "title", text(title));
    r |= put(o, "status", json_integer(status));
    r |= put(o, "detail", text(detail));
    return print(whole(o, r));
}
