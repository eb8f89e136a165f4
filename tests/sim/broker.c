/* broker: a model of RabbitMQ at the other end of one connection */
#include "sim/broker.h"

#include <string.h>

#include "base/log.h"

void broker_init(struct broker *b) {
    b->published = b->taken = b->answered = b->late_count = b->refused_but_stored = 0;
    b->up = b->stalled = false;
}

void broker_open(struct broker *b) {
    b->published = b->taken = b->answered = 0;
    b->up = true;
}

void broker_close(struct broker *b, struct random *random) {
    uint32_t on_wire = b->published - b->taken;
    uint32_t arrive = random_below(random, on_wire + 1);
    for (uint32_t i = 0; i < arrive && b->late_count < BROKER_TAGS_MAX; i++)
        b->late[b->late_count++] = b->messages[b->taken + i];
    b->published = b->taken = b->answered = 0;
    b->up = false;
}

bool broker_has_room(const struct broker *b) {
    return b->published < BROKER_TAGS_MAX;
}

void broker_publish(struct broker *b, uint32_t row, uint16_t destination) {
    ASSERT(b->up);
    ASSERT(b->published < BROKER_TAGS_MAX);
    b->messages[b->published] = (struct broker_message){.row = row, .destination = destination};
    b->tags[b->published++] = TAG_ON_WIRE;
}

bool broker_take(struct broker *b, const struct broker_queue *queue, struct random *random, uint32_t refuse_percent) {
    if (!b->up || b->taken == b->published)
        return false;
    uint32_t at = b->taken++;
    struct broker_message m = b->messages[at];
    if (!random_percent(random, refuse_percent)) {
        b->tags[at] = queue->store(queue->world, m.row, m.destination) ? TAG_STORED : TAG_RETURNED;
        return true;
    }
    /* A nack may come although some queue has it. */
    if (random_percent(random, 50) && queue->store(queue->world, m.row, m.destination))
        b->refused_but_stored++;
    b->tags[at] = TAG_REFUSED;
    return true;
}

bool broker_take_late(struct broker *b, const struct broker_queue *queue) {
    if (b->late_count == 0)
        return false;
    queue->store(queue->world, b->late[0].row, b->late[0].destination);
    memmove(b->late, b->late + 1, --b->late_count * sizeof(b->late[0]));
    return true;
}

static bool is_ack(enum broker_tag_state state) {
    return state == TAG_STORED || state == TAG_RETURNED;
}

static void say_returned(struct broker *b, struct confirms *confirms, uint32_t at) {
    if (b->tags[at] == TAG_RETURNED)
        ASSERT(confirms_return(confirms, at + 1) == 0);
}

/* Acks or nacks all up to `at`, if they are of one kind. */
static bool answer_many(struct broker *b, struct confirms *confirms, uint32_t at) {
    bool ack = is_ack(b->tags[at]);
    for (uint32_t i = b->answered; i <= at; i++)
        if (b->tags[i] == TAG_ON_WIRE || (b->tags[i] != TAG_ANSWERED && is_ack(b->tags[i]) != ack))
            return false;
    for (uint32_t i = b->answered; i <= at; i++) {
        say_returned(b, confirms, i);
        b->tags[i] = TAG_ANSWERED;
    }
    ASSERT((ack ? confirms_ack(confirms, at + 1, true) : confirms_nack(confirms, at + 1, true)) == 0);
    return true;
}

static void answer_one(struct broker *b, struct confirms *confirms, uint32_t at) {
    bool ack = is_ack(b->tags[at]);
    say_returned(b, confirms, at);
    b->tags[at] = TAG_ANSWERED;
    ASSERT((ack ? confirms_ack(confirms, at + 1, false) : confirms_nack(confirms, at + 1, false)) == 0);
}

bool broker_answer(struct broker *b, struct confirms *confirms, struct random *random) {
    /* Twice: the client's side must not mind. */
    if (b->answered > 0 && random_percent(random, 10))
        ASSERT(confirms_ack(confirms, random_between(random, 1, b->answered), false) == CONFIRMS_E_UNKNOWN);
    while (b->answered < b->taken && b->tags[b->answered] == TAG_ANSWERED)
        b->answered++;
    uint32_t open = b->taken - b->answered;
    if (open == 0)
        return false;
    uint32_t at = b->answered + random_below(random, open);
    while (b->tags[at] == TAG_ANSWERED)
        at = at + 1 < b->taken ? at + 1 : b->answered;
    if (!random_percent(random, 50) || !answer_many(b, confirms, at))
        answer_one(b, confirms, at);
    return true;
}
