/* confirms: pure: delivery tags, multiple acks, nacks, returns, resets -> one outcome per token */
#include "sink/confirms.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"

/*    answered        oldest                         next
 *  … a  a  a  a  a  [ o  a  a  r  o  a  o  o  o  o ] .  .      tags
 *                     at most span_max of them
 *
 * Between oldest and next every tag is open, open and returned, or answered;
 * oldest itself is open, or equals next. A tag's slot is its number modulo the
 * ring's size, a power of two of at least span_max. */
enum state { ANSWERED, OPEN, RETURNED };

struct slot {
    uint64_t token;
    int64_t published_us; /* on the clock that stands still while blocked */
    enum state state;
};

struct answer {
    uint64_t token, tag;
    enum confirms_outcome outcome;
};

struct confirms {
    struct slot *slots;
    uint64_t slot_mask;
    uint64_t oldest_tag, next_tag;
    uint32_t open, in_flight_max, span_max;

    /* Outcomes not taken yet: a ring, numbered since new. */
    struct answer *answers;
    uint64_t answer_mask;
    uint64_t first_answer, end_answer;

    uint64_t unknown;
    bool blocked;
    int64_t blocked_since_us;
    int64_t blocked_total_us; /* of the times that are over */
};

static uint64_t power_of_two(uint64_t at_least) {
    uint64_t size = 1;
    while (size < at_least)
        size *= 2;
    return size;
}

int confirms_new(uint32_t in_flight_max, uint32_t span_max, struct confirms **ret_confirms) {
    ASSERT(in_flight_max >= 1);
    ASSERT(span_max >= in_flight_max);
    struct confirms *c = malloc(sizeof *c);
    if (!c)
        return -ENOMEM;
    uint64_t slots = power_of_two(span_max), answers = power_of_two(in_flight_max);
    *c = (struct confirms){
        .slots = calloc(slots, sizeof *c->slots),
        .slot_mask = slots - 1,
        .oldest_tag = 1,
        .next_tag = 1,
        .in_flight_max = in_flight_max,
        .span_max = span_max,
        .answers = calloc(answers, sizeof *c->answers),
        .answer_mask = answers - 1,
    };
    if (!c->slots || !c->answers) {
        confirms_free(c);
        return -ENOMEM;
    }
    *ret_confirms = c;
    return 0;
}

void confirms_free(struct confirms *c) {
    if (!c)
        return;
    free(c->slots);
    free(c->answers);
    free(c);
}

static struct slot *slot_of(const struct confirms *c, uint64_t tag) {
    return &c->slots[tag & c->slot_mask];
}

static bool is_open(const struct confirms *c, uint64_t tag) {
    return tag >= c->oldest_tag && tag < c->next_tag && slot_of(c, tag)->state != ANSWERED;
}

static void check(const struct confirms *c) {
    ASSERT(c->oldest_tag <= c->next_tag);
    ASSERT(c->next_tag - c->oldest_tag <= c->span_max);
    ASSERT(c->open + confirms_answered(c) <= c->in_flight_max);
    ASSERT((c->open == 0) == (c->oldest_tag == c->next_tag));
}

bool confirms_has_room(const struct confirms *c) {
    return c->open + confirms_answered(c) < c->in_flight_max && c->next_tag - c->oldest_tag < c->span_max;
}

uint64_t confirms_next_tag(const struct confirms *c) {
    return c->next_tag;
}

/* The clock that stands still while blocked. */
static int64_t running_us(const struct confirms *c, int64_t now_us) {
    return (c->blocked ? c->blocked_since_us : now_us) - c->blocked_total_us;
}

void confirms_publish(struct confirms *c, uint64_t token, int64_t now_us) {
    ASSERT(confirms_has_room(c));
    *slot_of(c, c->next_tag) = (struct slot){
        .token = token,
        .published_us = running_us(c, now_us),
        .state = OPEN,
    };
    c->next_tag++;
    c->open++;
    check(c);
}

static void answer(struct confirms *c, uint64_t tag, enum confirms_outcome outcome) {
    struct slot *slot = slot_of(c, tag);
    ASSERT(slot->state != ANSWERED);
    slot->state = ANSWERED;
    c->open--;
    c->answers[c->end_answer++ & c->answer_mask] =
        (struct answer){.token = slot->token, .tag = tag, .outcome = outcome};
}

static void move_oldest(struct confirms *c) {
    while (c->oldest_tag < c->next_tag && slot_of(c, c->oldest_tag)->state == ANSWERED)
        c->oldest_tag++;
}

static int unknown(struct confirms *c) {
    c->unknown++;
    return CONFIRMS_E_UNKNOWN;
}

/* A returned event is nowhere, whatever the answer says then. */
static void answer_from_broker(struct confirms *c, uint64_t tag, enum confirms_outcome outcome) {
    bool returned = slot_of(c, tag)->state == RETURNED;
    answer(c, tag, returned ? CONFIRMS_RETURNED : outcome);
}

static int answer_up_to(struct confirms *c, uint64_t tag, enum confirms_outcome outcome) {
    uint64_t last = tag == 0 ? c->next_tag - 1 : tag;
    if (last >= c->next_tag || c->oldest_tag > last)
        return unknown(c);
    for (uint64_t t = c->oldest_tag; t <= last; t++)
        if (is_open(c, t))
            answer_from_broker(c, t, outcome);
    return 0;
}

static int answer_one(struct confirms *c, uint64_t tag, enum confirms_outcome outcome) {
    if (!is_open(c, tag))
        return unknown(c);
    answer_from_broker(c, tag, outcome);
    return 0;
}

static int take_answer(struct confirms *c, uint64_t tag, bool multiple, enum confirms_outcome outcome) {
    int r = multiple ? answer_up_to(c, tag, outcome) : answer_one(c, tag, outcome);
    move_oldest(c);
    check(c);
    return r;
}

int confirms_ack(struct confirms *c, uint64_t tag, bool multiple) {
    return take_answer(c, tag, multiple, CONFIRMS_CONFIRMED);
}

int confirms_nack(struct confirms *c, uint64_t tag, bool multiple) {
    return take_answer(c, tag, multiple, CONFIRMS_NACKED);
}

int confirms_return(struct confirms *c, uint64_t tag) {
    if (!is_open(c, tag) || slot_of(c, tag)->state == RETURNED)
        return unknown(c);
    slot_of(c, tag)->state = RETURNED;
    return 0;
}

void confirms_reset(struct confirms *c) {
    for (uint64_t t = c->oldest_tag; t < c->next_tag; t++)
        if (is_open(c, t))
            answer(c, t, CONFIRMS_LOST);
    c->oldest_tag = c->next_tag = 1;
    check(c);
}

bool confirms_next(struct confirms *c, uint64_t *ret_token, uint64_t *ret_tag, enum confirms_outcome *ret_outcome) {
    if (c->first_answer == c->end_answer)
        return false;
    const struct answer *a = &c->answers[c->first_answer++ & c->answer_mask];
    *ret_token = a->token;
    *ret_tag = a->tag;
    *ret_outcome = a->outcome;
    return true;
}

uint32_t confirms_open(const struct confirms *c) {
    return c->open;
}

uint32_t confirms_answered(const struct confirms *c) {
    return (uint32_t)(c->end_answer - c->first_answer);
}

uint64_t confirms_unknown(const struct confirms *c) {
    return c->unknown;
}

int64_t confirms_deadline_us(const struct confirms *c, int64_t ack_timeout_us) {
    ASSERT(ack_timeout_us >= 0);
    if (c->open == 0 || c->blocked)
        return CLOCK_NEVER;
    /* Tags are published in order of time: the lowest open one is the oldest. */
    int64_t published_us = slot_of(c, c->oldest_tag)->published_us + c->blocked_total_us, deadline_us;
    if (__builtin_add_overflow(published_us, ack_timeout_us, &deadline_us))
        return CLOCK_NEVER;
    return deadline_us;
}

void confirms_blocked(struct confirms *c, bool blocked, int64_t now_us) {
    if (blocked == c->blocked)
        return;
    if (blocked)
        c->blocked_since_us = now_us;
    else
        c->blocked_total_us += now_us - c->blocked_since_us;
    c->blocked = blocked;
}
