/* test_kafka_look: looks at topics for a story: each line of its input is a look, its answer ends with "." */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sink/kafka_look.h"
#include "sink/kafka_options.h"

#define ARGUMENTS_MAX 64
#define PATIENCE_US (30 * CLOCK_US_PER_S)

static struct option_property properties[ARGUMENTS_MAX];
static struct span names[ARGUMENTS_MAX];
static size_t name_count;

static const char *const states[] = {
    [KAFKA_TOPIC_FIT] = "fit", [KAFKA_TOPIC_MISSING] = "missing", [KAFKA_TOPIC_REFUSED] = "refused"};

static void say_topic(const struct kafka_topic *t) {
    printf("topic %.*s %s", SPAN_ARGS(t->name), states[t->state]);
    if (t->state == KAFKA_TOPIC_FIT)
        printf(" partitions=%" PRId32 " replicas=%" PRId32, t->partitions, t->replicas);
    if (t->described)
        printf(" max_message_bytes=%" PRId64 " min_insync=%" PRId32 " compacted=%d", t->max_message_bytes, t->min_insync,
               t->compacted);
    printf(" (%s)\n", t->reason);
}

static bool all_known(struct kafka_topics *topics) {
    bool all = true;
    for (size_t i = 0; i < name_count; i++)
        all = kafka_topics_find(topics, names[i], clock_now_us()) && all;
    return all;
}

static void look_anew(struct kafka_topics *topics, struct kafka_look *look) {
    for (size_t i = 0; i < name_count; i++)
        kafka_topics_doubt(topics, names[i], clock_now_us());
    int64_t end_us = clock_now_us() + PATIENCE_US;
    for (int64_t now_us; !all_known(topics) && (now_us = clock_now_us()) < end_us;) {
        int64_t due_us = kafka_look_deadline_us(look);
        struct pollfd p = {.fd = kafka_look_fd(look), .events = POLLIN};
        (void)!clock_poll(&p, 1, due_us < end_us ? due_us : end_us);
        kafka_look_work(look, clock_now_us());
        if (kafka_look_reason(look))
            break;
    }
}

static void answer(struct kafka_topics *topics, struct kafka_look *look) {
    look_anew(topics, look);
    if (kafka_look_reason(look))
        printf("failed: %s\n", kafka_look_reason(look));
    for (size_t i = 0; i < name_count; i++) {
        const struct kafka_topic *t = kafka_topics_find(topics, names[i], clock_now_us());
        if (t)
            say_topic(t);
    }
    for (struct sink_notice notice; kafka_topics_notice(topics, &notice);)
        printf("%s: %s\n", notice.warning ? "warning" : "info", notice.text);
    puts(".");
    fflush(stdout);
}

/* test_kafka_look MAX_MESSAGE_BYTES {PROPERTY=VALUE | TOPIC}… */
int main(int argc, char **argv) {
    struct kafka_connection connection = {{properties, 0}};
    struct sink_options options = {.max_message_bytes = argc > 1 ? strtoll(argv[1], NULL, 10) : 0};
    for (int i = 2; i < argc && i < ARGUMENTS_MAX; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals) {
            names[name_count++] = span_of(argv[i]);
            continue;
        }
        *equals = '\0';
        properties[connection.properties.count++] = (struct option_property){argv[i], {SECRET_INLINE, equals + 1}};
    }
    struct sink_setup setup = {.forwarder = "story", .connection = &connection, .options = &options,
                               .named = names, .named_count = name_count, .seed = 1};
    struct kafka_topics *topics;
    struct kafka_look *look;
    if (kafka_topics_new(&setup, &topics) < 0 || kafka_look_new(&setup, topics, &look) < 0)
        return EXIT_FAILURE;
    for (char line[16]; fgets(line, sizeof line, stdin);)
        answer(topics, look);
    kafka_look_free(look);
    kafka_topics_free(topics);
    return EXIT_SUCCESS;
}
