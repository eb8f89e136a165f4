/* kafka_options: what can be configured of a Kafka connection and destination */
#include "sink/kafka_options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/log.h"
#include "sink/kafka_files.h"
#include "sink/kafka_properties.h"

#define RECONNECT_MAX_MS 500
#define SHOWN_MAX 80 /* bytes of what somebody wrote */

const struct option kafka_connection_table[] = {
    {
        .key = "PROPERTY",
        .kind = OPTION_PROPERTIES,
        .offset = offsetof(struct kafka_connection, properties),
        .summary = "any property of librdkafka's producer that leaves the guarantees as they are",
        .properties = &kafka_property_rules,
    },
    OPTION_END,
};

/* A connection as a whole ------------------------------------------------ */

const struct option_property *kafka_connection_get(const struct kafka_connection *c, const char *name) {
    for (size_t i = 0; i < c->properties.count; i++)
        if (strcmp(c->properties.items[i].name, name) == 0)
            return &c->properties.items[i];
    return NULL;
}

/* The one of two names of a property that is there. */
static const struct option_property *find_either(const struct kafka_connection *c, const char *name, const char *other) {
    const struct option_property *p = kafka_connection_get(c, name);
    return p ? p : kafka_connection_get(c, other);
}

static bool begins(const char *text, const char *prefix) {
    return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

/* about: the property that a finding points at; NULL: none that is there. */
#define REFUSE(about, ...) (*ret_key = (about), error_set(reterr, ERROR_CONFIG, __VA_ARGS__), -EINVAL)

/* The library would take the later one, silently. */
static int check_names(const struct kafka_connection *c, const char **ret_key, struct error *reterr) {
    static const char *const pairs[][2] = {
        {"bootstrap.servers", "metadata.broker.list"},
        {"linger.ms", "queue.buffering.max.ms"},
        {"compression.type", "compression.codec"},
        {"sasl.mechanism", "sasl.mechanisms"},
        {"max.in.flight", "max.in.flight.requests.per.connection"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++)
        if (kafka_connection_get(c, pairs[i][0]) && kafka_connection_get(c, pairs[i][1]))
            return REFUSE(pairs[i][1], "%s and %s are two names of one property; give one of them", pairs[i][0], pairs[i][1]);
    if (!find_either(c, "bootstrap.servers", "metadata.broker.list"))
        return REFUSE(NULL, "\"bootstrap.servers\" is missing; it is needed: some of the brokers, as HOST:PORT,HOST:PORT");
    return 0;
}

/* Whoever gives a password or a certificate doesn't expect that the connection goes without it. */
static int check_protocol(const struct kafka_connection *c, const char *protocol, const char **ret_key,
                          struct error *reterr) {
    bool sasl = begins(protocol, "sasl_"), tls = strcasestr(protocol, "ssl") != NULL;
    for (size_t i = 0; i < c->properties.count; i++) {
        const char *name = c->properties.items[i].name;
        if (!sasl && begins(name, "sasl."))
            return REFUSE(name, "%s has no effect without security.protocol: sasl_ssl or sasl_plaintext", name);
        if (!tls && begins(name, "ssl."))
            return REFUSE(name, "%s has no effect without security.protocol: ssl or sasl_ssl", name);
    }
    return 0;
}

static int check_login(const struct kafka_connection *c, const char *protocol, const char **ret_key,
                       struct error *reterr) {
    const struct option_property *mechanism = find_either(c, "sasl.mechanism", "sasl.mechanisms");
    if (!begins(protocol, "sasl_"))
        return 0;
    if (!mechanism)
        return REFUSE("security.protocol",
                      "security.protocol %s needs sasl.mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI or OAUTHBEARER",
                      protocol);
    bool by_password = mechanism->value.kind == SECRET_INLINE &&
                       (begins(mechanism->value.value, "PLAIN") || begins(mechanism->value.value, "SCRAM"));
    if (by_password && (!kafka_connection_get(c, "sasl.username") || !kafka_connection_get(c, "sasl.password")))
        return REFUSE(mechanism->name, "%s %s needs sasl.username and sasl.password", mechanism->name,
                      mechanism->value.value);
    return 0;
}

static int check_certificate(const struct kafka_connection *c, const char **ret_key, struct error *reterr) {
    const struct option_property *certificate = find_either(c, "ssl.certificate.location", "ssl.certificate.pem");
    const struct option_property *key = find_either(c, "ssl.key.location", "ssl.key.pem");
    if (!certificate != !key)
        return REFUSE(certificate ? certificate->name : key->name, "%s is given without %s; a certificate needs both",
                      certificate ? certificate->name : key->name,
                      certificate ? "ssl.key.location" : "ssl.certificate.location");
    if (kafka_connection_get(c, "ssl.keystore.location") && !kafka_connection_get(c, "ssl.keystore.password"))
        return REFUSE("ssl.keystore.location", "ssl.keystore.location needs ssl.keystore.password");
    return 0;
}

static int64_t number_of(const struct option_property *p, int64_t otherwise) {
    return p && p->value.kind == SECRET_INLINE ? strtoll(p->value.value, NULL, 10) : otherwise;
}

int kafka_connection_check(const void *connection, const char **ret_key, struct error *reterr) {
    const struct kafka_connection *c = connection;
    int64_t wait_ms = number_of(kafka_connection_get(c, "reconnect.backoff.ms"), 0);
    int64_t longest_ms = number_of(kafka_connection_get(c, "reconnect.backoff.max.ms"), RECONNECT_MAX_MS);
    const struct option_property *protocol = kafka_connection_get(c, "security.protocol");
    const char *protocol_name = !protocol ? "plaintext" : protocol->value.kind == SECRET_INLINE ? protocol->value.value : NULL;
    int r = check_names(c, ret_key, reterr);
    if (r == 0 && protocol_name)
        r = check_protocol(c, protocol_name, ret_key, reterr);
    if (r == 0 && protocol_name)
        r = check_login(c, protocol_name, ret_key, reterr);
    if (r == 0)
        r = check_certificate(c, ret_key, reterr);
    if (r == 0 && wait_ms > longest_ms)
        r = REFUSE("reconnect.backoff.ms",
                   "reconnect.backoff.ms is longer than reconnect.backoff.max.ms (%jd); it may be at most that",
                   (intmax_t)longest_ms);
    return r;
}

/* Destination ------------------------------------------------------------ */

int kafka_topic_check(struct span name, struct error *reterr) {
    bool valid = name.len > 0 && name.len <= KAFKA_TOPIC_MAX && !span_is(name, ".") && !span_is(name, "..");
    for (size_t i = 0; valid && i < name.len; i++) {
        char c = name.data[i];
        valid = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                c == '-';
    }
    if (valid)
        return 0;
    error_set(reterr, ERROR_CONFIG,
              "\"%.*s\" is no name of a topic; 1 to %d of a-z, A-Z, 0-9, '.', '_' and '-' are allowed, but not \".\" or "
              "\"..\"",
              name.len > SHOWN_MAX ? SHOWN_MAX : (int)name.len, name.data, KAFKA_TOPIC_MAX);
    return -EINVAL;
}

const struct destination_field kafka_fields[] = {
    [KAFKA_TOPIC] = {.key = "topic", .required = true, .summary = "the topic", .check = kafka_topic_check},
    [KAFKA_KEY] = {.key = "key",
                   .summary = "the message's key; if not given: partitionkey, else streamid, else no key"},
    {.key = NULL},
};

const struct option kafka_destination_table[] = {
    {
        .key = "mode",
        .kind = OPTION_CHOICE,
        .offset = offsetof(struct kafka_destination, binding.mode),
        .fallback = "binary",
        .choices = binding_modes,
        .summary = "attributes as headers and data as it is (binary), or one JSON document (structured)",
    },
    {
        .key = "partition",
        .kind = OPTION_INTEGER,
        .offset = offsetof(struct kafka_destination, partition),
        .fallback = "-1",
        .min = KAFKA_PARTITION_BY_KEY,
        .max = INT32_MAX,
        .summary = "always this partition; -1: by the key",
    },
    OPTION_END,
};

/* The library's settings ------------------------------------------------- */

struct setting {
    const char *name, *value;
};

static const struct setting settings[] = {
    {"log.queue", "true"},
    {"socket.keepalive.enable", "true"},
    {"socket.nagle.disable", "true"},
    {"reconnect.backoff.max.ms", STRING(RECONNECT_MAX_MS)},
    {"allow.auto.create.topics", "false"},
    {NULL, NULL},
};

static const struct setting producer_settings[] = {
    {"enable.idempotence", "true"},
    {"enable.gapless.guarantee", "true"}, /* a failed batch ends the instance: nothing goes past it (G6) */
    {"acks", "all"},
    {"message.timeout.ms", "0"}, /* nothing is given up */
    {"linger.ms", "0"},          /* the sink gates its submits instead */
    {"topic.metadata.propagation.max.ms", "2000"},
    {NULL, NULL},
};

/* The library's words may show the value. */
static int set(rd_kafka_conf_t *conf, const char *name, const char *value, struct error *reterr) {
    char why[512];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK)
        return 0;
    error_set(reterr, ERROR_CONFIG, "%s: %s", name,
              kafka_property_rules.secret(span_of(name)) ? "librdkafka doesn't take it" : why);
    return -EINVAL;
}

static int set_all(rd_kafka_conf_t *conf, const struct setting *s, struct error *reterr) {
    int r = 0;
    for (; r == 0 && s->name; s++)
        r = set(conf, s->name, s->value, reterr);
    return r;
}

static int set_number(rd_kafka_conf_t *conf, const char *name, int64_t value, struct error *reterr) {
    char text[24];
    snprintf(text, sizeof text, "%jd", (intmax_t)value);
    return set(conf, name, text, reterr);
}

/* What librdkafka holds is bounded by the sink's tokens and the window's bytes (G9), never by a limit of its own,
 * which would refuse what the window lets through. */
static int set_tuning(rd_kafka_conf_t *conf, const struct kafka_tuning *t, struct error *reterr) {
    int r = set_all(conf, producer_settings, reterr);
    if (r == 0)
        r = set_number(conf, "queue.buffering.max.messages", 2 * (int64_t)t->in_flight, reterr);
    if (r == 0)
        r = set_number(conf, "queue.buffering.max.kbytes", INT_MAX, reterr);
    if (r == 0)
        r = set_number(conf, "message.max.bytes", t->max_message_bytes + KAFKA_OVERHEAD_BYTES, reterr);
    return r;
}

static int set_property(rd_kafka_conf_t *conf, const struct option_property *p, struct error *reterr) {
    CLEANUP(secret_wipe) struct buf value = BUF_INIT(SECRET_MAX_BYTES + 1);
    struct error why;
    int r = secret_read(&p->value, &value, &why);
    if (r == 0)
        r = kafka_property_rules.check(span_of(p->name), buf_span(&value), &why);
    if (r == 0)
        r = kafka_files_check(span_of(p->name), buf_span(&value), &why);
    ASSERT(r != OPTION_E_UNKNOWN); /* refused at load */
    if (r == 0 && !kafka_property_fixed(span_of(p->name)))
        return set(conf, p->name, value.data, reterr);
    if (r == 0 || r == -ENOMEM)
        return r;
    error_set(reterr, why.class, "%s: %s", p->name, why.text);
    return r;
}

/* Not above what the topics take, unless the user wants even less. */
static int limit_batch(rd_kafka_conf_t *conf, int64_t batch_bytes, struct error *reterr) {
    char text[24];
    size_t size = sizeof text;
    if (batch_bytes == 0 || rd_kafka_conf_get(conf, "batch.size", text, &size) != RD_KAFKA_CONF_OK)
        return 0;
    return strtoll(text, NULL, 10) <= batch_bytes ? 0 : set_number(conf, "batch.size", batch_bytes, reterr);
}

static void conf_cleanup(rd_kafka_conf_t **conf) {
    if (*conf)
        rd_kafka_conf_destroy(*conf);
}

int kafka_options_conf(const struct kafka_connection *connection, const struct kafka_tuning *tuning,
                       rd_kafka_conf_t **ret_conf, struct error *reterr) {
    ASSERT(tuning->in_flight > 0 || tuning->role == KAFKA_LOOK);
    ASSERT(tuning->client_id != NULL);
    CLEANUP(conf_cleanup) rd_kafka_conf_t *conf = rd_kafka_conf_new();
    int r = set_all(conf, settings, reterr);
    if (r == 0)
        r = set(conf, "client.id", tuning->client_id, reterr);
    if (r == 0 && tuning->role == KAFKA_PRODUCER)
        r = set_tuning(conf, tuning, reterr);
    for (size_t i = 0; r == 0 && i < connection->properties.count; i++)
        r = set_property(conf, &connection->properties.items[i], reterr);
    if (r == 0 && tuning->role == KAFKA_PRODUCER)
        r = limit_batch(conf, tuning->batch_bytes, reterr);
    if (r == 0 && tuning->single)
        r = set(conf, "batch.num.messages", "1", reterr);
    if (r == 0)
        *ret_conf = TAKE(conf);
    else if (r == -ENOMEM)
        error_set(reterr, ERROR_RETRY, "no memory");
    return r;
}
