/* holders: pure: who holds a writer's lock on the table, and since which list of them */
#include "source/holders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void holders_done(struct holders *h) {
    free(h->known.items);
    free(h->coming.items);
    *h = (struct holders){0};
}

void holders_forget(struct holders *h) {
    h->known.count = h->coming.count = 0;
}

void holders_begin(struct holders *h) {
    h->coming.count = 0;
}

static int reserve(struct holder_list *list) {
    if (list->count < list->capacity)
        return 0;
    size_t capacity = list->capacity ? 2 * list->capacity : 16;
    struct holder *items = realloc(list->items, capacity * sizeof *items);
    if (!items)
        return -ENOMEM;
    list->items = items;
    list->capacity = capacity;
    return 0;
}

int holders_add(struct holders *h, struct span id) {
    if (h->coming.count == HOLDERS_MAX || id.len >= HOLDERS_ID_MAX)
        return HOLDERS_E_TOO_MANY;
    int r = reserve(&h->coming);
    if (r)
        return r;
    struct holder *holder = &h->coming.items[h->coming.count++];
    *holder = (struct holder){0};
    memcpy(holder->id, id.data, id.len);
    return 0;
}

static int compare(const void *a, const void *b) {
    return strcmp(((const struct holder *)a)->id, ((const struct holder *)b)->id);
}

/* Sorted, each once (a transaction may hold locks on several partitions). */
static void tidy(struct holder_list *list) {
    if (list->count == 0)
        return;
    qsort(list->items, list->count, sizeof *list->items, compare);
    size_t kept = 1;
    for (size_t i = 1; i < list->count; i++) {
        if (compare(&list->items[i], &list->items[kept - 1]) != 0)
            list->items[kept++] = list->items[i];
    }
    list->count = kept;
}

/* Whoever was there keeps its number. Returns the lowest number of those who
 * have vanished. Both lists are sorted: one walk. */
static uint64_t recognise(struct holders *h) {
    uint64_t vanished = HOLDERS_NOBODY;
    size_t at = 0;
    for (size_t i = 0; i < h->known.count; i++) {
        const struct holder *known = &h->known.items[i];
        while (at < h->coming.count && compare(&h->coming.items[at], known) < 0)
            at++;
        if (at < h->coming.count && compare(&h->coming.items[at], known) == 0)
            h->coming.items[at].since = known->since;
        else if (known->since < vanished)
            vanished = known->since;
    }
    return vanished;
}

static bool is_renamed(const struct holder *holder) {
    return strncmp(holder->id, "-1/", 3) == 0;
}

void holders_end(struct holders *h) {
    h->list++;
    tidy(&h->coming);
    uint64_t vanished = recognise(h);
    for (size_t i = 0; i < h->coming.count; i++) {
        struct holder *holder = &h->coming.items[i];
        if (holder->since != 0)
            continue;
        holder->since = h->list;
        /* Some servers call a transaction so as soon as it is prepared: it may be any that has vanished. */
        if (is_renamed(holder) && vanished < h->list)
            holder->since = vanished;
    }
    struct holder_list before = h->known;
    h->known = h->coming;
    h->coming = before;
    h->coming.count = 0;
    ASSERT(h->list > 0);
}

uint64_t holders_oldest(const struct holders *h) {
    uint64_t oldest = HOLDERS_NOBODY;
    for (size_t i = 0; i < h->known.count; i++) {
        ASSERT(h->known.items[i].since <= h->list);
        if (h->known.items[i].since < oldest)
            oldest = h->known.items[i].since;
    }
    return oldest;
}

const struct holder *holders_first(const struct holders *h, uint64_t list) {
    const struct holder *first = NULL;
    for (size_t i = 0; i < h->known.count; i++) {
        const struct holder *holder = &h->known.items[i];
        if (holder->since <= list && (!first || holder->since < first->since))
            first = holder;
    }
    return first;
}

size_t holders_count(const struct holders *h, uint64_t list) {
    size_t count = 0;
    for (size_t i = 0; i < h->known.count; i++)
        count += h->known.items[i].since <= list;
    return count;
}
