/* kafka_options: what can be configured of a Kafka connection and destination */
#include "sink/kafka_options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "sink/kafka_properties.h"

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

int kafka_connection_check(const void *connection, struct error *reterr) {
    (void)connection, (void)reterr;
    return 0;
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
              "no name of a topic; 1 to %d of a-z, A-Z, 0-9, '.', '_' and '-' are allowed, but not \".\" or \"..\"",
              KAFKA_TOPIC_MAX);
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
    {"reconnect.backoff.max.ms", "500"},
    {"allow.auto.create.topics", "false"},
    {NULL, NULL},
};

static const struct setting producer_settings[] = {
    {"enable.idempotence", "true"},
    {"enable.gapless.guarantee", "true"}, /* a failed batch ends the instance: nothing goes past it (G6) */
    {"acks", "all"},
    {"message.timeout.ms", "0"}, /* nothing is given up */
    {"linger.ms", "0"},          /* the sink gates its submits instead */
    {"partitioner", "murmur2_random"}, /* where Java's producer puts them */
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

#define OVERHEAD_MAX (1024 * 1024) /* key, headers and framing beside the event's data */

/* What librdkafka holds is bounded by the sink's tokens and the window's bytes (G9), never by a limit of its own,
 * which would refuse what the window lets through. */
static int set_tuning(rd_kafka_conf_t *conf, const struct kafka_tuning *t, struct error *reterr) {
    int r = set_all(conf, producer_settings, reterr);
    if (r == 0)
        r = set_number(conf, "queue.buffering.max.messages", 2 * (int64_t)t->in_flight, reterr);
    if (r == 0)
        r = set_number(conf, "queue.buffering.max.kbytes", INT_MAX, reterr);
    if (r == 0)
        r = set_number(conf, "message.max.bytes", t->max_message_bytes + OVERHEAD_MAX, reterr);
    return r;
}

static int set_property(rd_kafka_conf_t *conf, const struct option_property *p, struct error *reterr) {
    CLEANUP(secret_wipe) struct buf value = BUF_INIT(SECRET_MAX_BYTES + 1);
    struct error why;
    int r = secret_read(&p->value, &value, &why);
    if (r == 0)
        r = kafka_property_rules.check(span_of(p->name), buf_span(&value), &why);
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
    if (r == 0)
        *ret_conf = TAKE(conf);
    return r;
}
