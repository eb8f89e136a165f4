/* rabbitmq_session: what happens on one connection: its channel, publishes, confirms, returns, blocking */
#include "sink/rabbitmq_session.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "sink/rabbitmq_connect.h"

#define FRAMES_AT_ONCE 4096 /* read in one call of work */
#define SPAN_PER_IN_FLIGHT 4
/* A channel that has lived so long was no failed attempt: waits begin at their least again. */
#define STEADY_US (5 * CLOCK_US_PER_S)

static const struct backoff_options channel_waits = {.initial_us = 50000, .max_us = 1000000, .multiplier = 2};

int rabbitmq_session_init(struct rabbitmq_session *r, const struct sink_setup *setup) {
    const struct rabbitmq_connection *connection = setup->connection;
    *r = (struct rabbitmq_session){
        .options = setup->options,
        .answer_timeout_us = connection->connect_timeout_us,
        .vhost = rabbitmq_vhost(connection->uri),
        .tls = strncmp(connection->uri, "amqps:", 6) == 0,
    };
    size_t max_message_bytes = (size_t)r->options->max_message_bytes;
    backoff_init(&r->channel_backoff, &channel_waits, setup->seed);
    rabbitmq_link_init(&r->link, setup->guard, max_message_bytes);
    rabbitmq_message_init(&r->message, max_message_bytes);
    if (!r->vhost)
        return -ENOMEM;
    int result = rabbitmq_returns_new(&r->returns);
    if (result == 0)
        result = confirms_new(setup->in_flight, setup->in_flight * SPAN_PER_IN_FLIGHT, &r->confirms);
    return result;
}

void rabbitmq_session_done(struct rabbitmq_session *r) {
    rabbitmq_link_done(&r->link);
    rabbitmq_message_done(&r->message);
    rabbitmq_returns_free(r->returns);
    confirms_free(r->confirms);
    free(r->vhost);
}

bool rabbitmq_session_is_up(const struct rabbitmq_session *r) {
    return r->link.connection != NULL;
}

/* The confirms' clock stands still while the broker can't answer: it has
 * blocked us, or waits for the rest of a large body. */
static void tell_clock(struct rabbitmq_session *r, int64_t now_us) {
    confirms_blocked(r->confirms, r->blocked || rabbitmq_link_busy(&r->link), now_us);
}

static void lose_open(struct rabbitmq_session *r, const struct error *why) {
    r->lost = *why;
    r->serial_base += confirms_next_tag(r->confirms) - 1;
    confirms_reset(r->confirms);
}

static void on_channel_ready(struct rabbitmq_session *r, int64_t now_us) {
    r->channel = RABBITMQ_CHANNEL_READY;
    r->channel_since_us = now_us;
    r->channel_due_us = CLOCK_NEVER;
}

int rabbitmq_session_up(struct rabbitmq_session *r, amqp_connection_state_t connection, int64_t now_us,
                        struct error *reterr) {
    ASSERT(!rabbitmq_session_is_up(r));
    ASSERT(confirms_open(r->confirms) == 0);
    int result = rabbitmq_link_up(&r->link, connection, r->tls, now_us, reterr);
    if (result < 0)
        return result;
    r->serial_base = 0;
    r->more_to_read = true; /* frames may have come with the login's */
    on_channel_ready(r, now_us);
    return 0;
}

void rabbitmq_session_down(struct rabbitmq_session *r, int64_t now_us, const struct error *why, bool politely) {
    ASSERT(rabbitmq_session_is_up(r));
    rabbitmq_link_down(&r->link, politely);
    r->channel = RABBITMQ_CHANNEL_CLOSED;
    r->channel_due_us = CLOCK_NEVER;
    r->blocked = false;
    r->more_to_read = false;
    lose_open(r, why);
    tell_clock(r, now_us);
    ASSERT(confirms_open(r->confirms) == 0);
}

/* Frames of the channel. ------------------------------------------------- */

static int send_method(struct rabbitmq_session *r, amqp_channel_t channel, amqp_method_number_t id, void *decoded, int64_t now_us,
                       struct error *reterr) {
    return rabbitmq_link_send(&r->link, channel, id, decoded, now_us, reterr);
}

/* Everything behind the publish that the broker closed the channel over has
 * vanished with it. */
static int on_channel_close(struct rabbitmq_session *r, const amqp_channel_close_t *close, int64_t now_us, struct error *reterr) {
    struct span text = {close->reply_text.bytes, close->reply_text.len};
    struct error why;
    rabbitmq_say_close(&why, close->reply_code, close->reply_text);
    error_prefix(&why, "the broker closed the channel");
    bool learned = rabbitmq_refusals_learn(&r->refusals, close->reply_code, text, span_of(r->vhost), now_us);
    bool steady = now_us - r->channel_since_us >= STEADY_US;
    if (learned || steady)
        backoff_reset(&r->channel_backoff);
    r->channel_due_us = now_us + (learned || steady ? 0 : backoff_next_us(&r->channel_backoff));
    r->channel = RABBITMQ_CHANNEL_CLOSED;
    rabbitmq_link_forget_body(&r->link);
    lose_open(r, &why);
    tell_clock(r, now_us);
    amqp_channel_close_ok_t ok = {0};
    return send_method(r, RABBITMQ_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok, now_us, reterr);
}

static int open_channel(struct rabbitmq_session *r, int64_t now_us, struct error *reterr) {
    amqp_channel_open_t method = {.out_of_band = amqp_empty_bytes};
    r->channel = RABBITMQ_CHANNEL_OPENING;
    r->channel_due_us = now_us + r->answer_timeout_us;
    return send_method(r, RABBITMQ_CHANNEL, AMQP_CHANNEL_OPEN_METHOD, &method, now_us, reterr);
}

static int on_channel_open(struct rabbitmq_session *r, int64_t now_us, struct error *reterr) {
    amqp_confirm_select_t method = {.nowait = 0};
    r->channel = RABBITMQ_CHANNEL_SELECTING;
    return send_method(r, RABBITMQ_CHANNEL, AMQP_CONFIRM_SELECT_METHOD, &method, now_us, reterr);
}

/* One that is not known is counted there, and means nothing. */
static void on_ack(struct rabbitmq_session *r, const amqp_basic_ack_t *ack) {
    (void)!confirms_ack(r->confirms, ack->delivery_tag, ack->multiple);
}

static void on_nack(struct rabbitmq_session *r, const amqp_basic_nack_t *nack) {
    (void)!confirms_nack(r->confirms, nack->delivery_tag, nack->multiple);
}

static void on_returned_header(struct rabbitmq_session *r, const amqp_basic_properties_t *properties) {
    uint64_t serial;
    if (rabbitmq_returns_header(r->returns, properties, &serial) == 0 && serial > r->serial_base)
        (void)!confirms_return(r->confirms, serial - r->serial_base);
}

static int on_channel_method(struct rabbitmq_session *r, const amqp_method_t *method, int64_t now_us, struct error *reterr) {
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

static int on_connection_close(struct rabbitmq_session *r, const amqp_connection_close_t *close, int64_t now_us,
                               struct error *reterr) {
    amqp_connection_close_ok_t ok = {0};
    struct error unused;
    (void)!send_method(r, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok, now_us, &unused);
    rabbitmq_say_close(reterr, close->reply_code, close->reply_text);
    error_prefix(reterr, "the broker closed the connection");
    return -ECONNRESET;
}

static void on_blocked(struct rabbitmq_session *r, const amqp_connection_blocked_t *blocked, int64_t now_us) {
    if (!r->blocked)
        r->blocked_since_us = now_us;
    r->blocked = true;
    static const char unknown[] = "no reason given";
    bool told = blocked->reason.len > 0;
    snprintf(r->blocked_reason, sizeof r->blocked_reason, "it has told us to stop publishing: %.*s",
             told ? (int)blocked->reason.len : (int)sizeof unknown - 1, told ? (const char *)blocked->reason.bytes : unknown);
}

static int on_connection_method(struct rabbitmq_session *r, const amqp_method_t *method, int64_t now_us, struct error *reterr) {
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

static int on_frame(struct rabbitmq_session *r, const amqp_frame_t *frame, int64_t now_us, struct error *reterr) {
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
static int read_frames(struct rabbitmq_session *r, int64_t now_us, struct error *reterr) {
    if (!rabbitmq_link_listen(&r->link, now_us) && !r->more_to_read)
        return 0;
    r->more_to_read = false;
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

static int check_overdue(struct rabbitmq_session *r, int64_t now_us, struct error *reterr) {
    if (now_us >= confirms_deadline_us(r->confirms, r->options->ack_timeout_us)) {
        error_set(reterr, ERROR_RETRY, "no confirm within ack_timeout (%.3g s): connecting anew",
                  (double)r->options->ack_timeout_us / (double)CLOCK_US_PER_S);
        return -ETIMEDOUT;
    }
    if (now_us < r->channel_due_us || r->channel == RABBITMQ_CHANNEL_READY)
        return 0;
    if (r->channel == RABBITMQ_CHANNEL_CLOSED)
        return open_channel(r, now_us, reterr);
    error_set(reterr, ERROR_RETRY, "the broker does not answer channel.open");
    return -ETIMEDOUT;
}

int rabbitmq_session_flush(struct rabbitmq_session *r, int64_t now_us, struct error *reterr) {
    int result = rabbitmq_link_flush(&r->link, now_us, reterr);
    tell_clock(r, now_us);
    return result;
}

int rabbitmq_session_work(struct rabbitmq_session *r, int64_t now_us, struct error *reterr) {
    int result = read_frames(r, now_us, reterr);
    if (result == 0)
        result = rabbitmq_session_flush(r, now_us, reterr);
    if (result == 0)
        result = rabbitmq_link_beat(&r->link, now_us, reterr);
    if (result == 0)
        result = check_overdue(r, now_us, reterr);
    return result;
}

int64_t rabbitmq_session_deadline_us(const struct rabbitmq_session *r) {
    if (confirms_answered(r->confirms) > 0 || r->more_to_read || rabbitmq_link_gathered(&r->link))
        return 0;
    if (!rabbitmq_session_is_up(r))
        return CLOCK_NEVER;
    int64_t due_us = confirms_deadline_us(r->confirms, r->options->ack_timeout_us);
    int64_t beat_us = rabbitmq_link_beat_us(&r->link);
    due_us = beat_us < due_us ? beat_us : due_us;
    return r->channel_due_us < due_us ? r->channel_due_us : due_us;
}

short rabbitmq_session_events(const struct rabbitmq_session *r) {
    return r->link.full ? POLLIN | POLLOUT : POLLIN;
}

/* Publishing. ------------------------------------------------------------ */

bool rabbitmq_session_ready(const struct rabbitmq_session *r) {
    return r->channel == RABBITMQ_CHANNEL_READY && !r->blocked && !r->link.full && !rabbitmq_link_busy(&r->link) &&
           confirms_has_room(r->confirms);
}

static int build(struct rabbitmq_session *r, const struct event *e, const struct destination *d, struct error *reterr) {
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

int rabbitmq_session_publish(struct rabbitmq_session *r, const struct event *e, const struct destination *d,
                             uint64_t token, int64_t now_us, struct error *reterr) {
    ASSERT(rabbitmq_session_ready(r));
    int result = build(r, e, d, reterr);
    if (result != 0)
        return result;
    if (!rabbitmq_link_has_room(&r->link, r->message.head_bytes))
        return SINK_E_BUSY;
    result = rabbitmq_link_publish(&r->link, &r->message, now_us, reterr);
    if (result == -ENOMEM)
        return result;
    /* With part of it on the wire it is taken, and lost if that failed. */
    confirms_publish(r->confirms, token, now_us);
    tell_clock(r, now_us);
    return result;
}

/* Outcomes. -------------------------------------------------------------- */

static const char *reason_of(const struct rabbitmq_session *r, enum confirms_outcome outcome, uint64_t tag) {
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

bool rabbitmq_session_next(struct rabbitmq_session *r, struct sink_outcome *ret_outcome) {
    uint64_t token, tag;
    enum confirms_outcome outcome;
    if (!confirms_next(r->confirms, &token, &tag, &outcome))
        return false;
    *ret_outcome = (struct sink_outcome){.token = token, .kind = kind_of(outcome), .reason = reason_of(r, outcome, tag)};
    return true;
}
