/* kafka: a sink that publishes to Kafka: idempotent, without gaps, confirmed by all in-sync replicas */
#include <errno.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "sink/kafka_look.h"
#include "sink/kafka_session.h"

/* Here: instances of the producer, made and given up, and the looks at topics.
 * What happens with an instance is kafka_session's. */

/* One that ended by plan is replaced by then: its threads end first, and a topic may be looked at. */
#define REBUILD_US (5 * CLOCK_US_PER_S)
#define CLIENT_ID_SIZE 128

static const struct backoff_options connect_waits = {.initial_us = 100000, .max_us = 5000000, .multiplier = 2};

struct kafka {
    struct sink sink;
    const struct kafka_connection *connection;
    const struct sink_options *options;
    uint32_t in_flight;
    char client_id[CLIENT_ID_SIZE];

    struct dial *dial;
    struct kafka_producer *old; /* given up; the next attempt frees it, in its thread */
    struct backoff backoff;
    int64_t next_attempt_us;
    struct error down; /* why it is not connected */
    bool was_up;
    bool rebuilding; /* the instance has ended by plan, and nothing is known to be wrong with the connection */
    int64_t rebuilt_by_us; /* at the latest, else something is */
    uint64_t reconnects;

    struct kafka_topics *topics;
    struct kafka_look *look;
    struct kafka_session session;
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static struct kafka *kafka_of(const struct sink *s) {
    return (struct kafka *)s;
}

/* Opening and closing. --------------------------------------------------- */

/* Leaves the instance to a thread. Without one it stays behind, doing nothing: freeing it may wait. */
static void bury(struct kafka *k) {
    struct kafka_call *call = NULL;
    if (k->old && kafka_call_new(k->old, NULL, &call) == 0 && dial_start(k->dial, call) == 0)
        k->old = NULL;
}

static void close_instance(struct kafka *k) {
    static const struct error closed = {.class = ERROR_RETRY, .text = "closed"};
    struct error unused;
    void *handle;
    if (kafka_session_is_up(&k->session))
        k->old = kafka_session_down(&k->session, &closed);
    else if (dial_running(k->dial) && dial_take(k->dial, &handle, &unused) == 0)
        k->old = handle;
    bury(k);
}

static void kafka_close(struct sink *s) {
    struct kafka *k = kafka_of(s);
    if (k->dial)
        close_instance(k);
    dial_free(k->dial);
    kafka_session_done(&k->session);
    kafka_look_free(k->look);
    kafka_topics_free(k->topics);
    free(k);
}

static int open_parts(struct kafka *k, const struct sink_setup *setup) {
    int result = kafka_topics_new(setup, &k->topics);
    if (result == 0)
        result = kafka_look_new(setup, k->topics, &k->look);
    if (result == 0)
        result = kafka_session_init(&k->session, setup, k->topics, k->look);
    if (result == 0)
        result = dial_new(&kafka_producer_ops, &k->dial);
    return result;
}

static int kafka_open(const struct sink_setup *setup, struct sink **ret_sink) {
    struct kafka *k = calloc(1, sizeof *k);
    if (!k)
        return -ENOMEM;
    k->sink.kind = sink_kind_find(SPAN_LITERAL("kafka"));
    k->connection = setup->connection;
    k->options = setup->options;
    k->in_flight = setup->in_flight;
    snprintf(k->client_id, sizeof k->client_id, "penstock-%s", setup->forwarder);
    backoff_init(&k->backoff, &connect_waits, setup->seed);
    int result = open_parts(k, setup);
    if (result < 0) {
        kafka_close(&k->sink);
        return result;
    }
    *ret_sink = &k->sink;
    return 0;
}

/* Down and up. ----------------------------------------------------------- */

static bool connected(const struct kafka *k) {
    return kafka_session_is_up(&k->session);
}

static void plan_attempt(struct kafka *k, int64_t now_us) {
    k->next_attempt_us = now_us + backoff_next_us(&k->backoff);
}

static void go_down(struct kafka *k, int64_t now_us, const struct error *why) {
    ASSERT(!k->old);
    k->old = kafka_session_down(&k->session, why);
    k->down = *why;
    k->rebuilding = k->session.planned;
    k->rebuilt_by_us = now_us + REBUILD_US;
    k->next_attempt_us = now_us;
    if (k->rebuilding)
        return;
    if (now_us - k->session.up_since_us >= KAFKA_SESSION_STEADY_US)
        backoff_reset(&k->backoff);
    plan_attempt(k, now_us);
}

static void come_up(struct kafka *k, int64_t now_us, struct kafka_producer *producer) {
    kafka_session_up(&k->session, now_us, producer);
    k->rebuilding = false;
    k->reconnects += k->was_up;
    k->was_up = true;
}

/* What the broker limits is the batch, not the message. 0: nothing is known. */
static int64_t batch_bytes(const struct kafka *k) {
    int64_t topics = kafka_topics_smallest_limit(k->topics), refused = k->session.batch_bytes;
    return topics > 0 && refused > 0 ? least(topics, refused) : topics + refused;
}

static int dial_producer(struct kafka *k, struct error *reterr) {
    struct kafka_tuning tuning = {
        .role = KAFKA_PRODUCER,
        .in_flight = k->in_flight,
        .max_message_bytes = k->options->max_message_bytes,
        .batch_bytes = batch_bytes(k),
        .single = kafka_suspects_any(&k->session.suspects),
        .client_id = k->client_id,
    };
    rd_kafka_conf_t *conf = NULL;
    struct kafka_call *call = NULL;
    int result = kafka_options_conf(k->connection, &tuning, &conf, reterr);
    if (result < 0)
        return result;
    result = kafka_call_new(k->old, conf, &call);
    if (result < 0)
        rd_kafka_conf_destroy(conf);
    else
        result = dial_start(k->dial, call);
    if (result == 0)
        k->old = NULL;
    else
        error_set(reterr, ERROR_RETRY, "can't start to connect: %s", strerrordesc_np(-result));
    return result;
}

/* By the look that came after the refusal. */
static void explain_suspects(struct kafka *k, int64_t now_us) {
    struct kafka_suspects *suspects = &k->session.suspects;
    if (!kafka_suspects_any(suspects))
        return;
    const struct kafka_topic *topic = kafka_topics_find(k->topics, span_of(suspects->topic), now_us);
    if (topic)
        kafka_suspects_explain(suspects, topic);
}

static void attempt_failed(struct kafka *k, int64_t now_us) {
    k->rebuilding = false;
    plan_attempt(k, now_us);
}

static void start_attempt(struct kafka *k, int64_t now_us) {
    explain_suspects(k, now_us);
    if (dial_producer(k, &k->down) < 0)
        attempt_failed(k, now_us);
}

static void take_attempt(struct kafka *k, int64_t now_us) {
    void *producer;
    int result = dial_take(k->dial, &producer, &k->down);
    if (result == 0)
        come_up(k, now_us, producer);
    else if (result == DIAL_E_FAILED)
        attempt_failed(k, now_us);
}

/* The looks come first: an instance is made for the least that its topics take. */
static bool looked(const struct kafka *k) {
    return kafka_topics_ready(k->topics) && kafka_topics_certain(k->topics);
}

static void look_at_rebuilding(struct kafka *k, int64_t now_us) {
    if (!k->rebuilding || now_us < k->rebuilt_by_us)
        return;
    char why[ERROR_TEXT_MAX];
    snprintf(why, sizeof why, "%s", k->down.text);
    error_set(&k->down, ERROR_RETRY, "no broker has answered since the last producer ended (%s)", why);
    k->rebuilding = false;
}

static void work_on_connecting(struct kafka *k, int64_t now_us) {
    look_at_rebuilding(k, now_us);
    if (dial_running(k->dial))
        take_attempt(k, now_us);
    else if (now_us >= k->next_attempt_us && looked(k))
        start_attempt(k, now_us);
}

/* The loop. -------------------------------------------------------------- */

static void kafka_work(struct sink *s, int64_t now_us) {
    struct kafka *k = kafka_of(s);
    kafka_look_work(k->look, now_us);
    if (!connected(k))
        work_on_connecting(k, now_us);
    if (!connected(k))
        return;
    struct error why;
    if (kafka_session_work(&k->session, now_us, &why) < 0)
        go_down(k, now_us, &why);
}

static int kafka_poll(struct sink *s, struct pollfd *fds) {
    const struct kafka *k = kafka_of(s);
    int count = 0;
    fds[count++] = (struct pollfd){.fd = kafka_look_fd(k->look), .events = POLLIN};
    if (dial_running(k->dial))
        fds[count++] = (struct pollfd){.fd = dial_fd(k->dial), .events = POLLIN};
    if (connected(k))
        fds[count++] = (struct pollfd){.fd = kafka_producer_fd(k->session.producer), .events = POLLIN};
    return count;
}

static int64_t kafka_deadline(const struct sink *s) {
    const struct kafka *k = kafka_of(s);
    int64_t due_us = least(kafka_session_deadline_us(&k->session), kafka_look_deadline_us(k->look));
    if (k->rebuilding)
        due_us = least(due_us, k->rebuilt_by_us);
    bool waits = !connected(k) && !dial_running(k->dial) && looked(k);
    return waits ? least(due_us, k->next_attempt_us) : due_us;
}

static bool kafka_ready(const struct sink *s) {
    return kafka_session_ready(&kafka_of(s)->session);
}

/* For whoever looks on: an instance that is made anew by plan is up again at once, unless the broker is away as well. */
static bool seems_connected(const struct kafka *k) {
    return connected(k) || (k->rebuilding && !kafka_look_reason(k->look));
}

static int kafka_submit(struct sink *s, const struct event *e, const struct destination *d, uint64_t token,
                        int64_t now_us, struct error *reterr) {
    struct kafka *k = kafka_of(s);
    if (!connected(k))
        return seems_connected(k) ? SINK_E_BUSY : SINK_E_DOWN;
    if (!kafka_session_ready(&k->session))
        return SINK_E_BUSY;
    return kafka_session_publish(&k->session, e, d, token, now_us, reterr);
}

static void kafka_flush(struct sink *s) {
    kafka_session_flush(&kafka_of(s)->session);
}

static bool kafka_next(struct sink *s, struct sink_outcome *ret_outcome) {
    return kafka_session_next(&kafka_of(s)->session, ret_outcome);
}

static void kafka_renew(struct sink *s, int64_t now_us, const char *reason) {
    struct kafka *k = kafka_of(s);
    if (!connected(k))
        return;
    struct error why;
    error_set(&why, ERROR_RETRY, "%s", reason);
    k->session.planned = false;
    go_down(k, now_us, &why);
}

static const char *down_reason(const struct kafka *k) {
    if (connected(k))
        return NULL;
    if ((!looked(k) || k->rebuilding) && kafka_look_reason(k->look))
        return kafka_look_reason(k->look);
    return k->down.class == ERROR_NONE ? NULL : k->down.text;
}

/* What goes slower than it could, or not at all, though there is a connection. */
static void view_blocked(const struct kafka *k, struct sink_view *view) {
    const struct kafka_session *session = &k->session;
    view->blocked = session->stalled || session->searching;
    if (session->stalled) {
        view->blocked_since_us = session->stalled_since_us;
        view->blocked_reason = session->stall_reason;
    } else if (session->searching) {
        view->blocked_since_us = session->suspects.since_us;
        view->blocked_reason = session->search_reason;
        view->blocked_ends = "when each message of that batch has gone alone; until then all go one at a time";
    }
}

static void kafka_view(const struct sink *s, struct sink_view *ret_view) {
    const struct kafka *k = kafka_of(s);
    bool waits = !connected(k) && !dial_running(k->dial);
    *ret_view = (struct sink_view){
        .connected = seems_connected(k),
        .down_reason = down_reason(k),
        .next_attempt_us = waits ? k->next_attempt_us : CLOCK_NEVER,
        .reconnects = k->reconnects,
        .open_tokens = kafka_tokens_open(k->session.tokens),
    };
    if (ret_view->connected)
        view_blocked(k, ret_view);
}

static bool kafka_notice(struct sink *s, struct sink_notice *ret_notice) {
    return kafka_topics_notice(kafka_of(s)->topics, ret_notice);
}

static bool kafka_looked(const struct sink *s) {
    return looked(kafka_of(s));
}

static const struct option no_options[] = {OPTION_END};

const struct sink_kind sink_kind_kafka = {
    .name = "kafka",
    .connection_size = sizeof(struct kafka_connection),
    .connection_table = kafka_connection_table,
    .check_connection = kafka_connection_check,
    .options_size = sizeof(struct sink_options),
    .options_table = no_options,
    .destination_options_size = sizeof(struct kafka_destination),
    .destination_options_table = kafka_destination_table,
    .fields = kafka_fields,
    .default_window_events = 10000,
    .pipelines_keys = true,
    .open = kafka_open,
    .close = kafka_close,
    .poll = kafka_poll,
    .deadline = kafka_deadline,
    .work = kafka_work,
    .submit = kafka_submit,
    .flush = kafka_flush,
    .next = kafka_next,
    .ready = kafka_ready,
    .renew = kafka_renew,
    .fence = kafka_renew, /* the library's threads would go on sending */
    .view = kafka_view,
    .notice = kafka_notice,
    .looked = kafka_looked,
};
