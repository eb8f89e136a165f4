/* rabbitmq_returns: messages that came back: which one it was, and why */
#ifndef PENSTOCK_SINK_RABBITMQ_RETURNS_H
#define PENSTOCK_SINK_RABBITMQ_RETURNS_H

#include "base/cleanup.h"
#include "base/error.h"
#include "sink/rabbitmq_library.h"

/* A return is basic.return, a header, and body frames up to the whole size,
 * then the ack of the same tag. The header names it; the body is let go. */
struct rabbitmq_returns;

int rabbitmq_returns_new(struct rabbitmq_returns **ret_returns) MUST_CHECK;
void rabbitmq_returns_free(struct rabbitmq_returns *r); /* NULL is fine */

void rabbitmq_returns_method(struct rabbitmq_returns *r, const amqp_basic_return_t *method);
/* The header behind it: remembers the reason. 0; -ENOENT: not one of ours. */
int rabbitmq_returns_header(struct rabbitmq_returns *r, const amqp_basic_properties_t *properties, uint64_t *ret_serial) MUST_CHECK;

/* Why; a plain text if too many have come back since. */
const char *rabbitmq_returns_reason(const struct rabbitmq_returns *r, uint64_t serial);

#endif
