/* range: a run of positions, its text, and lists of them */
#include "source/range.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"

bool range_holds(struct range r, int64_t position) {
    return r.first <= position && position <= r.last;
}

int range_print(struct range r, struct buf *b) {
    ASSERT(r.first <= r.last);
    if (r.first == INT64_MIN)
        return r.last == INT64_MAX ? -EMSGSIZE : buf_addf(b, "<%" PRId64, r.last + 1);
    if (r.first == r.last)
        return buf_addf(b, "%" PRId64, r.first);
    return buf_addf(b, "%" PRId64 "-%" PRId64, r.first, r.last);
}

static bool read_number(const char **at, const char *end, int64_t *ret_number) {
    bool negative = *at < end && **at == '-';
    int64_t n = 0;
    const char *p = *at + negative, *digits = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        int digit = negative ? -(*p - '0') : *p - '0';
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n))
            return false;
    }
    *at = p;
    *ret_number = n;
    return p > digits;
}

int range_parse(struct span text, struct range *ret_range) {
    const char *at = text.data, *end = at + text.len;
    struct range r = {INT64_MIN, 0};
    bool below = at < end && *at == '<';
    at += below;
    if (!read_number(&at, end, &r.last))
        return -EINVAL;
    if (below)
        r.last = r.last == INT64_MIN ? INT64_MIN : r.last - 1;
    else
        r.first = r.last;
    if (!below && at < end && *at == '-') {
        at++;
        if (!read_number(&at, end, &r.last))
            return -EINVAL;
    }
    if (at != end || r.first > r.last || (!below && r.first == INT64_MIN))
        return -EINVAL;
    *ret_range = r;
    return 0;
}

int ranges_add(struct ranges *list, struct range r) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        struct range *items = realloc(list->items, capacity * sizeof *items);
        if (!items)
            return -ENOMEM;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = r;
    ASSERT(list->count <= list->capacity);
    return 0;
}

void ranges_remove_first(struct ranges *list) {
    ASSERT(list->count > 0);
    list->count--;
    memmove(&list->items[0], &list->items[1], list->count * sizeof *list->items);
}

void ranges_clear(struct ranges *list) {
    list->count = 0;
}

void ranges_done(struct ranges *list) {
    free(list->items);
    *list = (struct ranges){0};
}

static int compare(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

void ranges_sort(struct ranges *list) {
    if (list->count < 2)
        return;
    qsort(list->items, list->count, sizeof *list->items, compare);
    size_t kept = 0;
    for (size_t i = 1; i < list->count; i++) {
        ASSERT(list->items[i].first > list->items[kept].last);
        if (list->items[i].first == list->items[kept].last + 1)
            list->items[kept].last = list->items[i].last;
        else
            list->items[++kept] = list->items[i];
    }
    list->count = kept + 1;
}

size_t ranges_find(const struct ranges *list, int64_t position) {
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].last < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && list->items[low].first <= position ? low : list->count;
}
