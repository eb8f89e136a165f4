/* range: a run of positions, its text, and lists of them */
#ifndef PENSTOCK_SOURCE_RANGE_H
#define PENSTOCK_SOURCE_RANGE_H

#include <stdint.h>

#include "base/buf.h"

/* Both ends belong to it. first INT64_MIN: everything up to last. */
struct range {
    int64_t first, last;
};

#define RANGE_TEXT_MAX 44 /* bytes */

bool range_holds(struct range r, int64_t position);

/* Appends "5", "7-9" or "<10". 0; -ENOMEM; -EMSGSIZE. */
int range_print(struct range r, struct buf *b) MUST_CHECK;
/* 0; -EINVAL: it is none. */
int range_parse(struct span text, struct range *ret_range) MUST_CHECK;

/* Embedded; zero is empty. Owns items. */
struct ranges {
    struct range *items;
    size_t count, capacity;
};

int ranges_add(struct ranges *list, struct range r) MUST_CHECK;
void ranges_remove_first(struct ranges *list);
void ranges_clear(struct ranges *list);
void ranges_done(struct ranges *list);
/* By first; none overlap. Ranges that touch become one. */
void ranges_sort(struct ranges *list);
/* In a sorted list: the one that holds the position; list->count: none. */
size_t ranges_find(const struct ranges *list, int64_t position);

#endif
