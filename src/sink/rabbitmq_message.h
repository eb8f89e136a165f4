/* rabbitmq_message: event and destination -> what basic.publish carries, its sizes checked beforehand */
#ifndef PENSTOCK_SINK_RABBITMQ_MESSAGE_H
#define PENSTOCK_SINK_RABBITMQ_MESSAGE_H

#include "base/error.h"
#include "event/binding.h"
#include "event/destination.h"
#include "sink/rabbitmq_library.h"

#define RABBITMQ_TAG_HEADER "x-penstock-tag"

/* Embedded; used again for each event, no allocation in steady state. What it
 * points to is the event's, the destination's and its own; valid until either changes. */
struct rabbitmq_message {
    struct binding_message binding;
    amqp_table_entry_t *entries; /* owned */
    size_t entry_capacity;
    char tag_text[24];

    amqp_basic_publish_t method;
    amqp_basic_properties_t properties;
    amqp_bytes_t body;
    size_t head_bytes; /* method and header frame on the wire */
};

struct rabbitmq_limits {
    size_t frame_max;
    size_t max_message_bytes;
};

void rabbitmq_message_init(struct rabbitmq_message *m, size_t max_message_bytes);
void rabbitmq_message_done(struct rabbitmq_message *m);

/* It can't go that way: *reterr says what, how large, what is allowed. */
#define RABBITMQ_MESSAGE_E_REJECTED 1

/* `serial` goes into the header by which a return is matched. 0;
 * RABBITMQ_MESSAGE_E_REJECTED; -ENOMEM. */
int rabbitmq_message_build(struct rabbitmq_message *m, const struct rabbitmq_limits *limits,
                           const struct binding_options *options, const struct event *e, const struct destination *d,
                           uint64_t serial, struct error *reterr) MUST_CHECK;

/* The serial of a message that came back. 0; -ENOENT: not one of ours. */
int rabbitmq_message_serial(const amqp_basic_properties_t *properties, uint64_t *ret_serial) MUST_CHECK;

#endif
