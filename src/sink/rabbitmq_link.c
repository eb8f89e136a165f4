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
#include "sink/rabbitmq_frame.h"

enum {
    OUT_GATHER_BYTES = 64 * 1024, /* so much is sent without waiting for flush */
    OUT_KEEP_BYTES = 256 * 1024,
    OUT_HEAD_BYTES = 4 * RABBITMQ_FRAME_MAX, /* besides the largest body */
    BODY_LARGE_BYTES = 128 * 1024,
};

/* TLS. Linux says POLLOUT while at least a third of the send buffer is free
 * (sk_stream_is_writeable). The kernel counts its own bookkeeping in that
 * buffer too, hence half of the third as budget and a quarter as one chunk. */
enum { BUDGET_SHARE = 6, CHUNK_SHARE = 12, CHUNK_LEAST = 4096 };
/* Sends don't wait, by all that is said above; should one, the main thread ends it. */
#define GUARD_US (5 * CLOCK_US_PER_S)

void rabbitmq_link_init(struct rabbitmq_link *l, struct guard *guard, size_t max_message_bytes) {
    /* The body's frames add 8 bytes for every 4 KiB at most (frame-max-min, AMQP 0-9-1 4.2.3). */
    size_t most = OUT_GATHER_BYTES + OUT_HEAD_BYTES + max_message_bytes + max_message_bytes / 256;
    *l = (struct rabbitmq_link){.guard = guard, .fd = -1, .out = BUF_INIT(most)};
}

void rabbitmq_link_done(struct rabbitmq_link *l) {
    rabbitmq_link_down(l, true);
    buf_done(&l->out);
}

static size_t waiting_bytes(const struct rabbitmq_link *l) {
    return l->out.len - l->out_sent;
}

static void clear_out(struct rabbitmq_link *l) {
    buf_clear(&l->out);
    buf_shrink(&l->out, OUT_KEEP_BYTES);
    l->out_sent = 0;
}

void rabbitmq_link_forget_body(struct rabbitmq_link *l) {
    if (l->tls)
        clear_out(l);
}

bool rabbitmq_link_busy(const struct rabbitmq_link *l) {
    return l->tls ? l->out.len > 0 : waiting_bytes(l) > BODY_LARGE_BYTES;
}

/* TCP. ------------------------------------------------------------------- */

static int pump(struct rabbitmq_link *l, int64_t now_us, struct error *reterr) {
    l->full = false;
    while (waiting_bytes(l) > 0) {
        ssize_t sent = send(l->fd, l->out.data + l->out_sent, waiting_bytes(l), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            l->out_sent += (size_t)sent;
            l->sent_us = now_us;
        } else if (errno == EAGAIN) {
            l->full = true;
            return 0;
        } else if (errno != EINTR) {
            error_set(reterr, ERROR_RETRY, "sending: %s", strerrordesc_np(errno));
            return -EIO;
        }
    }
    clear_out(l);
    return 0;
}

/* TLS. ------------------------------------------------------------------- */

static void cork(struct rabbitmq_link *l, int on) {
    if (l->corked == on)
        return;
    (void)!setsockopt(l->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
    l->corked = on;
}

static void spend(struct rabbitmq_link *l, size_t bytes) {
    l->budget -= bytes < l->budget ? bytes : l->budget;
}

static bool tls_has_room(struct rabbitmq_link *l, size_t bytes) {
    if (bytes < l->budget)
        return true;
    struct pollfd fd = {.fd = l->fd, .events = POLLOUT};
    l->full = poll(&fd, 1, 0) <= 0 || !(fd.revents & POLLOUT);
    if (!l->full)
        l->budget = l->budget_max;
    return !l->full;
}

static int tls_send(struct rabbitmq_link *l, const amqp_frame_t *frame, int64_t now_us, struct error *reterr) {
    guard_arm(l->guard, l->fd, now_us + GUARD_US);
    int status = amqp_send_frame(l->connection, frame);
    guard_disarm(l->guard);
    l->sent_us = now_us;
    if (status == AMQP_STATUS_OK)
        return 0;
    rabbitmq_say_status(reterr, status);
    error_prefix(reterr, "sending");
    return -EIO;
}

static int tls_send_method(struct rabbitmq_link *l, amqp_channel_t channel, amqp_method_number_t id, void *decoded,
                           int64_t now_us, struct error *reterr) {
    amqp_frame_t frame = {
        .frame_type = AMQP_FRAME_METHOD,
        .channel = channel,
        .payload.method = {.id = id, .decoded = decoded},
    };
    return tls_send(l, &frame, now_us, reterr);
}

static int tls_send_head(struct rabbitmq_link *l, const struct rabbitmq_message *m, int64_t now_us, struct error *reterr) {
    amqp_basic_publish_t method = m->method;
    int r = tls_send_method(l, RABBITMQ_CHANNEL, AMQP_BASIC_PUBLISH_METHOD, &method, now_us, reterr);
    if (r < 0)
        return r;
    amqp_basic_properties_t properties = m->properties;
    amqp_frame_t frame = {
        .frame_type = AMQP_FRAME_HEADER,
        .channel = RABBITMQ_CHANNEL,
        .payload.properties = {.class_id = AMQP_BASIC_CLASS, .body_size = m->body.len, .decoded = &properties},
    };
    spend(l, m->head_bytes);
    return tls_send(l, &frame, now_us, reterr);
}

/* As much of the body as there is room for. */
static int tls_send_body(struct rabbitmq_link *l, amqp_bytes_t body, size_t *sent, int64_t now_us, struct error *reterr) {
    while (*sent < body.len) {
        size_t len = body.len - *sent < l->chunk_max ? body.len - *sent : l->chunk_max;
        if (!tls_has_room(l, len))
            return 0;
        amqp_frame_t frame = {
            .frame_type = AMQP_FRAME_BODY,
            .channel = RABBITMQ_CHANNEL,
            .payload.body_fragment = {.len = len, .bytes = (char *)body.bytes + *sent},
        };
        int r = tls_send(l, &frame, now_us, reterr);
        if (r < 0)
            return r;
        spend(l, len + RABBITMQ_FRAME_OVERHEAD);
        *sent += len;
    }
    return 0;
}

static int tls_publish(struct rabbitmq_link *l, const struct rabbitmq_message *m, int64_t now_us, struct error *reterr) {
    ASSERT(l->out.len == 0);
    /* Room for the rest, before the first byte goes out. */
    int r = m->head_bytes + m->body.len + RABBITMQ_FRAME_OVERHEAD < l->budget ? 0 : buf_reserve(&l->out, m->body.len);
    if (r < 0)
        return r;
    size_t sent = 0;
    cork(l, 1);
    r = tls_send_head(l, m, now_us, reterr);
    if (r == 0)
        r = tls_send_body(l, m->body, &sent, now_us, reterr);
    if (r < 0 || sent == m->body.len)
        return r;
    return buf_add(&l->out, (const char *)m->body.bytes + sent, m->body.len - sent);
}

static int tls_flush(struct rabbitmq_link *l, int64_t now_us, struct error *reterr) {
    amqp_bytes_t rest = {.len = l->out.len, .bytes = l->out.data};
    int r = tls_send_body(l, rest, &l->out_sent, now_us, reterr);
    if (r == 0 && waiting_bytes(l) == 0)
        clear_out(l);
    if (l->full)
        (void)tls_has_room(l, 1);
    cork(l, 0);
    return r;
}

/* Both. ------------------------------------------------------------------ */

bool rabbitmq_link_has_room(struct rabbitmq_link *l, size_t head_bytes) {
    return l->tls ? tls_has_room(l, head_bytes) : !l->full;
}

int rabbitmq_link_publish(struct rabbitmq_link *l, const struct rabbitmq_message *m, int64_t now_us,
                          struct error *reterr) {
    ASSERT(l->connection);
    if (l->tls)
        return tls_publish(l, m, now_us, reterr);
    int r = rabbitmq_frame_message(&l->out, RABBITMQ_CHANNEL, m, l->frame_max);
    if (r < 0)
        return -ENOMEM; /* its size was checked */
    return l->out.len < OUT_GATHER_BYTES ? 0 : pump(l, now_us, reterr);
}

int rabbitmq_link_send(struct rabbitmq_link *l, amqp_channel_t channel, amqp_method_number_t id, void *decoded,
                       int64_t now_us, struct error *reterr) {
    if (l->tls)
        return tls_send_method(l, channel, id, decoded, now_us, reterr);
    int r = rabbitmq_frame_method(&l->out, channel, id, decoded);
    if (r == 0)
        return pump(l, now_us, reterr);
    error_set(reterr, ERROR_RETRY, "sending: %s", strerrordesc_np(-r));
    return r;
}

bool rabbitmq_link_gathered(const struct rabbitmq_link *l) {
    return !l->full && (l->tls ? l->corked : waiting_bytes(l) > 0);
}

bool rabbitmq_link_unsent(const struct rabbitmq_link *l) {
    return waiting_bytes(l) > 0;
}

int rabbitmq_link_flush(struct rabbitmq_link *l, int64_t now_us, struct error *reterr) {
    return l->tls ? tls_flush(l, now_us, reterr) : pump(l, now_us, reterr);
}

static int send_heartbeat(struct rabbitmq_link *l, int64_t now_us, struct error *reterr) {
    if (l->tls) {
        amqp_frame_t frame = {.frame_type = AMQP_FRAME_HEARTBEAT};
        return tls_send(l, &frame, now_us, reterr);
    }
    int r = rabbitmq_frame_heartbeat(&l->out);
    if (r == 0)
        return pump(l, now_us, reterr);
    l->sent_us = now_us; /* no memory just now: the next one will do */
    return 0;
}

int rabbitmq_link_beat(struct rabbitmq_link *l, int64_t now_us, struct error *reterr) {
    if (l->heartbeat_us == 0)
        return 0;
    if (now_us >= l->heard_us + 2 * l->heartbeat_us) {
        error_set(reterr, ERROR_RETRY, "no heartbeat from the broker for %lld s",
                  (long long)(2 * l->heartbeat_us / CLOCK_US_PER_S));
        return -ETIMEDOUT;
    }
    if (now_us < l->sent_us + l->heartbeat_us / 2)
        return 0;
    if (!l->full)
        return send_heartbeat(l, now_us, reterr);
    l->sent_us = now_us; /* there is enough for it to read */
    return 0;
}

int64_t rabbitmq_link_beat_us(const struct rabbitmq_link *l) {
    if (l->heartbeat_us == 0)
        return CLOCK_NEVER;
    int64_t silent_us = l->heard_us + 2 * l->heartbeat_us, send_us = l->sent_us + l->heartbeat_us / 2;
    return silent_us < send_us ? silent_us : send_us;
}

/* Reading. --------------------------------------------------------------- */

bool rabbitmq_link_listen(struct rabbitmq_link *l, int64_t now_us) {
    char byte;
    if (recv(l->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
        return errno != EAGAIN;
    l->heard_us = now_us;
    return true;
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

/* Up and down. ----------------------------------------------------------- */

static size_t between(size_t value, size_t least, size_t most) {
    return value < least ? least : value > most ? most : value;
}

static size_t send_buffer_bytes(int fd) {
    int bytes = 0;
    socklen_t len = sizeof bytes;
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &len) < 0 || bytes < 0)
        return 0;
    return (size_t)bytes;
}

/* What was agreed stays agreed; from here on the library neither sends heartbeats nor misses them. */
static int take_over_heartbeats(struct rabbitmq_link *l, struct error *reterr) {
    l->heartbeat_us = amqp_get_heartbeat(l->connection) * CLOCK_US_PER_S;
    int status = amqp_tune_connection(l->connection, amqp_get_channel_max(l->connection), (int)l->frame_max, 0);
    if (status == AMQP_STATUS_OK)
        return 0;
    rabbitmq_say_status(reterr, status);
    return -EIO;
}

int rabbitmq_link_up(struct rabbitmq_link *l, amqp_connection_state_t connection, bool tls, int64_t now_us,
                     struct error *reterr) {
    ASSERT(!l->connection);
    ASSERT(l->out.len == 0);
    l->connection = connection;
    l->tls = tls;
    l->fd = amqp_get_sockfd(connection);
    l->frame_max = (size_t)amqp_get_frame_max(connection);
    l->full = l->corked = false;
    l->heard_us = l->sent_us = now_us;
    size_t buffer = send_buffer_bytes(l->fd);
    l->chunk_max = between(buffer / CHUNK_SHARE, CHUNK_LEAST, l->frame_max - RABBITMQ_FRAME_OVERHEAD);
    l->budget_max = between(buffer / BUDGET_SHARE, CHUNK_LEAST, SIZE_MAX);
    l->budget = 0;
    guard_watch(l->guard, l->fd);
    int r = take_over_heartbeats(l, reterr);
    if (r < 0)
        rabbitmq_link_down(l, false);
    return r;
}

/* A word for the broker's log; its answer is not waited for. */
static void say_goodbye(struct rabbitmq_link *l) {
    amqp_connection_close_t method = {.reply_code = AMQP_REPLY_SUCCESS, .reply_text = amqp_cstring_bytes("closed by Penstock")};
    struct error unused;
    if (l->out.len == 0 && rabbitmq_link_has_room(l, 1))
        (void)!rabbitmq_link_send(l, 0, AMQP_CONNECTION_CLOSE_METHOD, &method, clock_now_us(), &unused);
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
    l->full = l->corked = false;
    clear_out(l);
}
