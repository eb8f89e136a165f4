/* kafka_properties: which properties of librdkafka a connection may set, and which are secrets */
#include "sink/kafka_properties.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "sink/kafka_files.h"

/* Refusals --------------------------------------------------------------- */

/* What Penstock sets itself, or what must stay as it is. Numbers are those of
 * penstockd(8), GUARANTEES. */
struct refusal {
    const char *name;
    const char *const *same; /* what may be written, since it changes nothing; NULL: nothing */
    const char *why;
};

#define SAME(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char WHY_ACKS[] = "a confirm must mean that every in-sync replica has the event (G5)";
static const char WHY_TIMEOUT[] = "an event would be given up after a while and later ones of its key would pass it "
                                  "(G4, G6); how long one waits is watched by the sink's ack_timeout";
static const char WHY_RETRIES[] = "an event would be given up after so many attempts, and later ones of its key would "
                                  "pass it (G4, G6)";
static const char WHY_QUEUE[] = "Penstock makes it fit the forwarder's window, which bounds the memory (G9)";
static const char WHY_TRANSACTION[] = "readers at read_committed would wait for a commit that never comes, as the "
                                      "checkpoint is in PostgreSQL: a confirm would mean nothing to them (G5)";
static const char WHY_OLD_PROTOCOL[] = "the protocol of brokers before 0.11 has no headers: an event's attributes would "
                                       "be lost (G3)";
static const char WHY_UNVERIFIED[] = "the password would be told to whoever answers (G14); ssl.ca.location names who "
                                     "signs the broker's certificate";
static const char WHY_EVENTS[] = "Penstock takes reports and logs from librdkafka's own queue (G4, G8)";
static const char WHY_MOCK[] = "events would go to a pretended cluster in memory, and be confirmed there (G4)";

static const struct refusal refusals[] = {
    {"acks", SAME("all", "-1"), WHY_ACKS},
    {"request.required.acks", SAME("all", "-1"), WHY_ACKS},
    {"enable.idempotence", SAME("true"), "a batch that is sent again could pass a later one, or be stored twice (G6, G7)"},
    {"enable.gapless.guarantee", SAME("true"), "later events of a key would pass one that failed (G6)"},
    {"queuing.strategy", SAME("fifo"), "later events of a key would pass earlier ones (G6)"},
    {"queue.buffering.backpressure.threshold", SAME("1"), "librdkafka takes no other one for an idempotent producer (G6)"},
    {"transactional.id", NULL, WHY_TRANSACTION},
    {"transaction.timeout.ms", NULL, WHY_TRANSACTION},
    {"message.timeout.ms", SAME("0"), WHY_TIMEOUT},
    {"delivery.timeout.ms", SAME("0"), WHY_TIMEOUT},
    {"message.send.max.retries", SAME("2147483647"), WHY_RETRIES},
    {"retries", SAME("2147483647"), WHY_RETRIES},
    {"queue.buffering.max.messages", NULL, WHY_QUEUE},
    {"queue.buffering.max.kbytes", NULL, WHY_QUEUE},
    {"message.max.bytes", NULL, "it follows from max_message_bytes of the sink: set that; what is larger is refused by name (G8)"},
    {"delivery.report.only.error", SAME("false"), "no event would ever be known to be confirmed (G4)"},
    {"enabled_events", NULL, WHY_EVENTS},
    {"log.queue", SAME("true"), WHY_EVENTS},
    {"plugin.library.paths", NULL, "a plugin's interceptors may change events or leave them out, unseen (G3, G8)"},
    {"interceptors", NULL, "interceptors may change events or leave them out, unseen (G3, G8)"},
    {"allow.auto.create.topics", SAME("false"), "a misspelt topic would come into being instead of being reported (G13)"},
    {"topic.blacklist", NULL, "a topic would seem to be missing though it is there (G8, G13)"},
    {"api.version.request", SAME("true"), WHY_OLD_PROTOCOL},
    {"api.version.fallback.ms", SAME("0"), WHY_OLD_PROTOCOL},
    {"broker.version.fallback", NULL, WHY_OLD_PROTOCOL},
    {"enable.ssl.certificate.verification", SAME("true"), WHY_UNVERIFIED},
    {"ssl.endpoint.identification.algorithm", SAME("https"), WHY_UNVERIFIED},
    {"internal.termination.signal", NULL, "Penstock handles signals itself, so that it can stop cleanly (G11)"},
    {"test.mock.num.brokers", NULL, WHY_MOCK},
    {"test.mock.broker.rtt", NULL, WHY_MOCK},
};

static const struct refusal *find_refusal(struct span name) {
    for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++)
        if (span_is(name, refusals[i].name))
            return &refusals[i];
    return NULL;
}

bool kafka_property_fixed(struct span name) {
    return find_refusal(name) != NULL;
}

static bool is_word(struct span value, const char *word) {
    return value.len == strlen(word) && strncasecmp(value.data, word, value.len) == 0;
}

static bool is_one_of(struct span value, const char *const *words) {
    for (; words && *words; words++)
        if (is_word(value, *words))
            return true;
    return false;
}

static int check_refusal(const struct refusal *refusal, struct span value, struct error *reterr) {
    if (!span_absent(value) && is_one_of(value, refusal->same))
        return 0;
    error_set(reterr, ERROR_CONFIG, "%s%s%s: %s", refusal->same ? "is always " : "can't be set",
              refusal->same ? refusal->same[0] : "", refusal->same ? " here" : "", refusal->why);
    return -EINVAL;
}

/* What has no place here -------------------------------------------------- */

static const char WHY_CONSUMER[] = "is a consumer's; Penstock only produces";
static const char WHY_SERIALIZER[] = "is of Java's client; what is in a message says mode: of the destination";
static const char WHY_TRUSTSTORE[] = "is of Java's client; here it is ssl.ca.location, a file of certificates (PEM)";
static const char WHY_JAVA[] = "is of Java's client; librdkafka has none";

struct stranger {
    const char *name, *why;
};

static const struct stranger strangers[] = {
    {"auto.commit.enable", WHY_CONSUMER},
    {"auto.commit.interval.ms", WHY_CONSUMER},
    {"auto.offset.reset", WHY_CONSUMER},
    {"check.crcs", WHY_CONSUMER},
    {"consume.callback.max.messages", WHY_CONSUMER},
    {"coordinator.query.interval.ms", WHY_CONSUMER},
    {"enable.auto.commit", WHY_CONSUMER},
    {"enable.auto.offset.store", WHY_CONSUMER},
    {"enable.partition.eof", WHY_CONSUMER},
    {"fetch.error.backoff.ms", WHY_CONSUMER},
    {"fetch.max.bytes", WHY_CONSUMER},
    {"fetch.message.max.bytes", WHY_CONSUMER},
    {"fetch.min.bytes", WHY_CONSUMER},
    {"fetch.queue.backoff.ms", WHY_CONSUMER},
    {"fetch.wait.max.ms", WHY_CONSUMER},
    {"group.id", WHY_CONSUMER},
    {"group.instance.id", WHY_CONSUMER},
    {"group.protocol", WHY_CONSUMER},
    {"group.protocol.type", WHY_CONSUMER},
    {"group.remote.assignor", WHY_CONSUMER},
    {"heartbeat.interval.ms", WHY_CONSUMER},
    {"isolation.level", WHY_CONSUMER},
    {"max.partition.fetch.bytes", WHY_CONSUMER},
    {"max.poll.interval.ms", WHY_CONSUMER},
    {"offset.store.method", WHY_CONSUMER},
    {"offset.store.path", WHY_CONSUMER},
    {"offset.store.sync.interval.ms", WHY_CONSUMER},
    {"partition.assignment.strategy", WHY_CONSUMER},
    {"queued.max.messages.kbytes", WHY_CONSUMER},
    {"queued.min.messages", WHY_CONSUMER},
    {"session.timeout.ms", WHY_CONSUMER},
    {"builtin.features", "is what librdkafka says of itself"},
    {"statistics.interval.ms", "has no reader here; penstock status and the log say what is known"},
    {"sticky.partitioning.linger.ms", "has no effect: without a key, what is published at once goes to one partition"},
    {"buffer.memory", "is of Java's client; here it is window: {bytes: …} of the forwarder"},
    {"max.request.size", "is of Java's client; here it is max_message_bytes of the sink"},
    {"max.block.ms", "is of Java's client; nothing blocks here"},
    {"partitioner.class", "is of Java's client; here it is partitioner"},
    {"sasl.jaas.config", "is of Java's client; here it is sasl.username and sasl.password"},
    {"key.serializer", WHY_SERIALIZER},
    {"value.serializer", WHY_SERIALIZER},
    {"ssl.truststore.location", WHY_TRUSTSTORE},
    {"ssl.truststore.password", WHY_TRUSTSTORE},
    {"ssl.truststore.type", WHY_TRUSTSTORE},
    {"ssl.keystore.type", "is of Java's client; ssl.keystore.location is a PKCS#12 file"},
    {"interceptor.classes", WHY_JAVA},
    {"metric.reporters", WHY_JAVA},
};

static const char *why_strange(struct span name) {
    for (size_t i = 0; i < ARRAY_LENGTH(strangers); i++)
        if (span_is(name, strangers[i].name))
            return strangers[i].why;
    return NULL;
}

/* Some take a pointer even where the library would read a text as one. */
static bool takes_pointer(struct span name) {
    static const char *const others[] = {"opaque",  "default_topic_conf", "msg_order_cmp",
                                         "ssl_key", "ssl_certificate",    "ssl_ca",
                                         "ssl_engine_callback_data",      "ut_handle_ProduceResponse",
                                         NULL};
    return is_one_of(name, others) || (name.len > 3 && memcmp(name.data + name.len - 3, "_cb", 3) == 0);
}

/* Values ----------------------------------------------------------------- */

/* Where the library would take more than keeps the guarantees, or finds a mistake only at each attempt to connect. */
struct choice {
    const char *name;
    const char *const *words;
    const char *allowed;
};

#define PROTOCOLS SAME("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
#define MECHANISMS SAME("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
#define IN_FLIGHT SAME("1", "2", "3", "4", "5")

static const char ALLOWED_MECHANISMS[] = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI or OAUTHBEARER is allowed";
static const char ALLOWED_IN_FLIGHT[] =
    "1 to 5 is allowed: of more requests under way the broker couldn't keep the order when some are sent again (G6)";

static const struct choice choices[] = {
    {"partitioner", SAME("murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a"),
     "murmur2_random, murmur2, consistent_random, consistent, fnv1a_random or fnv1a is allowed: each of them keeps a key "
     "in one partition, without which it has no order (G6)"},
    {"security.protocol", PROTOCOLS, "plaintext, ssl, sasl_plaintext or sasl_ssl is allowed"},
    {"sasl.mechanisms", MECHANISMS, ALLOWED_MECHANISMS},
    {"sasl.mechanism", MECHANISMS, ALLOWED_MECHANISMS},
    {"max.in.flight", IN_FLIGHT, ALLOWED_IN_FLIGHT},
    {"max.in.flight.requests.per.connection", IN_FLIGHT, ALLOWED_IN_FLIGHT},
};

static int refuse(struct span value, const char *allowed, struct error *reterr) {
    error_set(reterr, ERROR_CONFIG, "\"%.*s\" is not taken; %s", value.len > 80 ? 80 : (int)value.len, value.data,
              allowed);
    return -EINVAL;
}

/* The sink itself goes by some of them, before anything is read from elsewhere. */
static int check_choice(struct span name, struct span value, struct error *reterr) {
    if (span_absent(value) && span_is(name, "partitioner")) {
        error_set(reterr, ERROR_CONFIG, "its value is no secret; it has to stand here");
        return -EINVAL;
    }
    if (span_absent(value))
        return 0;
    for (size_t i = 0; i < ARRAY_LENGTH(choices); i++)
        if (span_is(name, choices[i].name) && !is_one_of(value, choices[i].words))
            return refuse(value, choices[i].allowed, reterr);
    return 0;
}

/* The sink gathers by itself. The library would hold a message back for a quarter of an hour, fails with less, and the
 * sink took it for the broker's silence. */
#define LINGER_MAX_MS 1000

static int check_linger(struct span name, struct span value, struct error *reterr) {
    if (span_absent(value) || (!span_is(name, "linger.ms") && !span_is(name, "queue.buffering.max.ms")))
        return 0;
    char text[32];
    span_copy(text, sizeof text, value);
    if (strtod(text, NULL) <= LINGER_MAX_MS)
        return 0;
    return refuse(value, "at most 1000 is allowed (milliseconds): every message is held back so long before it is sent, and the "
                         "sink's ack_timeout runs meanwhile", reterr);
}

static bool mentions(struct span value, const char *word) {
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= value.len; i++)
        if (strncasecmp(value.data + i, word, len) == 0)
            return true;
    return false;
}

/* In 2.0.2 the context "conf" shows the command that gets a Kerberos ticket. */
static int check_debug(struct span name, struct span value, struct error *reterr) {
    if (!span_is(name, "debug") || (!mentions(value, "conf") && !mentions(value, "all")))
        return 0;
    return refuse(value, "conf and all would show secrets in the log (G14); broker, topic, metadata, queue, msg, protocol, "
                         "security, feature and eos are allowed", reterr);
}

static bool is_port(struct span text) {
    unsigned port = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (i == 5 || text.data[i] < '0' || text.data[i] > '9')
            return false;
        port = port * 10 + (unsigned)(text.data[i] - '0');
    }
    return port >= 1 && port <= 65535;
}

/* HOST, HOST:PORT, [IPV6]:PORT, PROTOCOL://HOST:PORT. What it can't use of them the library would only log. */
static bool is_server(struct span text) {
    const char *scheme = memmem(text.data, text.len, "://", 3), *end = text.data + text.len;
    struct span protocol = {text.data, scheme ? (size_t)(scheme - text.data) : 0};
    if (scheme && !is_one_of(protocol, PROTOCOLS))
        return false;
    struct span host = {scheme ? scheme + 3 : text.data, (size_t)(end - (scheme ? scheme + 3 : text.data))};
    const char *colon = memrchr(host.data, ':', host.len);
    if (colon && !memchr(colon, ']', (size_t)(end - colon))) {
        if (!is_port((struct span){colon + 1, (size_t)(end - colon) - 1}))
            return false;
        host.len = (size_t)(colon - host.data);
    }
    for (size_t i = 0; i < host.len; i++)
        if (strchr(" \t/@", host.data[i]))
            return false;
    return host.len > 0;
}

static struct span without_spaces(struct span text) {
    while (text.len > 0 && text.data[0] == ' ')
        text = (struct span){text.data + 1, text.len - 1};
    while (text.len > 0 && text.data[text.len - 1] == ' ')
        text.len--;
    return text;
}

static int check_servers(struct span name, struct span value, struct error *reterr) {
    if (!span_is(name, "bootstrap.servers") && !span_is(name, "metadata.broker.list"))
        return 0;
    if (!span_absent(value) && memchr(value.data, '@', value.len)) {
        error_set(reterr, ERROR_CONFIG, "a name and a password before an @ have no place here (G14); they are "
                                        "sasl.username and sasl.password");
        return -EINVAL;
    }
    while (!span_absent(value)) {
        const char *comma = memchr(value.data, ',', value.len);
        size_t len = comma ? (size_t)(comma - value.data) : value.len;
        struct span server = without_spaces((struct span){value.data, len});
        if (!is_server(server))
            return refuse(server, "a broker is HOST:PORT, several of them are separated by commas", reterr);
        value = comma ? (struct span){comma + 1, value.len - len - 1} : SPAN_ABSENT;
    }
    return 0;
}

/* "5s" would be 5 ms to the library, 4294967296 would be 0. */
static bool means_the_same(const char *text, const char *taken) {
    char *text_end, *taken_end;
    double number = strtod(taken, &taken_end), meant = strtod(text, &text_end);
    if (taken_end == taken || *taken_end != '\0' || strcmp(text, taken) == 0)
        return true; /* no number, or the very same */
    return text_end != text && *text_end == '\0' && fabs(number - meant) < 1e-6;
}

static void conf_cleanup(rd_kafka_conf_t **conf) {
    rd_kafka_conf_destroy(*conf);
}

/* As the library has it now; false if it doesn't fit or can't be told. */
static bool get(const rd_kafka_conf_t *conf, const char *name, char *ret_value, size_t size) {
    return rd_kafka_conf_get(conf, name, ret_value, &size) == RD_KAFKA_CONF_OK;
}

/* Without a value it says only whether it knows the name. Its words may show the value. */
static int ask_library(const char *name, const char *value, struct error *reterr) {
    CLEANUP(conf_cleanup) rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char why[512], taken[64];
    rd_kafka_conf_res_t res = rd_kafka_conf_set(conf, name, value, why, sizeof why);
    if (res == RD_KAFKA_CONF_UNKNOWN)
        return OPTION_E_UNKNOWN;
    if (!value)
        return 0;
    bool secret = kafka_property_rules.secret(span_of(name));
    if (res != RD_KAFKA_CONF_OK)
        error_set(reterr, ERROR_CONFIG, "%s", secret ? "librdkafka doesn't take it" : why);
    else if (secret || !get(conf, name, taken, sizeof taken) || means_the_same(value, taken))
        return 0;
    else
        error_set(reterr, ERROR_CONFIG,
                  "\"%.80s\" is not understood, librdkafka would take it for %s; a number without a unit is allowed (the unit "
                  "stands in the name)",
                  value, taken);
    return -EINVAL;
}

#define NAME_MAX_BYTES 128

static int check(struct span name, struct span value, struct error *reterr) {
    const struct refusal *refusal = find_refusal(name);
    const char *strange = why_strange(name);
    if (refusal)
        return check_refusal(refusal, value, reterr);
    if (takes_pointer(name))
        strange = "is set by a program's code; no text can be";
    if (strange) {
        error_set(reterr, ERROR_CONFIG, "%s", strange);
        return -EINVAL;
    }
    if (name.len > NAME_MAX_BYTES)
        return OPTION_E_UNKNOWN;
    int r = check_choice(name, value, reterr);
    if (r == 0)
        r = check_linger(name, value, reterr);
    if (r == 0)
        r = check_debug(name, value, reterr);
    if (r == 0)
        r = check_servers(name, value, reterr);
    if (r != 0)
        return r;
    CLEANUP(cleanup_free) char *name_text = strndup(name.data, name.len);
    CLEANUP(cleanup_free) char *value_text = span_absent(value) ? NULL : strndup(value.data, value.len);
    if (!name_text || (!value_text && !span_absent(value)))
        return -ENOMEM;
    r = ask_library(name_text, value_text, reterr);
    if (value_text)
        explicit_bzero(value_text, value.len);
    return r;
}

/* Names ------------------------------------------------------------------ */

static bool ends_with(struct span name, const char *end) {
    size_t len = strlen(end);
    return name.len >= len && memcmp(name.data + name.len - len, end, len) == 0;
}

/* By the endings, so that those of later versions are known as well. */
static bool secret(struct span name) {
    static const char *const endings[] = {"password", "passphrase",  "secret", "key.pem",
                                         "kinit.cmd", "sasl.oauthbearer.config", NULL};
    for (const char *const *end = endings; *end; end++)
        if (ends_with(name, *end))
            return true;
    return false;
}

/* Those of librdkafka 2.0 that may be set; later ones work as well, without being suggested. */
static const char *const names[] = {
    "api.version.request.timeout.ms",
    "batch.num.messages",
    "batch.size",
    "bootstrap.servers",
    "broker.address.family",
    "broker.address.ttl",
    "client.id",
    "client.rack",
    "compression.codec",
    "compression.level",
    "compression.type",
    "connections.max.idle.ms",
    "debug",
    "enable.random.seed",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "linger.ms",
    "log.connection.close",
    "log.thread.name",
    "log_level",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.copy.max.bytes",
    "metadata.broker.list",
    "metadata.max.age.ms",
    "partitioner",
    "produce.offset.report",
    "queue.buffering.max.ms",
    "receive.message.max.bytes",
    "reconnect.backoff.jitter.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "sasl.kerberos.keytab",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.blocking.max.ms",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.max.fails",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "ssl.ca.certificate.stores",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.curves.list",
    "ssl.engine.id",
    "ssl.engine.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.providers",
    "ssl.sigalgs.list",
    "topic.metadata.propagation.max.ms",
    "topic.metadata.refresh.fast.cnt",
    "topic.metadata.refresh.fast.interval.ms",
    "topic.metadata.refresh.interval.ms",
    "topic.metadata.refresh.sparse",
    NULL,
};

static const char *name_at(size_t i) {
    return i < ARRAY_LENGTH(names) ? names[i] : NULL;
}

const struct option_property_rules kafka_property_rules = {
    .check = check, .doubt = kafka_files_check, .secret = secret, .name = name_at};
