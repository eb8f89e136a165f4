/* flow_rig: a flow and short words for its facts and wants, shared by its test programs */
#ifndef PENSTOCK_TESTS_FLOW_RIG_H
#define PENSTOCK_TESTS_FLOW_RIG_H

#include "unit/unit.h"

#include "base/clock.h"
#include "flow/flow.h"
#include "flow/view.h"

#define MS INT64_C(1000)

static struct flow_options options;
static struct flow *flow;
static int64_t now_us;
static int64_t position;

static inline void begin(void) {
    ck_assert_int_eq(flow_new(&options, &flow), 0);
    flow_database_up(flow, now_us, (struct flow_mark){.position = 0, .target = 1});
    flow_sink_up(flow, now_us);
}

static inline void set_up(void) {
    now_us = 1000000;
    position = 0;
    options = (struct flow_options){
        .window_events = 8,
        .window_bytes = 8000,
        .unsaved = 20,
        .sink_in_flight = 8,
        .order = FLOW_BY_KEY,
        .key_in_flight = 1,
        .retry = {.initial_us = 100 * MS, .max_us = 2000 * MS, .multiplier = 2},
        .poll_min_us = 1 * MS,
        .poll_max_us = 1000 * MS,
        .save_interval_us = 100 * MS,
        .ghost_timeout_us = 5000 * MS,
        .seed = 1,
    };
}

static inline void tear_down(void) {
    if (!flow)
        return;
    ck_assert_ptr_null(flow_broken(flow));
    flow_free(flow);
    flow = NULL;
}

static inline bool next(struct flow_want *ret_want) {
    bool any = flow_next(flow, now_us, ret_want);
    ck_assert_ptr_null(flow_broken(flow));
    return any;
}

static inline struct flow_want want(enum flow_want_kind kind) {
    struct flow_want w;
    ck_assert(next(&w));
    ck_assert_int_eq(w.kind, kind);
    return w;
}

static inline void want_nothing(void) {
    struct flow_want w;
    ck_assert(!next(&w));
    ck_assert_int_gt(flow_deadline_us(flow), now_us);
}

static inline uint32_t add_event(struct flow_event event) {
    event.mark = (struct flow_mark){.position = ++position, .target = 1};
    if (event.bytes == 0)
        event.bytes = 100;
    uint32_t slot = flow_next_slot(flow);
    flow_add(flow, now_us, &event);
    ck_assert_ptr_null(flow_broken(flow));
    return slot;
}

static inline uint32_t add(uint64_t key) {
    return add_event((struct flow_event){.verdict = FLOW_DELIVER, .destinations = 1, .keyed = true, .key = key});
}

/* A whole page, one event for each letter, which is its key: read_keys("aab"). */
static inline void read_keys(const char *keys) {
    want(FLOW_WANT_READ);
    for (; *keys; keys++)
        add((uint64_t)*keys);
    flow_read_done(flow, now_us, true);
}

static inline uint64_t want_submit(uint32_t slot) {
    struct flow_want w = want(FLOW_WANT_SUBMIT);
    ck_assert_uint_eq(w.slot, slot);
    return w.token;
}

static inline void outcome(uint64_t token, enum flow_outcome kind) {
    ck_assert(flow_outcome(flow, now_us, token, kind, NULL));
    ck_assert_ptr_null(flow_broken(flow));
}

/* Takes every submit that is wanted, answers it, up to the first other want. Returns how many. */
static inline int answer_all(enum flow_outcome kind) {
    uint64_t tokens[64];
    int count = 0;
    struct flow_want w;
    while (next(&w)) {
        if (w.kind == FLOW_WANT_SUBMIT)
            tokens[count++] = w.token;
        if (w.kind == FLOW_WANT_SAVE)
            flow_saved(flow, now_us);
        if (w.kind == FLOW_WANT_READ)
            flow_read_done(flow, now_us, true);
    }
    for (int i = 0; i < count; i++)
        outcome(tokens[i], kind);
    return count;
}

static inline struct flow_view view(void) {
    struct flow_view v;
    flow_view(flow, &v);
    return v;
}

static inline TCase *case_of(Suite *suite, const char *name) {
    TCase *cases = tcase_create(name);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    suite_add_tcase(suite, cases);
    return cases;
}

#endif
