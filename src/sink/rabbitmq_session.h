/* rabbitmq_session: what happens on one connection: its channel, publishes, confirms, returns, blocking */
#ifndef PENSTOCK_SINK_RABBITMQ_SESSION_H
#define PENSTOCK_SINK_RABBITMQ_SESSION_H

#include "base/backoff.h"
#include "sink/confirms.h"
#include "sink/rabbitmq_link.h"
#include "sink/rabbitmq_options.h"
#include "sink/rabbitmq_refusals.h"
#include "sink/rabbitmq_returns.h"
#include "sink/sink.h"

/*  up -> READY -> publish … acks, nacks, returns
 *          |  ^
 *          v  |       channel.close (an exchange is missing or forbidden): all open are lost
 *   CLOSED -> OPENING -> SELECTING
 *
 *  down, from anywhere: connection.close, socket, heartbeat, ack_timeout: all open are lost
 */
enum rabbitmq_channel { RABBITMQ_CHANNEL_CLOSED, RABBITMQ_CHANNEL_OPENING, RABBITMQ_CHANNEL_SELECTING, RABBITMQ_CHANNEL_READY };

/* Embedded; outlives the connections it is given one after another. */
struct rabbitmq_session {
    const struct sink_options *options;
    int64_t answer_timeout_us; /* for channel.open and confirm.select */
    char *vhost;

    struct rabbitmq_link link;
    bool tls;
    bool more_to_read;

    enum rabbitmq_channel channel;
    int64_t channel_since_us;
    int64_t channel_due_us; /* CLOSED: when to open it; OPENING, SELECTING: when the answer is overdue */
    struct backoff channel_backoff;

    struct confirms *confirms;
    struct rabbitmq_message message; /* scratch */
    struct rabbitmq_returns *returns;
    struct rabbitmq_refusals refusals;
    uint64_t serial_base; /* serial = serial_base + tag: unique in a connection, tags only in a channel */
    struct error lost;    /* why open tokens were lost last */

    bool blocked;
    int64_t blocked_since_us;
    char blocked_reason[RABBITMQ_SHORT_MAX + 64];
};

/* 0; -ENOMEM. rabbitmq_session_done in every case. */
int rabbitmq_session_init(struct rabbitmq_session *s, const struct sink_setup *setup) MUST_CHECK;
void rabbitmq_session_done(struct rabbitmq_session *s);

/* With its channel open and in confirm mode. 0; -EIO with *reterr: it is closed. */
int rabbitmq_session_up(struct rabbitmq_session *s, amqp_connection_state_t connection, int64_t now_us,
                        struct error *reterr) MUST_CHECK;
/* Closes it; every open token is lost for that reason. */
void rabbitmq_session_down(struct rabbitmq_session *s, int64_t now_us, const struct error *why, bool politely);
bool rabbitmq_session_is_up(const struct rabbitmq_session *s);

/* Reads what has come, goes on with what is half sent, looks at deadlines.
 * 0; below 0 with *reterr: it is to be taken down (-ETIMEDOUT: politely). */
int rabbitmq_session_work(struct rabbitmq_session *s, int64_t now_us, struct error *reterr) MUST_CHECK;
/* Sends what publish has gathered. Likewise. */
int rabbitmq_session_flush(struct rabbitmq_session *s, int64_t now_us, struct error *reterr) MUST_CHECK;
int64_t rabbitmq_session_deadline_us(const struct rabbitmq_session *s);
/* What poll(2) is to look for. */
short rabbitmq_session_events(const struct rabbitmq_session *s);

bool rabbitmq_session_ready(const struct rabbitmq_session *s);
/* Asserts ready. 0; SINK_E_BUSY, _REJECTED, _RETRY; -ENOMEM; nothing was
 * written then. Other than these below 0: taken, but the session is to be
 * taken down for *reterr. */
int rabbitmq_session_publish(struct rabbitmq_session *s, const struct event *e, const struct destination *d,
                             uint64_t token, int64_t now_us, struct error *reterr) MUST_CHECK;
bool rabbitmq_session_next(struct rabbitmq_session *s, struct sink_outcome *ret_outcome);

#endif
