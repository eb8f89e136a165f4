/* broker: a private RabbitMQ, and what an administrator does with it, for the programs in this directory */
#ifndef PENSTOCK_TESTS_BROKER_H
#define PENSTOCK_TESTS_BROKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "sink/rabbitmq_library.h"

/* Where the server is; set by broker_start. */
struct broker {
    char dir[64];
    char uri[128], uri_tls[128], ca_file[256];
    int port, tls_port;
};
extern struct broker broker;

/* tests/lib/rabbitmq VERB DIR ARGUMENTS, ended by NULL; fails the test if it fails. */
void broker_do(const char *verb, ...) __attribute__((sentinel));
void broker_start(void); /* the first time, with TLS */
void broker_clean(void);
void broker_freeze(bool frozen); /* SIGSTOP, SIGCONT */

/* An administrator's connection of its own, for one call each. */
void broker_exchange(const char *name, const char *type);
void broker_exchange_delete(const char *name);
/* arguments: "x-queue-type=quorum,x-max-length=1", values of digits as integers; durable. */
void broker_queue(const char *name, const char *arguments);
void broker_queue_delete(const char *name);
void broker_bind(const char *queue, const char *exchange, const char *key);
/* Messages ready in the queue. */
unsigned broker_count(const char *queue);

/* One message of a queue; false: it is empty. */
struct broker_message {
    struct span exchange, routing_key, content_type, message_id, body;
    struct span names[128], values[128]; /* headers */
    size_t header_count;
    int delivery_mode;
    void *owner; /* frees it all */
};
bool broker_get(const char *queue, struct broker_message *ret_message);
void broker_message_done(struct broker_message *m);
/* Absent if there is no such header. */
struct span broker_header(const struct broker_message *m, const char *name);

#endif
