/* kafka_tokens: pure: what librdkafka has and hasn't reported yet, by tag, and outcomes in the order of the reports */
#include "sink/kafka_tokens.h"

#include <errno.h>

#include "base/log.h"

/* Item 0 of each list is its end, so that no link is ever missing. */
enum list { FREE, OPEN, ANSWERED, LISTS };

struct item {
    uint32_t before, behind;
    enum list list;
    uint32_t place;
    uint64_t token;
    int64_t published_us;
    enum kafka_token_outcome outcome;
};

/* A tag is LISTS + i. */
struct kafka_tokens {
    struct item *items; /* the lists' ends are the first ones */
    uint32_t counts[LISTS];
};

static void append(struct kafka_tokens *t, uint32_t at, enum list list) {
    struct item *end = &t->items[list], *item = &t->items[at];
    item->list = list;
    item->before = end->before;
    item->behind = (uint32_t)list;
    t->items[end->before].behind = at;
    end->before = at;
    t->counts[list]++;
}

static void move(struct kafka_tokens *t, uint32_t at, enum list list) {
    struct item *item = &t->items[at];
    t->items[item->before].behind = item->behind;
    t->items[item->behind].before = item->before;
    t->counts[item->list]--;
    append(t, at, list);
}

int kafka_tokens_new(uint32_t in_flight_max, struct kafka_tokens **ret_tokens) {
    ASSERT(in_flight_max > 0);
    ASSERT(in_flight_max < UINT32_MAX - LISTS);
    struct kafka_tokens *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    t->items = calloc((size_t)in_flight_max + LISTS, sizeof *t->items);
    if (!t->items) {
        free(t);
        return -ENOMEM;
    }
    for (uint32_t list = 0; list < LISTS; list++)
        t->items[list].before = t->items[list].behind = list;
    for (uint32_t i = 0; i < in_flight_max; i++)
        append(t, LISTS + i, FREE);
    *ret_tokens = t;
    return 0;
}

void kafka_tokens_free(struct kafka_tokens *t) {
    if (!t)
        return;
    free(t->items);
    free(t);
}

uint32_t kafka_tokens_room(const struct kafka_tokens *t) {
    return t->counts[FREE];
}

uint64_t kafka_tokens_next_tag(const struct kafka_tokens *t) {
    ASSERT(t->counts[FREE] > 0);
    return t->items[FREE].behind;
}

void kafka_tokens_publish(struct kafka_tokens *t, uint64_t token, uint32_t place, int64_t now_us) {
    uint32_t at = (uint32_t)kafka_tokens_next_tag(t);
    ASSERT(at >= LISTS);
    t->items[at].token = token;
    t->items[at].place = place;
    t->items[at].published_us = now_us;
    move(t, at, OPEN);
}

static struct item *open_item(const struct kafka_tokens *t, uint64_t tag) {
    ASSERT(tag >= LISTS);
    struct item *item = &t->items[tag];
    ASSERT(item->list == OPEN);
    return item;
}

uint32_t kafka_tokens_place(const struct kafka_tokens *t, uint64_t tag) {
    return open_item(t, tag)->place;
}

static void answer(struct kafka_tokens *t, uint64_t tag, enum kafka_token_outcome outcome) {
    open_item(t, tag)->outcome = outcome;
    move(t, (uint32_t)tag, ANSWERED);
}

void kafka_tokens_confirm(struct kafka_tokens *t, uint64_t tag) {
    answer(t, tag, KAFKA_TOKEN_CONFIRMED);
}

void kafka_tokens_reject(struct kafka_tokens *t, uint64_t tag) {
    answer(t, tag, KAFKA_TOKEN_REJECTED);
}

void kafka_tokens_lose(struct kafka_tokens *t) {
    while (t->counts[OPEN] > 0)
        answer(t, t->items[OPEN].behind, KAFKA_TOKEN_LOST);
}

bool kafka_tokens_next(struct kafka_tokens *t, uint64_t *ret_token, enum kafka_token_outcome *ret_outcome) {
    if (t->counts[ANSWERED] == 0)
        return false;
    uint32_t at = t->items[ANSWERED].behind;
    *ret_token = t->items[at].token;
    *ret_outcome = t->items[at].outcome;
    move(t, at, FREE);
    return true;
}

uint32_t kafka_tokens_open(const struct kafka_tokens *t) {
    return t->counts[OPEN];
}

uint32_t kafka_tokens_answered(const struct kafka_tokens *t) {
    return t->counts[ANSWERED];
}

bool kafka_tokens_oldest(const struct kafka_tokens *t, uint32_t *ret_place, int64_t *ret_published_us) {
    if (t->counts[OPEN] == 0)
        return false;
    const struct item *oldest = &t->items[t->items[OPEN].behind];
    *ret_place = oldest->place;
    *ret_published_us = oldest->published_us;
    return true;
}
