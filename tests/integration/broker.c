/* broker: a private RabbitMQ, and what an administrator does with it, for the programs in this directory */
#include "integration/broker.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ARGUMENTS_MAX 12

struct broker broker;

/* The server. ------------------------------------------------------------ */

/* Its output goes to a file, or with `ret_output` to a pipe that is read here. */
static int run(char *const arguments[], char *ret_output, size_t size) {
    char path[128];
    int fds[2] = {-1, -1};
    snprintf(path, sizeof path, "%s/command.log", broker.dir);
    if (ret_output)
        ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int out = ret_output ? fds[1] : open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(out, STDOUT_FILENO);
        if (!ret_output)
            dup2(out, STDERR_FILENO);
        execv(arguments[0], arguments);
        _exit(127);
    }
    if (ret_output) {
        close(fds[1]);
        ssize_t len, at = 0;
        while ((len = read(fds[0], ret_output + at, size - 1 - (size_t)at)) > 0)
            at += len;
        ret_output[at] = '\0';
        close(fds[0]);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void broker_do(const char *verb, ...) {
    char *arguments[ARGUMENTS_MAX] = {(char *)"tests/lib/rabbitmq", (char *)(uintptr_t)verb, broker.dir};
    size_t count = 3;
    va_list more;
    va_start(more, verb);
    while (count < ARGUMENTS_MAX - 1 && (arguments[count] = va_arg(more, char *)))
        count++;
    va_end(more);
    ck_assert_msg(run(arguments, NULL, 0) == 0, "rabbitmq %s failed, see %s/command.log", verb, broker.dir);
}

static void read_environment(void) {
    char output[1024];
    char *arguments[] = {(char *)"tests/lib/rabbitmq", (char *)"env", broker.dir, NULL};
    ck_assert_int_eq(run(arguments, output, sizeof output), 0);
    char *rest = output;
    for (char *line; (line = strsep(&rest, "\n"));) {
        sscanf(line, "AMQP_PORT=%d", &broker.port);
        sscanf(line, "AMQPS_PORT=%d", &broker.tls_port);
        sscanf(line, "CA_FILE=%255s", broker.ca_file);
    }
    snprintf(broker.uri, sizeof broker.uri, "amqp://guest:guest@127.0.0.1:%d/", broker.port);
    snprintf(broker.uri_tls, sizeof broker.uri_tls, "amqps://guest:guest@localhost:%d", broker.tls_port);
}

void broker_start(void) {
    if (broker.dir[0] == '\0') {
        snprintf(broker.dir, sizeof broker.dir, "/tmp/penstock-sink.XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(broker.dir));
    }
    broker_do("start", "--tls", NULL);
    read_environment();
}

void broker_clean(void) {
    broker_do("clean", NULL);
    char *arguments[] = {(char *)"/bin/rm", (char *)"-rf", broker.dir, NULL};
    ck_assert_int_eq(run(arguments, NULL, 0), 0);
}

static int read_pid(void) {
    char path[512], home[256] = "";
    int pid = 0;
    snprintf(path, sizeof path, "%s/home", broker.dir);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%255s", home), 1);
    fclose(file);
    snprintf(path, sizeof path, "%s/rabbitmq.pid", home);
    file = fopen(path, "r");
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
