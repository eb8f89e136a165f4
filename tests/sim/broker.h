/* broker: a model of RabbitMQ at the other end of one connection */
#ifndef PENSTOCK_TESTS_SIM_BROKER_H
#define PENSTOCK_TESTS_SIM_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/random.h"
#include "sink/confirms.h"

/* What was published lies on the wire until the broker takes it, in order:
 * stored, returned, or refused. The answers travel back later, in any order,
 * one by one or several at once, returns before their acks, some twice. When the
 * channel dies, what is on the wire may still be stored, even after the next
 * channel is open; no answer of it comes any more. */

#define BROKER_TAGS_MAX 2048 /* of one channel */

struct broker_message {
    uint32_t row;
    uint16_t destination;
};

enum broker_tag_state { TAG_ON_WIRE, TAG_STORED, TAG_RETURNED, TAG_REFUSED, TAG_ANSWERED };

struct broker {
    /* Of the channel: messages by tag, from 1. */
    struct broker_message messages[BROKER_TAGS_MAX];
    enum broker_tag_state tags[BROKER_TAGS_MAX];
    uint32_t published, taken, answered; /* below: all of them */
    bool up;
    bool stalled; /* takes and answers nothing */
    struct broker_message late[BROKER_TAGS_MAX]; /* on the wires of channels that died */
    uint32_t late_count;
    uint32_t refused_but_stored; /* each is a repeat to come */
};

/* What the world does with a message: false: it is returned. */
struct broker_queue {
    bool (*store)(void *world, uint32_t row, uint16_t destination);
    void *world;
};

void broker_init(struct broker *b);
/* A channel is opened; tags start at 1. */
void broker_open(struct broker *b);
/* It dies: part of what is on the wire comes late, part never. */
void broker_close(struct broker *b, struct random *random);

bool broker_has_room(const struct broker *b);
void broker_publish(struct broker *b, uint32_t row, uint16_t destination);

/* Takes one message off the wire; refuses so many of a hundred. false: there is none. */
bool broker_take(struct broker *b, const struct broker_queue *queue, struct random *random, uint32_t refuse_percent);
bool broker_take_late(struct broker *b, const struct broker_queue *queue);
/* Sends one answer to the client's side of the channel. false: nothing to say. */
bool broker_answer(struct broker *b, struct confirms *confirms, struct random *random);

#endif
