/* rabbitmq_link: an open connection: frames in and out, none of which is ever waited for */
#ifndef PENSTOCK_SINK_RABBITMQ_LINK_H
#define PENSTOCK_SINK_RABBITMQ_LINK_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/guard.h"
#include "sink/rabbitmq_library.h"
#include "sink/rabbitmq_message.h"

/* librabbitmq's own publish waits in poll(2) without end when the socket is
 * full (and, up to 0.13, hangs in it once a heartbeat was missed: its issues
 * 780 and 788), and makes three system calls for each message. So here its
 * encoder writes into `out`, and one send(2) that doesn't wait takes many
 * messages. With TLS only the library can write: frames are handed to it one
 * by one, only as many bytes as POLLOUT has promised room for. What the socket
 * doesn't take stays in `out`. Heartbeats are ours too: the library would
 * write its own into the middle of a frame.
 *
 * Embedded; belongs to the forwarder's thread. */
struct rabbitmq_link {
    amqp_connection_state_t connection; /* owned; NULL: down */
    struct guard *guard;
    int fd;
    bool tls;
    size_t frame_max;

    struct buf out; /* TCP: whole frames; TLS: the rest of one body */
    size_t out_sent;
    bool full; /* the socket took not all: POLLOUT is awaited */

    size_t chunk_max; /* TLS: of a body, in one frame */
    size_t budget_max, budget; /* TLS: bytes that may be sent before asking for POLLOUT again */
    bool corked; /* TLS: TCP_CORK, until flush */

    int64_t heartbeat_us; /* as agreed; 0: none */
    int64_t heard_us, sent_us; /* when something came or went last */
};

void rabbitmq_link_init(struct rabbitmq_link *l, struct guard *guard, size_t max_message_bytes);
void rabbitmq_link_done(struct rabbitmq_link *l);

/* Takes an open connection over. 0; -EIO with *reterr: it is closed. */
int rabbitmq_link_up(struct rabbitmq_link *l, amqp_connection_state_t connection, bool tls, int64_t now_us,
                     struct error *reterr) MUST_CHECK;
/* Closes it at once; politely: the broker is told, without waiting for its answer. Idempotent. */
void rabbitmq_link_down(struct rabbitmq_link *l, bool politely);

/* Does it take a message with a head of that size now? Else `full`. */
bool rabbitmq_link_has_room(struct rabbitmq_link *l, size_t head_bytes);
/* A large body is under way. */
bool rabbitmq_link_busy(const struct rabbitmq_link *l);
/* Its channel is gone: what of it is not in a frame yet has nowhere to go. */
void rabbitmq_link_forget_body(struct rabbitmq_link *l);

/* After has_room. 0; -ENOMEM: nothing was sent; -EIO with *reterr: the
 * connection can't be used any more. */
int rabbitmq_link_publish(struct rabbitmq_link *l, const struct rabbitmq_message *m, int64_t now_us,
                          struct error *reterr) MUST_CHECK;
/* A small method. 0; -ENOMEM; -EIO. */
int rabbitmq_link_send(struct rabbitmq_link *l, amqp_channel_t channel, amqp_method_number_t id, void *decoded,
                       int64_t now_us, struct error *reterr) MUST_CHECK;
/* Something waits for a flush. */
bool rabbitmq_link_gathered(const struct rabbitmq_link *l);
/* Something was published that no socket has yet, gathered or left over. With TLS nothing is gathered by us: the socket
 * has it, corked, and sends it soon whatever we do (tcp(7), TCP_CORK: within 200 ms). */
bool rabbitmq_link_unsent(const struct rabbitmq_link *l);
/* What was gathered goes out, as far as the socket takes it. 0; -EIO. */
int rabbitmq_link_flush(struct rabbitmq_link *l, int64_t now_us, struct error *reterr) MUST_CHECK;
/* Sends a heartbeat when one is due. 0; -ETIMEDOUT: the peer was silent for twice as long; -EIO. */
int rabbitmq_link_beat(struct rabbitmq_link *l, int64_t now_us, struct error *reterr) MUST_CHECK;
/* When beat wants to be called; CLOCK_NEVER without heartbeats. */
int64_t rabbitmq_link_beat_us(const struct rabbitmq_link *l);

#define RABBITMQ_LINK_E_NOTHING 1 /* all that has come was read */
/* Before a series of reads. false: the socket has nothing new, so if all was read before, there is nothing to read. */
bool rabbitmq_link_listen(struct rabbitmq_link *l, int64_t now_us);
/* 0: a frame, valid until rabbitmq_link_release. -EIO. */
int rabbitmq_link_read(struct rabbitmq_link *l, amqp_frame_t *ret_frame, struct error *reterr) MUST_CHECK;
void rabbitmq_link_release(struct rabbitmq_link *l);

#endif
