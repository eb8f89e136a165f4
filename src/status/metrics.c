/* metrics: what the forwarders tell -> the text that Prometheus and OpenMetrics scrapers read */
#include "status/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"

/* What is asked for, and what is written so far. After a failure the rest writes nothing. */
struct writer {
    const struct document_daemon *daemon;
    int64_t now_us, wall_us;
    struct buf text;
    int r;
};

static void put_bytes(struct writer *w, const char *bytes, size_t len) {
    if (w->r == 0)
        w->r = buf_add(&w->text, bytes, len);
}

static void put(struct writer *w, const char *format, ...) PRINTF_LIKE(2, 3);

static void put(struct writer *w, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ASSERT(len >= 0 && (size_t)len < sizeof line);
    put_bytes(w, line, (size_t)len);
}

/* Of a label, in its quotes; the formats escape these three and take any other character of UTF-8. */
static void put_quoted(struct writer *w, const char *value) {
    const char *end = value + strlen(value);
    while (value < end) {
        uint32_t code;
        size_t bytes = utf8_next(value, end, &code);
        if (*value == '"' || *value == '\\' || *value == '\n')
            put_bytes(w, "\\", 1);
        if (bytes == 0)
            put_bytes(w, "?", bytes = 1);
        else
            put_bytes(w, *value == '\n' ? "n" : value, bytes);
        value += bytes;
    }
}

/* "name{forwarder="…"", where more labels may follow. */
static void put_name(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put(w, "%s{forwarder=\"", name);
    put_quoted(w, s->name);
    put(w, "\"");
}

static void put_number(struct writer *w, const char *name, const struct forwarder_stats *s, uint64_t number) {
    put_name(w, name, s);
    put(w, "} %" PRIu64 "\n", number);
}

static void put_labelled(struct writer *w, const char *name, const struct forwarder_stats *s, const char *label,
                         const char *value, uint64_t number) {
    put_name(w, name, s);
    put(w, ",%s=\"%s\"} %" PRIu64 "\n", label, value, number);
}

static void put_position(struct writer *w, const char *name, const struct forwarder_stats *s, int64_t position) {
    if (position == INT64_MIN)
        return;
    put_name(w, name, s);
    put(w, "} %" PRId64 "\n", position);
}

/* As OpenMetrics wants the label `le` written: 0.0005, 1.0, 300.0. */
static void put_bound(struct writer *w, int64_t bound_us) {
    char text[32];
    int len = snprintf(text, sizeof text, "%" PRId64 ".%06d", bound_us / CLOCK_US_PER_S, (int)(bound_us % CLOCK_US_PER_S));
    while (text[len - 1] == '0' && text[len - 2] != '.')
        text[--len] = '\0';
    put(w, "%s", text);
}

static void put_histogram(struct writer *w, const char *name, const struct forwarder_stats *s, const struct histogram *h) {
    char bucket[64], sum[64], count[64];
    snprintf(bucket, sizeof bucket, "%s_bucket", name);
    snprintf(sum, sizeof sum, "%s_sum", name);
    snprintf(count, sizeof count, "%s_count", name);
    uint64_t so_far = 0;
    for (size_t i = 0; i <= HISTOGRAM_BUCKETS; i++) {
        so_far += h->counts[i];
        put_name(w, bucket, s);
        put(w, ",le=\"");
        if (i < HISTOGRAM_BUCKETS)
            put_bound(w, histogram_bound_us(i));
        else
            put(w, "+Inf");
        put(w, "\"} %" PRIu64 "\n", so_far);
    }
    put_name(w, sum, s);
    put(w, "} %.6f\n", (double)h->sum_us / (double)CLOCK_US_PER_S);
    put_number(w, count, s, so_far);
}

/* The families. ----------------------------------------------------------- */

static void put_events(struct writer *w, const char *name, const struct forwarder_stats *s) {
    const struct forwarder_counts *c = &s->counts;
    const struct {
        const char *outcome;
        uint64_t count;
    } all[] = {
        {"read", c->read},         {"filtered", c->filtered}, {"published", c->published}, {"confirmed", c->confirmed},
        {"returned", c->returned}, {"nacked", c->nacked},     {"retried", c->retried},     {"rejected", c->rejected},
        {"unmatched", c->unmatched}, {"skipped", c->skipped}, {"parked", c->parked},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        put_labelled(w, name, s, "outcome", all[i].outcome, all[i].count);
}

static void put_state(struct writer *w, const char *name, const struct forwarder_stats *s) {
    for (enum forwarder_state state = 0; state < FORWARDER_STATE_COUNT; state++)
        put_labelled(w, name, s, "state", forwarder_state_name(state), s->state == state);
}

static void put_healthy(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_number(w, name, s, forwarder_stats_healthy(s, w->now_us, w->daemon->health_max_age_us, NULL));
}

static void put_lag(struct writer *w, const char *name, const struct forwarder_stats *s) {
    if (!forwarder_stats_lag_known(s))
        return;
    put_name(w, name, s);
    put(w, "} %.3f\n", forwarder_stats_lag_seconds(s, w->now_us, w->wall_us));
}

static void put_checkpoint_position(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_position(w, name, s, s->checkpoint_position);
}

static void put_read_position(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_position(w, name, s, s->read_position);
}

static void put_window_events(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_number(w, name, s, s->window_events);
}

static void put_window_bytes(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_number(w, name, s, s->window_bytes);
}

static void put_unsaved(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_number(w, name, s, s->window_unsaved);
}

static void put_reconnects(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_labelled(w, name, s, "peer", "database", s->counts.reconnects_database);
    put_labelled(w, name, s, "peer", "broker", s->counts.reconnects_sink);
}

static void put_writes(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_number(w, name, s, s->counts.checkpoint_writes);
}

static void put_read_times(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_histogram(w, name, s, &s->times.read);
}

static void put_confirm_times(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_histogram(w, name, s, &s->times.confirm);
}

static void put_save_times(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_histogram(w, name, s, &s->times.save);
}

static void put_delivery_times(struct writer *w, const char *name, const struct forwarder_stats *s) {
    put_histogram(w, name, s, &s->times.delivery);
}

static const struct family {
    const char *name, *type, *unit, *help;
    void (*put)(struct writer *w, const char *name, const struct forwarder_stats *s);
} families[] = {
    {"penstock_events_total", "counter", NULL, "Events by what became of them; confirms and refusals for each destination.",
     put_events},
    {"penstock_lag_seconds", "gauge", "seconds", "Age of the oldest event that has not settled.", put_lag},
    {"penstock_healthy", "gauge", NULL, "1 while the forwarder is healthy.", put_healthy},
    {"penstock_state", "gauge", NULL, "1 for the state that the forwarder is in.", put_state},
    {"penstock_checkpoint_position", "gauge", NULL, "Highest position settled in order and saved.", put_checkpoint_position},
    {"penstock_read_position", "gauge", NULL, "Position of the row that was read last.", put_read_position},
    {"penstock_window_events", "gauge", NULL, "Events read and not settled.", put_window_events},
    {"penstock_window_bytes", "gauge", "bytes", "Their bytes.", put_window_bytes},
    {"penstock_unsaved_events", "gauge", NULL, "Events settled and not yet behind the saved checkpoint.", put_unsaved},
    {"penstock_reconnects_total", "counter", NULL, "Connections made again, by peer.", put_reconnects},
    {"penstock_checkpoint_writes_total", "counter", NULL, "Saves of the checkpoint.", put_writes},
    {"penstock_read_seconds", "histogram", "seconds", "From asking for rows until the last of them.", put_read_times},
    {"penstock_confirm_seconds", "histogram", "seconds", "From handing an event to the broker until its confirm.",
     put_confirm_times},
    {"penstock_save_seconds", "histogram", "seconds", "Writes of the checkpoint.", put_save_times},
    {"penstock_delivery_seconds", "histogram", "seconds", "From the row's recorded time until the broker's confirm.",
     put_delivery_times},
};

/* In OpenMetrics the family of a counter is called without _total, and build
 * information is a type of its own. */
static void put_head(struct writer *w, enum metrics_format format, const char *name, const char *type, const char *unit,
                     const char *help) {
    size_t len = strlen(name);
    bool open = format == METRICS_OPENMETRICS;
    if (open && strcmp(type, "counter") == 0)
        len -= strlen("_total");
    if (open && strcmp(type, "info") == 0)
        len -= strlen("_info");
    put(w, "# HELP %.*s %s\n", (int)len, name, help);
    put(w, "# TYPE %.*s %s\n", (int)len, name, !open && strcmp(type, "info") == 0 ? "gauge" : type);
    if (open && unit)
        put(w, "# UNIT %.*s %s\n", (int)len, name, unit);
}

char *metrics_text(enum metrics_format format, const struct document_daemon *d, const struct forwarder_stats *stats,
                   size_t count, int64_t now_us, int64_t wall_us) {
    struct writer w = {.daemon = d, .now_us = now_us, .wall_us = wall_us, .text = BUF_INIT(DOCUMENT_MAX_BYTES)};
    put_head(&w, format, "penstock_build_info", "info", NULL, "The version that runs.");
    put(&w, "penstock_build_info{version=\"");
    put_quoted(&w, d->version);
    put(&w, "\"} 1\n");
    for (size_t i = 0; i < ARRAY_LENGTH(families); i++) {
        const struct family *f = &families[i];
        put_head(&w, format, f->name, f->type, f->unit, f->help);
        for (size_t j = 0; j < count; j++)
            f->put(&w, f->name, &stats[j]);
    }
    if (format == METRICS_OPENMETRICS)
        put(&w, "# EOF\n");
    if (w.r == 0)
        w.r = buf_terminate(&w.text);
    if (w.r != 0)
        buf_done(&w.text);
    return w.text.data;
}

/* What the scraper wants. ------------------------------------------------- */

static size_t skip_blanks(const char *s) {
    return strspn(s, " \t");
}

/* "0", "0.5", "1.000": at most three digits (section 12.4.2), in thousandths. */
static int read_quality(const char *p) {
    int quality = *p == '1' ? 1000 : 0;
    if (*p != '0' || p[1] != '.')
        return quality;
    p += 2;
    for (int worth = 100; worth > 0 && *p >= '0' && *p <= '9'; worth /= 10)
        quality += (*p++ - '0') * worth;
    return quality;
}

/* "; q=0.5" somewhere in the parameters; 1000 if it isn't there. */
static int quality_of(const char *parameters, size_t len) {
    for (const char *p = memchr(parameters, ';', len); p; p = memchr(p, ';', len - (size_t)(p - parameters))) {
        p++;
        p += skip_blanks(p);
        if ((*p == 'q' || *p == 'Q') && p[1] == '=')
            return read_quality(p + 2);
    }
    return 1000;
}

/* How much that media type is wanted; 0: not at all, or not named. */
static int wanted(const char *accept, const char *type) {
    int most = 0;
    while (*accept) {
        accept += skip_blanks(accept);
        size_t len = strcspn(accept, ","), name = strcspn(accept, ",; \t");
        int quality = quality_of(accept, len);
        if (name == strlen(type) && strncasecmp(accept, type, name) == 0 && quality > most)
            most = quality;
        accept += len;
        accept += *accept == ',';
    }
    return most;
}

enum metrics_format metrics_format_of(const char *accept) {
    int open = accept ? wanted(accept, "application/openmetrics-text") : 0;
    return open > 0 && open >= wanted(accept, "text/plain") ? METRICS_OPENMETRICS : METRICS_PROMETHEUS;
}

const char *metrics_media_type(enum metrics_format format) {
    switch (format) {
    case METRICS_PROMETHEUS:
        return "text/plain; version=0.0.4; charset=utf-8";
    case METRICS_OPENMETRICS:
        break;
    }
    return "application/openmetrics-text; version=1.0.0; charset=utf-8";
}
