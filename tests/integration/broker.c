/* broker: a private RabbitMQ, and what an administrator does with it, for the programs in this directory */
#include "integration/broker.h"

#include <amqp_tcp_socket.h>
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct broker broker;

/* The server. ------------------------------------------------------------ */

void broker_do(const char *verb, const char *arguments) {
    char command[512];
    snprintf(command, sizeof command, "tests/lib/rabbitmq %s %s %s >%s/command.log 2>&1", verb, broker.dir, arguments,
             broker.dir);
    ck_assert_msg(system(command) == 0, "%s failed, see %s/command.log", command, broker.dir);
}

static void read_environment(void) {
    char command[256], line[256];
    snprintf(command, sizeof command, "tests/lib/rabbitmq env %s", broker.dir);
    FILE *env = popen(command, "r");
    ck_assert_ptr_nonnull(env);
    while (fgets(line, sizeof line, env)) {
        line[strcspn(line, "\n")] = '\0';
        sscanf(line, "AMQP_PORT=%d", &broker.port);
        sscanf(line, "AMQPS_PORT=%d", &broker.tls_port);
        sscanf(line, "CA_FILE=%255s", broker.ca_file);
    }
    pclose(env);
    snprintf(broker.uri, sizeof broker.uri, "amqp://guest:guest@127.0.0.1:%d/", broker.port);
    snprintf(broker.uri_tls, sizeof broker.uri_tls, "amqps://guest:guest@localhost:%d", broker.tls_port);
}

void broker_start(void) {
    if (broker.dir[0] == '\0') {
        snprintf(broker.dir, sizeof broker.dir, "/tmp/penstock-sink.XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(broker.dir));
    }
    broker_do("start", "--tls");
    read_environment();
}

void broker_clean(void) {
    char command[256];
    snprintf(command, sizeof command, "tests/lib/rabbitmq clean %s; rm -rf %s", broker.dir, broker.dir);
    (void)!system(command);
}

static int read_pid(void) {
    int pid = 0;
    char path[128], home[256] = "";
    snprintf(path, sizeof path, "%s/home", broker.dir);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%200s", home), 1);
    fclose(file);
    strncat(home, "/rabbitmq.pid", sizeof home - strlen(home) - 1);
    file = fopen(home, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%d", &pid), 1);
    fclose(file);
    return pid;
}

void broker_freeze(bool frozen) {
    ck_assert_int_eq(kill(read_pid(), frozen ? SIGSTOP : SIGCONT), 0);
}

/* The administrator. ----------------------------------------------------- */

static amqp_connection_state_t open_admin(void) {
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    ck_assert_int_eq(amqp_socket_open(socket, "127.0.0.1", broker.port), AMQP_STATUS_OK);
    amqp_rpc_reply_t reply = amqp_login(c, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_NORMAL);
    ck_assert_ptr_nonnull(amqp_channel_open(c, 1));
    return c;
}

static void check_and_close(amqp_connection_state_t c, const char *what) {
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(c);
    ck_assert_msg(reply.reply_type == AMQP_RESPONSE_NORMAL, "%s failed", what);
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(c);
}

void broker_exchange(const char *name, const char *type) {
    amqp_connection_state_t c = open_admin();
    amqp_exchange_declare(c, 1, amqp_cstring_bytes(name), amqp_cstring_bytes(type), 0, 1, 0, 0, amqp_empty_table);
    check_and_close(c, "exchange.declare");
}

void broker_exchange_delete(const char *name) {
    amqp_connection_state_t c = open_admin();
    amqp_exchange_delete(c, 1, amqp_cstring_bytes(name), 0);
    check_and_close(c, "exchange.delete");
}

void broker_queue(const char *name, const char *arguments) {
    amqp_table_entry_t entries[8];
    amqp_table_t table = {.entries = entries};
    char text[256];
    snprintf(text, sizeof text, "%s", arguments);
    char *rest = text;
    for (char *part; (part = strsep(&rest, ",")) && *part;) {
        char *value = strchr(part, '=');
        *value++ = '\0';
        amqp_table_entry_t *entry = &entries[table.num_entries++];
        entry->key = amqp_cstring_bytes(part);
        entry->value.kind = strspn(value, "0123456789") == strlen(value) ? AMQP_FIELD_KIND_I64 : AMQP_FIELD_KIND_UTF8;
        if (entry->value.kind == AMQP_FIELD_KIND_I64)
            entry->value.value.i64 = strtoll(value, NULL, 10);
        else
            entry->value.value.bytes = amqp_cstring_bytes(value);
    }
    amqp_connection_state_t c = open_admin();
    amqp_queue_declare(c, 1, amqp_cstring_bytes(name), 0, 1, 0, 0, table);
    check_and_close(c, "queue.declare");
}

void broker_queue_delete(const char *name) {
    amqp_connection_state_t c = open_admin();
    amqp_queue_delete(c, 1, amqp_cstring_bytes(name), 0, 0);
    check_and_close(c, "queue.delete");
}

void broker_bind(const char *queue, const char *exchange, const char *key) {
    amqp_connection_state_t c = open_admin();
    amqp_queue_bind(c, 1, amqp_cstring_bytes(queue), amqp_cstring_bytes(exchange), amqp_cstring_bytes(key), amqp_empty_table);
    check_and_close(c, "queue.bind");
}

unsigned broker_count(const char *queue) {
    amqp_connection_state_t c = open_admin();
    amqp_queue_declare_ok_t *ok = amqp_queue_declare(c, 1, amqp_cstring_bytes(queue), 1, 1, 0, 0, amqp_empty_table);
    unsigned count = ok ? ok->message_count : 0;
    check_and_close(c, "queue.declare");
    return count;
}

/* Messages. -------------------------------------------------------------- */

struct owner {
    amqp_connection_state_t connection;
    amqp_message_t message;
    amqp_bytes_t exchange, routing_key;
};

static struct span span_from(amqp_bytes_t bytes) {
    return (struct span){bytes.bytes ? bytes.bytes : "", bytes.len};
}

static void view_message(struct owner *o, struct broker_message *m) {
    const amqp_basic_properties_t *p = &o->message.properties;
    *m = (struct broker_message){
        .exchange = span_from(o->exchange),
        .routing_key = span_from(o->routing_key),
        .body = span_from(o->message.body),
        .owner = o,
    };
    if (p->_flags & AMQP_BASIC_CONTENT_TYPE_FLAG)
        m->content_type = span_from(p->content_type);
    if (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG)
        m->message_id = span_from(p->message_id);
    if (p->_flags & AMQP_BASIC_DELIVERY_MODE_FLAG)
        m->delivery_mode = p->delivery_mode;
    for (int i = 0; p->_flags & AMQP_BASIC_HEADERS_FLAG && i < p->headers.num_entries && i < 128; i++) {
        ck_assert_int_eq(p->headers.entries[i].value.kind, AMQP_FIELD_KIND_UTF8);
        m->names[m->header_count] = span_from(p->headers.entries[i].key);
        m->values[m->header_count++] = span_from(p->headers.entries[i].value.value.bytes);
    }
}

bool broker_get(const char *queue, struct broker_message *ret_message) {
    struct owner *o = calloc(1, sizeof *o);
    ck_assert_ptr_nonnull(o);
    o->connection = open_admin();
    amqp_rpc_reply_t reply = amqp_basic_get(o->connection, 1, amqp_cstring_bytes(queue), 1);
    ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_NORMAL);
    bool any = reply.reply.id == AMQP_BASIC_GET_OK_METHOD;
    if (any) {
        const amqp_basic_get_ok_t *ok = reply.reply.decoded;
        o->exchange = amqp_bytes_malloc_dup(ok->exchange);
        o->routing_key = amqp_bytes_malloc_dup(ok->routing_key);
        reply = amqp_read_message(o->connection, 1, &o->message, 0);
        ck_assert_int_eq(reply.reply_type, AMQP_RESPONSE_NORMAL);
        view_message(o, ret_message);
        return true;
    }
    amqp_destroy_connection(o->connection);
    free(o);
    return false;
}

void broker_message_done(struct broker_message *m) {
    struct owner *o = m->owner;
    amqp_destroy_message(&o->message);
    amqp_bytes_free(o->exchange);
    amqp_bytes_free(o->routing_key);
    amqp_destroy_connection(o->connection);
    free(o);
}

struct span broker_header(const struct broker_message *m, const char *name) {
    for (size_t i = 0; i < m->header_count; i++)
        if (span_is(m->names[i], name))
            return m->values[i];
    return SPAN_ABSENT;
}
