/* rabbitmq_connect: what runs in the dialer's thread: open, TLS, login, channel; and the probe for exchanges and queues */
#include "sink/rabbitmq_connect.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "sink/rabbitmq_claim.h"

/* With TLS: POLLOUT promises a third of it; the kernel caps it at net.core.wmem_max. */
#define SEND_BUFFER_BYTES (1024 * 1024)
#define HOST_MAX 255

struct rabbitmq_call {
    char *uri; /* taken apart where it stands: info points into it */
    size_t uri_len;
    struct amqp_connection_info info;
    char host[HOST_MAX + 1];
    int port;
    struct secret password;
    char *ca_file, *cert_file, *key_file;
    int64_t heartbeat_us, timeout_us;
    char *forwarder;
    struct rabbitmq_probe *probe; /* NULL: none */
    char *claim;                  /* likewise */
};

static int copy_text(const char *text, char **ret_copy) {
    if (!text)
        return 0;
    *ret_copy = strdup(text);
    return *ret_copy ? 0 : -ENOMEM;
}

static void free_call(void *argument) {
    struct rabbitmq_call *c = argument;
    if (!c)
        return;
    if (c->uri)
        explicit_bzero(c->uri, c->uri_len);
    free(c->uri);
    secret_done(&c->password);
    free(c->ca_file);
    free(c->cert_file);
    free(c->key_file);
    free(c->forwarder);
    free(c->probe);
    free(c->claim);
    free(c);
}

static void cleanup_call(struct rabbitmq_call **c) {
    free_call(*c);
}

/* A URI that ends in '/' has an empty virtual host by its grammar; the one
 * that everybody means by it is '/'. */
static int parse_uri(char *uri, struct amqp_connection_info *ret_info) {
    if (amqp_parse_url(uri, ret_info) != AMQP_STATUS_OK)
        return -EINVAL;
    if (ret_info->vhost[0] == '\0')
        ret_info->vhost = (char *)"/";
    return 0;
}

char *rabbitmq_vhost(const char *uri) {
    CLEANUP(cleanup_free) char *copy = strdup(uri);
    struct amqp_connection_info info;
    if (!copy)
        return NULL;
    size_t len = strlen(copy);
    char *vhost = strdup(parse_uri(copy, &info) == 0 ? info.vhost : "/");
    explicit_bzero(copy, len);
    return vhost;
}

uint32_t rabbitmq_call_hosts(const struct rabbitmq_connection *connection) {
    return connection->hosts.count > 0 ? (uint32_t)connection->hosts.count : 1;
}

static int choose_host(struct rabbitmq_call *c, const struct rabbitmq_connection *connection, uint32_t turn) {
    struct span host = span_of(c->info.host);
    c->port = c->info.port;
    if (connection->hosts.count > 0) {
        const char *text = connection->hosts.items[turn % connection->hosts.count];
        int r = rabbitmq_host_parse(span_of(text), &host, &c->port);
        if (r < 0)
            return r;
    }
    if (host.len > HOST_MAX)
        return -EINVAL;
    memcpy(c->host, host.data, host.len);
    return 0;
}

static int copy_probe(const struct rabbitmq_probe *probe, struct rabbitmq_probe **ret_copy) {
    if (!probe)
        return 0;
    *ret_copy = malloc(sizeof **ret_copy);
    if (!*ret_copy)
        return -ENOMEM;
    **ret_copy = *probe;
    return 0;
}

int rabbitmq_call_new(const struct rabbitmq_connection *connection, const char *forwarder, uint32_t turn,
                      const struct rabbitmq_probe *probe, const char *claim, struct rabbitmq_call **ret_call) {
    CLEANUP(cleanup_call) struct rabbitmq_call *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->heartbeat_us = connection->heartbeat_us;
    c->timeout_us = connection->connect_timeout_us;
    c->password.kind = connection->password.kind;
    if (copy_text(connection->uri, &c->uri) < 0 || copy_text(forwarder, &c->forwarder) < 0 || copy_text(claim, &c->claim) < 0 ||
        copy_text(connection->password.value, &c->password.value) < 0 ||
        copy_text(connection->tls_ca_file, &c->ca_file) < 0 || copy_text(connection->tls_cert_file, &c->cert_file) < 0 ||
        copy_text(connection->tls_key_file, &c->key_file) < 0)
        return -ENOMEM;
    c->uri_len = strlen(c->uri);
    int r = parse_uri(c->uri, &c->info);
    if (r == 0)
        r = choose_host(c, connection, turn);
    if (r == 0)
        r = copy_probe(probe, &c->probe);
    if (r < 0)
        return r;
    *ret_call = TAKE(c);
    return 0;
}

/* Words. ----------------------------------------------------------------- */

void rabbitmq_say_close(struct error *error, uint16_t code, amqp_bytes_t text) {
    error_set(error, ERROR_RETRY, "%.*s (%u)", (int)text.len, text.len ? (const char *)text.bytes : "", code);
}

void rabbitmq_say_status(struct error *error, int status) {
    error_set(error, ERROR_RETRY, "%s (librabbitmq %d)", amqp_error_string2(status), status);
}

int rabbitmq_say_reply(struct error *error, const char *step, const amqp_rpc_reply_t *reply) {
    if (reply->reply_type == AMQP_RESPONSE_NORMAL)
        return 0;
    const void *decoded = reply->reply.decoded;
    if (reply->reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
        rabbitmq_say_status(error, reply->library_error);
    } else if (reply->reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *close = decoded;
        rabbitmq_say_close(error, close->reply_code, close->reply_text);
    } else if (reply->reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = decoded;
        rabbitmq_say_close(error, close->reply_code, close->reply_text);
    } else {
        error_set(error, ERROR_RETRY, "unexpected answer %#x", reply->reply.id);
    }
    error_prefix(error, "%s", step);
    return -EIO;
}

static int say_failed(struct error *error, const char *step, int status) {
    rabbitmq_say_status(error, status);
    error_prefix(error, "%s", step);
    return -EIO;
}

const amqp_channel_close_t *rabbitmq_refusal_of(const amqp_rpc_reply_t *reply) {
    bool refused = reply->reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && reply->reply.id == AMQP_CHANNEL_CLOSE_METHOD;
    return refused ? reply->reply.decoded : NULL;
}

int rabbitmq_accept_close(amqp_connection_state_t connection, amqp_channel_t channel, struct error *reterr) {
    amqp_channel_close_ok_t ok = {0};
    int status = amqp_send_method(connection, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
    return status == AMQP_STATUS_OK ? 0 : say_failed(reterr, "channel.close-ok", status);
}

/* Steps. ----------------------------------------------------------------- */

static struct timeval timeval_of(int64_t us) {
    return (struct timeval){.tv_sec = us / CLOCK_US_PER_S, .tv_usec = us % CLOCK_US_PER_S};
}

/* Certificate and host name are checked by default; there is no key to switch that off. */
static int set_up_tls(const struct rabbitmq_call *c, amqp_socket_t *socket, struct error *reterr) {
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 1);
    /* The library's own floor is TLS 1.0. */
    int status = amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    if (status != AMQP_STATUS_OK)
        return say_failed(reterr, "TLS versions", status);
    status = amqp_ssl_socket_set_cacert(socket, c->ca_file);
    if (status != AMQP_STATUS_OK) {
        say_failed(reterr, c->ca_file, status);
        error_prefix(reterr, "tls.ca_file");
        return -EIO;
    }
    if (!c->cert_file)
        return 0;
    status = amqp_ssl_socket_set_key(socket, c->cert_file, c->key_file);
    return status == AMQP_STATUS_OK ? 0 : say_failed(reterr, "tls.cert_file and tls.key_file", status);
}

static int open_socket(const struct rabbitmq_call *c, amqp_connection_state_t connection, struct error *reterr) {
    amqp_socket_t *socket = c->info.ssl ? amqp_ssl_socket_new(connection) : amqp_tcp_socket_new(connection);
    if (!socket)
        return say_failed(reterr, "socket", AMQP_STATUS_NO_MEMORY);
    int r = c->info.ssl ? set_up_tls(c, socket, reterr) : 0;
    if (r < 0)
        return r;
    struct timeval timeout = timeval_of(c->timeout_us);
    int status = amqp_socket_open_noblock(socket, c->host, c->port, &timeout);
    if (status != AMQP_STATUS_OK)
        return say_failed(reterr, c->info.ssl ? "can't connect with TLS" : "can't connect", status);
    int bytes = SEND_BUFFER_BYTES;
    if (c->info.ssl)
        (void)!setsockopt(amqp_get_sockfd(connection), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    return 0;
}

static amqp_table_entry_t text_entry(const char *name, const char *value) {
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(name),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(value)},
    };
}

static amqp_table_entry_t true_entry(const char *name) {
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(name),
        .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1},
    };
}

static amqp_rpc_reply_t log_in(const struct rabbitmq_call *c, amqp_connection_state_t connection, const char *password) {
    char name[256];
    snprintf(name, sizeof name, "penstock %s%s", c->forwarder, c->probe ? " (asks for exchanges)" : "");
    /* The library's own do not ask for connection.blocked. */
    amqp_table_entry_t capabilities[] = {
        true_entry("connection.blocked"),
        true_entry("publisher_confirms"),
        true_entry("basic.nack"),
        true_entry("authentication_failure_close"),
    };
    amqp_table_entry_t entries[] = {
        text_entry("product", "Penstock"),
        text_entry("version", PENSTOCK_VERSION),
        text_entry("connection_name", name),
        {
            .key = amqp_cstring_bytes("capabilities"),
            .value = {.kind = AMQP_FIELD_KIND_TABLE,
                      .value.table = {.num_entries = ARRAY_LENGTH(capabilities), .entries = capabilities}},
        },
    };
    amqp_table_t properties = {.num_entries = ARRAY_LENGTH(entries), .entries = entries};
    int heartbeat_s = (int)((c->heartbeat_us + CLOCK_US_PER_S - 1) / CLOCK_US_PER_S);
    return amqp_login_with_properties(connection, c->info.vhost, 0, RABBITMQ_FRAME_MAX, heartbeat_s, &properties,
                                      AMQP_SASL_METHOD_PLAIN, c->info.user, password);
}

static void wipe(struct buf *password) {
    secret_wipe(password);
    buf_done(password);
}

static int read_password_and_log_in(const struct rabbitmq_call *c, amqp_connection_state_t connection,
                                    struct error *reterr) {
    CLEANUP(wipe) struct buf password = BUF_INIT(SECRET_MAX_BYTES);
    if (c->password.kind != SECRET_NONE) {
        int r = secret_read(&c->password, &password, reterr);
        if (r < 0)
            return r;
    }
    amqp_rpc_reply_t reply = log_in(c, connection, c->password.kind != SECRET_NONE ? password.data : c->info.password);
    return rabbitmq_say_reply(reterr, "login", &reply);
}

int rabbitmq_open_channel(amqp_connection_state_t connection, amqp_channel_t channel, struct error *reterr) {
    amqp_channel_open(connection, channel);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
    return rabbitmq_say_reply(reterr, "channel.open", &reply);
}

static int set_up(const struct rabbitmq_call *c, amqp_connection_state_t connection, struct error *reterr) {
    struct timeval timeout = timeval_of(c->timeout_us);
    if (amqp_set_handshake_timeout(connection, &timeout) != AMQP_STATUS_OK ||
        amqp_set_rpc_timeout(connection, &timeout) != AMQP_STATUS_OK)
        return say_failed(reterr, "timeouts", AMQP_STATUS_INVALID_PARAMETER);
    int r = open_socket(c, connection, reterr);
    if (r == 0)
        r = read_password_and_log_in(c, connection, reterr);
    if (r == 0)
        r = rabbitmq_open_channel(connection, RABBITMQ_CHANNEL, reterr);
    return r;
}

static void close_connection(void *handle) {
    amqp_destroy_connection(handle);
}

static amqp_connection_state_t open_connection(const struct rabbitmq_call *c, struct error *reterr) {
    amqp_connection_state_t connection = amqp_new_connection();
    if (!connection) {
        error_set(reterr, ERROR_RETRY, "out of memory");
        return NULL;
    }
    if (set_up(c, connection, reterr) == 0)
        return connection;
    error_prefix(reterr, "%s:%d", c->host, c->port);
    close_connection(connection);
    return NULL;
}

/* With a word to the broker: it may come every second. */
static int claim(const struct rabbitmq_call *c, amqp_connection_state_t connection, struct error *reterr) {
    int r = rabbitmq_claim(connection, c->claim, reterr);
    if (r == 0)
        return 0;
    if (reterr->class != ERROR_TAKEN) /* that is so at each of the cluster's hosts */
        error_prefix(reterr, "%s:%d", c->host, c->port);
    amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
    return r;
}

static void *connect_for_publishing(void *argument, struct error *reterr) {
    const struct rabbitmq_call *c = argument;
    amqp_connection_state_t connection = open_connection(c, reterr);
    if (!connection)
        return NULL;
    int r = c->claim ? claim(c, connection, reterr) : 0;
    if (r == 0) {
        amqp_confirm_select(connection, RABBITMQ_CHANNEL);
        amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
        r = rabbitmq_say_reply(reterr, "confirm.select", &reply);
    }
    if (r == 0)
        return connection;
    close_connection(connection);
    return NULL;
}

const struct dial_ops rabbitmq_connect_ops = {
    .connect = connect_for_publishing,
    .close = close_connection,
    .free_argument = free_call,
};

static void send_question(amqp_connection_state_t connection, amqp_channel_t channel, const struct rabbitmq_question *q) {
    amqp_bytes_t name = {.len = q->name_len, .bytes = (char *)q->name};
    if (q->queue)
        amqp_queue_declare(connection, channel, name, 1, 0, 0, 0, amqp_empty_table);
    else
        amqp_exchange_declare(connection, channel, name, amqp_cstring_bytes("direct"), 1, 0, 0, 0, amqp_empty_table);
}

static void take_no(struct rabbitmq_question *q, const amqp_channel_close_t *close) {
    q->code = close->reply_code;
    snprintf(q->reason, sizeof q->reason, "%.*s", (int)close->reply_text.len,
             close->reply_text.len ? (const char *)close->reply_text.bytes : "");
}

/* Every question that is answered by no closes its channel: the next has one of its own. */
static int ask(amqp_connection_state_t connection, amqp_channel_t channel, struct rabbitmq_question *q,
               struct error *reterr) {
    if (channel != RABBITMQ_CHANNEL) {
        int r = rabbitmq_open_channel(connection, channel, reterr);
        if (r < 0)
            return r;
    }
    send_question(connection, channel, q);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
    q->found = reply.reply_type == AMQP_RESPONSE_NORMAL;
    const amqp_channel_close_t *no = rabbitmq_refusal_of(&reply);
    if (no) {
        take_no(q, no);
        return rabbitmq_accept_close(connection, channel, reterr);
    }
    return rabbitmq_say_reply(reterr, "declare passive", &reply);
}

static void *probe_names(void *argument, struct error *reterr) {
    struct rabbitmq_call *c = argument;
    amqp_connection_state_t connection = open_connection(c, reterr);
    if (!connection)
        return NULL;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < c->probe->count; i++)
        r = ask(connection, (amqp_channel_t)(RABBITMQ_CHANNEL + i), &c->probe->questions[i], reterr);
    if (r == 0)
        amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
    close_connection(connection);
    return r == 0 ? TAKE(c->probe) : NULL;
}

const struct dial_ops rabbitmq_probe_ops = {
    .connect = probe_names,
    .close = free,
    .free_argument = free_call,
};
