/* rabbitmq: a sink that publishes to RabbitMQ: confirmed, mandatory, persistent */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "sink/rabbitmq_connect.h"
#include "sink/rabbitmq_session.h"

/* Here: connecting, and asking for exchanges. What happens
 * on a connection is rabbitmq_session's. */

/* A connection that has lived so long was no failed attempt: waits begin at their least again. */
#define STEADY_US (5 * CLOCK_US_PER_S)

static const struct backoff_options connect_waits = {.initial_us = 100000, .max_us = 5000000, .multiplier = 2};
/* A standby is to take over soon. */
static const struct backoff_options claim_waits = {.initial_us = 100000, .max_us = 1000000, .multiplier = 2};

struct rabbitmq {
    struct sink sink;
    const struct rabbitmq_connection *connection;
    const char *forwarder;
    const char *lease_queue; /* NULL: none */
    bool leads;

    struct dial *dial;
    struct backoff backoff, claim_backoff;
    uint32_t turn; /* which host is next */
    int64_t next_attempt_us;
    struct error down; /* why it is not connected */
    int64_t up_since_us;
    bool was_up;
    uint64_t reconnects;

    struct rabbitmq_session session;

    struct rabbitmq_named *named;
    int64_t named_again_us; /* they could not be asked for: not before that */
    struct dial *probe_dial;
};

static struct rabbitmq *rabbitmq_of(const struct sink *s) {
    return (struct rabbitmq *)s;
}

/* Opening and closing. --------------------------------------------------- */

static void rabbitmq_close(struct sink *s) {
    struct rabbitmq *r = rabbitmq_of(s);
    dial_free(r->dial);
    dial_free(r->probe_dial);
    rabbitmq_session_done(&r->session);
    rabbitmq_named_free(r->named);
    free(r);
}

static int rabbitmq_open(const struct sink_setup *setup, struct sink **ret_sink) {
    struct rabbitmq *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    r->sink.kind = sink_kind_find(SPAN_LITERAL("rabbitmq"));
    r->connection = setup->connection;
    r->forwarder = setup->forwarder;
    r->lease_queue = ((const struct rabbitmq_sink_options *)setup->options)->lease_queue;
    backoff_init(&r->backoff, &connect_waits, setup->seed);
    backoff_init(&r->claim_backoff, &claim_waits, setup->seed);
    int result = rabbitmq_session_init(&r->session, setup);
    if (result == 0)
        result = rabbitmq_named_new(setup, &r->named);
    if (result == 0)
        result = dial_new(&rabbitmq_connect_ops, &r->dial);
    if (result == 0)
        result = dial_new(&rabbitmq_probe_ops, &r->probe_dial);
    if (result < 0) {
        rabbitmq_close(&r->sink);
        return result;
    }
    *ret_sink = &r->sink;
    return 0;
}

/* Down and up. ----------------------------------------------------------- */

static bool connected(const struct rabbitmq *r) {
    return rabbitmq_session_is_up(&r->session);
}

/* Waits after each round of all hosts, not between them; all say the same of a queue that is taken. */
static void plan_attempt(struct rabbitmq *r, int64_t now_us) {
    if (r->down.class == ERROR_TAKEN) {
        r->next_attempt_us = now_us + backoff_next_us(&r->claim_backoff);
        return;
    }
    bool round_is_over = ++r->turn % rabbitmq_call_hosts(r->connection) == 0;
    r->next_attempt_us = now_us + (round_is_over ? backoff_next_us(&r->backoff) : 0);
}

static void go_down(struct rabbitmq *r, int64_t now_us, const struct error *why, bool politely) {
    rabbitmq_session_down(&r->session, now_us, why, politely);
    r->down = *why;
    if (now_us - r->up_since_us >= STEADY_US)
        backoff_reset(&r->backoff);
    plan_attempt(r, now_us);
}

static void come_up(struct rabbitmq *r, int64_t now_us, amqp_connection_state_t connection) {
    if (rabbitmq_session_up(&r->session, connection, now_us, &r->down) < 0)
        return plan_attempt(r, now_us);
    backoff_reset(&r->claim_backoff);
    r->up_since_us = now_us;
    r->reconnects += r->was_up;
    r->was_up = true;
}

static void start_attempt(struct rabbitmq *r, int64_t now_us) {
    struct rabbitmq_call *call = NULL;
    const char *claim = r->leads ? r->lease_queue : NULL;
    int result = rabbitmq_call_new(r->connection, r->forwarder, r->turn, NULL, claim, &call);
    if (result == 0)
        result = dial_start(r->dial, call);
    if (result == 0)
        return;
    error_set(&r->down, ERROR_RETRY, "can't start to connect: %s", strerrordesc_np(-result));
    plan_attempt(r, now_us);
}

static void take_attempt(struct rabbitmq *r, int64_t now_us) {
    void *connection;
    int result = dial_take(r->dial, &connection, &r->down);
    if (result == 0)
        come_up(r, now_us, connection);
    else if (result == DIAL_E_FAILED)
        plan_attempt(r, now_us);
}

static void work_on_connecting(struct rabbitmq *r, int64_t now_us) {
    if (dial_running(r->dial))
        take_attempt(r, now_us);
    else if (now_us >= r->next_attempt_us)
        start_attempt(r, now_us);
}

/* Asking for exchanges: those that the rules name, once; those that were missing, until they are there. */

#define NAMED_AGAIN_US (2 * CLOCK_US_PER_S)

static void take_answer(struct rabbitmq *r, const struct rabbitmq_question *q, int64_t now_us) {
    struct rabbitmq_session *s = &r->session;
    rabbitmq_named_learn(r->named, q);
    if (q->queue)
        return;
    if (q->found)
        rabbitmq_refusals_found(&s->refusals, (struct span){q->name, q->name_len});
    else /* before a publish learns it, at the price of the channel */
        (void)rabbitmq_refusals_learn(&s->refusals, q->code, span_of(q->reason), span_of(s->vhost), now_us);
}

static void take_probe(struct rabbitmq *r, int64_t now_us) {
    void *handle = NULL;
    struct error error;
    int result = dial_take(r->probe_dial, &handle, &error);
    if (result == DIAL_E_RUNNING)
        return;
    CLEANUP(cleanup_free) struct rabbitmq_probe *probe = handle;
    for (uint32_t i = 0; probe && i < probe->count; i++)
        take_answer(r, &probe->questions[i], now_us);
    if (!probe)
        r->named_again_us = now_us + NAMED_AGAIN_US;
    rabbitmq_refusals_put_off(&r->session.refusals, now_us, result == DIAL_E_FAILED);
}

static bool named_due(const struct rabbitmq *r, int64_t now_us) {
    return !rabbitmq_named_looked(r->named) && now_us >= r->named_again_us;
}

static void fill(struct rabbitmq *r, struct rabbitmq_probe *probe, int64_t now_us) {
    const struct rabbitmq_refusals *refusals = &r->session.refusals;
    for (uint32_t i = 0; i < refusals->count && probe->count < RABBITMQ_QUESTIONS_MAX; i++)
        if (rabbitmq_refusal_due(&refusals->items[i], now_us))
            rabbitmq_probe_add(probe, (struct span){refusals->items[i].name, refusals->items[i].name_len}, false);
    if (named_due(r, now_us))
        rabbitmq_named_ask(r->named, probe);
}

static int start_probe(struct rabbitmq *r, int64_t now_us) {
    struct rabbitmq_call *call = NULL;
    CLEANUP(cleanup_free) struct rabbitmq_probe *probe = calloc(1, sizeof *probe);
    if (!probe)
        return -ENOMEM;
    fill(r, probe, now_us);
    int result = rabbitmq_call_new(r->connection, r->forwarder, r->turn, probe, NULL, &call);
    return result < 0 ? result : dial_start(r->probe_dial, call);
}

static void work_on_probes(struct rabbitmq *r, int64_t now_us) {
    if (dial_running(r->probe_dial))
        return take_probe(r, now_us);
    bool due = rabbitmq_refusals_due(&r->session.refusals, now_us);
    if (!due && !named_due(r, now_us))
        return;
    if (start_probe(r, now_us) == 0)
        return;
    r->named_again_us = now_us + NAMED_AGAIN_US;
    rabbitmq_refusals_put_off(&r->session.refusals, now_us, true);
}

static int64_t probes_deadline_us(const struct rabbitmq *r) {
    int64_t refusals_us = rabbitmq_refusals_deadline_us(&r->session.refusals);
    int64_t named_us = rabbitmq_named_looked(r->named) ? CLOCK_NEVER : r->named_again_us;
    return refusals_us < named_us ? refusals_us : named_us;
}

/* The loop. -------------------------------------------------------------- */

static void rabbitmq_work(struct sink *s, int64_t now_us) {
    struct rabbitmq *r = rabbitmq_of(s);
    if (!connected(r))
        work_on_connecting(r, now_us);
    if (!connected(r))
        return;
    struct error why;
    int result = rabbitmq_session_work(&r->session, now_us, &why);
    if (result < 0)
        return go_down(r, now_us, &why, result == -ETIMEDOUT);
    work_on_probes(r, now_us);
}

static int rabbitmq_poll(struct sink *s, struct pollfd *fds) {
    const struct rabbitmq *r = rabbitmq_of(s);
    int count = 0;
    if (dial_running(r->dial))
        fds[count++] = (struct pollfd){.fd = dial_fd(r->dial), .events = POLLIN};
    if (dial_running(r->probe_dial))
        fds[count++] = (struct pollfd){.fd = dial_fd(r->probe_dial), .events = POLLIN};
    if (connected(r))
        fds[count++] = (struct pollfd){.fd = r->session.link.fd, .events = rabbitmq_session_events(&r->session)};
    return count;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t rabbitmq_deadline(const struct sink *s) {
    const struct rabbitmq *r = rabbitmq_of(s);
    int64_t due_us = rabbitmq_session_deadline_us(&r->session);
    if (!connected(r))
        return dial_running(r->dial) ? due_us : earlier(due_us, r->next_attempt_us);
    return dial_running(r->probe_dial) ? due_us : earlier(due_us, probes_deadline_us(r));
}

static bool rabbitmq_ready(const struct sink *s) {
    return rabbitmq_session_ready(&rabbitmq_of(s)->session);
}

static int rabbitmq_submit(struct sink *s, const struct event *e, const struct destination *d, uint64_t token,
                           int64_t now_us, struct error *reterr) {
    struct rabbitmq *r = rabbitmq_of(s);
    if (!connected(r))
        return SINK_E_DOWN;
    if (!rabbitmq_session_ready(&r->session))
        return SINK_E_BUSY;
    int result = rabbitmq_session_publish(&r->session, e, d, token, now_us, reterr);
    if (result >= 0 || result == -ENOMEM)
        return result;
    struct error why = *reterr;
    go_down(r, now_us, &why, false);
    return 0;
}

static void rabbitmq_flush(struct sink *s) {
    struct rabbitmq *r = rabbitmq_of(s);
    int64_t now_us = clock_now_us();
    struct error why;
    if (connected(r) && rabbitmq_session_flush(&r->session, now_us, &why) < 0)
        go_down(r, now_us, &why, false);
}

static bool rabbitmq_next(struct sink *s, struct sink_outcome *ret_outcome) {
    return rabbitmq_session_next(&rabbitmq_of(s)->session, ret_outcome);
}

static void rabbitmq_renew(struct sink *s, int64_t now_us, const char *reason) {
    struct rabbitmq *r = rabbitmq_of(s);
    if (!connected(r))
        return;
    struct error why;
    error_set(&why, ERROR_RETRY, "%s", reason);
    go_down(r, now_us, &why, true);
}

/* What lies in the socket is answered, and its outcome is worth knowing. */
static void rabbitmq_fence(struct sink *s, int64_t now_us, const char *reason) {
    struct rabbitmq *r = rabbitmq_of(s);
    if (!connected(r) || !rabbitmq_link_unsent(&r->session.link))
        return;
    struct error why;
    error_set(&why, ERROR_RETRY, "%s", reason);
    go_down(r, now_us, &why, false);
}

/* The queue goes with the connection. Two that held one right each, the database's and the broker's, would wait for each
 * other: so only who has the first may have the second. */
static void let_go(struct rabbitmq *r, int64_t now_us) {
    static const struct error why = {ERROR_RETRY, "this instance is not the active one"};
    if (connected(r))
        go_down(r, now_us, &why, true);
    else if (dial_running(r->dial))
        dial_abandon(r->dial);
}

static void rabbitmq_lead(struct sink *s, int64_t now_us, bool leads) {
    struct rabbitmq *r = rabbitmq_of(s);
    if (!r->lease_queue || (leads && r->leads))
        return;
    if (!leads)
        let_go(r, now_us);
    r->leads = leads;
    error_clear(&r->down);
    r->next_attempt_us = leads ? now_us : CLOCK_NEVER;
}

static void rabbitmq_view(const struct sink *s, struct sink_view *ret_view) {
    const struct rabbitmq *r = rabbitmq_of(s);
    bool up = connected(r);
    *ret_view = (struct sink_view){
        .connected = up,
        .elsewhere = !up && r->down.class == ERROR_TAKEN,
        .blocked = r->session.blocked,
        .blocked_since_us = r->session.blocked_since_us,
        .blocked_reason = r->session.blocked ? r->session.blocked_reason : NULL,
        .blocked_ends = "when its alarm ends",
        .down_reason = up || r->down.class == ERROR_NONE ? NULL : r->down.text,
        .next_attempt_us = up || dial_running(r->dial) ? CLOCK_NEVER : r->next_attempt_us,
        .reconnects = r->reconnects,
        .open_tokens = confirms_open(r->session.confirms),
    };
}

static bool rabbitmq_notice(struct sink *s, struct sink_notice *ret_notice) {
    struct rabbitmq *r = rabbitmq_of(s);
    return rabbitmq_named_notice(r->named, r->session.vhost, ret_notice);
}

static bool rabbitmq_looked(const struct sink *s) {
    return rabbitmq_named_looked(rabbitmq_of(s)->named);
}

const struct sink_kind sink_kind_rabbitmq = {
    .name = "rabbitmq",
    .connection_size = sizeof(struct rabbitmq_connection),
    .connection_table = rabbitmq_connection_table,
    .check_connection = rabbitmq_connection_check,
    .options_size = sizeof(struct rabbitmq_sink_options),
    .options_table = rabbitmq_sink_table,
    .destination_options_size = sizeof(struct binding_options),
    .destination_options_table = binding_options_table,
    .fields = rabbitmq_fields,
    .default_window_events = 2000,
    .open = rabbitmq_open,
    .close = rabbitmq_close,
    .poll = rabbitmq_poll,
    .deadline = rabbitmq_deadline,
    .work = rabbitmq_work,
    .submit = rabbitmq_submit,
    .flush = rabbitmq_flush,
    .next = rabbitmq_next,
    .ready = rabbitmq_ready,
    .renew = rabbitmq_renew,
    .fence = rabbitmq_fence,
    .lead = rabbitmq_lead,
    .view = rabbitmq_view,
    .notice = rabbitmq_notice,
    .looked = rabbitmq_looked,
};
