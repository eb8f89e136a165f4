/* test_delivery: what becomes of a row, by rules and by the sink's answers */
#include "unit/unit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "flow/view.h"
#include "forwarder/delivery.h"

/* A sink that takes what it is told to take and answers what it is told to answer. */
struct fake_sink {
    struct sink sink;
    int submit_answer; /* what submit returns */
    bool connected, ready;
    uint64_t taken[16]; /* tokens, in order */
    char exchange[16][32];
    size_t taken_count;
    struct sink_outcome outcomes[16];
    size_t outcome_count;
    size_t renewed;
};

static struct fake_sink *the_fake; /* open has no other way to hand it to the test */

static int fake_open(const struct sink_setup *setup, struct sink **ret_sink);

static void fake_close(struct sink *s) {
    free(s);
    the_fake = NULL;
}

static int fake_poll(struct sink *s, struct pollfd *fds) {
    (void)s, (void)fds;
    return 0;
}

static int64_t fake_deadline(const struct sink *s) {
    (void)s;
    return CLOCK_NEVER;
}

static void fake_work(struct sink *s, int64_t now_us) {
    (void)s, (void)now_us;
}

static int fake_submit(struct sink *s, const struct event *e, const struct destination *d, uint64_t token, int64_t now_us,
                       struct error *reterr) {
    (void)e, (void)now_us;
    struct fake_sink *fake = (struct fake_sink *)s;
    if (fake->submit_answer != 0) {
        error_set(reterr, ERROR_PERMANENT, "refused by the fake");
        return fake->submit_answer;
    }
    snprintf(fake->exchange[fake->taken_count], 32, "%.*s", SPAN_ARGS(d->fields[0]));
    fake->taken[fake->taken_count++] = token;
    return 0;
}

static void fake_flush(struct sink *s) {
    (void)s;
}

static bool fake_next(struct sink *s, struct sink_outcome *ret_outcome) {
    struct fake_sink *fake = (struct fake_sink *)s;
    if (fake->outcome_count == 0)
        return false;
    *ret_outcome = fake->outcomes[0];
    memmove(fake->outcomes, fake->outcomes + 1, --fake->outcome_count * sizeof fake->outcomes[0]);
    return true;
}

static bool fake_ready(const struct sink *s) {
    return ((const struct fake_sink *)s)->ready;
}

static void fake_renew(struct sink *s, int64_t now_us, const char *reason) {
    (void)now_us, (void)reason;
    ((struct fake_sink *)s)->renewed++;
}

static void fake_view(const struct sink *s, struct sink_view *ret_view) {
    *ret_view = (struct sink_view){.connected = ((const struct fake_sink *)s)->connected, .next_attempt_us = CLOCK_NEVER};
}

static const struct destination_field fake_fields[] = {{.key = "exchange"}, {.key = "routing_key"}, {.key = NULL}};

static const struct sink_kind fake_kind = {
    .name = "fake", .fields = fake_fields, .open = fake_open, .close = fake_close, .poll = fake_poll,
    .deadline = fake_deadline, .work = fake_work, .submit = fake_submit, .flush = fake_flush, .next = fake_next,
    .ready = fake_ready, .renew = fake_renew, .view = fake_view,
};

static int fake_open(const struct sink_setup *setup, struct sink **ret_sink) {
    (void)setup;
    the_fake = calloc(1, sizeof *the_fake);
    ck_assert_ptr_nonnull(the_fake);
    the_fake->sink.kind = &fake_kind;
    the_fake->connected = the_fake->ready = true;
    *ret_sink = &the_fake->sink;
    return 0;
}

/* The rig: rules "type order -> exchange orders", "type noise -> skip". ---- */

struct rig {
    struct forwarder_options options;
    struct rule_set *rules;
    struct filter *filter;
    struct flow *flow;
    struct forwarder_counts counts;
    struct forwarder_times times;
    struct delivery *delivery;
    int64_t now_us;
};

static struct filter *filter_on(enum filter_dialect dialect, const char *attribute, const char *value) {
    struct filter *f;
    struct error error;
    ck_assert_int_eq(filter_new(dialect, &f), 0);
    ck_assert_int_eq(filter_add_match(f, span_of(attribute), span_of(value), &error), 0);
    return f;
}

static void add_rules(struct rig *r) {
    struct template *t;
    struct error error;
    size_t column;
    ck_assert_int_eq(rule_set_new(&r->rules), 0);
    ck_assert_int_eq(rule_set_add_rule(r->rules, span_of("noise"), filter_on(FILTER_EXACT, "type", "noise"), true, false), 0);
    ck_assert_int_eq(rule_set_add_rule(r->rules, span_of("orders"), filter_on(FILTER_PREFIX, "type", "order"), false, false), 0);
    ck_assert_int_eq(rule_set_add_destination(r->rules, NULL), 0);
    ck_assert_int_eq(template_compile(span_of("orders-{subject?eu}"), &t, &error, &column), 0);
    ck_assert_int_eq(rule_set_add_field(r->rules, 0, t), 0);
}

static void rig_start(struct rig *r, enum forwarder_policy on_unmatched) {
    *r = (struct rig){.now_us = 1000};
    add_rules(r);
    r->options = (struct forwarder_options){
        .name = "unit", .sink_connection_name = "fake", .sink_kind = &fake_kind, .rules = r->rules,
        .order_attribute = "streamid", .on_unmatched = on_unmatched,
        .row = {.max_message_bytes = 1000},
        .flow = {.window_events = 8, .window_bytes = 100000, .unsaved = 8, .sink_in_flight = 8, .order = FLOW_BY_KEY,
                 .key_in_flight = 1, .retry = {1000, 1000, 1.0}, .poll_min_us = 1, .poll_max_us = 10,
                 .save_interval_us = 1000000, .ghost_timeout_us = 1000, .seed = 7},
    };
    ck_assert_int_eq(flow_new(&r->options.flow, &r->flow), 0);
    ck_assert_int_eq(delivery_new(&r->options, r->flow, NULL, &r->counts, &r->times, 1, &r->delivery), 0);
    delivery_work(r->delivery, r->now_us);
    flow_database_up(r->flow, r->now_us, (struct flow_mark){INT64_MAX, 1});
    struct flow_want want;
    ck_assert(flow_next(r->flow, r->now_us, &want));
    ck_assert_int_eq(want.kind, FLOW_WANT_READ);
}

static void rig_end(struct rig *r) {
    delivery_free(r->delivery);
    flow_free(r->flow);
    rule_set_free(r->rules);
    filter_free(r->filter);
}

static void arrives(struct rig *r, int64_t position, const char *type) {
    static const struct row_column columns[] = {{ROW_POSITION, ROW_FORM_TEXT, {NULL, 0}}, {ROW_ID, ROW_FORM_TEXT, {NULL, 0}},
        {ROW_SOURCE, ROW_FORM_TEXT, {NULL, 0}}, {ROW_TYPE, ROW_FORM_TEXT, {NULL, 0}}, {ROW_STREAM_ID, ROW_FORM_TEXT, {NULL, 0}}};
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, position);
    struct span values[] = {span_of(text), span_of("id-1"), span_of("/unit"), span_of(type), span_of("stream-1")};
    struct row row = {columns, values, ARRAY_LENGTH(values)};
    ck_assert_int_eq(delivery_row(r->delivery, &row, (struct flow_mark){position, 1}, r->now_us), 0);
}

/* Does every submit that is wanted now; returns how many. */
static int submit_all(struct rig *r) {
    struct flow_want want;
    int count = 0;
    while (flow_next(r->flow, r->now_us, &want))
        if (want.kind == FLOW_WANT_SUBMIT && ++count <= 16)
            delivery_submit(r->delivery, &want, r->now_us);
    return count;
}

static void answer(struct rig *r, size_t which, enum sink_outcome_kind kind) {
    the_fake->outcomes[the_fake->outcome_count++] =
        (struct sink_outcome){.token = the_fake->taken[which], .kind = kind, .reason = "NO_ROUTE"};
    delivery_work(r->delivery, r->now_us);
}

static struct flow_view view_of(struct rig *r) {
    struct flow_view view;
    flow_view(r->flow, &view);
    return view;
}

START_TEST(a_confirmed_event_leaves_the_window) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    arrives(&r, 1, "order.paid");
    ck_assert_int_eq(submit_all(&r), 1);
    ck_assert_str_eq(the_fake->exchange[0], "orders-eu");
    ck_assert_uint_eq(view_of(&r).events, 1);
    answer(&r, 0, SINK_CONFIRMED);
    ck_assert_uint_eq(view_of(&r).events, 0);
    ck_assert_uint_eq(r.counts.confirmed, 1);
    rig_end(&r);
}
END_TEST

START_TEST(a_returned_event_waits_and_goes_again_with_its_reason_kept) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    arrives(&r, 1, "order.paid");
    submit_all(&r);
    answer(&r, 0, SINK_RETURNED);
    struct flow_view view = view_of(&r);
    ck_assert_int_eq(view.oldest_hold, FLOW_HOLD_RETRY);
    ck_assert_str_eq(delivery_reason(r.delivery, view.oldest_slot), "NO_ROUTE");
    ck_assert_str_eq(delivery_describe(r.delivery, view.oldest_slot), "exchange orders-eu");
    ck_assert_int_eq(submit_all(&r), 0);
    r.now_us += 2000;
    ck_assert_int_eq(submit_all(&r), 1);
    answer(&r, 1, SINK_CONFIRMED);
    ck_assert_uint_eq(view_of(&r).events, 0);
    ck_assert_uint_eq(r.counts.returned, 1);
    ck_assert_uint_eq(r.counts.retried, 1);
    rig_end(&r);
}
END_TEST

START_TEST(a_lost_event_goes_again_at_once) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    arrives(&r, 1, "order.paid");
    submit_all(&r);
    answer(&r, 0, SINK_LOST);
    ck_assert_int_eq(submit_all(&r), 1);
    rig_end(&r);
}
END_TEST

START_TEST(an_event_the_sink_can_never_take_is_held_by_name) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    arrives(&r, 1, "order.paid");
    the_fake->submit_answer = SINK_E_REJECTED;
    submit_all(&r);
    struct flow_view view = view_of(&r);
    ck_assert_int_eq(view.oldest_hold, FLOW_HOLD_REJECTED);
    ck_assert_str_eq(delivery_reason(r.delivery, view.oldest_slot), "refused by the fake");
    ck_assert_int_eq(delivery_event(r.delivery, view.oldest_slot)->position, 1);
    ck_assert_uint_eq(r.counts.rejected, 1);
    rig_end(&r);
}
END_TEST

START_TEST(a_busy_sink_is_asked_again_when_it_is_ready) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    arrives(&r, 1, "order.paid");
    the_fake->submit_answer = SINK_E_BUSY;
    ck_assert_int_eq(submit_all(&r), 1);
    the_fake->ready = false;
    delivery_work(r.delivery, r.now_us);
    ck_assert_int_eq(submit_all(&r), 0);
    the_fake->ready = true;
    the_fake->submit_answer = 0;
    delivery_work(r.delivery, r.now_us);
    ck_assert_int_eq(submit_all(&r), 1);
    ck_assert_uint_eq(r.counts.published, 1);
    rig_end(&r);
}
END_TEST

START_TEST(an_unmatched_event_is_held_or_skipped_as_configured) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    arrives(&r, 1, "invoice");
    ck_assert_int_eq(view_of(&r).oldest_hold, FLOW_HOLD_VERDICT);
    const char *reason = delivery_reason(r.delivery, view_of(&r).oldest_slot);
    ck_assert_ptr_nonnull(strstr(reason, "no rule matches type invoice (2 rules tried"));
    rig_end(&r);

    rig_start(&r, FORWARDER_POLICY_SKIP);
    arrives(&r, 1, "invoice");
    ck_assert_uint_eq(view_of(&r).events, 0);
    ck_assert_uint_eq(r.counts.unmatched, 1);
    rig_end(&r);
}
END_TEST

START_TEST(a_skipped_event_settles_without_being_published) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    arrives(&r, 1, "noise");
    ck_assert_int_eq(submit_all(&r), 0);
    ck_assert_uint_eq(view_of(&r).events, 0);
    ck_assert_uint_eq(r.counts.skipped, 1);
    rig_end(&r);
}
END_TEST

START_TEST(a_row_that_is_no_event_holds_its_key_and_says_why) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    arrives(&r, 1, "");
    arrives(&r, 2, "order.paid"); /* of the same stream: waits */
    ck_assert_int_eq(submit_all(&r), 0);
    struct flow_view view = view_of(&r);
    ck_assert_int_eq(view.oldest_hold, FLOW_HOLD_VERDICT);
    ck_assert_uint_eq(view.followers, 1);
    ck_assert_ptr_nonnull(strstr(delivery_reason(r.delivery, view.oldest_slot), "type"));
    rig_end(&r);
}
END_TEST

START_TEST(a_row_outside_the_subscription_moves_the_place_and_is_counted) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    r.options.filter = r.filter = filter_on(FILTER_PREFIX, "type", "other");
    arrives(&r, 1, "order.paid");
    ck_assert_uint_eq(r.counts.filtered, 1);
    ck_assert_uint_eq(view_of(&r).events, 0);
    flow_read_done(r.flow, r.now_us, true);
    struct flow_want want;
    r.now_us += 2000000;
    ck_assert(flow_next(r.flow, r.now_us, &want));
    ck_assert_int_eq(want.kind, FLOW_WANT_SAVE); /* the checkpoint moves although nothing was sent */
    rig_end(&r);
}
END_TEST

START_TEST(an_answer_of_before_a_reload_changes_nothing) {
    struct rig r;
    rig_start(&r, FORWARDER_POLICY_HOLD);
    arrives(&r, 1, "order.paid");
    submit_all(&r);
    flow_database_down(r.flow, r.now_us);
    flow_database_up(r.flow, r.now_us, (struct flow_mark){INT64_MAX, 1});
    answer(&r, 0, SINK_CONFIRMED);
    ck_assert_uint_eq(view_of(&r).unsaved, 0);
    ck_assert_uint_eq(view_of(&r).ghosts, 0);
    rig_end(&r);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("delivery");
    TCase *cases = tcase_create("delivery");
    tcase_add_test(cases, a_confirmed_event_leaves_the_window);
    tcase_add_test(cases, a_returned_event_waits_and_goes_again_with_its_reason_kept);
    tcase_add_test(cases, a_lost_event_goes_again_at_once);
    tcase_add_test(cases, an_event_the_sink_can_never_take_is_held_by_name);
    tcase_add_test(cases, a_busy_sink_is_asked_again_when_it_is_ready);
    tcase_add_test(cases, an_unmatched_event_is_held_or_skipped_as_configured);
    tcase_add_test(cases, a_skipped_event_settles_without_being_published);
    tcase_add_test(cases, a_row_that_is_no_event_holds_its_key_and_says_why);
    tcase_add_test(cases, a_row_outside_the_subscription_moves_the_place_and_is_counted);
    tcase_add_test(cases, an_answer_of_before_a_reload_changes_nothing);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
