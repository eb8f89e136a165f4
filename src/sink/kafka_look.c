/* kafka_look: looks at topics in a thread that may hang: are they there, and how are they configured? */
#include "sink/kafka_look.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/dial.h"
#include "base/log.h"
#include "sink/kafka_options.h"

#define STEP_TIMEOUT_MS ((int)(KAFKA_LOOK_TIMEOUT_US / 2 / CLOCK_US_PER_MS)) /* metadata, then configurations */
#define FIRST_SLICE_MS 1000
/* librdkafka waits at its end for a thread of its own that hangs in a name lookup. */
#define GIVE_UP_US (3 * KAFKA_LOOK_TIMEOUT_US)
#define WORDS_MAX 512
#define CANT "can't ask for topics: "

static const struct backoff_options failed_waits = {.initial_us = 200000, .max_us = 2000000, .multiplier = 2};

/* What was asked and what was found; the names stand behind the topics. */
struct answer {
    uint32_t count;
    uint32_t brokers;
    struct kafka_topic topics[KAFKA_LOOK_TOPICS_MAX];
    char names[KAFKA_LOOK_TOPICS_MAX][KAFKA_TOPIC_MAX + 1];
};

/* The argument of one look. */
struct call {
    rd_kafka_conf_t *conf; /* NULL once librdkafka has taken it */
    struct answer *answer;
};

struct kafka_look {
    const void *connection;
    char client_id[256];
    struct kafka_topics *topics;
    struct dial *dial;
    struct backoff backoff;
    int64_t next_us;    /* not before */
    int64_t since_us;   /* of the look that runs */
    struct error error; /* of the last one; class ERROR_NONE: it did not fail */
};

/* In the thread: metadata. ------------------------------------------------- */

static struct kafka_topic *asked_for(struct answer *a, const char *name) {
    for (uint32_t i = 0; i < a->count; i++)
        if (strcmp(a->names[i], name) == 0)
            return &a->topics[i];
    return NULL;
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static void take_partitions(struct kafka_topic *topic, const struct rd_kafka_metadata_topic *t) {
    topic->partitions = t->partition_cnt;
    topic->replicas = topic->in_sync = INT32_MAX;
    topic->leaderless = 0;
    for (int i = 0; i < t->partition_cnt; i++) {
        const struct rd_kafka_metadata_partition *p = &t->partitions[i];
        topic->replicas = least(topic->replicas, p->replica_cnt);
        topic->in_sync = least(topic->in_sync, p->isr_cnt);
        topic->leaderless += p->leader < 0;
    }
}

static void set_reason(struct kafka_topic *topic, const char *words) {
    snprintf(topic->reason, sizeof topic->reason, "%s", words);
}

static void take_metadata(struct kafka_topic *topic, const struct rd_kafka_metadata_topic *t) {
    if (t->err == RD_KAFKA_RESP_ERR_NO_ERROR && t->partition_cnt > 0) {
        topic->state = KAFKA_TOPIC_FIT;
        topic->reason[0] = '\0';
        take_partitions(topic, t);
        return;
    }
    bool refused = t->err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    topic->state = refused ? KAFKA_TOPIC_REFUSED : KAFKA_TOPIC_MISSING;
    set_reason(topic, t->err ? rd_kafka_err2str(t->err) : "it has no partitions");
}

/* What librdkafka says of its connections says more than the code of the call that fails by it. */
struct words {
    char text[WORDS_MAX]; /* empty: nothing yet */
    bool all_down;
};

static void listen_to(rd_kafka_t *rk, struct words *w) {
    rd_kafka_queue_t *queue = rd_kafka_queue_get_main(rk);
    rd_kafka_event_t *event;
    while ((event = rd_kafka_queue_poll(queue, 0))) {
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR) {
            if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
                w->all_down = true;
            else
                snprintf(w->text, sizeof w->text, "%s", rd_kafka_event_error_string(event));
        }
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
}

/* In two slices: the call goes on waiting for a broker when it is known that there is none. */
static rd_kafka_resp_err_t wait_for_metadata(rd_kafka_t *rk, const struct rd_kafka_metadata **ret_metadata,
                                             struct words *w) {
    rd_kafka_resp_err_t code = rd_kafka_metadata(rk, 0, NULL, ret_metadata, FIRST_SLICE_MS);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return code;
    listen_to(rk, w);
    if (w->all_down)
        return code;
    code = rd_kafka_metadata(rk, 0, NULL, ret_metadata, STEP_TIMEOUT_MS - FIRST_SLICE_MS);
    listen_to(rk, w);
    return code;
}

/* Topics that have a handle are those that librdkafka asks for together. */
static uint32_t make_handles(rd_kafka_t *rk, const struct answer *a, rd_kafka_topic_t *handles[KAFKA_LOOK_TOPICS_MAX]) {
    uint32_t count = 0;
    while (count < a->count && (handles[count] = rd_kafka_topic_new(rk, a->names[count], NULL)))
        count++;
    return count;
}

/* 0: *ret_broker is one that answers. */
static int ask_for_metadata(rd_kafka_t *rk, struct answer *a, int32_t *ret_broker, struct error *reterr) {
    rd_kafka_topic_t *handles[KAFKA_LOOK_TOPICS_MAX];
    uint32_t made = make_handles(rk, a, handles);
    const struct rd_kafka_metadata *metadata = NULL;
    struct words words = {.all_down = false};
    rd_kafka_resp_err_t code = made == a->count ? wait_for_metadata(rk, &metadata, &words) : rd_kafka_last_error();
    while (made > 0)
        rd_kafka_topic_destroy(handles[--made]);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        error_set(reterr, ERROR_RETRY, CANT "%s", words.text[0] ? words.text : rd_kafka_err2str(code));
        return -EIO;
    }
    for (int i = 0; i < metadata->topic_cnt; i++) {
        struct kafka_topic *topic = asked_for(a, metadata->topics[i].topic);
        if (topic)
            take_metadata(topic, &metadata->topics[i]);
    }
    a->brokers = (uint32_t)metadata->broker_cnt;
    *ret_broker = metadata->orig_broker_id >= 0 || metadata->broker_cnt == 0 ? metadata->orig_broker_id
                                                                             : metadata->brokers[0].id;
    rd_kafka_metadata_destroy(metadata);
    return 0;
}

/* In the thread: configurations. ------------------------------------------- */

static int64_t number_of(const char *text) {
    return text ? strtoll(text, NULL, 10) : 0;
}

static void take_entry(struct kafka_topic *topic, const rd_kafka_ConfigEntry_t *entry) {
    const char *name = rd_kafka_ConfigEntry_name(entry), *value = rd_kafka_ConfigEntry_value(entry);
    if (strcmp(name, "max.message.bytes") == 0)
        topic->max_message_bytes = number_of(value);
    else if (strcmp(name, "min.insync.replicas") == 0)
        topic->min_insync = (int32_t)number_of(value);
    else if (strcmp(name, "cleanup.policy") == 0)
        topic->compacted = value && strstr(value, "compact"); /* "compact,delete" is both */
}

static void take_configuration(struct kafka_topic *topic, const rd_kafka_ConfigResource_t *resource) {
    rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resource);
    topic->forbidden = code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED || code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        set_reason(topic, rd_kafka_err2str(code));
        return;
    }
    size_t count;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &count);
    for (size_t i = 0; i < count; i++)
        take_entry(topic, entries[i]);
    topic->described = topic->max_message_bytes > 0;
    set_reason(topic, topic->described ? "" : "the broker doesn't tell max.message.bytes");
}

static void all_undescribed(struct answer *a, const char *reason) {
    for (uint32_t i = 0; i < a->count; i++)
        if (a->topics[i].state == KAFKA_TOPIC_FIT)
            set_reason(&a->topics[i], reason);
}

static void take_configurations(struct answer *a, rd_kafka_event_t *event) {
    const rd_kafka_DescribeConfigs_result_t *result = event ? rd_kafka_event_DescribeConfigs_result(event) : NULL;
    if (!result || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        all_undescribed(a, result ? rd_kafka_event_error_string(event) : "no answer in time");
        return;
    }
    size_t count;
    const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(result, &count);
    for (size_t i = 0; i < count; i++) {
        struct kafka_topic *topic = asked_for(a, rd_kafka_ConfigResource_name(resources[i]));
        if (topic)
            take_configuration(topic, resources[i]);
    }
}

/* Only what is wanted: a topic has thirty entries. */
static rd_kafka_ConfigResource_t *question(const char *name) {
    static const char *const wanted[] = {"max.message.bytes", "min.insync.replicas", "cleanup.policy"};
    rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name);
    for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++)
        (void)rd_kafka_ConfigResource_set_config(resource, wanted[i], "");
    return resource;
}

/* By default it would be the controller; any broker knows, and this one answers. */
static rd_kafka_AdminOptions_t *options_for(rd_kafka_t *rk, int32_t broker) {
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    char why[WORDS_MAX];
    if (broker >= 0)
        (void)rd_kafka_AdminOptions_set_broker(options, broker, why, sizeof why);
    (void)rd_kafka_AdminOptions_set_request_timeout(options, STEP_TIMEOUT_MS, why, sizeof why);
    return options;
}

/* Not being told is no failure: then it is not known. */
static void ask_for_configurations(rd_kafka_t *rk, struct answer *a, int32_t broker) {
    rd_kafka_ConfigResource_t *resources[KAFKA_LOOK_TOPICS_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->topics[i].state == KAFKA_TOPIC_FIT)
            resources[count++] = question(a->names[i]);
    if (count == 0)
        return;
    rd_kafka_AdminOptions_t *options = options_for(rk, broker);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_DescribeConfigs(rk, resources, count, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, STEP_TIMEOUT_MS + 100);
    take_configurations(a, event);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy_array(resources, count);
}

/* The thread. ------------------------------------------------------------ */

static void *look(void *argument, struct error *reterr) {
    struct call *c = argument;
    char why[WORDS_MAX];
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, c->conf, why, sizeof why);
    if (!rk) {
        error_set(reterr, ERROR_RETRY, CANT "%s", why);
        return NULL;
    }
    c->conf = NULL;
    int32_t broker = -1;
    int r = ask_for_metadata(rk, c->answer, &broker, reterr);
    if (r == 0)
        ask_for_configurations(rk, c->answer, broker);
    rd_kafka_destroy(rk);
    return r == 0 ? TAKE(c->answer) : NULL;
}

static void free_call(void *argument) {
    struct call *c = argument;
    if (!c)
        return;
    if (c->conf)
        rd_kafka_conf_destroy(c->conf);
    free(c->answer);
    free(c);
}

static void cleanup_call(struct call **c) {
    free_call(*c);
}

static const struct dial_ops look_ops = {.connect = look, .close = free, .free_argument = free_call};

/* The owner. ------------------------------------------------------------- */

int kafka_look_new(const struct sink_setup *setup, struct kafka_topics *topics, struct kafka_look **ret_look) {
    CLEANUP(cleanup_free) struct kafka_look *l = calloc(1, sizeof *l);
    if (!l)
        return -ENOMEM;
    l->connection = setup->connection;
    l->topics = topics;
    snprintf(l->client_id, sizeof l->client_id, "penstock %s (asks for topics)", setup->forwarder);
    backoff_init(&l->backoff, &failed_waits, setup->seed);
    int r = dial_new(&look_ops, &l->dial);
    if (r < 0)
        return r;
    *ret_look = TAKE(l);
    return 0;
}

void kafka_look_free(struct kafka_look *l) {
    if (!l)
        return;
    dial_free(l->dial);
    free(l);
}

int kafka_look_fd(const struct kafka_look *l) {
    return dial_fd(l->dial);
}

int64_t kafka_look_deadline_us(const struct kafka_look *l) {
    if (dial_running(l->dial))
        return l->since_us + GIVE_UP_US;
    int64_t due_us = kafka_topics_deadline_us(l->topics);
    return due_us > l->next_us ? due_us : l->next_us;
}

static void failed(struct kafka_look *l, const struct error *error, int64_t now_us) {
    l->error = *error;
    l->next_us = now_us + backoff_next_us(&l->backoff);
}

static void give_up(struct kafka_look *l, int64_t now_us) {
    struct error error;
    error_set(&error, ERROR_RETRY, CANT "no end after %d s", (int)(GIVE_UP_US / CLOCK_US_PER_S));
    dial_abandon(l->dial);
    failed(l, &error, now_us);
}

static void take(struct kafka_look *l, int64_t now_us) {
    void *handle;
    struct error error;
    int r = dial_take(l->dial, &handle, &error);
    if (r == DIAL_E_FAILED)
        return failed(l, &error, now_us);
    if (r == DIAL_E_RUNNING) {
        if (dial_running(l->dial) && now_us >= l->since_us + GIVE_UP_US)
            give_up(l, now_us);
        return;
    }
    CLEANUP(cleanup_free) struct answer *answer = handle;
    kafka_topics_learn(l->topics, answer->topics, answer->count, answer->brokers, now_us);
    l->error.class = ERROR_NONE;
    backoff_reset(&l->backoff);
}

static void pick(struct kafka_look *l, struct answer *a, int64_t now_us) {
    struct span names[KAFKA_LOOK_TOPICS_MAX];
    a->count = kafka_topics_pick(l->topics, now_us, names, KAFKA_LOOK_TOPICS_MAX);
    for (uint32_t i = 0; i < a->count; i++) {
        memcpy(a->names[i], names[i].data, names[i].len);
        a->topics[i].name = (struct span){a->names[i], names[i].len};
        a->topics[i].state = KAFKA_TOPIC_MISSING;
        set_reason(&a->topics[i], "the broker doesn't mention it");
    }
}

static int start(struct kafka_look *l, int64_t now_us, struct error *reterr) {
    CLEANUP(cleanup_call) struct call *c = calloc(1, sizeof *c);
    if (!c || !(c->answer = calloc(1, sizeof *c->answer)))
        return -ENOMEM;
    pick(l, c->answer, now_us);
    ASSERT(c->answer->count > 0);
    struct kafka_tuning tuning = {.role = KAFKA_LOOK, .client_id = l->client_id};
    int r = kafka_options_conf(l->connection, &tuning, &c->conf, reterr);
    if (r < 0)
        return r;
    rd_kafka_conf_set_events(c->conf, RD_KAFKA_EVENT_ERROR);
    l->since_us = now_us;
    return dial_start(l->dial, TAKE(c));
}

void kafka_look_work(struct kafka_look *l, int64_t now_us) {
    take(l, now_us);
    if (dial_running(l->dial) || kafka_look_deadline_us(l) > now_us)
        return;
    struct error error = {.class = ERROR_NONE};
    int r = start(l, now_us, &error);
    if (r == 0)
        return;
    if (error.class == ERROR_NONE)
        error_set(&error, ERROR_RETRY, CANT "%s", strerrordesc_np(-r));
    failed(l, &error, now_us);
}

int64_t kafka_look_since_us(const struct kafka_look *l, int64_t now_us) {
    return dial_running(l->dial) ? l->since_us : now_us;
}

const char *kafka_look_reason(const struct kafka_look *l) {
    return l->error.class == ERROR_NONE ? NULL : l->error.text;
}
