/* kafka_careful: pure: which events may have spoilt a batch, and go in batches of their own until it is known which one did */
#include "sink/kafka_careful.h"

#include <errno.h>

#include "base/log.h"

/* Suspects come again about in the order in which they failed: a search
 * begins behind the one found last, so that it mostly ends at once. */
struct kafka_careful {
    uint64_t *marks; /* 0: cleared */
    uint32_t capacity;
    uint32_t used;  /* places, cleared ones among them */
    uint32_t count; /* suspects */
    uint32_t next;  /* where the next one is expected */
    uint32_t patience; /* events that may still go so */
};

int kafka_careful_new(uint32_t capacity, struct kafka_careful **ret_careful) {
    ASSERT(capacity > 0);
    ASSERT(capacity <= UINT32_MAX / 4);
    struct kafka_careful *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->capacity = capacity;
    c->marks = calloc(capacity, sizeof *c->marks);
    if (!c->marks) {
        free(c);
        return -ENOMEM;
    }
    *ret_careful = c;
    return 0;
}

void kafka_careful_free(struct kafka_careful *c) {
    if (!c)
        return;
    free(c->marks);
    free(c);
}

/* 0 stands for a cleared place. */
static uint64_t nonzero(uint64_t mark) {
    return mark ? mark : 1;
}

void kafka_careful_forget(struct kafka_careful *c) {
    c->used = c->count = c->next = c->patience = 0;
}

static void close_holes(struct kafka_careful *c) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->used; i++)
        if (c->marks[i])
            c->marks[kept++] = c->marks[i];
    ASSERT(kept == c->count);
    c->used = kept;
    c->next = 0;
}

/* c->used if it isn't there. */
static uint32_t find(const struct kafka_careful *c, uint64_t mark) {
    for (uint32_t i = 0, at = c->next; i < c->used; i++, at++) {
        if (at >= c->used)
            at = 0;
        if (c->marks[at] == mark)
            return at;
    }
    return c->used;
}

static void be_patient(struct kafka_careful *c, uint32_t under_way) {
    uint32_t events = 2 * (under_way + c->count);
    if (events > c->patience)
        c->patience = events;
}

void kafka_careful_suspect(struct kafka_careful *c, uint64_t mark, uint32_t under_way) {
    ASSERT(under_way > 0);
    ASSERT(under_way <= c->capacity);
    if (c->used == c->capacity)
        close_holes(c);
    if (c->used == c->capacity)
        return;
    c->marks[c->used++] = nonzero(mark);
    c->count++;
    be_patient(c, under_way);
    ASSERT(c->count <= c->used);
    ASSERT(c->used <= c->capacity);
}

void kafka_careful_clear(struct kafka_careful *c, uint64_t mark) {
    ASSERT(c->count <= c->used);
    if (c->count == 0)
        return;
    uint32_t at = find(c, nonzero(mark));
    if (at < c->used) {
        c->marks[at] = 0;
        c->count--;
        c->next = at + 1;
    }
    ASSERT(c->patience > 0);
    if (--c->patience == 0 || c->count == 0)
        kafka_careful_forget(c);
}

uint32_t kafka_careful_left(const struct kafka_careful *c) {
    return c->count;
}
