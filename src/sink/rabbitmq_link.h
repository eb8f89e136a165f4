/* rabbitmq_link: an open connection: frames in and out, none of which is ever waited for */
#ifndef PENSTOCK_SINK_RABBITMQ_LINK_H
#define PENSTOCK_SINK_RABBITMQ_LINK_H

#include <amqp.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/guard.h"
#include "sink/rabbitmq_message.h"

/* librabbitmq's own publish waits in poll(2) without end when the socket is
 * full (and, up to 0.13, hangs in it after a heartbeat was missed: its issues
 * 780 and 788). So frames are sent one by one, and only as many bytes as
 * POLLOUT has promised room for; what is left of a large body stays in `rest`.
 * Embedded; belongs to the forwarder's thread. */
struct rabbitmq_link {
    amqp_connection_state_t connection; /* owned; NULL: down */
    struct guard *guard;
    int fd;
    size_t frame_max;
    size_t chunk_max; /* of a body, in one frame */
    size_t budget_max, budget; /* bytes that may be sent before asking for POLLOUT again */
    bool full;   /* POLLOUT was asked for and is awaited */
    bool corked; /* TCP_CORK: flush sends what is gathered */
    struct buf rest;
    size_t rest_sent;
};

void rabbitmq_link_init(struct rabbitmq_link *l, struct guard *guard, size_t max_message_bytes);
void rabbitmq_link_done(struct rabbitmq_link *l);

/* Takes an open connection over. */
void rabbitmq_link_up(struct rabbitmq_link *l, amqp_connection_state_t connection);
/* Closes it at once; politely: the broker is told, without waiting for its answer. Idempotent. */
void rabbitmq_link_down(struct rabbitmq_link *l, bool politely);

/* Does the socket take a message with a head of that size now? Else `full`. */
bool rabbitmq_link_has_room(struct rabbitmq_link *l, size_t head_bytes);
/* A body is under way: nothing else may be published before. */
bool rabbitmq_link_busy(const struct rabbitmq_link *l);
/* Its channel is gone: the rest of it has nowhere to go. */
void rabbitmq_link_forget_rest(struct rabbitmq_link *l);

/* Asserts that it is not busy; after has_room. 0; -ENOMEM: nothing was sent;
 * -EIO with *reterr: the connection can't be used any more. */
int rabbitmq_link_publish(struct rabbitmq_link *l, const struct rabbitmq_message *m, int64_t now_us,
                          struct error *reterr) MUST_CHECK;
/* Goes on with the body under way. 0; -EIO. */
int rabbitmq_link_continue(struct rabbitmq_link *l, int64_t now_us, struct error *reterr) MUST_CHECK;
/* A small method, which the reserve of the send buffer takes. 0; -EIO. */
int rabbitmq_link_send(struct rabbitmq_link *l, amqp_channel_t channel, amqp_method_number_t id, void *decoded,
                       int64_t now_us, struct error *reterr) MUST_CHECK;
void rabbitmq_link_flush(struct rabbitmq_link *l);

#define RABBITMQ_LINK_E_NOTHING 1 /* all that has come was read */
/* 0: a frame, valid until rabbitmq_link_release. Sends and checks heartbeats. -EIO. */
int rabbitmq_link_read(struct rabbitmq_link *l, amqp_frame_t *ret_frame, struct error *reterr) MUST_CHECK;
void rabbitmq_link_release(struct rabbitmq_link *l);

#endif
