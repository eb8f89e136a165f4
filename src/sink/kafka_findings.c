/* kafka_findings: pure: what of a topic users should hear, and in which words */
#include "sink/kafka_findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "sink/kafka_options.h"

#define SERVERS_MAX 440 /* in a command that somebody pastes */
/* Kafka's max.message.bytes, where nobody has set another. */
#define KAFKA_LIMIT_BYTES 1048588

/* NULL: not given, or a secret that stands elsewhere. */
static const char *property(const struct kafka_connection *connection, const char *name) {
    const struct option_property *p = kafka_connection_get(connection, name);
    return p && p->value.kind == SECRET_INLINE ? p->value.value : NULL;
}

/* All of them, as the first may be away: only as many as have room, without the spaces between. */
static void write_servers(char *text, size_t size, const char *servers) {
    size_t len = 0;
    while (*(servers += strspn(servers, ", "))) {
        size_t one = strcspn(servers, ", ");
        if (len + one + 2 > size)
            return;
        len += (size_t)snprintf(text + len, size - len, "%s%.*s", len > 0 ? "," : "", (int)one, servers);
        servers += one;
    }
}

static void write_tools(struct kafka_cluster *cluster, const struct kafka_connection *connection) {
    char given[SERVERS_MAX] = "HOST:9092";
    const char *servers = property(connection, "bootstrap.servers");
    if (!servers)
        servers = property(connection, "metadata.broker.list");
    if (servers)
        write_servers(given, sizeof given, servers);
    const char *protocol = property(connection, "security.protocol");
    bool plain = !protocol || strcasecmp(protocol, "plaintext") == 0;
    snprintf(cluster->tools, sizeof cluster->tools, "--bootstrap-server %s%s", given,
             plain ? "" : " --command-config FILE");
}

void kafka_findings_init(struct kafka_cluster *cluster, const struct sink_setup *setup) {
    const struct sink_options *options = setup->options;
    *cluster = (struct kafka_cluster){.max_message_bytes = options->max_message_bytes};
    write_tools(cluster, setup->connection);
    const char *user = property(setup->connection, "sasl.username");
    snprintf(cluster->principal, sizeof cluster->principal, "User:%s", user ? user : "NAME");
}

static unsigned found_if(bool holds, enum kafka_finding finding) {
    return holds ? KAFKA_FOUND(finding) : 0;
}

/* Not while nobody has chosen either of the two limits. */
static bool is_small(const struct kafka_cluster *cluster, const struct kafka_topic *topic) {
    bool by_default = topic->max_message_bytes == KAFKA_LIMIT_BYTES && cluster->max_message_bytes == SINK_MAX_MESSAGE_BYTES;
    return topic->max_message_bytes < cluster->max_message_bytes && !by_default;
}

unsigned kafka_findings_of(const struct kafka_cluster *cluster, const struct kafka_topic *topic) {
    switch (topic->state) {
    case KAFKA_TOPIC_MISSING:
        return KAFKA_FOUND(KAFKA_MISSING);
    case KAFKA_TOPIC_REFUSED:
        return KAFKA_FOUND(KAFKA_REFUSED);
    case KAFKA_TOPIC_FIT:
        break;
    }
    bool several = cluster->brokers > 1;
    unsigned found = found_if(several && topic->replicas == 1, KAFKA_ONE_COPY);
    if (!topic->described)
        return found | KAFKA_FOUND(KAFKA_UNDESCRIBED);
    return found | found_if(is_small(cluster, topic), KAFKA_SMALL_LIMIT) |
           found_if(several && topic->replicas > 1 && topic->min_insync == 1, KAFKA_ONE_IN_SYNC) |
           found_if(topic->compacted, KAFKA_COMPACTED);
}

/* Sentences. ------------------------------------------------------------- */

#define NAME SPAN_ARGS(topic->name)
#define SAY(...) snprintf(text, KAFKA_FINDINGS_TEXT_MAX, __VA_ARGS__)

static void say_missing(const struct kafka_cluster *cluster, const struct kafka_topic *topic, char *text) {
    SAY("topic '%.*s' does not exist (%s): its events wait. To make it: kafka-topics.sh %s --create --topic %.*s", NAME,
        topic->reason, cluster->tools, NAME);
}

static void say_refused(const struct kafka_cluster *cluster, const struct kafka_topic *topic, char *text) {
    SAY("topic '%.*s' may not be seen, or does not exist (%s): its events wait. To allow it: kafka-acls.sh %s --add "
        "--allow-principal '%s' --operation Write --operation DescribeConfigs --topic %.*s",
        NAME, topic->reason, cluster->tools, cluster->principal, NAME);
}

static void say_undescribed(const struct kafka_cluster *cluster, const struct kafka_topic *topic, char *text) {
    int len = SAY("the configuration of topic '%.*s' can't be read (%s): that a message is too large for it is known only when "
                  "the broker refuses it. ", NAME, topic->reason);
    size_t left = KAFKA_FINDINGS_TEXT_MAX - (size_t)len;
    if (len < 0 || len >= KAFKA_FINDINGS_TEXT_MAX)
        return;
    if (topic->forbidden)
        snprintf(text + len, left, "To allow it: kafka-acls.sh %s --add --allow-principal '%s' --operation DescribeConfigs "
                 "--topic %.*s", cluster->tools, cluster->principal, NAME);
    else
        snprintf(text + len, left, "It is asked for again within a minute");
}

static void say_small_limit(const struct kafka_cluster *cluster, const struct kafka_topic *topic, char *text) {
    SAY("topic '%.*s' takes at most %" PRId64 " bytes (max.message.bytes), and max_message_bytes is %" PRId64
        ": larger messages are rejected by name before they are sent. To raise it: kafka-configs.sh %s --alter "
        "--entity-type topics --entity-name %.*s --add-config max.message.bytes=%" PRId64,
        NAME, topic->max_message_bytes, cluster->max_message_bytes, cluster->tools, NAME,
        cluster->max_message_bytes + KAFKA_OVERHEAD_BYTES);
}

static void say_one_copy(const struct kafka_cluster *cluster, const struct kafka_topic *topic, char *text) {
    SAY("topic '%.*s' has one replica in a cluster of %" PRIu32
        " brokers: its confirmed events can be lost with one of them. To mend it: add replicas with "
        "kafka-reassign-partitions.sh %s, then set min.insync.replicas=2",
        NAME, cluster->brokers, cluster->tools);
}

static void say_one_in_sync(const struct kafka_cluster *cluster, const struct kafka_topic *topic, char *text) {
    SAY("topic '%.*s' confirms what one of its %" PRId32 " replicas has (min.insync.replicas=1): confirmed events can be "
        "lost with one broker. To mend it: kafka-configs.sh %s --alter --entity-type topics --entity-name %.*s "
        "--add-config min.insync.replicas=2",
        NAME, topic->replicas, cluster->tools, NAME);
}

static void say_compacted(const struct kafka_topic *topic, char *text) {
    SAY("topic '%.*s' is compacted (cleanup.policy): an event without data deletes what its key had before (it is a "
        "tombstone), and of each key only the last event is kept",
        NAME);
}

static void say_other_partitions(const struct kafka_topic *topic, int32_t before, char *text) {
    SAY("topic '%.*s' has %" PRId32 " partition%s, and had %" PRId32
        " when last looked at: keys may go to other partitions than before, where order is not kept across the change",
        NAME, topic->partitions, topic->partitions == 1 ? "" : "s", before);
}

bool kafka_findings_say(const struct kafka_cluster *cluster, const struct kafka_topic *topic, int32_t partitions_before,
                        enum kafka_finding finding, char text[KAFKA_FINDINGS_TEXT_MAX]) {
    switch (finding) {
    case KAFKA_THERE_NOW:
        SAY("topic '%.*s' is there: publishing to it is tried now", NAME);
        return false;
    case KAFKA_MISSING:
        say_missing(cluster, topic, text);
        return true;
    case KAFKA_REFUSED:
        say_refused(cluster, topic, text);
        return true;
    case KAFKA_UNDESCRIBED:
        say_undescribed(cluster, topic, text);
        return false;
    case KAFKA_SMALL_LIMIT:
        say_small_limit(cluster, topic, text);
        return false;
    case KAFKA_ONE_COPY:
        say_one_copy(cluster, topic, text);
        return true;
    case KAFKA_ONE_IN_SYNC:
        say_one_in_sync(cluster, topic, text);
        return true;
    case KAFKA_COMPACTED:
        say_compacted(topic, text);
        return true;
    case KAFKA_OTHER_PARTITIONS:
        say_other_partitions(topic, partitions_before, text);
        return true;
    }
    return false;
}

void kafka_findings_stand(const struct kafka_topic *topic, const char *word, char *text, size_t size) {
    if (topic && topic->state != KAFKA_TOPIC_FIT)
        snprintf(text, size, "%s", topic->reason);
    else if (topic && topic->leaderless > 0)
        snprintf(text, size, "%d of its %d partitions have no leader", topic->leaderless, topic->partitions);
    else if (topic && topic->in_sync < topic->min_insync)
        snprintf(text, size, "min.insync.replicas is %d, and of a partition only %d of %d replicas are in sync",
                 topic->min_insync, topic->in_sync, topic->replicas);
    else if (word)
        snprintf(text, size, "%s", word);
    else
        snprintf(text, size, "in-sync replicas, the leader or the broker may be away");
}
