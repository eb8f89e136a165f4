/* flow: how long the pure path of one event takes: read, submit, confirm, save */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "flow/flow.h"

#define EVENTS 5000000

static struct flow_options options = {
    .window_events = 10000,
    .window_bytes = 64 * 1024 * 1024,
    .unsaved = 10000,
    .sink_in_flight = 5000,
    .key_in_flight = 1,
    .retry = {.initial_us = 100000, .max_us = 2000000, .multiplier = 2},
    .poll_min_us = 1000,
    .poll_max_us = 1000000,
    .save_interval_us = 100000,
    .ghost_timeout_us = 5000000,
    .seed = 1,
};

static uint64_t tokens[5000];
static size_t token_count;

static void read_page(struct flow *f, int64_t now_us, const struct flow_want *want, uint64_t keys, int64_t *position) {
    for (uint32_t i = 0; i < want->events && i < 1000; i++) {
        struct flow_event event = {.verdict = FLOW_DELIVER, .destinations = 1, .keyed = true};
        event.key = (uint64_t)++*position * UINT64_C(0x9e3779b97f4a7c15) % keys;
        event.bytes = 500;
        event.mark = (struct flow_mark){.position = *position, .target = 1};
        flow_add(f, now_us, &event);
    }
    flow_read_done(f, now_us, false);
}

static void confirm_all(struct flow *f, int64_t now_us) {
    for (size_t i = 0; i < token_count; i++)
        flow_outcome(f, now_us, tokens[i], FLOW_CONFIRMED, NULL);
    token_count = 0;
}

static double nanoseconds_per_event(enum flow_order order, uint64_t keys) {
    struct flow *f;
    options.order = order;
    if (flow_new(&options, &f) < 0)
        return -1;
    int64_t position = 0, now_us = 0, began_us = clock_now_us();
    flow_database_up(f, now_us, (struct flow_mark){.target = 1});
    flow_sink_up(f, now_us);
    while (position < EVENTS) {
        struct flow_want want;
        while (flow_next(f, now_us, &want)) {
            if (want.kind == FLOW_WANT_READ)
                read_page(f, now_us, &want, keys, &position);
            else if (want.kind == FLOW_WANT_SUBMIT)
                tokens[token_count++] = want.token;
            else
                flow_saved(f, now_us);
        }
        confirm_all(f, now_us);
        now_us += 100;
    }
    double elapsed_us = (double)(clock_now_us() - began_us);
    flow_free(f);
    return 1000 * elapsed_us / (double)position;
}

int main(void) {
    printf("flow, by none:           %6.1f ns/event\n", nanoseconds_per_event(FLOW_BY_NONE, 1));
    printf("flow, by key, 1e6 keys:  %6.1f ns/event\n", nanoseconds_per_event(FLOW_BY_KEY, 1000000));
    printf("flow, by key, 1000 keys: %6.1f ns/event\n", nanoseconds_per_event(FLOW_BY_KEY, 1000));
    printf("flow, by key, 10 keys:   %6.1f ns/event\n", nanoseconds_per_event(FLOW_BY_KEY, 10));
    printf("flow, by all:            %6.1f ns/event\n", nanoseconds_per_event(FLOW_BY_ALL, 1));
    return 0;
}
