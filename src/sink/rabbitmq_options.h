/* rabbitmq_options: what can be configured of a RabbitMQ connection and destination */
#ifndef PENSTOCK_SINK_RABBITMQ_OPTIONS_H
#define PENSTOCK_SINK_RABBITMQ_OPTIONS_H

#include "base/option.h"
#include "event/destination.h"
#include "sink/sink.h"

#define RABBITMQ_PORT_TEXT_SIZE 8
#define RABBITMQ_SHORT_MAX 255 /* AMQP 0-9-1 4.2.5.3: a short string's length is one byte */

struct rabbitmq_connection {
    char *uri;
    struct option_texts hosts; /* tried in turn instead of the URI's */
    struct secret password;    /* instead of the URI's */
    int64_t heartbeat_us;
    int64_t connect_timeout_us;
    char *tls_ca_file, *tls_cert_file, *tls_key_file;
};

extern const struct option rabbitmq_connection_table[];
/* 0; -EINVAL with *reterr, which never shows the URI. */
int rabbitmq_connection_check(const void *connection, const char **ret_key, struct error *reterr);

/* "host", "host:port", "[::1]:port"; *ret_port stays as it is without one.
 * 0; -EINVAL. ret_host points into text. */
int rabbitmq_host_parse(struct span text, struct span *ret_host, int *ret_port) MUST_CHECK;

struct rabbitmq_sink_options {
    struct sink_options common;
    char *lease_queue; /* NULL: none */
};

extern const struct option rabbitmq_sink_table[];

enum rabbitmq_field { RABBITMQ_EXCHANGE, RABBITMQ_ROUTING_KEY };
extern const struct destination_field rabbitmq_fields[];

#endif
