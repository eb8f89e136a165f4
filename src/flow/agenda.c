/* agenda: a heap of numbered things by the time they are due */
#include "flow/agenda.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

struct agenda {
    uint32_t count, len;
    uint32_t *heap; /* numbers; heap[0] is due first */
    uint32_t *place; /* of a number in the heap, from 1; 0: not there */
    int64_t *due_us;
};

int agenda_new(uint32_t count, struct agenda **ret_agenda) {
    struct agenda *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->count = count;
    a->heap = calloc(count, sizeof(*a->heap));
    a->place = calloc(count, sizeof(*a->place));
    a->due_us = calloc(count, sizeof(*a->due_us));
    if (!a->heap || !a->place || !a->due_us) {
        agenda_free(a);
        return -ENOMEM;
    }
    *ret_agenda = a;
    return 0;
}

void agenda_free(struct agenda *a) {
    if (!a)
        return;
    free(a->heap);
    free(a->place);
    free(a->due_us);
    free(a);
}

void agenda_clear(struct agenda *a) {
    memset(a->place, 0, a->count * sizeof(*a->place));
    a->len = 0;
}

static void put(struct agenda *a, uint32_t place, uint32_t number) {
    a->heap[place] = number;
    a->place[number] = place + 1;
}

static void move_up(struct agenda *a, uint32_t place) {
    uint32_t number = a->heap[place];
    for (; place > 0; place = (place - 1) / 2) {
        uint32_t parent = a->heap[(place - 1) / 2];
        if (a->due_us[parent] <= a->due_us[number])
            break;
        put(a, place, parent);
    }
    put(a, place, number);
}

static void move_down(struct agenda *a, uint32_t place) {
    uint32_t number = a->heap[place];
    while (2 * place + 1 < a->len) {
        uint32_t child = 2 * place + 1;
        if (child + 1 < a->len && a->due_us[a->heap[child + 1]] < a->due_us[a->heap[child]])
            child++;
        if (a->due_us[number] <= a->due_us[a->heap[child]])
            break;
        put(a, place, a->heap[child]);
        place = child;
    }
    put(a, place, number);
}

void agenda_add(struct agenda *a, uint32_t number, int64_t due_us) {
    ASSERT(number < a->count);
    ASSERT(a->place[number] == 0);
    a->due_us[number] = due_us;
    put(a, a->len++, number);
    move_up(a, a->len - 1);
}

void agenda_remove(struct agenda *a, uint32_t number) {
    ASSERT(number < a->count);
    ASSERT(a->place[number] != 0);
    uint32_t place = a->place[number] - 1;
    a->place[number] = 0;
    uint32_t last = a->heap[--a->len];
    if (last == number)
        return;
    put(a, place, last);
    move_up(a, place);
    move_down(a, a->place[last] - 1);
}

int64_t agenda_deadline_us(const struct agenda *a) {
    return a->len > 0 ? a->due_us[a->heap[0]] : CLOCK_NEVER;
}

uint32_t agenda_first(const struct agenda *a) {
    ASSERT(a->len > 0);
    return a->heap[0];
}
