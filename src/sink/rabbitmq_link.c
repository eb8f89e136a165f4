/* rabbitmq_link: an open connection: frames in and out, none of which is ever waited for */
#include "sink/rabbitmq_link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/log.h"
#include "sink/rabbitmq_connect.h"

/* Linux says POLLOUT while at least a third of the send buffer is free
 * (sk_stream_is_writeable). The kernel counts its own bookkeeping in that
 * buffer too, hence half of the third as budget and a quarter as one chunk. */
enum {
    BUDGET_SHARE = 6,
    CHUNK_SHARE = 12,
    CHUNK_LEAST = 4096,
    FRAME_OVERHEAD = 8,
    REST_KEEP_BYTES = 256 * 1024,
};
/* Sends do not wait, by all that is said above; should one, the main thread ends it. */
#define GUARD_US (5 * CLOCK_US_PER_S)

void rabbitmq_link_init(struct rabbitmq_link *l, struct guard *guard, size_t max_message_bytes) {
    *l = (struct rabbitmq_link){.guard = guard, .fd = -1, .rest = BUF_INIT(max_message_bytes)};
}

void rabbitmq_link_done(struct rabbitmq_link *l) {
    rabbitmq_link_down(l, true);
    buf_done(&l->rest);
}

static size_t send_buffer_bytes(int fd) {
    int bytes = 0;
    socklen_t len = sizeof bytes;
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &len) < 0 || bytes < 0)
        return 0;
    return (size_t)bytes;
}

static size_t between(size_t value, size_t least, size_t most) {
    return value < least ? least : value > most ? most : value;
}

void rabbitmq_link_up(struct rabbitmq_link *l, amqp_connection_state_t connection) {
    ASSERT(!l->connection);
    l->connection = connection;
    l->fd = amqp_get_sockfd(connection);
    l->frame_max = (size_t)amqp_get_frame_max(connection);
    size_t buffer = send_buffer_bytes(l->fd);
    l->chunk_max = between(buffer / CHUNK_SHARE, CHUNK_LEAST, l->frame_max - FRAME_OVERHEAD);
    l->budget_max = between(buffer / BUDGET_SHARE, CHUNK_LEAST, SIZE_MAX);
    l->budget = 0;
    l->full = false;
    l->corked = false;
    guard_watch(l->guard, l->fd);
}

void rabbitmq_link_forget_rest(struct rabbitmq_link *l) {
    buf_clear(&l->rest);
    buf_shrink(&l->rest, REST_KEEP_BYTES);
    l->rest_sent = 0;
}

/* A word to the broker's log; its answer is not waited for. */
static void say_goodbye(struct rabbitmq_link *l) {
    if (rabbitmq_link_busy(l) || !rabbitmq_link_has_room(l, 1))
        return;
    amqp_connection_close_t method = {.reply_code = AMQP_REPLY_SUCCESS, .reply_text = amqp_cstring_bytes("closed by Penstock")};
    (void)amqp_send_method(l->connection, 0, AMQP_CONNECTION_CLOSE_METHOD, &method);
}

void rabbitmq_link_down(struct rabbitmq_link *l, bool politely) {
    if (!l->connection)
        return;
    if (politely)
        say_goodbye(l);
    guard_forget(l->guard, l->fd);
    amqp_destroy_connection(l->connection);
    l->connection = NULL;
    l->fd = -1;
    rabbitmq_link_forget_rest(l);
}

/* Room. ------------------------------------------------------------------ */

bool rabbitmq_link_has_room(struct rabbitmq_link *l, size_t head_bytes) {
    if (head_bytes < l->budget)
        return true;
    struct pollfd fd = {.fd = l->fd, .events = POLLOUT};
    l->full = poll(&fd, 1, 0) <= 0 || !(fd.revents & POLLOUT);
    if (!l->full)
        l->budget = l->budget_max;
    return !l->full;
}

bool rabbitmq_link_busy(const struct rabbitmq_link *l) {
    return l->rest.len > 0;
}

static void spend(struct rabbitmq_link *l, size_t bytes) {
    l->budget -= bytes < l->budget ? bytes : l->budget;
}

/* Frames. ---------------------------------------------------------------- */

static void cork(struct rabbitmq_link *l, int on) {
    if (l->corked == on)
        return;
    (void)!setsockopt(l->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
    l->corked = on;
}

void rabbitmq_link_flush(struct rabbitmq_link *l) {
    if (l->connection)
        cork(l, 0);
}

static int send_frame(struct rabbitmq_link *l, const amqp_frame_t *frame, struct error *reterr) {
    int status = amqp_send_frame(l->connection, frame);
    if (status == AMQP_STATUS_OK)
        return 0;
    rabbitmq_say_status(reterr, status);
    error_prefix(reterr, "sending");
    return -EIO;
}

static int send_method(struct rabbitmq_link *l, amqp_channel_t channel, amqp_method_number_t id, void *decoded,
                       struct error *reterr) {
    amqp_frame_t frame = {
        .frame_type = AMQP_FRAME_METHOD,
        .channel = channel,
        .payload.method = {.id = id, .decoded = decoded},
    };
    return send_frame(l, &frame, reterr);
}

static int send_head(struct rabbitmq_link *l, const struct rabbitmq_message *m, struct error *reterr) {
    amqp_basic_publish_t method = m->method;
    int r = send_method(l, RABBITMQ_CHANNEL, AMQP_BASIC_PUBLISH_METHOD, &method, reterr);
    if (r < 0)
        return r;
    amqp_basic_properties_t properties = m->properties;
    amqp_frame_t frame = {
        .frame_type = AMQP_FRAME_HEADER,
        .channel = RABBITMQ_CHANNEL,
        .payload.properties = {.class_id = AMQP_BASIC_CLASS, .body_size = m->body.len, .decoded = &properties},
    };
    spend(l, m->head_bytes);
    return send_frame(l, &frame, reterr);
}

/* As much of the body as there is room for. */
static int send_body(struct rabbitmq_link *l, amqp_bytes_t body, size_t *sent, struct error *reterr) {
    while (*sent < body.len) {
        size_t len = body.len - *sent < l->chunk_max ? body.len - *sent : l->chunk_max;
        if (!rabbitmq_link_has_room(l, len))
            return 0;
        amqp_frame_t frame = {
            .frame_type = AMQP_FRAME_BODY,
            .channel = RABBITMQ_CHANNEL,
            .payload.body_fragment = {.len = len, .bytes = (char *)body.bytes + *sent},
        };
        int r = send_frame(l, &frame, reterr);
        if (r < 0)
            return r;
        spend(l, len + FRAME_OVERHEAD);
        *sent += len;
    }
    return 0;
}

static int send_message(struct rabbitmq_link *l, const struct rabbitmq_message *m, struct error *reterr) {
    size_t sent = 0;
    int r = send_head(l, m, reterr);
    if (r == 0)
        r = send_body(l, m->body, &sent, reterr);
    if (r < 0 || sent == m->body.len)
        return r;
    /* Room for it was reserved before the first byte went out. */
    return buf_add(&l->rest, (const char *)m->body.bytes + sent, m->body.len - sent);
}

int rabbitmq_link_publish(struct rabbitmq_link *l, const struct rabbitmq_message *m, int64_t now_us,
                          struct error *reterr) {
    ASSERT(l->connection);
    ASSERT(!rabbitmq_link_busy(l));
    if (m->head_bytes + m->body.len + FRAME_OVERHEAD >= l->budget) {
        int r = buf_reserve(&l->rest, m->body.len);
        if (r < 0)
            return r;
    }
    cork(l, 1);
    guard_arm(l->guard, l->fd, now_us + GUARD_US);
    int r = send_message(l, m, reterr);
    guard_disarm(l->guard);
    return r;
}

int rabbitmq_link_continue(struct rabbitmq_link *l, int64_t now_us, struct error *reterr) {
    if (!rabbitmq_link_busy(l))
        return 0;
    amqp_bytes_t body = {.len = l->rest.len, .bytes = l->rest.data};
    guard_arm(l->guard, l->fd, now_us + GUARD_US);
    int r = send_body(l, body, &l->rest_sent, reterr);
    guard_disarm(l->guard);
    if (r == 0 && l->rest_sent == l->rest.len)
        rabbitmq_link_forget_rest(l);
    return r;
}

int rabbitmq_link_send(struct rabbitmq_link *l, amqp_channel_t channel, amqp_method_number_t id, void *decoded,
                       int64_t now_us, struct error *reterr) {
    guard_arm(l->guard, l->fd, now_us + GUARD_US);
    int r = send_method(l, channel, id, decoded, reterr);
    guard_disarm(l->guard);
    return r;
}

int rabbitmq_link_read(struct rabbitmq_link *l, amqp_frame_t *ret_frame, struct error *reterr) {
    struct timeval nothing = {0};
    int status = amqp_simple_wait_frame_noblock(l->connection, ret_frame, &nothing);
    if (status == AMQP_STATUS_OK)
        return 0;
    if (status == AMQP_STATUS_TIMEOUT)
        return RABBITMQ_LINK_E_NOTHING;
    rabbitmq_say_status(reterr, status);
    return -EIO;
}

void rabbitmq_link_release(struct rabbitmq_link *l) {
    amqp_maybe_release_buffers(l->connection);
}
