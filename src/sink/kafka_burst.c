/* kafka_burst: pure: what is published in one go, so that it leaves in few large batches */
#include "sink/kafka_burst.h"

#include "base/clock.h"
#include "base/log.h"

static int64_t wait_us(const struct kafka_burst *b) {
    int64_t wait_us = (int64_t)b->size * KAFKA_BURST_MESSAGE_US;
    int64_t least_us = b->confirmed ? KAFKA_BURST_MIN_US : KAFKA_BURST_ANSWER_US;
    if (wait_us > KAFKA_BURST_MAX_US)
        return KAFKA_BURST_MAX_US;
    return wait_us < least_us ? least_us : wait_us;
}

void kafka_burst_turn(struct kafka_burst *b, uint32_t open, int64_t now_us) {
    b->now_us = now_us;
    b->confirmed = open == 0;
    if (!b->shut || now_us < b->last_us + wait_us(b))
        return;
    b->shut = false;
    b->size = 0;
}

bool kafka_burst_is_open(const struct kafka_burst *b) {
    return !b->shut;
}

void kafka_burst_publish(struct kafka_burst *b) {
    ASSERT(!b->shut);
    b->size++;
}

void kafka_burst_end(struct kafka_burst *b) {
    if (b->shut || b->size == 0)
        return;
    b->shut = true;
    b->confirmed = false;
    b->last_us = b->now_us;
}

int64_t kafka_burst_deadline_us(const struct kafka_burst *b) {
    return b->shut ? b->last_us + wait_us(b) : CLOCK_NEVER;
}
