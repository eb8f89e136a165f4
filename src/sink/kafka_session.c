/* kafka_session: what happens with one instance of the producer: publishes, reports, stalls, and its end */
#include "sink/kafka_session.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

#define EVENTS_AT_ONCE 1000 /* read in one call of work */
#define SPAN_PER_IN_FLIGHT 4
/* What is on the wire may still be confirmed when the instance fails: each that is, is no duplicate. */
#define LAST_REPORTS_US CLOCK_US_PER_S
#define BATCH_BYTES_LEAST 16384

/* The partition is chosen here, as librdkafka would: it has to be known before
 * something goes there (kafka_partitions.h). */
struct kafka_partitioner {
    const char *name;
    int32_t (*choose)(const rd_kafka_topic_t *topic, const void *key, size_t len, int32_t count, void *, void *);
    bool spreads; /* messages without a key */
};

static const struct kafka_partitioner partitioners[] = {
    {"murmur2_random", rd_kafka_msg_partitioner_murmur2, true},
    {"murmur2", rd_kafka_msg_partitioner_murmur2, false},
    {"consistent_random", rd_kafka_msg_partitioner_consistent, true},
    {"consistent", rd_kafka_msg_partitioner_consistent, false},
    {"fnv1a_random", rd_kafka_msg_partitioner_fnv1a, true},
    {"fnv1a", rd_kafka_msg_partitioner_fnv1a, false},
};

static const struct kafka_partitioner *partitioner_of(const struct kafka_connection *c) {
    for (size_t i = 0; i < c->properties.count; i++)
        for (size_t n = 0; n < ARRAY_LENGTH(partitioners); n++)
            if (strcmp(c->properties.items[i].name, "partitioner") == 0 &&
                strcmp(c->properties.items[i].value.value, partitioners[n].name) == 0)
                return &partitioners[n];
    return &partitioners[0];
}

static int new_places(struct kafka_session *s, uint32_t span) {
    uint64_t size = 1;
    while (size < span)
        size *= 2;
    s->place_mask = size - 1;
    s->places = calloc(size, sizeof *s->places);
    return s->places ? kafka_partitions_new(&s->partitions) : -ENOMEM;
}

int kafka_session_init(struct kafka_session *s, const struct sink_setup *setup, struct kafka_topics *topics) {
    *s = (struct kafka_session){
        .options = setup->options,
        .topics = topics,
        .partitioner = partitioner_of(setup->connection),
    };
    kafka_message_init(&s->message, (size_t)s->options->max_message_bytes);
    uint32_t span = setup->in_flight * SPAN_PER_IN_FLIGHT;
    int result = kafka_suspects_init(&s->suspects, setup->in_flight);
    if (result == 0)
        result = new_places(s, span);
    if (result == 0)
        result = confirms_new(setup->in_flight, span, &s->confirms);
    return result;
}

void kafka_session_done(struct kafka_session *s) {
    kafka_message_done(&s->message);
    kafka_partitions_free(s->partitions);
    free(s->places);
    kafka_suspects_done(&s->suspects);
    confirms_free(s->confirms);
}

bool kafka_session_is_up(const struct kafka_session *s) {
    return s->producer != NULL;
}

void kafka_session_up(struct kafka_session *s, struct kafka_producer *producer) {
    ASSERT(!kafka_session_is_up(s));
    ASSERT(confirms_open(s->confirms) == 0);
    s->producer = producer;
    s->more_to_read = true; /* what came before somebody listened */
    s->failing = s->stalled = s->unwanted = s->cold = false;
    s->failed = 0;
    kafka_suspects_reset(&s->suspects);
    kafka_partitions_reset(s->partitions);
    s->word.class = ERROR_NONE;
}

struct kafka_producer *kafka_session_down(struct kafka_session *s, const struct error *why) {
    ASSERT(kafka_session_is_up(s));
    s->lost = *why;
    s->failing = s->stalled = s->more_to_read = false;
    confirms_reset(s->confirms);
    kafka_producer_abandon(s->producer);
    ASSERT(confirms_open(s->confirms) == 0);
    return TAKE(s->producer);
}

/* Failures. -------------------------------------------------------------- */

/* The one way to an instance's end while it is up. */
static void fail(struct kafka_session *s, int64_t now_us, const char *what, const char *why) {
    if (s->failing)
        return;
    s->failing = true;
    s->give_up_us = now_us + LAST_REPORTS_US;
    error_set(&s->failure, ERROR_RETRY, "%s: %s", what, why);
    kafka_producer_stop(s->producer);
}

/* Reports. --------------------------------------------------------------- */

static const char *topic_of(const rd_kafka_message_t *m) {
    return m->rkt ? rd_kafka_topic_name(m->rkt) : "?";
}

/* It may have changed since it was looked at; but the right to write there can't be seen. */
static void blame_topic(struct kafka_session *s, struct span topic, rd_kafka_resp_err_t err, int64_t now_us) {
    if (err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        kafka_topics_refuse(s->topics, topic, rd_kafka_err2str(err), now_us);
    else
        kafka_topics_doubt(s->topics, topic, now_us);
}

static void on_failure(struct kafka_session *s, const rd_kafka_message_t *m, int64_t now_us) {
    s->failed++;
    switch (kafka_suspects_blame(m->err)) {
    case KAFKA_BLAME_MESSAGE:
        kafka_suspects_note(&s->suspects, m);
        kafka_topics_doubt(s->topics, span_of(topic_of(m)), now_us);
        break;
    case KAFKA_BLAME_TOPIC:
        blame_topic(s, span_of(topic_of(m)), m->err, now_us);
        break;
    case KAFKA_BLAME_INSTANCE:
        break;
    }
    fail(s, now_us, topic_of(m), rd_kafka_err2str(m->err));
}

/* Of an instance the size of a batch can't be changed. */
static void on_success_alone(struct kafka_session *s, int64_t now_us) {
    int64_t bytes;
    if (!kafka_suspects_cleared(&s->suspects, &bytes))
        return;
    s->batch_bytes = bytes / 2 > BATCH_BYTES_LEAST ? bytes / 2 : BATCH_BYTES_LEAST;
    fail(s, now_us, "a topic takes less than its max.message.bytes was thought to be", "batches become smaller");
}

static void on_success(struct kafka_session *s, const rd_kafka_message_t *m, int64_t now_us) {
    uint64_t tag = (uint64_t)(uintptr_t)m->_private;
    uint32_t place = s->places[tag & s->place_mask];
    kafka_partitions_confirmed(s->partitions, place, now_us);
    if (place == s->cold_place)
        s->cold = false;
    (void)!confirms_ack(s->confirms, tag, false);
    s->word.class = ERROR_NONE;
    s->unwanted = false;
    if (kafka_suspects_alone(&s->suspects))
        on_success_alone(s, now_us);
}

/* Delivered, and no offset: no broker said so. librdkafka infers it from the success of a later message (2.0.2,
 * rd_kafka_dr_implicit_ack), which proves nothing where the topic was made anew meanwhile: it may be lost. */
static bool inferred(const rd_kafka_message_t *m) {
    return m->offset < 0;
}

static void on_inference(struct kafka_session *s, const rd_kafka_message_t *m, int64_t now_us) {
    s->failed++;
    fail(s, now_us, topic_of(m), "the broker confirmed a later message, and said nothing of one before it");
}

static void on_reports(struct kafka_session *s, rd_kafka_event_t *event, int64_t now_us) {
    const rd_kafka_message_t *m;
    while ((m = rd_kafka_event_message_next(event)))
        if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            on_failure(s, m, now_us);
        else if (inferred(m))
            on_inference(s, m, now_us);
        else
            on_success(s, m, now_us);
}

static void on_error(struct kafka_session *s, rd_kafka_event_t *event, int64_t now_us) {
    const char *text = rd_kafka_event_error_string(event);
    if (rd_kafka_event_error_is_fatal(event) || rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__FATAL)
        return fail(s, now_us, "librdkafka can't go on", text);
    s->unwanted |= kafka_producer_unwanted(rd_kafka_event_error(event));
    error_set(&s->word, ERROR_RETRY, "%s", text);
}

/* What isn't an error to the library may still be why nothing moves: no producer id, a request that timed out. */
static void on_log(struct kafka_session *s, rd_kafka_event_t *event) {
    const char *facility, *text;
    int level;
    if (rd_kafka_event_log(event, &facility, &text, &level) < 0 || level > LOG_LEVEL_WARNING ||
        strcmp(facility, "CONFWARN") == 0)
        return;
    const char *behind_thread = strstr(text, "]: ");
    error_set(&s->word, ERROR_RETRY, "%s", behind_thread ? behind_thread + 3 : text);
}

static void on_event(struct kafka_session *s, rd_kafka_event_t *event, int64_t now_us) {
    switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_DR:
        on_reports(s, event, now_us);
        break;
    case RD_KAFKA_EVENT_ERROR:
        on_error(s, event, now_us);
        break;
    case RD_KAFKA_EVENT_LOG:
        on_log(s, event);
        break;
    default:
        break;
    }
}

static void read_events(struct kafka_session *s, int64_t now_us) {
    s->more_to_read = false;
    kafka_producer_listen(s->producer);
    for (int i = 0; i < EVENTS_AT_ONCE; i++) {
        rd_kafka_event_t *event = kafka_producer_event(s->producer);
        if (!event)
            return;
        on_event(s, event, now_us);
        rd_kafka_event_destroy(event);
    }
    s->more_to_read = true;
}

/* Stalls and the end. ---------------------------------------------------- */

/* Only shown: what was published stays so until the broker has answered. But
 * an instance keeps the secrets that it was made with. */
static void look_for_stall(struct kafka_session *s, int64_t now_us) {
    int64_t due_us = confirms_deadline_us(s->confirms, s->options->ack_timeout_us);
    s->stalled = now_us >= due_us;
    if (!s->stalled)
        return;
    s->stalled_since_us = due_us - s->options->ack_timeout_us;
    snprintf(s->stall_reason, sizeof s->stall_reason, "no confirm within ack_timeout (%.3g s): %s",
             (double)s->options->ack_timeout_us / (double)CLOCK_US_PER_S,
             s->word.class == ERROR_NONE ? "in-sync replicas, the leader or the broker may be away" : s->word.text);
    if (s->unwanted)
        fail(s, now_us, "connecting anew", s->word.text);
}

static void look_for_topic(struct kafka_session *s, int64_t now_us) {
    struct span name = {s->awaited, s->awaited_len};
    if (name.len > 0 && kafka_topics_find(s->topics, name, now_us))
        s->awaited_len = 0;
}

int kafka_session_work(struct kafka_session *s, int64_t now_us, struct error *reterr) {
    look_for_topic(s, now_us);
    s->cold = s->cold && now_us < s->cold_until_us;
    read_events(s, now_us);
    look_for_stall(s, now_us);
    kafka_burst_turn(&s->burst, confirms_open(s->confirms), now_us);
    if (!s->failing || s->more_to_read)
        return 0;
    if (s->failed < confirms_open(s->confirms) && now_us < s->give_up_us)
        return 0;
    uint64_t tag;
    if (kafka_suspects_guilty(&s->suspects, &tag))
        (void)!confirms_nack(s->confirms, tag, false);
    *reterr = s->failure;
    return -ECONNRESET;
}

int64_t kafka_session_deadline_us(const struct kafka_session *s) {
    if (confirms_answered(s->confirms) > 0 || s->more_to_read)
        return 0;
    if (!kafka_session_is_up(s))
        return CLOCK_NEVER;
    if (s->failing)
        return s->failed < confirms_open(s->confirms) ? s->give_up_us : 0;
    int64_t due_us = s->stalled ? CLOCK_NEVER : confirms_deadline_us(s->confirms, s->options->ack_timeout_us);
    int64_t burst_us = kafka_burst_deadline_us(&s->burst);
    if (s->cold && s->cold_until_us < due_us)
        due_us = s->cold_until_us;
    return burst_us < due_us ? burst_us : due_us;
}

/* Publishing. ------------------------------------------------------------ */

bool kafka_session_ready(const struct kafka_session *s) {
    if (!kafka_session_is_up(s) || s->failing || s->cold || s->awaited_len > 0 || !kafka_burst_is_open(&s->burst))
        return false;
    if (kafka_suspects_alone(&s->suspects))
        return confirms_open(s->confirms) == 0 && confirms_answered(s->confirms) == 0;
    return confirms_has_room(s->confirms);
}

static int retry(struct span topic, const char *why, struct error *reterr) {
    error_set(reterr, ERROR_RETRY, "topic %.*s: %s (tried again by itself)", SPAN_ARGS(topic), why);
    return SINK_E_RETRY;
}

static int find_topic(struct kafka_session *s, const struct destination *d, int64_t now_us,
                      const struct kafka_topic **ret_topic, struct error *reterr) {
    struct span name = d->fields[KAFKA_TOPIC];
    /* What stands in the rule was checked at load. */
    if (!(d->literal & 1U << KAFKA_TOPIC) && kafka_topic_check(name, reterr) != 0) {
        error_prefix(reterr, "its topic is");
        reterr->class = ERROR_PERMANENT;
        return SINK_E_REJECTED;
    }
    const struct kafka_topic *topic = kafka_topics_find(s->topics, name, now_us);
    if (!topic) {
        ASSERT(name.len <= sizeof s->awaited);
        memcpy(s->awaited, name.data, name.len);
        s->awaited_len = name.len;
        return SINK_E_BUSY;
    }
    if (topic->state != KAFKA_TOPIC_FIT)
        return retry(name, topic->reason, reterr);
    *ret_topic = topic;
    return 0;
}

static int build(struct kafka_session *s, const struct event *e, const struct destination *d, struct error *reterr) {
    size_t max_message_bytes = (size_t)s->options->max_message_bytes;
    int result = kafka_message_build(&s->message, &s->options->binding, max_message_bytes, e, d, reterr);
    return result == KAFKA_MESSAGE_E_REJECTED ? SINK_E_REJECTED : result;
}

/* What the broker would say no to, and to the whole batch. */
static int check_fit(const struct kafka_message *m, const struct kafka_topic *topic, struct error *reterr) {
    int32_t least = m->partition == KAFKA_PARTITION_BY_KEY ? 0 : m->partition;
    if (least >= topic->partitions) {
        error_set(reterr, ERROR_RETRY, "topic %.*s has no partition %d", SPAN_ARGS(topic->name), least);
        return SINK_E_RETRY;
    }
    if (topic->compacted && span_absent(m->key)) {
        error_set(reterr, ERROR_PERMANENT, "topic %.*s is compacted: it takes no message without a key", SPAN_ARGS(topic->name));
        return SINK_E_REJECTED;
    }
    if (topic->max_message_bytes > 0 && m->bytes > (size_t)topic->max_message_bytes) {
        error_set(reterr, ERROR_PERMANENT,
                  "its message is %zu bytes with key and headers; topic %.*s takes %lld (max.message.bytes)", m->bytes,
                  SPAN_ARGS(topic->name), (long long)topic->max_message_bytes);
        return SINK_E_REJECTED;
    }
    return 0;
}

static int on_refusal(struct kafka_session *s, const struct kafka_topic *topic, rd_kafka_resp_err_t err, int64_t now_us,
                      struct error *reterr) {
    switch ((int)err) {
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
        return SINK_E_BUSY;
    case RD_KAFKA_RESP_ERR__FATAL:
        fail(s, now_us, "librdkafka can't go on", rd_kafka_err2str(err));
        return SINK_E_BUSY;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        error_set(reterr, ERROR_PERMANENT, "its message is %zu bytes with key and headers; message.max.bytes allows less",
                  s->message.bytes);
        return SINK_E_REJECTED;
    default:
        break;
    }
    int result = retry(topic->name, rd_kafka_err2str(err), reterr);
    if (kafka_suspects_blame(err) == KAFKA_BLAME_TOPIC)
        blame_topic(s, topic->name, err, now_us);
    return result;
}

static int32_t choose_partition(const struct kafka_session *s, const struct kafka_topic *topic) {
    const struct kafka_message *m = &s->message;
    if (m->partition != KAFKA_PARTITION_BY_KEY)
        return m->partition;
    if (span_absent(m->key) && s->partitioner->spreads)
        return s->turn % topic->partitions;
    return s->partitioner->choose(NULL, m->key.data ? m->key.data : "", m->key.len, topic->partitions, NULL, NULL);
}

static int find_partition(struct kafka_session *s, const struct kafka_topic *topic, int64_t now_us, uint32_t *ret_place,
                          struct error *reterr) {
    s->message.partition = choose_partition(s, topic);
    int result = kafka_partitions_find(s->partitions, topic->name, s->message.partition, ret_place);
    if (result < 0 || kafka_partitions_takes(s->partitions, *ret_place, now_us))
        return result;
    s->cold_until_us = kafka_partitions_sent_us(s->partitions, *ret_place) + s->options->ack_timeout_us;
    if (now_us >= s->cold_until_us)
        return retry(topic->name, "the first message to its partition is not confirmed yet", reterr);
    s->cold = true;
    s->cold_place = *ret_place;
    return SINK_E_BUSY;
}

static int produce(struct kafka_session *s, const struct kafka_topic *topic, uint32_t place, uint64_t token,
                   int64_t now_us, struct error *reterr) {
    uint64_t tag = confirms_next_tag(s->confirms);
    rd_kafka_resp_err_t err = kafka_producer_produce(s->producer, topic->name, &s->message, tag);
    if (err)
        return on_refusal(s, topic, err, now_us, reterr);
    if (kafka_suspects_alone(&s->suspects))
        kafka_suspects_sent_alone(&s->suspects, &s->message);
    s->places[tag & s->place_mask] = place;
    kafka_partitions_sent(s->partitions, place, now_us);
    confirms_publish(s->confirms, token, now_us);
    kafka_burst_publish(&s->burst);
    return 0;
}

int kafka_session_publish(struct kafka_session *s, const struct event *e, const struct destination *d, uint64_t token,
                          int64_t now_us, struct error *reterr) {
    ASSERT(kafka_session_ready(s));
    const struct kafka_topic *topic = NULL;
    int result = find_topic(s, d, now_us, &topic, reterr);
    if (result == 0)
        result = build(s, e, d, reterr);
    if (result == 0)
        result = check_fit(&s->message, topic, reterr);
    uint32_t place = 0;
    if (result == 0)
        result = find_partition(s, topic, now_us, &place, reterr);
    return result == 0 ? produce(s, topic, place, token, now_us, reterr) : result;
}

void kafka_session_flush(struct kafka_session *s) {
    s->turn = s->turn == INT32_MAX ? 0 : s->turn + 1;
    kafka_burst_end(&s->burst);
}

/* Outcomes. -------------------------------------------------------------- */

bool kafka_session_next(struct kafka_session *s, struct sink_outcome *ret_outcome) {
    uint64_t token, tag;
    enum confirms_outcome outcome;
    if (!confirms_next(s->confirms, &token, &tag, &outcome))
        return false;
    *ret_outcome = (struct sink_outcome){.token = token, .kind = SINK_CONFIRMED};
    if (outcome == CONFIRMS_NACKED) {
        ret_outcome->kind = SINK_REJECTED;
        ret_outcome->reason = s->suspects.last.text;
    } else if (outcome != CONFIRMS_CONFIRMED) {
        ret_outcome->kind = SINK_LOST;
        ret_outcome->reason = s->lost.text;
    }
    return true;
}
