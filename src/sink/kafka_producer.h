/* kafka_producer: one instance of librdkafka's producer: messages in, reports and words out */
#ifndef PENSTOCK_SINK_KAFKA_PRODUCER_H
#define PENSTOCK_SINK_KAFKA_PRODUCER_H

#include <librdkafka/rdkafka.h>

#include "base/dial.h"
#include "base/span.h"
#include "sink/kafka_message.h"

/* Made in one thread, used in another, never in two at once. Has threads of its own. */
struct kafka_producer;

/* Takes conf over in every case. 0; -ENOMEM, -EMFILE, -EAGAIN (no thread); -EINVAL with *reterr
 * (what the properties name can't be used: a certificate, for instance). Reads files. */
int kafka_producer_new(rd_kafka_conf_t *conf, struct kafka_producer **ret_producer, struct error *reterr) MUST_CHECK;
/* Waits for its threads, which may hang in a name lookup: not for a forwarder's thread. NULL is fine. */
void kafka_producer_free(struct kafka_producer *p);

/* Waits until a broker has answered. 0; -ETIMEDOUT, or -EACCES if the broker knows us and doesn't want us; *reterr. */
int kafka_producer_greet(struct kafka_producer *p, int64_t timeout_us, struct error *reterr) MUST_CHECK;

/* poll(2) for POLLIN: kafka_producer_event has something. Valid as long as p. */
int kafka_producer_fd(const struct kafka_producer *p);
/* Before a row of kafka_producer_event: what comes from now on makes the fd readable again. */
void kafka_producer_listen(struct kafka_producer *p);
/* The next event, the caller's to destroy; NULL: no more. What the library logs is said at debug level here, and what
 * of it shows a secret comes to nobody. */
rd_kafka_event_t *kafka_producer_event(struct kafka_producer *p);

/* The library copies the message; `tag`, not 0, comes back with its report (_private). */
rd_kafka_resp_err_t kafka_producer_produce(struct kafka_producer *p, struct span topic, const struct kafka_message *m,
                                           uint64_t tag);

/* Of a message that was reported. */
const char *kafka_producer_topic_of(const rd_kafka_message_t *m);

/* What ended the instance, in the library's words; false: it goes on. */
bool kafka_producer_fatal(const struct kafka_producer *p, char *ret_text, size_t size);

/* Nothing that isn't on the wire goes there any more; everything is reported. */
void kafka_producer_stop(struct kafka_producer *p);
/* Nor is what is on the wire waited for. */
void kafka_producer_abandon(struct kafka_producer *p);

/* Is it an error after which the broker has to be asked anew with what the secrets are now? */
bool kafka_producer_unwanted(rd_kafka_resp_err_t err);

/* Connecting, in a dialer's thread. -------------------------------------- */

/* The argument of one attempt: the instance before is freed first, then one is
 * made of conf (NULL: none is), and greeted. Takes conf over; `old` too, but
 * only once dial_start has succeeded. 0; -ENOMEM: nothing was taken. */
struct kafka_call;
int kafka_call_new(struct kafka_producer *old, rd_kafka_conf_t *conf, struct kafka_call **ret_call) MUST_CHECK;
/* The handle: a struct kafka_producer. */
extern const struct dial_ops kafka_producer_ops;

#endif
