/* rabbitmq: a sink that publishes to RabbitMQ: confirmed, mandatory, persistent */
#include <errno.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "sink/confirms.h"
#include "sink/rabbitmq_connect.h"
#include "sink/rabbitmq_link.h"
#include "sink/rabbitmq_message.h"
#include "sink/rabbitmq_options.h"
#include "sink/rabbitmq_refusals.h"
#include "sink/rabbitmq_returns.h"
#include "sink/sink.h"

/*  dial -> link up, channel READY -> publish … acks, nacks, returns
 *            |        | channel.close (an exchange is missing or forbidden)
 *            |        v
 *            |      CLOSED -> OPENING -> SELECTING -> READY      all open: lost
 *            v
 *          connection.close, socket, heartbeat, ack_timeout -> down, dial again      all open: lost
 */
enum channel_state { CHANNEL_CLOSED, CHANNEL_OPENING, CHANNEL_SELECTING, CHANNEL_READY };

#define FRAMES_AT_ONCE 4096 /* read in one call of work */
#define SPAN_PER_IN_FLIGHT 4
/* What has lived so long was no failed attempt: waits begin at their least again. */
#define STEADY_US (5 * CLOCK_US_PER_S)

static const struct backoff_options connect_waits = {.initial_us = 100000, .max_us = 5000000, .multiplier = 2};
static const struct backoff_options channel_waits = {.initial_us = 50000, .max_us = 1000000, .multiplier = 2};

struct rabbitmq {
    struct sink sink;
    const struct rabbitmq_connection *connection;
    const struct sink_options *options;
    const char *forwarder;
    char *vhost;

    struct dial *dial;
    struct backoff backoff;
    uint32_t turn; /* which host is next */
    int64_t next_attempt_us;
    struct error down; /* why it is not connected */
    bool was_up;
    uint64_t reconnects;

    struct rabbitmq_link link;
    int64_t up_since_us;
    int64_t heartbeat_us; /* half of what was agreed; 0: none */
    int64_t read_by_us;
    bool more_to_read;

    enum channel_state channel;
    int64_t channel_since_us;
    int64_t channel_due_us; /* CLOSED: when to open it; OPENING, SELECTING: when the answer is overdue */
    struct backoff channel_backoff;

    struct confirms *confirms;
    struct rabbitmq_message message; /* scratch */
    struct rabbitmq_returns *returns;
    uint64_t serial_base; /* serial = serial_base + tag: unique in a connection, tags only in a channel */
    struct error lost;    /* why open tokens were lost last */

    bool blocked;
    int64_t blocked_since_us;
    char blocked_reason[RABBITMQ_SHORT_MAX + 1];

    struct rabbitmq_refusals refusals;
    struct dial *probe_dial;
};

static struct rabbitmq *rabbitmq_of(const struct sink *s) {
    return (struct rabbitmq *)s;
}

/* Opening and closing. --------------------------------------------------- */

static void rabbitmq_close(struct sink *s) {
    struct rabbitmq *r = rabbitmq_of(s);
    dial_free(r->dial);
    dial_free(r->probe_dial);
    rabbitmq_link_done(&r->link);
    rabbitmq_message_done(&r->message);
    rabbitmq_returns_free(r->returns);
    confirms_free(r->confirms);
    free(r->vhost);
    free(r);
}

static int make_parts(struct rabbitmq *r, uint32_t in_flight) {
    r->vhost = rabbitmq_vhost(r->connection->uri);
    if (!r->vhost)
        return -ENOMEM;
    int result = dial_new(&rabbitmq_connect_ops, &r->dial);
    if (result == 0)
        result = dial_new(&rabbitmq_probe_ops, &r->probe_dial);
    if (result == 0)
        result = rabbitmq_returns_new(&r->returns);
    if (result == 0)
        result = confirms_new(in_flight, in_flight * SPAN_PER_IN_FLIGHT, &r->confirms);
    return result;
}

static int rabbitmq_open(const struct sink_setup *setup, struct sink **ret_sink) {
    struct rabbitmq *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    r->sink.kind = sink_kind_find(SPAN_LITERAL("rabbitmq"));
    r->connection = setup->connection;
    r->options = setup->options;
    r->forwarder = setup->forwarder;
    backoff_init(&r->backoff, &connect_waits, setup->seed);
    backoff_init(&r->channel_backoff, &channel_waits, setup->seed + 1);
    rabbitmq_link_init(&r->link, setup->guard, (size_t)r->options->max_message_bytes);
    rabbitmq_message_init(&r->message, (size_t)r->options->max_message_bytes);
    int result = make_parts(r, setup->in_flight);
    if (result < 0) {
        rabbitmq_close(&r->sink);
        return result;
    }
    *ret_sink = &r->sink;
    return 0;
}

/* Down and up. ----------------------------------------------------------- */

static bool connected(const struct rabbitmq *r) {
    return r->link.connection != NULL;
}

/* The confirms' clock stands still while the broker can't answer: it has
 * blocked us, or waits for the rest of a large body. */
static void tell_clock(struct rabbitmq *r, int64_t now_us) {
    confirms_blocked(r->confirms, r->blocked || rabbitmq_link_busy(&r->link), now_us);
}

static void lose_open(struct rabbitmq *r, const struct error *why) {
    r->lost = *why;
    r->serial_base += confirms_next_tag(r->confirms) - 1;
    confirms_reset(r->confirms);
}

/* Waits after each round of all hosts, not between them. */
static void plan_attempt(struct rabbitmq *r, int64_t now_us) {
    bool round_is_over = ++r->turn % rabbitmq_call_hosts(r->connection) == 0;
    r->next_attempt_us = now_us + (round_is_over ? backoff_next_us(&r->backoff) : 0);
}

static void go_down(struct rabbitmq *r, int64_t now_us, const struct error *why, bool politely) {
    ASSERT(connected(r));
    rabbitmq_link_down(&r->link, politely);
    r->down = *why;
    r->channel = CHANNEL_CLOSED;
    r->blocked = false;
    r->more_to_read = false;
    lose_open(r, why);
    tell_clock(r, now_us);
    if (now_us - r->up_since_us >= STEADY_US)
        backoff_reset(&r->backoff);
    plan_attempt(r, now_us);
}

static void on_channel_ready(struct rabbitmq *r, int64_t now_us) {
    r->channel = CHANNEL_READY;
    r->channel_since_us = now_us;
    r->channel_due_us = CLOCK_NEVER;
}

static void come_up(struct rabbitmq *r, int64_t now_us, amqp_connection_state_t connection) {
    ASSERT(!connected(r));
    rabbitmq_link_up(&r->link, connection);
    r->up_since_us = now_us;
    r->heartbeat_us = amqp_get_heartbeat(connection) * CLOCK_US_PER_S / 2;
    r->serial_base = 0;
    r->reconnects += r->was_up;
    r->was_up = true;
    r->more_to_read = true; /* frames may have come with the login's */
    on_channel_ready(r, now_us);
}

static void start_attempt(struct rabbitmq *r, int64_t now_us) {
    struct rabbitmq_call *call = NULL;
    int result = rabbitmq_call_new(r->connection, r->forwarder, r->turn, NULL, now_us, &call);
    if (result == 0)
        result = dial_start(r->dial, call);
    if (result == 0)
        return;
    error_set(&r->down, ERROR_RETRY, "can't start to connect: %s", strerrordesc_np(-result));
    plan_attempt(r, now_us);
}

static void take_attempt(struct rabbitmq *r, int64_t now_us) {
    void *connection;
    int result = dial_take(r->dial, &connection, &r->down);
    if (result == 0)
        come_up(r, now_us, connection);
    else if (result == DIAL_E_FAILED)
        plan_attempt(r, now_us);
}

static void work_on_connecting(struct rabbitmq *r, int64_t now_us) {
    if (dial_running(r->dial))
        take_attempt(r, now_us);
    else if (now_us >= r->next_attempt_us)
        start_attempt(r, now_us);
}

/* Frames of the channel. ------------------------------------------------- */

static int send_method(struct rabbitmq *r, amqp_channel_t channel, amqp_method_number_t id, void *decoded, int64_t now_us,
                       struct error *reterr) {
    return rabbitmq_link_send(&r->link, channel, id, decoded, now_us, reterr);
}

/* Everything behind the publish that the broker closed the channel over has
 * vanished with it. */
static int on_channel_close(struct rabbitmq *r, const amqp_channel_close_t *close, int64_t now_us, struct error *reterr) {
    struct span text = {close->reply_text.bytes, close->reply_text.len};
    struct error why;
    rabbitmq_say_close(&why, close->reply_code, close->reply_text);
    error_prefix(&why, "the broker closed the channel");
    bool learned = rabbitmq_refusals_learn(&r->refusals, close->reply_code, text, span_of(r->vhost), now_us);
    bool steady = now_us - r->channel_since_us >= STEADY_US;
    if (learned || steady)
        backoff_reset(&r->channel_backoff);
    r->channel_due_us = now_us + (learned || steady ? 0 : backoff_next_us(&r->channel_backoff));
    r->channel = CHANNEL_CLOSED;
    rabbitmq_link_forget_rest(&r->link);
    lose_open(r, &why);
    tell_clock(r, now_us);
    amqp_channel_close_ok_t ok = {0};
    return send_method(r, RABBITMQ_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok, now_us, reterr);
}

static int open_channel(struct rabbitmq *r, int64_t now_us, struct error *reterr) {
    amqp_channel_open_t method = {.out_of_band = amqp_empty_bytes};
    r->channel = CHANNEL_OPENING;
    r->channel_due_us = now_us + r->connection->connect_timeout_us;
    return send_method(r, RABBITMQ_CHANNEL, AMQP_CHANNEL_OPEN_METHOD, &method, now_us, reterr);
}

static int on_channel_open(struct rabbitmq *r, int64_t now_us, struct error *reterr) {
    amqp_confirm_select_t method = {.nowait = 0};
    r->channel = CHANNEL_SELECTING;
    return send_method(r, RABBITMQ_CHANNEL, AMQP_CONFIRM_SELECT_METHOD, &method, now_us, reterr);
}

/* One that is not known is counted there, and means nothing. */
static void on_ack(struct rabbitmq *r, const amqp_basic_ack_t *ack) {
    (void)!confirms_ack(r->confirms, ack->delivery_tag, ack->multiple);
}

static void on_nack(struct rabbitmq *r, const amqp_basic_nack_t *nack) {
    (void)!confirms_nack(r->confirms, nack->delivery_tag, nack->multiple);
}

static void on_returned_header(struct rabbitmq *r, const amqp_basic_properties_t *properties) {
    uint64_t serial;
    if (rabbitmq_returns_header(r->returns, properties, &serial) == 0 && serial > r->serial_base)
        (void)!confirms_return(r->confirms, serial - r->serial_base);
}

static int on_channel_method(struct rabbitmq *r, const amqp_method_t *method, int64_t now_us, struct error *reterr) {
    switch (method->id) {
    case AMQP_BASIC_ACK_METHOD:
        on_ack(r, method->decoded);
        return 0;
    case AMQP_BASIC_NACK_METHOD:
        on_nack(r, method->decoded);
        return 0;
    case AMQP_BASIC_RETURN_METHOD:
        rabbitmq_returns_method(r->returns, method->decoded);
        return 0;
    case AMQP_CHANNEL_CLOSE_METHOD:
        return on_channel_close(r, method->decoded, now_us, reterr);
    case AMQP_CHANNEL_OPEN_OK_METHOD:
        return on_channel_open(r, now_us, reterr);
    case AMQP_CONFIRM_SELECT_OK_METHOD:
        on_channel_ready(r, now_us);
        return 0;
    default:
        return 0;
    }
}

/* Frames of the connection. ---------------------------------------------- */

static int on_connection_close(struct rabbitmq *r, const amqp_connection_close_t *close, int64_t now_us,
                               struct error *reterr) {
    amqp_connection_close_ok_t ok = {0};
    struct error unused;
    (void)!send_method(r, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok, now_us, &unused);
    rabbitmq_say_close(reterr, close->reply_code, close->reply_text);
    error_prefix(reterr, "the broker closed the connection");
    return -ECONNRESET;
}

static void on_blocked(struct rabbitmq *r, const amqp_connection_blocked_t *blocked, int64_t now_us) {
    if (!r->blocked)
        r->blocked_since_us = now_us;
    r->blocked = true;
    snprintf(r->blocked_reason, sizeof r->blocked_reason, "%.*s", (int)blocked->reason.len,
             blocked->reason.len ? (const char *)blocked->reason.bytes : "");
}

static int on_connection_method(struct rabbitmq *r, const amqp_method_t *method, int64_t now_us, struct error *reterr) {
    switch (method->id) {
    case AMQP_CONNECTION_CLOSE_METHOD:
        return on_connection_close(r, method->decoded, now_us, reterr);
    case AMQP_CONNECTION_BLOCKED_METHOD:
        on_blocked(r, method->decoded, now_us);
        break;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
        r->blocked = false;
        break;
    default:
        break;
    }
    tell_clock(r, now_us);
    return 0;
}

static int on_frame(struct rabbitmq *r, const amqp_frame_t *frame, int64_t now_us, struct error *reterr) {
    switch (frame->frame_type) {
    case AMQP_FRAME_METHOD:
        if (frame->channel == RABBITMQ_CHANNEL)
            return on_channel_method(r, &frame->payload.method, now_us, reterr);
        return on_connection_method(r, &frame->payload.method, now_us, reterr);
    case AMQP_FRAME_HEADER:
        on_returned_header(r, frame->payload.properties.decoded);
        return 0;
    default: /* heartbeats, and the body of what came back */
        return 0;
    }
}

/* Until all that has come is read: with data in the library's buffer the
 * socket may stay silent. */
static int read_frames(struct rabbitmq *r, int64_t now_us, struct error *reterr) {
    r->more_to_read = false;
    r->read_by_us = r->heartbeat_us > 0 ? now_us + r->heartbeat_us : CLOCK_NEVER;
    for (int i = 0; i < FRAMES_AT_ONCE; i++) {
        amqp_frame_t frame;
        int result = rabbitmq_link_read(&r->link, &frame, reterr);
        if (result == RABBITMQ_LINK_E_NOTHING)
            return 0;
        if (result == 0)
            result = on_frame(r, &frame, now_us, reterr);
        if (result < 0)
            return result;
        rabbitmq_link_release(&r->link);
    }
    r->more_to_read = true;
    return 0;
}

/* Work. ------------------------------------------------------------------ */

static int check_overdue(struct rabbitmq *r, int64_t now_us, struct error *reterr) {
    if (now_us >= confirms_deadline_us(r->confirms, r->options->ack_timeout_us)) {
        error_set(reterr, ERROR_RETRY, "no confirm within ack_timeout (%.3g s): connecting anew",
                  (double)r->options->ack_timeout_us / (double)CLOCK_US_PER_S);
        return -ETIMEDOUT;
    }
    if (now_us < r->channel_due_us || r->channel == CHANNEL_READY)
        return 0;
    if (r->channel == CHANNEL_CLOSED)
        return open_channel(r, now_us, reterr);
    error_set(reterr, ERROR_RETRY, "the broker does not answer channel.open");
    return -ETIMEDOUT;
}

static int work_on_link(struct rabbitmq *r, int64_t now_us, struct error *reterr) {
    int result = read_frames(r, now_us, reterr);
    if (result == 0)
        result = rabbitmq_link_continue(&r->link, now_us, reterr);
    if (result < 0)
        return result;
    tell_clock(r, now_us);
    if (r->link.full)
        (void)rabbitmq_link_has_room(&r->link, 1);
    rabbitmq_link_flush(&r->link);
    return check_overdue(r, now_us, reterr);
}

static void take_probe(struct rabbitmq *r, int64_t now_us) {
    void *handle = NULL;
    struct error error;
    int result = dial_take(r->probe_dial, &handle, &error);
    if (result == DIAL_E_RUNNING)
        return;
    CLEANUP(cleanup_free) struct rabbitmq_probe *probe = handle;
    for (uint32_t i = 0; probe && i < probe->count; i++)
        if (probe->exchanges[i].found)
            rabbitmq_refusals_found(&r->refusals, (struct span){probe->exchanges[i].name, probe->exchanges[i].name_len});
    rabbitmq_refusals_put_off(&r->refusals, now_us, result == DIAL_E_FAILED);
}

static void work_on_refusals(struct rabbitmq *r, int64_t now_us) {
    if (dial_running(r->probe_dial))
        return take_probe(r, now_us);
    if (!rabbitmq_refusals_due(&r->refusals, now_us))
        return;
    struct rabbitmq_call *call = NULL;
    int result = rabbitmq_call_new(r->connection, r->forwarder, r->turn, &r->refusals, now_us, &call);
    if (result == 0)
        result = dial_start(r->probe_dial, call);
    if (result < 0)
        rabbitmq_refusals_put_off(&r->refusals, now_us, true);
}

static void rabbitmq_work(struct sink *s, int64_t now_us) {
    struct rabbitmq *r = rabbitmq_of(s);
    if (!connected(r))
        work_on_connecting(r, now_us);
    if (!connected(r))
        return;
    struct error why;
    int result = work_on_link(r, now_us, &why);
    if (result < 0)
        return go_down(r, now_us, &why, result == -ETIMEDOUT);
    work_on_refusals(r, now_us);
}

static int rabbitmq_poll(struct sink *s, struct pollfd *fds) {
    const struct rabbitmq *r = rabbitmq_of(s);
    int count = 0;
    if (dial_running(r->dial))
        fds[count++] = (struct pollfd){.fd = dial_fd(r->dial), .events = POLLIN};
    if (dial_running(r->probe_dial))
        fds[count++] = (struct pollfd){.fd = dial_fd(r->probe_dial), .events = POLLIN};
    bool wants_out = r->link.full && (!r->blocked || rabbitmq_link_busy(&r->link));
    if (connected(r))
        fds[count++] = (struct pollfd){.fd = r->link.fd, .events = wants_out ? POLLIN | POLLOUT : POLLIN};
    return count;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t rabbitmq_deadline(const struct sink *s) {
    const struct rabbitmq *r = rabbitmq_of(s);
    if (confirms_answered(r->confirms) > 0 || r->more_to_read)
        return 0;
    if (!connected(r))
        return dial_running(r->dial) ? CLOCK_NEVER : r->next_attempt_us;
    int64_t due_us = confirms_deadline_us(r->confirms, r->options->ack_timeout_us);
    due_us = earlier(due_us, r->read_by_us);
    due_us = earlier(due_us, r->channel_due_us);
    if (!dial_running(r->probe_dial))
        due_us = earlier(due_us, rabbitmq_refusals_deadline_us(&r->refusals));
    return due_us;
}

/* Publishing. ------------------------------------------------------------ */

static bool rabbitmq_ready(const struct sink *s) {
    const struct rabbitmq *r = rabbitmq_of(s);
    return connected(r) && r->channel == CHANNEL_READY && !r->blocked && !r->link.full &&
           !rabbitmq_link_busy(&r->link) && confirms_has_room(r->confirms);
}

static int build(struct rabbitmq *r, const struct event *e, const struct destination *d, struct error *reterr) {
    const struct rabbitmq_refusal *refusal = rabbitmq_refusals_find(&r->refusals, d->fields[RABBITMQ_EXCHANGE]);
    if (refusal) {
        error_set(reterr, ERROR_RETRY, "%s (tried again by itself)", refusal->reason);
        return SINK_E_RETRY;
    }
    struct rabbitmq_limits limits = {
        .frame_max = r->link.frame_max,
        .max_message_bytes = (size_t)r->options->max_message_bytes,
    };
    const struct binding_options *binding = d->options ? d->options : &r->options->binding;
    uint64_t serial = r->serial_base + confirms_next_tag(r->confirms);
    int result = rabbitmq_message_build(&r->message, &limits, binding, e, d, serial, reterr);
    return result == RABBITMQ_MESSAGE_E_REJECTED ? SINK_E_REJECTED : result;
}

static int rabbitmq_submit(struct sink *s, const struct event *e, const struct destination *d, uint64_t token,
                           int64_t now_us, struct error *reterr) {
    struct rabbitmq *r = rabbitmq_of(s);
    if (!connected(r))
        return SINK_E_DOWN;
    if (!rabbitmq_ready(s))
        return SINK_E_BUSY;
    int result = build(r, e, d, reterr);
    if (result != 0)
        return result;
    if (!rabbitmq_link_has_room(&r->link, r->message.head_bytes))
        return SINK_E_BUSY;
    struct error why;
    result = rabbitmq_link_publish(&r->link, &r->message, now_us, &why);
    if (result == -ENOMEM)
        return result;
    /* With part of it on the wire it is accepted, and lost if that failed. */
    confirms_publish(r->confirms, token, now_us);
    if (result < 0)
        go_down(r, now_us, &why, false);
    else if (rabbitmq_link_busy(&r->link))
        tell_clock(r, now_us);
    return 0;
}

static void rabbitmq_flush(struct sink *s) {
    rabbitmq_link_flush(&rabbitmq_of(s)->link);
}

static const char *reason_of(const struct rabbitmq *r, enum confirms_outcome outcome, uint64_t tag) {
    switch (outcome) {
    case CONFIRMS_CONFIRMED:
        return NULL;
    case CONFIRMS_NACKED:
        return "basic.nack: a queue did not take it (is one full, with overflow: reject-publish?)";
    case CONFIRMS_RETURNED:
        return rabbitmq_returns_reason(r->returns, r->serial_base + tag);
    case CONFIRMS_LOST:
        return r->lost.text;
    }
    return NULL;
}

static enum sink_outcome_kind kind_of(enum confirms_outcome outcome) {
    switch (outcome) {
    case CONFIRMS_CONFIRMED:
        return SINK_CONFIRMED;
    case CONFIRMS_NACKED:
        return SINK_NACKED;
    case CONFIRMS_RETURNED:
        return SINK_RETURNED;
    case CONFIRMS_LOST:
        return SINK_LOST;
    }
    return SINK_LOST;
}

static bool rabbitmq_next(struct sink *s, struct sink_outcome *ret_outcome) {
    const struct rabbitmq *r = rabbitmq_of(s);
    uint64_t token, tag;
    enum confirms_outcome outcome;
    if (!confirms_next(r->confirms, &token, &tag, &outcome))
        return false;
    *ret_outcome = (struct sink_outcome){.token = token, .kind = kind_of(outcome), .reason = reason_of(r, outcome, tag)};
    return true;
}

static void rabbitmq_renew(struct sink *s, int64_t now_us, const char *reason) {
    struct rabbitmq *r = rabbitmq_of(s);
    if (!connected(r))
        return;
    struct error why;
    error_set(&why, ERROR_RETRY, "%s", reason);
    go_down(r, now_us, &why, true);
}

static void rabbitmq_view(const struct sink *s, struct sink_view *ret_view) {
    const struct rabbitmq *r = rabbitmq_of(s);
    bool up = connected(r);
    *ret_view = (struct sink_view){
        .connected = up,
        .blocked = r->blocked,
        .blocked_since_us = r->blocked_since_us,
        .blocked_reason = r->blocked ? r->blocked_reason : NULL,
        .down_reason = up || r->down.class == ERROR_NONE ? NULL : r->down.text,
        .next_attempt_us = up || dial_running(r->dial) ? CLOCK_NEVER : r->next_attempt_us,
        .reconnects = r->reconnects,
        .open_tokens = confirms_open(r->confirms),
    };
}

static const struct option no_options[] = {OPTION_END};

const struct sink_kind sink_kind_rabbitmq = {
    .name = "rabbitmq",
    .connection_size = sizeof(struct rabbitmq_connection),
    .connection_table = rabbitmq_connection_table,
    .check_connection = rabbitmq_connection_check,
    .options_size = sizeof(struct sink_options),
    .options_table = no_options,
    .destination_options_size = sizeof(struct binding_options),
    .destination_options_table = binding_options_table,
    .fields = rabbitmq_fields,
    .default_window_events = 2000,
    .open = rabbitmq_open,
    .close = rabbitmq_close,
    .poll = rabbitmq_poll,
    .deadline = rabbitmq_deadline,
    .work = rabbitmq_work,
    .submit = rabbitmq_submit,
    .flush = rabbitmq_flush,
    .next = rabbitmq_next,
    .ready = rabbitmq_ready,
    .renew = rabbitmq_renew,
    .view = rabbitmq_view,
};
