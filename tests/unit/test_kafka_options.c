/* test_kafka_options: what can be configured of a Kafka connection and destination, and what librdkafka is told */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sink/kafka_options.h"
#include "sink/kafka_properties.h"
#include "unit/fail_alloc.h"

#define PROPERTIES_MAX 16
#define BROKER {"bootstrap.servers", "127.0.0.1:1"}

struct pair {
    const char *name, *value; /* "$NAME": an environment variable; "!PATH": a file */
};

static struct error error;

static int check(const char *name, const char *value) {
    error.text[0] = '\0';
    return kafka_property_rules.check(span_of(name), span_of(value), &error);
}

/* Connections ------------------------------------------------------------- */

static struct kafka_connection connection;
static struct option_property items[PROPERTIES_MAX];

/* Borrows everything; ends with a name that is NULL. */
static const struct kafka_connection *connect_with(const struct pair *pairs) {
    connection.properties = (struct option_properties){items, 0};
    for (; pairs->name; pairs++) {
        struct option_property *p = &items[connection.properties.count++];
        p->name = (char *)pairs->name;
        p->value.kind = pairs->value[0] == '$' ? SECRET_ENV : pairs->value[0] == '!' ? SECRET_FILE : SECRET_INLINE;
        p->value.value = (char *)pairs->value + (p->value.kind == SECRET_INLINE ? 0 : 1);
    }
    return &connection;
}

#define CONNECTION(...) connect_with((const struct pair[]){__VA_ARGS__, {NULL, NULL}})

static const struct kafka_tuning producer = {
    .role = KAFKA_PRODUCER,
    .in_flight = 1000,
    .max_message_bytes = 16 * 1024 * 1024,
    .batch_bytes = 900000,
    .client_id = "penstock orders",
};

static const struct kafka_tuning look = {.role = KAFKA_LOOK, .client_id = "penstock orders"};

static void conf_cleanup(rd_kafka_conf_t **conf) {
    if (*conf)
        rd_kafka_conf_destroy(*conf);
}

static void expect(const rd_kafka_conf_t *conf, const char *name, const char *value) {
    char text[512] = "";
    size_t size = sizeof text;
    ck_assert_int_eq(rd_kafka_conf_get(conf, name, text, &size), RD_KAFKA_CONF_OK);
    ck_assert_msg(strcmp(text, value) == 0, "%s is %s, not %s", name, text, value);
}

/* Properties -------------------------------------------------------------- */

static bool is_suggested(const char *name) {
    const char *candidate;
    for (size_t i = 0; (candidate = kafka_property_rules.name(i)) != NULL; i++)
        if (strcmp(candidate, name) == 0)
            return true;
    return false;
}

/* Those that came after librdkafka 2.0, up to 2.8: they work, without being suggested. */
static bool is_later(const char *name) {
    static const char *const later[] = {"client.dns.lookup", "enable.metrics.push", "retry.backoff.max.ms"};
    for (size_t i = 0; i < ARRAY_LENGTH(later); i++)
        if (strcmp(later[i], name) == 0)
            return true;
    return false;
}

/* "name   |  P  | …" */
static bool take_name(char *line, char **ret_name) {
    char *end = strpbrk(line, " |");
    if (!strchr(line, '|') || !end || strncmp(line, "Property", 8) == 0 || line[0] == '-')
        return false;
    *end = '\0';
    *ret_name = line;
    return true;
}

START_TEST(every_property_of_the_library_is_taken_or_refused_with_a_reason) {
    FILE *file = tmpfile();
    char line[8192], *name;
    size_t taken = 0, refused = 0;
    ck_assert_ptr_nonnull(file);
    rd_kafka_conf_properties_show(file);
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        if (!take_name(line, &name))
            continue;
        int r = check(name, NULL);
        ck_assert_msg(r == 0 || (r == -EINVAL && strlen(error.text) > 10), "%s: %d", name, r);
        ck_assert_msg((r == 0) == is_suggested(name) || is_later(name) || strcmp(name, "partitioner") == 0, "%s: %d", name, r);
        taken += r == 0;
        refused += r != 0;
    }
    fclose(file);
    ck_assert_uint_gt(taken, 70);
    ck_assert_uint_gt(refused, 70);
}
END_TEST

START_TEST(what_is_suggested_exists) {
    const char *name;
    for (size_t i = 0; (name = kafka_property_rules.name(i)) != NULL; i++)
        ck_assert_msg(check(name, NULL) == 0 || strcmp(name, "partitioner") == 0, "%s", name);
}
END_TEST

static const struct {
    const char *name, *broken, *same; /* same: may be written; NULL: nothing may */
    const char *guarantee;
} refusals[] = {
    {"acks", "1", "all", "(G5)"},
    {"acks", "0", "-1", "(G5)"},
    {"request.required.acks", "1", "ALL", "(G5)"},
    {"enable.idempotence", "false", "true", "(G6, G7)"},
    {"enable.gapless.guarantee", "false", "true", "(G6)"},
    {"queuing.strategy", "lifo", "fifo", "(G6)"},
    {"queue.buffering.backpressure.threshold", "10", "1", "(G6)"},
    {"transactional.id", "penstock", NULL, "(G5)"},
    {"transaction.timeout.ms", "1000", NULL, "(G5)"},
    {"message.timeout.ms", "300000", "0", "(G4, G6)"},
    {"delivery.timeout.ms", "300000", "0", "(G4, G6)"},
    {"message.send.max.retries", "3", "2147483647", "(G4, G6)"},
    {"retries", "0", "2147483647", "(G4, G6)"},
    {"max.in.flight", "6", "5", "(G6)"},
    {"max.in.flight.requests.per.connection", "1000000", "1", "(G6)"},
    {"partitioner", "random", "murmur2_random", "(G6)"},
    {"partitioner", "random", "consistent_random", "(G6)"},
    {"queue.buffering.max.messages", "10", NULL, "(G9)"},
    {"queue.buffering.max.kbytes", "10", NULL, "(G9)"},
    {"message.max.bytes", "1000", NULL, "(G8)"},
    {"delivery.report.only.error", "true", "false", "(G4)"},
    {"enabled_events", "1", NULL, "(G4, G8)"},
    {"log.queue", "false", "true", "(G4, G8)"},
    {"plugin.library.paths", "libevil", NULL, "(G3, G8)"},
    {"interceptors", "x", NULL, "(G3, G8)"},
    {"allow.auto.create.topics", "true", "false", "(G13)"},
    {"topic.blacklist", "^a", NULL, "(G8, G13)"},
    {"api.version.request", "false", "true", "(G3)"},
    {"api.version.fallback.ms", "1000", "0", "(G3)"},
    {"broker.version.fallback", "0.9.0", NULL, "(G3)"},
    {"enable.ssl.certificate.verification", "false", "true", "(G14)"},
    {"ssl.endpoint.identification.algorithm", "none", "https", "(G14)"},
    {"internal.termination.signal", "9", NULL, "(G11)"},
    {"test.mock.num.brokers", "3", NULL, "(G4)"},
};

START_TEST(what_breaks_a_guarantee_is_refused_with_its_number) {
    ck_assert_int_eq(check(refusals[_i].name, refusals[_i].broken), -EINVAL);
    ck_assert_msg(strstr(error.text, refusals[_i].guarantee) != NULL, "%s: %s", refusals[_i].name, error.text);
    if (refusals[_i].same)
        ck_assert_msg(check(refusals[_i].name, refusals[_i].same) == 0, "%s: %s", refusals[_i].name, error.text);
}
END_TEST

static const struct {
    const char *name, *value, *word; /* of the sentence; NULL: taken */
} values[] = {
    {"linger.ms", "5", NULL},
    {"linger.ms", "0.5", NULL},
    {"linger.ms", "5s", "would take it for 5"},
    {"linger.ms", "-1", "range"},
    {"linger.ms", "1000", NULL},
    {"linger.ms", "1001", "at most 1000 is allowed"},
    {"queue.buffering.max.ms", "300000", "at most 1000 is allowed"},
    {"socket.timeout.ms", "4294967306", "would take it for 10"}, /* 2^32 + 10 */
    {"socket.timeout.ms", "30 s", "without a unit"},
    {"socket.timeout.ms", "soon", "Invalid value"},
    {"batch.size", "1MiB", "would take it for 1"},
    {"socket.keepalive.enable", "yes", "true or false"},
    {"socket.keepalive.enable", "false", NULL},
    {"security.protocol", "SASL_SSL", NULL},
    {"security.protocol", "tls", "sasl_ssl is allowed"},
    {"compression.type", "zstd", NULL},
    {"compression.type", "rar", "Invalid value"},
    {"compression.level", "5", NULL},
    {"sasl.mechanism", "SCRAM-SHA-256", NULL},
    {"sasl.mechanism", "SCRAM-SHA256", "SCRAM-SHA-512"},
    {"sasl.mechanisms", "LOGIN", "SCRAM-SHA-512"},
    {"partitioner", "murmur3", "murmur2_random"},
    {"partitioner", "Consistent", "partitioner"}, /* the sink compares it as it is written */
    {"partitioner", NULL, "has to stand here"},
    {"debug", "broker,topic", NULL},
    {"sasl.password", "5s", NULL},
    {"client.id", "5s", NULL},
    {"client.id", "inf", NULL},
    {"bootstrap.servers", "k1", NULL},
    {"bootstrap.servers", "k1:9092,k2:9092", NULL},
    {"bootstrap.servers", "[::1]:9092,[fe80::1]", NULL},
    {"bootstrap.servers", "SASL_SSL://k1.example:9093", NULL},
    {"bootstrap.servers", "k1:9092 , k2:9092", NULL},
    {"bootstrap.servers", "k1:9092 k2:9092", "HOST:PORT"},
    {"bootstrap.servers", "k1:", "HOST:PORT"},
    {"bootstrap.servers", "k1:0", "HOST:PORT"},
    {"bootstrap.servers", "k1:65536", "HOST:PORT"},
    {"bootstrap.servers", "k1:9092,", "HOST:PORT"},
    {"bootstrap.servers", ":9092", "HOST:PORT"},
    {"bootstrap.servers", "kafka://k1:9092", "HOST:PORT"},
    {"metadata.broker.list", "k1:9o92", "HOST:PORT"},
    {"group.id", "g", "only produces"},
    {"auto.offset.reset", "earliest", "only produces"},
    {"statistics.interval.ms", "1000", "no reader"},
    {"error_cb", "x", "program's code"},
    {"opaque", "x", "program's code"},
    {"ssl_key", "x", "program's code"},
    {"ut_handle_ProduceResponse", "x", "program's code"},
    {"sasl.jaas.config", "x", "sasl.username"},
    {"ssl.truststore.location", "x", "ssl.ca.location"},
    {"buffer.memory", "1", "window"},
    {"max.request.size", "1", "max_message_bytes"},
    {"key.serializer", "x", "mode"},
};

START_TEST(values_are_taken_as_they_are_meant_or_not_at_all) {
    int r = check(values[_i].name, values[_i].value);
    ck_assert_msg(r == (values[_i].word ? -EINVAL : 0), "%s=%s: %d %s", values[_i].name, values[_i].value, r, error.text);
    if (values[_i].word)
        ck_assert_msg(strstr(error.text, values[_i].word) != NULL, "%s=%s: %s", values[_i].name, values[_i].value,
                      error.text);
}
END_TEST

START_TEST(an_unknown_name_is_called_so) {
    char longest[4096];
    memset(longest, 'a', sizeof longest);
    ck_assert_int_eq(check("bootstrap.server", "k1"), OPTION_E_UNKNOWN);
    ck_assert_int_eq(check("sasl", NULL), OPTION_E_UNKNOWN);
    ck_assert_int_eq(check("", "x"), OPTION_E_UNKNOWN);
    ck_assert_int_eq(kafka_property_rules.check((struct span){longest, sizeof longest}, SPAN_LITERAL("x"), &error),
                     OPTION_E_UNKNOWN);
}
END_TEST

START_TEST(secrets_are_known_by_their_names) {
    static const char *const secrets[] = {"sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem",
                                          "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config"};
    static const char *const others[] = {"sasl.username", "ssl.ca.pem", "ssl.key.location", "bootstrap.servers",
                                         "sasl.password.file", ""};
    for (size_t i = 0; i < ARRAY_LENGTH(secrets); i++)
        ck_assert(kafka_property_rules.secret(span_of(secrets[i])));
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        ck_assert(!kafka_property_rules.secret(span_of(others[i])));
}
END_TEST

START_TEST(without_memory_a_property_is_not_checked) {
    FAIL_ALLOC_EACH(n) {
        int r = check("linger.ms", "5");
        if (fail_alloc_end())
            ck_assert_int_eq(r, -ENOMEM);
        else
            ck_assert_int_eq(r, 0);
    }
}
END_TEST

START_TEST(a_name_and_password_among_the_brokers_are_refused_and_not_shown) {
    static const char *const servers[] = {"penstock:geheim@k1:9092", "k1:9092,penstock:ge,heim@k2:9092",
                                         "ssl://penstock:geheim@k1:9092", "penstock:geheim@k1 k2"};
    ck_assert_int_eq(check("bootstrap.servers", servers[_i]), -EINVAL);
    ck_assert_msg(!strstr(error.text, "ge") && !strstr(error.text, "heim"), "%s", error.text);
    ck_assert_ptr_nonnull(strstr(error.text, "sasl.username and sasl.password"));
}
END_TEST

START_TEST(the_command_that_gets_a_ticket_is_a_secret) {
    ck_assert(kafka_property_rules.secret(SPAN_LITERAL("sasl.kerberos.kinit.cmd")));
}
END_TEST

START_TEST(nothing_that_shows_secrets_may_be_debugged) {
    static const char *const shown[] = {"conf", "all", "broker,conf", "broker, ALL", "+conf"};
    ck_assert_int_eq(check("debug", "broker,topic,msg,security"), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(shown); i++) {
        ck_assert_msg(check("debug", shown[i]) == -EINVAL, "%s", shown[i]);
        ck_assert_ptr_nonnull(strstr(error.text, "(G14)"));
    }
}
END_TEST

static int doubt(const char *name, const char *value) {
    error.text[0] = '\0';
    return kafka_property_rules.doubt(span_of(name), span_of(value), &error);
}

START_TEST(a_file_that_can_not_be_read_is_doubted_by_its_path) {
    static const char *const names[] = {"ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
                                        "ssl.keystore.location", "ssl.crl.location"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        ck_assert_msg(doubt(names[i], "/nope/ca.pem") == -EINVAL, "%s", names[i]);
        ck_assert_str_eq(error.text, "/nope/ca.pem can't be read: No such file or directory");
        ck_assert_int_eq(doubt(names[i], "/etc/passwd"), 0);
        ck_assert_int_eq(doubt(names[i], NULL), 0);
    }
    ck_assert_int_eq(doubt("ssl.key.location", "/tmp"), -EINVAL);
    ck_assert_str_eq(error.text, "/tmp can't be read: Is a directory");
    ck_assert_int_eq(doubt("ssl.ca.location", "/tmp"), 0); /* of certificates */
    ck_assert_int_eq(doubt("ssl.ca.location", "probe"), 0);
    ck_assert_int_eq(doubt("client.id", "/nope"), 0);
}
END_TEST

/* A connection as a whole ------------------------------------------------- */

static const struct {
    const char *word; /* of the sentence; NULL: it is in order */
    struct pair pairs[8];
} connections[] = {
    {NULL, {BROKER}},
    {NULL, {{"metadata.broker.list", "k1"}}},
    {NULL, {{"bootstrap.servers", "$SERVERS"}}},
    {"\"bootstrap.servers\" is missing", {{"client.id", "x"}}},
    {"two names", {BROKER, {"metadata.broker.list", "k1"}}},
    {"two names", {BROKER, {"linger.ms", "5"}, {"queue.buffering.max.ms", "6"}}},
    {"two names", {BROKER, {"compression.codec", "zstd"}, {"compression.type", "lz4"}}},
    {"sasl.username has no effect", {BROKER, {"sasl.username", "x"}}},
    {"sasl.password has no effect", {BROKER, {"security.protocol", "ssl"}, {"sasl.password", "$PASSWORD"}}},
    {"ssl.ca.location has no effect", {BROKER, {"ssl.ca.location", "/ca.pem"}}},
    {"ssl.ca.location has no effect",
     {BROKER, {"security.protocol", "SASL_PLAINTEXT"}, {"sasl.mechanism", "GSSAPI"}, {"ssl.ca.location", "/ca.pem"}}},
    {NULL, {BROKER, {"security.protocol", "SSL"}, {"ssl.ca.location", "/ca.pem"}}},
    {NULL, {BROKER, {"security.protocol", "$PROTOCOL"}, {"sasl.username", "x"}, {"ssl.ca.location", "/ca.pem"}}},
    {"needs sasl.mechanism", {BROKER, {"security.protocol", "sasl_ssl"}}},
    {"needs sasl.username and sasl.password",
     {BROKER, {"security.protocol", "sasl_ssl"}, {"sasl.mechanism", "PLAIN"}, {"sasl.username", "x"}}},
    {"needs sasl.username and sasl.password",
     {BROKER, {"security.protocol", "sasl_ssl"}, {"sasl.mechanisms", "SCRAM-SHA-512"}, {"sasl.password", "$PASSWORD"}}},
    {NULL,
     {BROKER,
      {"security.protocol", "sasl_plaintext"},
      {"sasl.mechanisms", "SCRAM-SHA-512"},
      {"sasl.username", "x"},
      {"sasl.password", "$PASSWORD"}}},
    {NULL, {BROKER, {"security.protocol", "sasl_ssl"}, {"sasl.mechanism", "GSSAPI"}}},
    {"without ssl.key.location", {BROKER, {"security.protocol", "ssl"}, {"ssl.certificate.location", "/c.pem"}}},
    {"without ssl.certificate.location", {BROKER, {"security.protocol", "ssl"}, {"ssl.key.pem", "!/k.pem"}}},
    {NULL,
     {BROKER, {"security.protocol", "ssl"}, {"ssl.certificate.location", "/c.pem"}, {"ssl.key.pem", "!/k.pem"}}},
    {"needs ssl.keystore.password", {BROKER, {"security.protocol", "ssl"}, {"ssl.keystore.location", "/k.p12"}}},
    {"reconnect.backoff.max.ms (500)", {BROKER, {"reconnect.backoff.ms", "501"}}},
    {NULL, {BROKER, {"reconnect.backoff.ms", "501"}, {"reconnect.backoff.max.ms", "1000"}}},
};

START_TEST(properties_that_contradict_each_other_are_refused) {
    error.text[0] = '\0';
    const char *key = NULL;
    int r = kafka_connection_check(connect_with(connections[_i].pairs), &key, &error);
    ck_assert_msg(r == (connections[_i].word ? -EINVAL : 0), "%d: %s", _i, error.text);
    if (connections[_i].word)
        ck_assert_msg(strstr(error.text, connections[_i].word) != NULL, "%d: %s", _i, error.text);
    /* One that is there and that the sentence is about. */
    bool named = connections[_i].word && !strstr(connections[_i].word, "is missing"), there = false;
    ck_assert_msg((key != NULL) == named, "%d: %s", _i, key);
    for (const struct pair *p = connections[_i].pairs; key && p->name; p++)
        there |= strcmp(p->name, key) == 0;
    ck_assert_msg(!named || (there && strstr(error.text, key)), "%d: %s", _i, key);
}
END_TEST

/* What the library is told ------------------------------------------------ */

START_TEST(a_producer_waits_for_all_replicas_and_gives_nothing_up) {
    CLEANUP(conf_cleanup) rd_kafka_conf_t *conf = NULL;
    ck_assert_int_eq(kafka_options_conf(CONNECTION(BROKER), &producer, &conf, &error), 0);
    expect(conf, "acks", "-1");
    expect(conf, "enable.idempotence", "true");
    expect(conf, "enable.gapless.guarantee", "true");
    expect(conf, "message.timeout.ms", "0");
    expect(conf, "allow.auto.create.topics", "false");
    expect(conf, "log.queue", "true");
    expect(conf, "linger.ms", "0");
    expect(conf, "reconnect.backoff.max.ms", "500");
    expect(conf, "client.id", "penstock orders");
    expect(conf, "bootstrap.servers", "127.0.0.1:1");
    expect(conf, "queue.buffering.max.messages", "2000");
    expect(conf, "queue.buffering.max.kbytes", "2147483647");
    expect(conf, "batch.size", "900000");
}
END_TEST

START_TEST(the_library_refuses_no_message_that_the_sink_would_take) {
    struct kafka_tuning tuning = producer;
    tuning.max_message_bytes = 128 * 1024 * 1024;
    CLEANUP(conf_cleanup) rd_kafka_conf_t *conf = NULL;
    ck_assert_int_eq(kafka_options_conf(CONNECTION(BROKER), &tuning, &conf, &error), 0);
    expect(conf, "message.max.bytes", "135266304"); /* and 1 MiB for key and headers */
}
END_TEST

START_TEST(what_the_user_says_goes_before_what_penstock_would_say) {
    CLEANUP(conf_cleanup) rd_kafka_conf_t *conf = NULL;
    ck_assert_int_eq(kafka_options_conf(CONNECTION(BROKER, {"client.id", "mine"}, {"linger.ms", "20"},
                                                   {"partitioner", "consistent_random"}, {"max.in.flight", "1"},
                                                   {"reconnect.backoff.max.ms", "9000"}, {"compression.type", "zstd"}),
                                        &producer, &conf, &error),
                     0);
    expect(conf, "client.id", "mine");
    expect(conf, "linger.ms", "20");
    expect(conf, "partitioner", "consistent_random");
    expect(conf, "max.in.flight", "1");
    expect(conf, "reconnect.backoff.max.ms", "9000");
    expect(conf, "compression.codec", "zstd");
}
END_TEST

START_TEST(a_batch_is_never_larger_than_the_topics_take) {
    struct kafka_tuning tuning = producer;
    for (int i = 0; i < 3; i++) {
        static const struct pair given[][3] = {
            {BROKER, {"batch.size", "5000000"}}, {BROKER, {"batch.size", "5000"}}, {BROKER}};
        static const char *const expected[] = {"900000", "5000", "1000000"};
        CLEANUP(conf_cleanup) rd_kafka_conf_t *conf = NULL;
        tuning.batch_bytes = i == 2 ? 0 : 900000;
        ck_assert_int_eq(kafka_options_conf(connect_with(given[i]), &tuning, &conf, &error), 0);
        expect(conf, "batch.size", expected[i]);
    }
}
END_TEST

START_TEST(a_secret_is_read_each_time) {
    for (int i = 0; i < 2; i++) {
        CLEANUP(conf_cleanup) rd_kafka_conf_t *conf = NULL;
        setenv("KAFKA_TEST_PASSWORD", i == 0 ? "first" : "second", 1);
        ck_assert_int_eq(
            kafka_options_conf(CONNECTION(BROKER, {"sasl.password", "$KAFKA_TEST_PASSWORD"}), &producer, &conf, &error), 0);
        expect(conf, "sasl.password", i == 0 ? "first" : "second");
    }
}
END_TEST

START_TEST(a_secret_that_is_not_there_is_named_by_its_place) {
    rd_kafka_conf_t *conf = NULL;
    unsetenv("KAFKA_TEST_PASSWORD");
    ck_assert_int_eq(
        kafka_options_conf(CONNECTION(BROKER, {"sasl.password", "$KAFKA_TEST_PASSWORD"}), &producer, &conf, &error), -EINVAL);
    ck_assert_ptr_null(conf);
    ck_assert_int_eq(error.class, ERROR_CONFIG);
    ck_assert_str_eq(error.text, "sasl.password: environment variable 'KAFKA_TEST_PASSWORD' is not set");
}
END_TEST

START_TEST(a_value_from_elsewhere_breaks_no_guarantee_either) {
    static const struct pair broken[][3] = {
        {BROKER, {"partitioner", "$KAFKA_TEST_VALUE"}},
        {BROKER, {"max.in.flight", "$KAFKA_TEST_VALUE"}},
        {BROKER, {"acks", "$KAFKA_TEST_VALUE"}},
        {BROKER, {"linger.ms", "$KAFKA_TEST_VALUE"}},
    };
    static const char *const in_there[] = {"random", "100", "1", "5s"};
    rd_kafka_conf_t *conf = NULL;
    setenv("KAFKA_TEST_VALUE", in_there[_i], 1);
    ck_assert_int_eq(kafka_options_conf(connect_with(broken[_i]), &producer, &conf, &error), -EINVAL);
    ck_assert_ptr_null(conf);
    ck_assert_msg(strncmp(error.text, broken[_i][1].name, strlen(broken[_i][1].name)) == 0, "%s", error.text);
}
END_TEST

START_TEST(a_file_that_is_not_there_yet_is_named_at_each_attempt) {
    rd_kafka_conf_t *conf = NULL;
    ck_assert_int_eq(kafka_options_conf(CONNECTION(BROKER, {"security.protocol", "ssl"}, {"ssl.ca.location", "/nope"}),
                                        &producer, &conf, &error),
                     -EINVAL);
    ck_assert_ptr_null(conf);
    ck_assert_str_eq(error.text, "ssl.ca.location: /nope can't be read: No such file or directory");
}
END_TEST

START_TEST(what_is_fixed_may_be_written_down) {
    CLEANUP(conf_cleanup) rd_kafka_conf_t *conf = NULL;
    ck_assert_int_eq(kafka_options_conf(CONNECTION(BROKER, {"acks", "ALL"}, {"enable.idempotence", "True"}), &producer, &conf,
                                        &error),
                     0);
    expect(conf, "acks", "-1");
    expect(conf, "enable.idempotence", "true");
}
END_TEST

START_TEST(a_look_asks_for_no_producer_id) {
    CLEANUP(conf_cleanup) rd_kafka_conf_t *conf = NULL;
    ck_assert_int_eq(kafka_options_conf(CONNECTION(BROKER, {"enable.idempotence", "true"}), &look, &conf, &error), 0);
    expect(conf, "enable.idempotence", "false");
    expect(conf, "allow.auto.create.topics", "false");
    expect(conf, "log.queue", "true");
}
END_TEST

static void make_instance(const struct kafka_connection *c, const struct kafka_tuning *tuning) {
    rd_kafka_conf_t *conf = NULL;
    char why[512];
    ck_assert_int_eq(kafka_options_conf(c, tuning, &conf, &error), 0);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    ck_assert_msg(rk != NULL, "%s", why);
    rd_kafka_destroy(rk);
}

START_TEST(the_library_takes_it_all_together) {
    make_instance(CONNECTION(BROKER), &producer);
    make_instance(CONNECTION(BROKER), &look);
    make_instance(CONNECTION(BROKER, {"linger.ms", "50"}, {"max.in.flight", "3"}, {"reconnect.backoff.ms", "500"}), &producer);
    make_instance(CONNECTION(BROKER, {"security.protocol", "sasl_plaintext"}, {"sasl.mechanism", "SCRAM-SHA-256"},
                             {"sasl.username", "x"}, {"sasl.password", "y"}),
                  &producer);
}
END_TEST

START_TEST(without_memory_the_library_is_told_nothing) {
    FAIL_ALLOC_EACH(n) {
        rd_kafka_conf_t *conf = NULL;
        int r = kafka_options_conf(CONNECTION(BROKER, {"linger.ms", "5"}), &producer, &conf, &error);
        if (fail_alloc_end()) {
            ck_assert_int_eq(r, -ENOMEM);
            ck_assert_ptr_null(conf);
        } else {
            ck_assert_int_eq(r, 0);
            rd_kafka_conf_destroy(conf);
        }
    }
}
END_TEST

/* Destinations ------------------------------------------------------------ */

START_TEST(a_topic_has_a_name_that_kafka_takes) {
    char name[251];
    memset(name, 'a', sizeof name);
    ck_assert_int_eq(kafka_topic_check((struct span){name, 249}, &error), 0);
    ck_assert_int_eq(kafka_topic_check(SPAN_LITERAL("Orders_eu-1.v2"), &error), 0);
    ck_assert_int_eq(kafka_topic_check(SPAN_LITERAL("..."), &error), 0);
    ck_assert_int_eq(kafka_topic_check((struct span){name, 250}, &error), -EINVAL);
    static const char *const wrong[] = {"", ".", "..", "or$ders", "a b", "a/b", "\xc3\xbc", "a:b"};
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        ck_assert_msg(kafka_topic_check(span_of(wrong[i]), &error) == -EINVAL, "%s", wrong[i]);
    ck_assert_ptr_nonnull(strstr(error.text, "249"));
    ck_assert_int_eq(kafka_topic_check(SPAN_LITERAL("a\nb"), &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "\"a b\""));
}
END_TEST

START_TEST(the_fields_are_topic_and_key) {
    ck_assert_str_eq(kafka_fields[KAFKA_TOPIC].key, "topic");
    ck_assert(kafka_fields[KAFKA_TOPIC].required);
    ck_assert_str_eq(kafka_fields[KAFKA_KEY].key, "key");
    ck_assert(!kafka_fields[KAFKA_KEY].required);
    ck_assert_ptr_null(kafka_fields[KAFKA_KEY].check); /* any text, an empty one too */
    ck_assert_ptr_null(kafka_fields[KAFKA_KEY + 1].key);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_options");
    TCase *properties = tcase_create("properties");
    tcase_add_test(properties, every_property_of_the_library_is_taken_or_refused_with_a_reason);
    tcase_add_test(properties, what_is_suggested_exists);
    tcase_add_loop_test(properties, what_breaks_a_guarantee_is_refused_with_its_number, 0, ARRAY_LENGTH(refusals));
    tcase_add_loop_test(properties, values_are_taken_as_they_are_meant_or_not_at_all, 0, ARRAY_LENGTH(values));
    tcase_add_test(properties, an_unknown_name_is_called_so);
    tcase_add_test(properties, secrets_are_known_by_their_names);
    tcase_add_loop_test(properties, a_name_and_password_among_the_brokers_are_refused_and_not_shown, 0, 4);
    tcase_add_test(properties, the_command_that_gets_a_ticket_is_a_secret);
    tcase_add_test(properties, nothing_that_shows_secrets_may_be_debugged);
    tcase_add_test(properties, a_file_that_can_not_be_read_is_doubted_by_its_path);
    tcase_add_test(properties, without_memory_a_property_is_not_checked);
    suite_add_tcase(suite, properties);
    TCase *whole = tcase_create("connection");
    tcase_add_loop_test(whole, properties_that_contradict_each_other_are_refused, 0, ARRAY_LENGTH(connections));
    tcase_add_test(whole, a_producer_waits_for_all_replicas_and_gives_nothing_up);
    tcase_add_test(whole, the_library_refuses_no_message_that_the_sink_would_take);
    tcase_add_test(whole, what_the_user_says_goes_before_what_penstock_would_say);
    tcase_add_test(whole, a_batch_is_never_larger_than_the_topics_take);
    tcase_add_test(whole, a_secret_is_read_each_time);
    tcase_add_test(whole, a_secret_that_is_not_there_is_named_by_its_place);
    tcase_add_loop_test(whole, a_value_from_elsewhere_breaks_no_guarantee_either, 0, 4);
    tcase_add_test(whole, a_file_that_is_not_there_yet_is_named_at_each_attempt);
    tcase_add_test(whole, what_is_fixed_may_be_written_down);
    tcase_add_test(whole, a_look_asks_for_no_producer_id);
    tcase_add_test(whole, the_library_takes_it_all_together);
    tcase_add_test(whole, without_memory_the_library_is_told_nothing);
    suite_add_tcase(suite, whole);
    TCase *destination = tcase_create("destination");
    tcase_add_test(destination, a_topic_has_a_name_that_kafka_takes);
    tcase_add_test(destination, the_fields_are_topic_and_key);
    suite_add_tcase(suite, destination);
    return unit_run(suite);
}
