/* bare: the library alone publishes what penstockd would: the yardstick of tests/bench/run */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "sink/rabbitmq_library.h"

#define BODY_BYTES 500
#define HEADERS 8
#define CHANNEL 1

static void die(const char *what)
{
    fprintf(stderr, "bare: %s\n", what);
    exit(1);
}

static double now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static amqp_connection_state_t connect_to(int port)
{
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *socket = c != NULL ? amqp_tcp_socket_new(c) : NULL;
    amqp_rpc_reply_t reply;

    if (socket == NULL || amqp_socket_open(socket, "127.0.0.1", port) != AMQP_STATUS_OK)
        die("no connection");
    reply = amqp_login(c, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        die("login refused");
    if (amqp_channel_open(c, CHANNEL) == NULL || amqp_confirm_select(c, CHANNEL) == NULL)
        die("no channel in confirm mode");
    return c;
}

/* Which tags (from 1) are settled: single confirms come in any order, a multiple
 * one covers all below it. */
struct confirms {
    uint64_t count, lowest; /* everything up to lowest is settled */
    uint8_t *settled;
};

static void settle(struct confirms *s, uint64_t tag)
{
    if (s->settled[tag] == 0)
        s->count++;
    s->settled[tag] = 1;
}

static void take_confirm(struct confirms *s, const amqp_frame_t *frame)
{
    const amqp_basic_ack_t *ack;

    if (frame->frame_type != AMQP_FRAME_METHOD || frame->payload.method.id != AMQP_BASIC_ACK_METHOD)
        die("something else than a confirm came");
    ack = frame->payload.method.decoded;
    if (!ack->multiple) {
        settle(s, ack->delivery_tag);
        return;
    }
    for (; s->lowest < ack->delivery_tag; s->lowest++)
        settle(s, s->lowest + 1);
}

/* Waits for one frame, takes what else has come. */
static void take_confirms(amqp_connection_state_t c, struct confirms *s)
{
    static const struct timeval patience = {.tv_sec = 30}, none = {0};
    struct timeval wait = patience;
    amqp_frame_t frame;

    for (;;) {
        int status = amqp_simple_wait_frame_noblock(c, &frame, &wait);

        if (status == AMQP_STATUS_TIMEOUT && wait.tv_sec == 0)
            return;
        if (status != AMQP_STATUS_OK)
            die(amqp_error_string2(status));
        take_confirm(s, &frame);
        wait = none;
    }
}

struct message {
    amqp_table_entry_t headers[HEADERS];
    amqp_basic_properties_t properties;
    char id[32], version[32], position[32], stream[32], body[BODY_BYTES];
};

static void message_set(struct message *m, uint64_t n)
{
    const char *const texts[HEADERS][2] = {
        {"cloudEvents_specversion", "1.0"}, {"cloudEvents_id", m->id}, {"cloudEvents_source", "/shop/orders"},
        {"cloudEvents_type", "com.acme.order.placed"}, {"cloudEvents_time", "2026-08-18T10:00:00.123456Z"},
        {"cloudEvents_streamid", m->stream}, {"cloudEvents_streamversion", m->version},
        {"cloudEvents_position", m->position},
    };

    snprintf(m->id, sizeof m->id, "event-%llu", (unsigned long long)n);
    snprintf(m->stream, sizeof m->stream, "stream-%llu", (unsigned long long)(n % 5000));
    snprintf(m->version, sizeof m->version, "%llu", (unsigned long long)(n / 5000));
    snprintf(m->position, sizeof m->position, "%llu", (unsigned long long)n);
    for (int i = 0; i < HEADERS; i++) {
        m->headers[i].key = amqp_cstring_bytes(texts[i][0]);
        m->headers[i].value.kind = AMQP_FIELD_KIND_UTF8;
        m->headers[i].value.value.bytes = amqp_cstring_bytes(texts[i][1]);
    }
    m->properties._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG |
                           AMQP_BASIC_MESSAGE_ID_FLAG;
    m->properties.content_type = amqp_cstring_bytes("application/json");
    m->properties.delivery_mode = 2;
    m->properties.message_id = amqp_cstring_bytes(m->id);
    m->properties.headers = (amqp_table_t){.num_entries = HEADERS, .entries = m->headers};
}

static void publish_all(amqp_connection_state_t c, const char *exchange, uint64_t count, uint64_t in_flight)
{
    static struct message m;
    struct confirms s = {.settled = calloc(count + 1, 1)};

    if (s.settled == NULL)
        die("no memory");
    memset(m.body, 'x', sizeof m.body);
    for (uint64_t n = 1; n <= count; n++) {
        const amqp_bytes_t body = {.len = sizeof m.body, .bytes = m.body};
        int status;

        message_set(&m, n);
        status = amqp_basic_publish(c, CHANNEL, amqp_cstring_bytes(exchange), amqp_cstring_bytes("order.placed"), 1, 0,
                                    &m.properties, body);
        if (status != AMQP_STATUS_OK)
            die(amqp_error_string2(status));
        while (n - s.count >= in_flight)
            take_confirms(c, &s);
    }
    while (s.count < count)
        take_confirms(c, &s);
    free(s.settled);
}

int main(int argc, char **argv)
{
    amqp_connection_state_t c;
    struct rusage usage;
    double began, cpu;

    if (argc != 5)
        die("usage: bare PORT EXCHANGE COUNT IN_FLIGHT");
    c = connect_to((int)strtol(argv[1], NULL, 10));
    began = now_seconds();
    cpu = cpu_seconds();
    publish_all(c, argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    began = now_seconds() - began;
    cpu = cpu_seconds() - cpu;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"events\": %s, \"seconds\": %.3f, \"cpu_seconds\": %.3f, \"rss_bytes\": %ld}\n", argv[3], began, cpu,
           usage.ru_maxrss * 1024);
    amqp_destroy_connection(c);
    return 0;
}
