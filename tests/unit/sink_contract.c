/* sink_contract: what every kind of sink has to keep, whatever it publishes to */
#include "unit/sink_contract.h"

#include <check.h>
#include <stdio.h>

#include "base/clock.h"

void rig_open(struct rig *r, const struct contract *c) {
    *r = (struct rig){.contract = c};
    ck_assert_int_eq(guard_new(&r->guard), 0);
    struct sink_setup setup = {
        .forwarder = "contract",
        .connection_name = "test",
        .connection = c->connection,
        .options = c->options,
        .in_flight = c->in_flight,
        .guard = r->guard,
        .seed = 1,
        .named = &c->destination->fields[0],
        .named_count = !span_absent(c->destination->fields[0]),
    };
    ck_assert_int_eq(c->kind->open(&setup, &r->sink), 0);
    ck_assert_ptr_eq(r->sink->kind, c->kind);
    event_init(&r->event, 64 * 1024 * 1024);
    rig_event(r, SPAN_LITERAL("{\"a\":1}"));
}

void rig_close(struct rig *r) {
    r->sink->kind->close(r->sink);
    event_done(&r->event);
    guard_free(r->guard);
}

void rig_event(struct rig *r, struct span data) {
    event_clear(&r->event, 0);
    ck_assert_int_eq(event_set_core(&r->event, EVENT_ID, SPAN_LITERAL("id-1")), 0);
    ck_assert_int_eq(event_set_core(&r->event, EVENT_SOURCE, SPAN_LITERAL("/test")), 0);
    ck_assert_int_eq(event_set_core(&r->event, EVENT_TYPE, SPAN_LITERAL("com.acme.order")), 0);
    ck_assert_int_eq(event_set_core(&r->event, EVENT_DATACONTENTTYPE, SPAN_LITERAL("text/plain")), 0);
    ck_assert_int_eq(event_set_data(&r->event, EVENT_DATA_TEXT, data), 0);
}

static void take_outcomes(struct rig *r) {
    struct sink_outcome outcome;
    while (r->sink->kind->next(r->sink, &outcome)) {
        ck_assert_uint_lt(outcome.token, r->accepted);
        ck_assert_msg(r->outcomes[outcome.token]++ == 0, "a second outcome for token %lu", (unsigned long)outcome.token);
        r->last[outcome.token] = (uint8_t)outcome.kind;
        r->by_kind[outcome.kind]++;
        r->answered++;
        ck_assert_msg(outcome.kind == SINK_CONFIRMED || outcome.reason, "outcome %d without a reason", outcome.kind);
        if (outcome.reason)
            snprintf(r->reason, sizeof r->reason, "%s", outcome.reason);
    }
}

void rig_turn(struct rig *r, int64_t deadline_us) {
    const struct sink_kind *kind = r->sink->kind;
    struct pollfd fds[SINK_POLL_MAX];
    int count = kind->poll(r->sink, fds);
    ck_assert_int_le(count, SINK_POLL_MAX);
    int64_t until_us = kind->deadline(r->sink);
    if (until_us > deadline_us)
        until_us = deadline_us;
    clock_poll(fds, (size_t)count, until_us);
    kind->work(r->sink, clock_now_us());
    take_outcomes(r);
    if (r->contract->drain)
        r->contract->drain();
}

void rig_until(struct rig *r, bool (*done)(const struct rig *), int seconds, const char *what) {
    int64_t deadline_us = clock_now_us() + seconds * CLOCK_US_PER_S;
    while (!done(r)) {
        struct sink_view view;
        r->sink->kind->view(r->sink, &view);
        ck_assert_msg(clock_now_us() < deadline_us, "not %s after %d s (%s)", what, seconds,
                      view.down_reason ? view.down_reason : "connected");
        rig_turn(r, deadline_us);
    }
}

bool rig_connected(const struct rig *r) {
    struct sink_view view;
    r->sink->kind->view(r->sink, &view);
    return view.connected;
}

bool rig_all_answered(const struct rig *r) {
    return r->answered == r->accepted;
}

int rig_submit_to(struct rig *r, const struct destination *d) {
    ck_assert_uint_lt(r->accepted, RIG_TOKENS_MAX);
    int result = r->sink->kind->submit(r->sink, &r->event, d, r->accepted, clock_now_us(), &r->refusal);
    if (result == 0)
        r->accepted++;
    return result;
}

int rig_submit(struct rig *r) {
    return rig_submit_to(r, r->contract->destination);
}

void rig_publish(struct rig *r, uint64_t n) {
    int64_t deadline_us = clock_now_us() + 60 * CLOCK_US_PER_S;
    while (n > 0) {
        int result = rig_submit(r);
        ck_assert_msg(result == 0 || result == SINK_E_BUSY || result == SINK_E_DOWN, "submit gave %d: %s", result,
                      r->refusal.text);
        if (result == 0) {
            n--;
            continue;
        }
        ck_assert_msg(clock_now_us() < deadline_us, "%lu not taken after a minute", (unsigned long)n);
        r->sink->kind->flush(r->sink);
        rig_turn(r, deadline_us);
    }
    r->sink->kind->flush(r->sink);
}

static void connect_rig(struct rig *r, const struct contract *c) {
    rig_open(r, c);
    rig_until(r, rig_connected, 30, "connected");
}

/* Clauses. --------------------------------------------------------------- */

static struct rig rig; /* large */

static void nothing_is_taken_before_it_is_connected(const struct contract *c) {
    rig_open(&rig, c);
    ck_assert(!c->kind->ready(rig.sink));
    ck_assert_int_eq(rig_submit(&rig), SINK_E_DOWN);
    rig_close(&rig);
}

static void each_accepted_token_is_confirmed_once(const struct contract *c) {
    connect_rig(&rig, c);
    rig_publish(&rig, 3 * c->in_flight + 7);
    rig_until(&rig, rig_all_answered, 30, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], rig.accepted);
    struct sink_view view;
    c->kind->view(rig.sink, &view);
    ck_assert_uint_eq(view.open_tokens, 0);
    rig_close(&rig);
}

/* A sink may let a moment pass between two batches. */
static bool is_ready(const struct rig *r) {
    return r->sink->kind->ready(r->sink);
}

static void at_most_in_flight_are_open_at_once(const struct contract *c) {
    connect_rig(&rig, c);
    uint32_t taken = 0;
    int result;
    while ((result = rig_submit(&rig)) == 0)
        taken++;
    ck_assert_int_eq(result, SINK_E_BUSY);
    ck_assert_uint_le(taken, c->in_flight);
    ck_assert(!c->kind->ready(rig.sink));
    c->kind->flush(rig.sink);
    rig_until(&rig, rig_all_answered, 30, "answered");
    rig_until(&rig, is_ready, 30, "ready");
    rig_close(&rig);
}

static void too_large_an_event_is_rejected_and_harms_no_other(const struct contract *c) {
    connect_rig(&rig, c);
    size_t size = (size_t)c->options->max_message_bytes + 1;
    CLEANUP(cleanup_free) char *data = malloc(size);
    ck_assert_ptr_nonnull(data);
    memset(data, 'x', size);
    rig_event(&rig, (struct span){data, size});
    ck_assert_int_eq(rig_submit(&rig), SINK_E_REJECTED);
    ck_assert_int_eq(rig.refusal.class, ERROR_PERMANENT);
    ck_assert_ptr_nonnull(strstr(rig.refusal.text, "max_message_bytes"));
    rig_event(&rig, SPAN_LITERAL("small"));
    rig_publish(&rig, 3);
    rig_until(&rig, rig_all_answered, 30, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], 3);
    rig_close(&rig);
}

static void a_renewed_sink_answers_what_was_open_and_comes_back(const struct contract *c) {
    connect_rig(&rig, c);
    rig_publish(&rig, c->in_flight / 2);
    c->kind->renew(rig.sink, clock_now_us(), "a test wants it");
    struct sink_view view;
    c->kind->view(rig.sink, &view);
    ck_assert(!view.connected);
    ck_assert_ptr_nonnull(view.down_reason);
    ck_assert_int_eq(rig_submit(&rig), SINK_E_DOWN);
    rig_until(&rig, rig_all_answered, 5, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED] + rig.by_kind[SINK_LOST], rig.accepted);
    rig_until(&rig, rig_connected, 30, "connected again");
    uint64_t confirmed = rig.by_kind[SINK_CONFIRMED];
    rig_publish(&rig, 5);
    rig_until(&rig, rig_all_answered, 30, "answered");
    ck_assert_uint_eq(rig.by_kind[SINK_CONFIRMED], confirmed + 5);
    rig_close(&rig);
}

static void it_closes_with_tokens_open(const struct contract *c) {
    connect_rig(&rig, c);
    rig_publish(&rig, c->in_flight / 2);
    rig_close(&rig);
}

#define CLAUSE(name) {#name, name}
const struct contract_clause contract_clauses[] = {
    CLAUSE(nothing_is_taken_before_it_is_connected),
    CLAUSE(each_accepted_token_is_confirmed_once),
    CLAUSE(at_most_in_flight_are_open_at_once),
    CLAUSE(too_large_an_event_is_rejected_and_harms_no_other),
    CLAUSE(a_renewed_sink_answers_what_was_open_and_comes_back),
    CLAUSE(it_closes_with_tokens_open),
};
const int contract_clause_count = (int)ARRAY_LENGTH(contract_clauses);
