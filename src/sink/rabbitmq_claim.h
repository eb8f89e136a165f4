/* rabbitmq_claim: the exclusive queue by which the broker itself lets only one instance publish (lease.queue) */
#ifndef PENSTOCK_SINK_RABBITMQ_CLAIM_H
#define PENSTOCK_SINK_RABBITMQ_CLAIM_H

#include "base/error.h"
#include "sink/rabbitmq_library.h"

/* Declares it on the open RABBITMQ_CHANNEL: it lives as long as the connection, and no other can have it meanwhile. It takes
 * no message. In the dialer's thread: waits for the answers.
 * 0; -EIO with *reterr, ERROR_TAKEN: another connection has it. */
int rabbitmq_claim(amqp_connection_state_t connection, const char *queue, struct error *reterr) MUST_CHECK;

#endif
