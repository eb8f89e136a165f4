/* kafka_session: what happens with one instance of the producer: publishes, reports, stalls, and its end */
#include "sink/kafka_session.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "sink/kafka_findings.h"

#define EVENTS_AT_ONCE 1000 /* read in one call of work */
/* What is on the wire may still be confirmed when the instance fails: each that is, is no duplicate. */
#define LAST_REPORTS_US CLOCK_US_PER_S
/* Of what was lost some comes again after a while, and between two that go alone there may be a moment. */
#define SEARCH_US CLOCK_US_PER_S
/* A broker that restarts, or that has closed an idle connection, may be back at once. */
#define AWAY_US CLOCK_US_PER_S

int kafka_session_init(struct kafka_session *s, const struct sink_setup *setup, struct kafka_topics *topics,
                       const struct kafka_look *look) {
    *s = (struct kafka_session){
        .options = setup->options,
        .topics = topics,
        .look = look,
        .partitioner = kafka_partitioner_of(setup->connection),
    };
    kafka_message_init(&s->message, (size_t)s->options->max_message_bytes);
    int result = kafka_suspects_init(&s->suspects, setup->in_flight);
    if (result == 0)
        result = kafka_partitions_new(&s->partitions);
    if (result == 0)
        result = kafka_tokens_new(setup->in_flight, &s->tokens);
    return result;
}

void kafka_session_done(struct kafka_session *s) {
    kafka_message_done(&s->message);
    kafka_partitions_free(s->partitions);
    kafka_suspects_done(&s->suspects);
    kafka_tokens_free(s->tokens);
}

bool kafka_session_is_up(const struct kafka_session *s) {
    return s->producer != NULL;
}

void kafka_session_up(struct kafka_session *s, int64_t now_us, struct kafka_producer *producer) {
    ASSERT(!kafka_session_is_up(s));
    ASSERT(kafka_tokens_open(s->tokens) == 0);
    s->producer = producer;
    s->more_to_read = true; /* what came before somebody listened */
    s->failing = s->stalled = s->unwanted = s->planned = false;
    s->failed = 0;
    s->away_since_us = CLOCK_NEVER;
    s->up_since_us = s->searched_us = now_us;
    kafka_gate_reset(&s->gate, now_us);
    kafka_suspects_reset(&s->suspects);
    kafka_partitions_reset(s->partitions);
    s->word.class = ERROR_NONE;
}

struct kafka_producer *kafka_session_down(struct kafka_session *s, const struct error *why) {
    ASSERT(kafka_session_is_up(s));
    s->lost = *why;
    s->failing = s->stalled = s->more_to_read = false;
    kafka_tokens_lose(s->tokens);
    kafka_producer_abandon(s->producer);
    ASSERT(kafka_tokens_open(s->tokens) == 0);
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

static void fail_for_good(struct kafka_session *s, int64_t now_us, const char *otherwise) {
    char text[ERROR_TEXT_MAX];
    fail(s, now_us, "librdkafka can't go on", kafka_producer_fatal(s->producer, text, sizeof text) ? text : otherwise);
}

/* Reports. --------------------------------------------------------------- */

/* It may have changed since it was looked at; but the right to write there can't be seen. */
static void blame_topic(struct kafka_session *s, struct span topic, rd_kafka_resp_err_t err, int64_t now_us) {
    if (err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        kafka_topics_refuse(s->topics, topic, rd_kafka_err2str(err), now_us);
    else
        kafka_topics_doubt(s->topics, topic, now_us);
}

/* Of an instance the size of a batch can't be changed. */
static void plan(struct kafka_session *s, int64_t now_us, const char *what, const char *why) {
    if (!s->failing || !s->planned) {
        s->failing = false;
        fail(s, now_us, what, why);
    }
    s->planned = true;
}

static void on_failure(struct kafka_session *s, const rd_kafka_message_t *m, int64_t now_us) {
    struct span topic = span_of(kafka_producer_topic_of(m));
    s->failed++;
    switch (kafka_suspects_blame(m->err)) {
    case KAFKA_BLAME_MESSAGE:
        kafka_suspects_note(&s->suspects, m, kafka_topics_find(s->topics, topic, now_us), kafka_tokens_open(s->tokens), now_us);
        kafka_topics_doubt(s->topics, topic, now_us);
        plan(s, now_us, kafka_producer_topic_of(m), rd_kafka_err2str(m->err));
        break;
    case KAFKA_BLAME_TOPIC:
        blame_topic(s, topic, m->err, now_us);
        break;
    case KAFKA_BLAME_INSTANCE:
        break;
    }
    fail(s, now_us, kafka_producer_topic_of(m), rd_kafka_err2str(m->err));
}

/* What the search tells of batches, once it is over. */
static void learn_batch_bytes(struct kafka_session *s) {
    int64_t bytes = kafka_suspects_any(&s->suspects) ? 0 : kafka_suspects_batch_bytes(&s->suspects);
    if (bytes > 0 && (s->batch_bytes == 0 || bytes < s->batch_bytes))
        s->batch_bytes = bytes;
}

static void on_success_single(struct kafka_session *s, const rd_kafka_message_t *m, int64_t now_us) {
    if (!kafka_suspects_any(&s->suspects) || !kafka_suspects_cleared(&s->suspects, m))
        return;
    learn_batch_bytes(s);
    plan(s, now_us, kafka_producer_topic_of(m), "nobody is suspected any more, messages go in larger batches again");
}

static void on_success(struct kafka_session *s, const rd_kafka_message_t *m, int64_t now_us) {
    uint64_t tag = (uint64_t)(uintptr_t)m->_private;
    uint32_t place = kafka_tokens_place(s->tokens, tag);
    kafka_gate_confirmed(&s->gate, place, kafka_partitions_warm(s->partitions, place, now_us),
                         kafka_partitions_waits_since_us(s->partitions, place), now_us);
    kafka_partitions_confirmed(s->partitions, place, now_us);
    kafka_tokens_confirm(s->tokens, tag);
    s->word.class = ERROR_NONE;
    s->unwanted = false;
    s->away_since_us = CLOCK_NEVER;
    if (s->suspects.single)
        on_success_single(s, m, now_us);
}

/* Delivered, and no offset: no broker said so. librdkafka infers it from the success of a later message (2.0.2,
 * rd_kafka_dr_implicit_ack), which proves nothing where the topic was made anew meanwhile: it may be lost. */
static bool inferred(const rd_kafka_message_t *m) {
    return m->offset < 0;
}

static void on_inference(struct kafka_session *s, const rd_kafka_message_t *m, int64_t now_us) {
    s->failed++;
    fail(s, now_us, kafka_producer_topic_of(m), "the broker confirmed a later message, and said nothing of one before it");
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
        return fail_for_good(s, now_us, text);
    if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        s->away_since_us = s->away_since_us == CLOCK_NEVER ? now_us : s->away_since_us;
        if (s->word.class != ERROR_NONE)
            return; /* which says more */
    }
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

/* The topic may have changed since, so it is looked at anew: what is found is told the next time. */
static void explain_stand(struct kafka_session *s, struct span name, int64_t now_us, char *text, size_t size) {
    const char *word = s->word.class == ERROR_NONE ? NULL : s->word.text;
    kafka_findings_stand(kafka_topics_find(s->topics, name, now_us), word, text, size);
    kafka_topics_review(s->topics, name, now_us);
}

static int64_t stall_due_us(const struct kafka_session *s, uint32_t *ret_place) {
    int64_t published_us;
    if (!kafka_tokens_oldest(s->tokens, ret_place, &published_us))
        return CLOCK_NEVER;
    return published_us + s->options->ack_timeout_us;
}

/* Only shown: what was published stays so until the broker has answered. But
 * an instance keeps the secrets that it was made with. */
static void look_for_stall(struct kafka_session *s, int64_t now_us) {
    uint32_t place;
    int64_t due_us = stall_due_us(s, &place);
    s->stalled = now_us >= due_us;
    if (!s->stalled)
        return;
    s->stalled_since_us = due_us - s->options->ack_timeout_us;
    char why[ERROR_TEXT_MAX] = "more than can be told apart have something under way";
    struct span topic = SPAN_LITERAL("?");
    int32_t partition = KAFKA_PARTITION_BY_KEY;
    if (kafka_partitions_name(s->partitions, place, &topic, &partition))
        explain_stand(s, topic, now_us, why, sizeof why);
    snprintf(s->stall_reason, sizeof s->stall_reason, "topic %.*s, partition %d: no confirm within ack_timeout (%.3g s): %s",
             SPAN_ARGS(topic), partition,
             (double)s->options->ack_timeout_us / (double)CLOCK_US_PER_S, why);
    if (s->unwanted)
        fail(s, now_us, "connecting anew", s->word.text);
}

static int64_t away_due_us(const struct kafka_session *s) {
    bool waits = s->away_since_us != CLOCK_NEVER && kafka_tokens_open(s->tokens) == 0;
    return waits ? s->away_since_us + AWAY_US : CLOCK_NEVER;
}

/* With nothing under way librdkafka has no reason to connect again, and nothing would show that it can't: a new
 * instance does. Mostly the broker has only closed an idle connection; but not when that comes so soon. */
static void look_for_broker(struct kafka_session *s, int64_t now_us) {
    const char *why = s->word.class == ERROR_NONE ? "all are down" : s->word.text;
    if (s->failing || now_us < away_due_us(s))
        return;
    if (now_us - s->up_since_us >= KAFKA_SESSION_STEADY_US)
        plan(s, now_us, "no broker is reached", why);
    else
        fail(s, now_us, "no broker is reached", why);
}

static void look_at_gate(struct kafka_session *s, int64_t now_us) {
    struct span topic = kafka_gate_topic(&s->gate);
    if (!span_absent(topic) && kafka_topics_find(s->topics, topic, now_us))
        kafka_gate_topic_known(&s->gate, now_us);
    kafka_gate_turn(&s->gate, now_us);
}

static int64_t search_due_us(const struct kafka_session *s) {
    return s->searching && kafka_tokens_open(s->tokens) == 0 ? s->searched_us + SEARCH_US : CLOCK_NEVER;
}

/* Only shown: while nothing comes, nothing goes slower for it. */
static void look_at_search(struct kafka_session *s, int64_t now_us) {
    if (kafka_tokens_open(s->tokens) > 0)
        s->searched_us = now_us;
    s->searching = kafka_suspects_any(&s->suspects) && now_us - s->searched_us < SEARCH_US;
    if (s->searching)
        kafka_suspects_describe(&s->suspects, s->search_reason, sizeof s->search_reason);
}

static void find_guilty(struct kafka_session *s) {
    uint64_t tag;
    if (!kafka_suspects_guilty(&s->suspects, &tag))
        return;
    kafka_tokens_reject(s->tokens, tag);
    learn_batch_bytes(s);
}

int kafka_session_work(struct kafka_session *s, int64_t now_us, struct error *reterr) {
    look_at_gate(s, now_us);
    read_events(s, now_us);
    look_for_stall(s, now_us);
    look_for_broker(s, now_us);
    look_at_search(s, now_us);
    kafka_burst_turn(&s->burst, kafka_tokens_open(s->tokens), now_us);
    if (!s->failing || s->more_to_read)
        return 0;
    if (s->failed < kafka_tokens_open(s->tokens) && now_us < s->give_up_us)
        return 0;
    find_guilty(s);
    *reterr = s->failure;
    return -ECONNRESET;
}

int64_t kafka_session_deadline_us(const struct kafka_session *s) {
    if (kafka_tokens_answered(s->tokens) > 0 || s->more_to_read)
        return 0;
    if (!kafka_session_is_up(s))
        return CLOCK_NEVER;
    if (s->failing)
        return s->failed < kafka_tokens_open(s->tokens) ? s->give_up_us : 0;
    uint32_t place;
    int64_t due_us = s->stalled ? CLOCK_NEVER : stall_due_us(s, &place);
    int64_t burst_us = kafka_burst_deadline_us(&s->burst);
    if (away_due_us(s) < due_us)
        due_us = away_due_us(s);
    if (search_due_us(s) < due_us)
        due_us = search_due_us(s);
    if (kafka_gate_deadline_us(&s->gate) < due_us)
        due_us = kafka_gate_deadline_us(&s->gate);
    return burst_us < due_us ? burst_us : due_us;
}

/* Publishing. ------------------------------------------------------------ */

bool kafka_session_ready(const struct kafka_session *s) {
    return kafka_session_is_up(s) && !s->failing && kafka_gate_is_open(&s->gate) &&
           kafka_burst_is_open(&s->burst) && kafka_tokens_room(s->tokens) > 0;
}

static int retry(struct span topic, const char *why, struct error *reterr) {
    error_set(reterr, ERROR_RETRY, "topic %.*s: %s (tried again by itself)", SPAN_ARGS(topic), why);
    return SINK_E_RETRY;
}

/* Everything waits for a moment; but while looks fail, or if this one takes longer, only what goes there. */
static int wait_for_look(struct kafka_session *s, struct span topic, int64_t now_us, struct error *reterr) {
    const char *why = kafka_look_reason(s->look);
    if (!why && kafka_gate_await_topic(&s->gate, topic, kafka_look_since_us(s->look, now_us), now_us))
        return SINK_E_BUSY;
    return retry(topic, why ? why : "no broker has told yet whether it is there", reterr);
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
    if (!topic)
        return wait_for_look(s, name, now_us, reterr);
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

/* The topic may have been altered since it was looked at. */
static int check_fit(struct kafka_session *s, const struct kafka_topic *topic, int64_t now_us, struct error *reterr) {
    int result = kafka_message_check(&s->message, topic, reterr);
    if (result == 0)
        return 0;
    if (result == KAFKA_MESSAGE_E_REJECTED && now_us - topic->looked_us < KAFKA_TOPICS_STALE_US)
        return SINK_E_REJECTED;
    kafka_topics_review(s->topics, topic->name, now_us);
    reterr->class = ERROR_RETRY;
    return SINK_E_RETRY;
}

static int on_refusal(struct kafka_session *s, const struct kafka_topic *topic, rd_kafka_resp_err_t err, int64_t now_us,
                      struct error *reterr) {
    switch ((int)err) {
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
        return SINK_E_BUSY;
    case RD_KAFKA_RESP_ERR__FATAL:
        fail_for_good(s, now_us, rd_kafka_err2str(err));
        return SINK_E_BUSY;
    default:
        break;
    }
    if (err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION && topic->looked_us > s->up_since_us) {
        plan(s, now_us, "a topic has more partitions than before", "librdkafka would notice it minutes later");
        return SINK_E_BUSY;
    }
    int result = retry(topic->name, rd_kafka_err2str(err), reterr);
    if (kafka_suspects_blame(err) == KAFKA_BLAME_TOPIC)
        blame_topic(s, topic->name, err, now_us);
    return result;
}

/* Everything waits for a moment; if that is in vain, what goes there does, and nothing else. */
static int wait_for_partition(struct kafka_session *s, const struct kafka_topic *topic, uint32_t place, int64_t now_us,
                              struct error *reterr) {
    if (kafka_gate_await_partition(&s->gate, place, kafka_partitions_warm(s->partitions, place, now_us),
                                   kafka_partitions_waits_since_us(s->partitions, place), now_us))
        return SINK_E_BUSY;
    char why[ERROR_TEXT_MAX];
    explain_stand(s, topic->name, now_us, why, sizeof why);
    error_set(reterr, ERROR_RETRY, "topic %.*s, partition %d has not confirmed what went there before: %s (goes by itself)",
              SPAN_ARGS(topic->name), s->message.partition, why);
    return SINK_E_RETRY;
}

static int find_partition(struct kafka_session *s, const struct kafka_topic *topic, int64_t now_us, uint32_t *ret_place,
                          struct error *reterr) {
    if (s->message.partition == KAFKA_PARTITION_BY_KEY)
        s->message.partition = kafka_partitioner_choose(s->partitioner, s->message.key, s->turn, topic->partitions);
    int result = kafka_partitions_find(s->partitions, topic->name, s->message.partition, ret_place);
    if (result < 0 || kafka_partitions_takes(s->partitions, *ret_place, kafka_tokens_room(s->tokens), now_us))
        return result;
    return wait_for_partition(s, topic, *ret_place, now_us, reterr);
}

static int produce(struct kafka_session *s, const struct kafka_topic *topic, uint32_t place, uint64_t token,
                   int64_t now_us, struct error *reterr) {
    uint64_t tag = kafka_tokens_next_tag(s->tokens);
    rd_kafka_resp_err_t err = kafka_producer_produce(s->producer, topic->name, &s->message, tag);
    if (err)
        return on_refusal(s, topic, err, now_us, reterr);
    kafka_partitions_sent(s->partitions, place, now_us);
    kafka_tokens_publish(s->tokens, token, place, now_us);
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
        result = check_fit(s, topic, now_us, reterr);
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
    uint64_t token;
    enum kafka_token_outcome outcome;
    if (!kafka_tokens_next(s->tokens, &token, &outcome))
        return false;
    *ret_outcome = (struct sink_outcome){.token = token, .kind = SINK_CONFIRMED};
    if (outcome == KAFKA_TOKEN_REJECTED) {
        ret_outcome->kind = SINK_REJECTED;
        ret_outcome->reason = s->suspects.first.text;
    } else if (outcome == KAFKA_TOKEN_LOST) {
        ret_outcome->kind = SINK_LOST;
        ret_outcome->reason = s->lost.text;
    }
    return true;
}
