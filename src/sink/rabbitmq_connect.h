/* rabbitmq_connect: what runs in the dialer's thread: open, TLS, login, channel; and the probe for exchanges and queues */
#ifndef PENSTOCK_SINK_RABBITMQ_CONNECT_H
#define PENSTOCK_SINK_RABBITMQ_CONNECT_H

#include "base/dial.h"
#include "base/span.h"
#include "sink/rabbitmq_library.h"
#include "sink/rabbitmq_options.h"
#include "sink/rabbitmq_named.h"

#define RABBITMQ_CHANNEL 1
#define RABBITMQ_FRAME_MAX 131072 /* asked for; what RabbitMQ offers by default */

/* The argument of one attempt. Owns copies of everything: the thread may
 * outlive the sink and its configuration. */
struct rabbitmq_call;

/* Host number `turn` of the connection (modulo their count). `probe`: NULL, or
 * what is to be asked for; `claim`: NULL, or the queue that the connection must
 * have for itself (sink/rabbitmq_claim.h); both are copied. 0; -ENOMEM. */
int rabbitmq_call_new(const struct rabbitmq_connection *connection, const char *forwarder, uint32_t turn,
                      const struct rabbitmq_probe *probe, const char *claim, struct rabbitmq_call **ret_call) MUST_CHECK;
/* How many hosts there are to try. */
uint32_t rabbitmq_call_hosts(const struct rabbitmq_connection *connection);

/* The handle: an amqp_connection_state_t with RABBITMQ_CHANNEL open and confirm.select done. ERROR_TAKEN: another
 * connection has the queue. */
extern const struct dial_ops rabbitmq_connect_ops;

/* The handle: the probe of the call, answered; free(3). */
extern const struct dial_ops rabbitmq_probe_ops;

/* The virtual host of a URI, as text of its own; NULL: no memory. */
char *rabbitmq_vhost(const char *uri);

/* A close from the broker, or the library's status, as one sentence. */
void rabbitmq_say_close(struct error *error, uint16_t code, amqp_bytes_t text);
void rabbitmq_say_status(struct error *error, int status);
/* 0: it was no refusal. Else -EIO and a sentence that begins with the step. */
int rabbitmq_say_reply(struct error *error, const char *step, const amqp_rpc_reply_t *reply);
/* The channel.close that a reply is; NULL: it is another. */
const amqp_channel_close_t *rabbitmq_refusal_of(const amqp_rpc_reply_t *reply);
/* Answers the broker's channel.close: only then may the connection be used further. 0; -EIO. */
int rabbitmq_accept_close(amqp_connection_state_t connection, amqp_channel_t channel, struct error *reterr) MUST_CHECK;
int rabbitmq_open_channel(amqp_connection_state_t connection, amqp_channel_t channel, struct error *reterr) MUST_CHECK;

#endif
