/* rabbitmq_options: what can be configured of a RabbitMQ connection and destination */
#include "sink/rabbitmq_options.h"

#include <errno.h>

#include "sink/rabbitmq_library.h"

static int check_host(struct span text, struct error *reterr) {
    struct span host;
    int port = 0;
    if (rabbitmq_host_parse(text, &host, &port) == 0)
        return 0;
    error_set(reterr, ERROR_CONFIG, "not a host; allowed: NAME, NAME:PORT, [IPV6]:PORT, with a port from 1 to 65535");
    return -EINVAL;
}

/* Parses a copy: the library writes into it. */
static int check_uri(struct span text, struct error *reterr) {
    CLEANUP(cleanup_free) char *copy = strndup(text.data, text.len);
    if (!copy)
        return -ENOMEM;
    struct amqp_connection_info info;
    int r = amqp_parse_url(copy, &info);
    explicit_bzero(copy, text.len);
    if (r == AMQP_STATUS_OK && info.port > 0)
        return 0;
    error_set(reterr, ERROR_CONFIG,
              "not a URI that can be used; allowed: amqp://USER@HOST:PORT/VHOST or amqps://…, without a query, other "
              "characters as %%XX (of ASCII only), the password better under password:");
    return -EINVAL;
}

const struct option rabbitmq_connection_table[] = {
    {
        .key = "uri",
        .kind = OPTION_TEXT,
        .offset = offsetof(struct rabbitmq_connection, uri),
        .required = true,
        .summary = "amqp:// or amqps:// (TLS) with user, host, port and virtual host; without one, or with '/' alone, it is '/'",
        .check = check_uri,
    },
    {
        .key = "hosts",
        .kind = OPTION_TEXTS,
        .offset = offsetof(struct rabbitmq_connection, hosts),
        .summary = "hosts of one cluster, tried in turn instead of the URI's: NAME or NAME:PORT",
        .check = check_host,
    },
    {
        .key = "password",
        .kind = OPTION_SECRET,
        .offset = offsetof(struct rabbitmq_connection, password),
        .summary = "the user's password, read at each connect; goes before one in the URI",
    },
    {
        .key = "heartbeat",
        .kind = OPTION_DURATION,
        .offset = offsetof(struct rabbitmq_connection, heartbeat_us),
        .fallback = "30s",
        .min = 1000 * 1000,
        .max = INT64_C(3600) * 1000 * 1000,
        .summary = "a peer that is silent for twice as long is given up; the broker may ask for less",
    },
    {
        .key = "connect_timeout",
        .kind = OPTION_DURATION,
        .offset = offsetof(struct rabbitmq_connection, connect_timeout_us),
        .fallback = "10s",
        .min = 100 * 1000,
        .max = INT64_C(600) * 1000 * 1000,
        .summary = "how long each step of connecting may take (open, TLS, login, channel)",
    },
    {
        .key = "tls.ca_file",
        .kind = OPTION_TEXT,
        .offset = offsetof(struct rabbitmq_connection, tls_ca_file),
        .fallback = "/etc/ssl/certs/ca-certificates.crt",
        .summary = "certificates that may sign the broker's; certificate and host name are always checked",
    },
    {
        .key = "tls.cert_file",
        .kind = OPTION_TEXT,
        .offset = offsetof(struct rabbitmq_connection, tls_cert_file),
        .summary = "our own certificate (PEM), if the broker asks for one",
    },
    {
        .key = "tls.key_file",
        .kind = OPTION_TEXT,
        .offset = offsetof(struct rabbitmq_connection, tls_key_file),
        .summary = "the key of tls.cert_file (PEM)",
    },
    OPTION_END,
};

int rabbitmq_connection_check(const void *connection, const char **ret_key, struct error *reterr) {
    const struct rabbitmq_connection *c = connection;
    if (!c->tls_cert_file == !c->tls_key_file)
        return 0;
    *ret_key = c->tls_cert_file ? "tls.cert_file" : "tls.key_file";
    error_set(reterr, ERROR_CONFIG, "%s is given without %s; a certificate needs both", *ret_key,
              c->tls_cert_file ? "tls.key_file" : "tls.cert_file");
    return -EINVAL;
}

static int parse_port(struct span text, int *ret_port) {
    int port = 0;
    if (text.len == 0 || text.len > 5)
        return -EINVAL;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -EINVAL;
        port = port * 10 + (text.data[i] - '0');
    }
    if (port < 1 || port > 65535)
        return -EINVAL;
    *ret_port = port;
    return 0;
}

int rabbitmq_host_parse(struct span text, struct span *ret_host, int *ret_port) {
    if (text.len == 0)
        return -EINVAL;
    bool bracketed = text.data[0] == '[';
    const char *end = bracketed ? memchr(text.data, ']', text.len) : memchr(text.data, ':', text.len);
    if (bracketed && !end)
        return -EINVAL;
    if (!end)
        end = text.data + text.len;
    struct span host = {text.data + bracketed, (size_t)(end - text.data) - bracketed};
    struct span rest = {end + bracketed, (size_t)(text.data + text.len - end) - bracketed};
    if (host.len == 0 || memchr(host.data, '/', host.len) || memchr(host.data, '@', host.len))
        return -EINVAL;
    if (rest.len > 0) {
        if (rest.data[0] != ':')
            return -EINVAL;
        int r = parse_port((struct span){rest.data + 1, rest.len - 1}, ret_port);
        if (r < 0)
            return r;
    }
    *ret_host = host;
    return 0;
}

static int check_short(struct span text, struct error *reterr) {
    if (text.len <= RABBITMQ_SHORT_MAX)
        return 0;
    error_set(reterr, ERROR_CONFIG, "is %zu bytes long; AMQP allows %d", text.len, RABBITMQ_SHORT_MAX);
    return -EINVAL;
}

static int check_queue(struct span text, struct error *reterr) {
    static const struct span reserved = SPAN_LITERAL("amq.");
    if (text.len == 0) { /* the broker would make up a name, each time another */
        error_set(reterr, ERROR_CONFIG, "is empty; the name of a queue that nothing else uses is expected");
        return -EINVAL;
    }
    if (text.len >= reserved.len && memcmp(text.data, reserved.data, reserved.len) == 0) {
        error_set(reterr, ERROR_CONFIG, "names that begin with \"amq.\" are the broker's own; another one is allowed");
        return -EINVAL;
    }
    return check_short(text, reterr);
}

const struct option rabbitmq_sink_table[] = {
    {
        .key = "lease.queue",
        .kind = OPTION_TEXT,
        .offset = offsetof(struct rabbitmq_sink_options, lease_queue),
        .unique = true,
        .summary = "an exclusive queue on the publishing connection: the broker lets only one instance have it",
        .check = check_queue,
    },
    OPTION_END,
};

const struct destination_field rabbitmq_fields[] = {
    [RABBITMQ_EXCHANGE] = {.key = "exchange",
                           .required = true,
                           .summary = "the exchange; \"\" is the default exchange, which routes to the queue named by the key",
                           .check = check_short},
    [RABBITMQ_ROUTING_KEY] = {.key = "routing_key", .summary = "the routing key; empty if not given", .check = check_short},
    {.key = NULL},
};
