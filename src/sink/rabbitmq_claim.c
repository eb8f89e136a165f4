/* rabbitmq_claim: the exclusive queue by which the broker itself lets only one instance publish (lease.queue) */
#include "sink/rabbitmq_claim.h"

#include <errno.h>

#include "sink/rabbitmq_connect.h"

#define LOOKING_CHANNEL (RABBITMQ_CHANNEL + 1)

/* Else a rule that names it would lose its events with the connection: this way they are nacked, and held. */
static amqp_rpc_reply_t declare(amqp_connection_state_t connection, amqp_bytes_t queue) {
    amqp_table_entry_t entries[] = {
        {.key = amqp_cstring_bytes("x-max-length"), .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 0}},
        {.key = amqp_cstring_bytes("x-overflow"),
         .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("reject-publish")}},
    };
    amqp_table_t arguments = {.num_entries = ARRAY_LENGTH(entries), .entries = entries};
    bool passive = false, durable = false, exclusive = true, auto_delete = false; /* exclusive: it goes with the connection */
    amqp_queue_declare(connection, RABBITMQ_CHANNEL, queue, passive, durable, exclusive, auto_delete, arguments);
    return amqp_get_rpc_reply(connection);
}

static void say_taken(const char *queue, struct error *error) {
    error_set(error, ERROR_TAKEN, "the queue '%.*s' belongs to another connection: another instance publishes there, or the "
              "broker has not noticed yet that its connection is gone", RABBITMQ_SHORT_MAX, queue);
}

/* The broker says RESOURCE_LOCKED of any queue that is not as ours would be: one that is there for all would keep us
 * waiting for ever, and nobody would know. Asked for without wanting it, only another's exclusive one is refused so. */
static int look_whose(amqp_connection_state_t connection, const char *queue, struct error *reterr) {
    int r = rabbitmq_accept_close(connection, RABBITMQ_CHANNEL, reterr);
    if (r == 0)
        r = rabbitmq_open_channel(connection, LOOKING_CHANNEL, reterr);
    if (r < 0)
        return r;
    amqp_queue_declare(connection, LOOKING_CHANNEL, amqp_cstring_bytes(queue), true, false, false, false, amqp_empty_table);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
    const amqp_channel_close_t *no = rabbitmq_refusal_of(&reply);
    if (no && no->reply_code == AMQP_RESOURCE_LOCKED)
        say_taken(queue, reterr);
    else if (rabbitmq_say_reply(reterr, "queue.declare", &reply) == 0)
        error_set(reterr, ERROR_RETRY, "lease.queue: a queue '%.*s' exists that is not exclusive, so it is somebody else's: name "
                  "another one in lease.queue, or delete this one", RABBITMQ_SHORT_MAX, queue);
    return -EIO;
}

static void say_refused(const char *queue, const amqp_channel_close_t *no, struct error *error) {
    rabbitmq_say_close(error, no->reply_code, no->reply_text);
    error_prefix(error, "lease.queue: '%.200s' can't be declared%s", queue,
                 no->reply_code == AMQP_ACCESS_REFUSED ? " (give the user the right to configure it, or take the key out)" : "");
}

int rabbitmq_claim(amqp_connection_state_t connection, const char *queue, struct error *reterr) {
    amqp_rpc_reply_t reply = declare(connection, amqp_cstring_bytes(queue));
    const amqp_channel_close_t *no = rabbitmq_refusal_of(&reply);
    if (no && no->reply_code == AMQP_RESOURCE_LOCKED)
        return look_whose(connection, queue, reterr);
    if (!no)
        return rabbitmq_say_reply(reterr, "queue.declare", &reply);
    say_refused(queue, no, reterr);
    struct error unused;
    (void)!rabbitmq_accept_close(connection, RABBITMQ_CHANNEL, &unused); /* it is closed, all the same */
    return -EIO;
}
