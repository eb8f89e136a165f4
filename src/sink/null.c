/* null: a sink that confirms everything at once and publishes nothing */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "sink/confirms.h"
#include "sink/sink.h"

struct null {
    struct sink sink;
    struct confirms *confirms;
    int64_t max_message_bytes;
    bool connected;
    const char *down_reason;
    uint64_t reconnects;
};

static struct null *null_of(const struct sink *s) {
    return (struct null *)s;
}

static void null_close(struct sink *s) {
    confirms_free(null_of(s)->confirms);
    free(s);
}

static int null_open(const struct sink_setup *setup, struct sink **ret_sink) {
    const struct sink_options *options = setup->options;
    struct null *n = calloc(1, sizeof *n);
    if (!n)
        return -ENOMEM;
    n->sink.kind = sink_kind_find(SPAN_LITERAL("null"));
    n->max_message_bytes = options->max_message_bytes;
    int r = confirms_new(setup->in_flight, setup->in_flight, &n->confirms);
    if (r < 0) {
        null_close(&n->sink);
        return r;
    }
    *ret_sink = &n->sink;
    return 0;
}

static int null_poll(struct sink *s, struct pollfd *fds) {
    (void)s, (void)fds;
    return 0;
}

/* At once while there is something to take or to connect. */
static int64_t null_deadline(const struct sink *s) {
    const struct null *n = null_of(s);
    return !n->connected || confirms_answered(n->confirms) > 0 ? 0 : CLOCK_NEVER;
}

static void null_work(struct sink *s, int64_t now_us) {
    (void)now_us;
    null_of(s)->connected = true;
}

static bool null_ready(const struct sink *s) {
    return null_of(s)->connected && confirms_has_room(null_of(s)->confirms);
}

static int null_submit(struct sink *s, const struct event *e, const struct destination *d, uint64_t token,
                       int64_t now_us, struct error *reterr) {
    (void)d;
    struct null *n = null_of(s);
    if (!n->connected)
        return SINK_E_DOWN;
    if (!null_ready(s))
        return SINK_E_BUSY;
    if (event_data(e).len > (size_t)n->max_message_bytes) {
        error_set(reterr, ERROR_PERMANENT, "its data is %zu bytes; max_message_bytes allows %lld", event_data(e).len,
                  (long long)n->max_message_bytes);
        return SINK_E_REJECTED;
    }
    uint64_t tag = confirms_next_tag(n->confirms);
    confirms_publish(n->confirms, token, now_us);
    ASSERT(confirms_ack(n->confirms, tag, false) == 0);
    return 0;
}

static void null_flush(struct sink *s) {
    (void)s;
}

static bool null_next(struct sink *s, struct sink_outcome *ret_outcome) {
    uint64_t token, tag;
    enum confirms_outcome outcome;
    if (!confirms_next(null_of(s)->confirms, &token, &tag, &outcome))
        return false;
    *ret_outcome = (struct sink_outcome){.token = token, .kind = SINK_CONFIRMED};
    return true;
}

/* Nothing is ever open: what was submitted is confirmed. */
static void null_renew(struct sink *s, int64_t now_us, const char *reason) {
    (void)now_us, (void)reason;
    struct null *n = null_of(s);
    n->connected = false;
    n->down_reason = "renewed";
    n->reconnects++;
}

static void null_view(const struct sink *s, struct sink_view *ret_view) {
    const struct null *n = null_of(s);
    *ret_view = (struct sink_view){
        .connected = n->connected,
        .down_reason = n->connected ? NULL : n->down_reason,
        .next_attempt_us = n->connected ? CLOCK_NEVER : 0,
        .reconnects = n->reconnects,
    };
}

static const struct option no_options[] = {OPTION_END};
static const struct destination_field no_fields[] = {{.key = NULL}};

const struct sink_kind sink_kind_null = {
    .name = "null",
    .connection_table = no_options,
    .options_size = sizeof(struct sink_options),
    .options_table = no_options,
    .destination_options_table = no_options,
    .fields = no_fields,
    .default_window_events = 10000,
    .open = null_open,
    .close = null_close,
    .poll = null_poll,
    .deadline = null_deadline,
    .work = null_work,
    .submit = null_submit,
    .flush = null_flush,
    .next = null_next,
    .ready = null_ready,
    .renew = null_renew,
    .view = null_view,
};
