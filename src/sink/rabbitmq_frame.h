/* rabbitmq_frame: AMQP frames as bytes, by the library's encoder */
#ifndef PENSTOCK_SINK_RABBITMQ_FRAME_H
#define PENSTOCK_SINK_RABBITMQ_FRAME_H

#include "base/buf.h"
#include "sink/rabbitmq_library.h"
#include "sink/rabbitmq_message.h"

/* AMQP 0-9-1 4.2.3: type, channel and size before the payload, one octet behind. */
#define RABBITMQ_FRAME_OVERHEAD 8

/* Each appends to *out. 0; -ENOMEM, -EMSGSIZE: *out is as before. */
int rabbitmq_frame_method(struct buf *out, amqp_channel_t channel, amqp_method_number_t id, void *decoded) MUST_CHECK;
int rabbitmq_frame_heartbeat(struct buf *out) MUST_CHECK;
/* Method, header and body. */
int rabbitmq_frame_message(struct buf *out, amqp_channel_t channel, const struct rabbitmq_message *m, size_t frame_max) MUST_CHECK;

#endif
