/* kafka_gate: pure: what everything waits for, shortly, and from then on only what goes there */
#include "sink/kafka_gate.h"

#include "base/clock.h"
#include "base/log.h"

void kafka_gate_reset(struct kafka_gate *g, int64_t now_us) {
    g->state = KAFKA_GATE_OPEN;
    g->patience_us = KAFKA_GATE_MOST_US;
    g->budget_us = KAFKA_GATE_LOOK_US;
    g->opened_us = now_us;
}

bool kafka_gate_is_open(const struct kafka_gate *g) {
    return g->state == KAFKA_GATE_OPEN;
}

static bool shut(struct kafka_gate *g, enum kafka_gate_state state, int64_t until_us, int64_t now_us) {
    g->until_us = until_us;
    g->state = now_us < until_us ? state : KAFKA_GATE_OPEN;
    return g->state != KAFKA_GATE_OPEN;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void open_for_topics(struct kafka_gate *g, int64_t now_us) {
    g->state = KAFKA_GATE_OPEN;
    g->budget_us -= now_us - g->shut_us;
    g->opened_us = now_us;
}

bool kafka_gate_await_topic(struct kafka_gate *g, struct span topic, int64_t since_us, int64_t now_us) {
    ASSERT(topic.len > 0);
    ASSERT(topic.len <= sizeof g->topic);
    int64_t budget_us = least(KAFKA_GATE_LOOK_US, g->budget_us + (now_us - g->opened_us));
    if (budget_us < KAFKA_GATE_LOOK_LEAST_US)
        return false;
    memcpy(g->topic, topic.data, topic.len);
    g->topic_len = topic.len;
    g->budget_us = budget_us;
    g->shut_us = g->opened_us = now_us;
    return shut(g, KAFKA_GATE_TOPIC, least(since_us + KAFKA_GATE_LOOK_US, now_us + budget_us), now_us);
}

bool kafka_gate_await_partition(struct kafka_gate *g, uint32_t place, bool warm, int64_t since_us, int64_t now_us) {
    g->place = place;
    g->warm = warm;
    return shut(g, KAFKA_GATE_PARTITION, since_us + (warm ? KAFKA_GATE_STANDS_US : g->patience_us), now_us);
}

struct span kafka_gate_topic(const struct kafka_gate *g) {
    return g->state == KAFKA_GATE_TOPIC ? (struct span){g->topic, g->topic_len} : SPAN_ABSENT;
}

void kafka_gate_topic_known(struct kafka_gate *g, int64_t now_us) {
    ASSERT(g->state == KAFKA_GATE_TOPIC);
    open_for_topics(g, now_us);
}

static int64_t patience_us(int64_t took_us) {
    if (2 * took_us < KAFKA_GATE_LEAST_US)
        return KAFKA_GATE_LEAST_US;
    return 2 * took_us < KAFKA_GATE_MOST_US ? 2 * took_us : KAFKA_GATE_MOST_US;
}

void kafka_gate_confirmed(struct kafka_gate *g, uint32_t place, bool warm, int64_t since_us, int64_t now_us) {
    if (!warm)
        g->patience_us = patience_us(now_us - since_us);
    if (g->state == KAFKA_GATE_PARTITION && g->place == place)
        g->state = KAFKA_GATE_OPEN;
}

void kafka_gate_turn(struct kafka_gate *g, int64_t now_us) {
    if (g->state == KAFKA_GATE_OPEN || now_us < g->until_us)
        return;
    if (g->state == KAFKA_GATE_TOPIC)
        return open_for_topics(g, now_us);
    if (!g->warm)
        g->patience_us /= 2;
    g->state = KAFKA_GATE_OPEN;
}

int64_t kafka_gate_deadline_us(const struct kafka_gate *g) {
    return g->state == KAFKA_GATE_OPEN ? CLOCK_NEVER : g->until_us;
}
