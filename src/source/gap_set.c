/* gap_set: pure: positions that have not been seen, as they are now and as they were at each mark */
#include "source/gap_set.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"

static int reserve(struct gap_list *list, size_t more) {
    if (list->count + more <= list->capacity)
        return 0;
    size_t capacity = list->capacity ? list->capacity : 16;
    while (capacity < list->count + more)
        capacity *= 2;
    struct gap *items = realloc(list->items, capacity * sizeof *items);
    if (!items)
        return -ENOMEM;
    list->items = items;
    list->capacity = capacity;
    return 0;
}

/* Room must have been reserved. */
static void insert(struct gap_list *list, size_t index, struct gap gap) {
    ASSERT(list->count < list->capacity);
    ASSERT(index <= list->count);
    memmove(&list->items[index + 1], &list->items[index], (list->count - index) * sizeof gap);
    list->items[index] = gap;
    list->count++;
}

static void append(struct gap_list *list, struct gap gap) {
    insert(list, list->count, gap);
}

static void remove_at(struct gap_list *list, size_t index) {
    ASSERT(index < list->count);
    list->count--;
    memmove(&list->items[index], &list->items[index + 1], (list->count - index) * sizeof *list->items);
}

void gap_set_done(struct gap_set *s) {
    free(s->live.items);
    free(s->dead.items);
    free(s->gone.items);
    ranges_done(&s->scratch);
    *s = (struct gap_set){0};
}

void gap_set_clear(struct gap_set *s) {
    s->live.count = s->dead.count = s->gone.count = 0;
    s->version++;
}

/* Coming. ------------------------------------------------------------------- */

int gap_set_add_live(struct gap_set *s, struct range range, int64_t since_us) {
    ASSERT(range.first <= range.last);
    ASSERT(s->live.count == 0 || s->live.items[s->live.count - 1].range.last < range.first);
    int r = reserve(&s->live, 1);
    if (r)
        return r;
    append(&s->live, (struct gap){.range = range, .born = ++s->version, .died = GAP_SET_NEVER, .time_us = since_us});
    return 0;
}

int gap_set_add_stored(struct gap_set *s, struct range range, int64_t until_us) {
    ASSERT(range.first <= range.last);
    int r = reserve(&s->dead, 1);
    if (r)
        return r;
    append(&s->dead, (struct gap){.range = range, .born = s->version, .died = GAP_SET_NEVER, .time_us = until_us,
                                  .dead = true, .stored = true});
    return 0;
}

/* Being filled. ------------------------------------------------------------- */

/* The first that ends there or behind. */
static size_t first_behind(const struct gap_set *s, int64_t position) {
    size_t low = 0, high = s->live.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->live.items[middle].range.last < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t gap_set_find(const struct gap_set *s, int64_t position) {
    size_t at = first_behind(s, position);
    bool holds = at < s->live.count && s->live.items[at].range.first <= position;
    return holds ? at : s->live.count;
}

bool gap_set_touches(const struct gap_set *s, struct range range) {
    size_t at = first_behind(s, range.first);
    return at < s->live.count && s->live.items[at].range.first <= range.last;
}

const struct gap *gap_set_oldest(const struct gap_set *s) {
    const struct gap *oldest = NULL;
    for (size_t i = 0; i < s->live.count; i++) {
        const struct gap *gap = &s->live.items[i];
        if (!oldest || gap->time_us <= oldest->time_us) /* of one age the last: before the first row may be no rows */
            oldest = gap;
    }
    return oldest;
}

/* The newest stand last. */
size_t gap_set_unlisted(const struct gap_set *s, int64_t drawn, size_t enough) {
    size_t count = 0;
    for (size_t i = s->live.count; i > 0 && count < enough; i--)
        count += s->live.items[i - 1].listing == 0 && s->live.items[i - 1].range.first <= drawn;
    return count;
}

/* Takes it out of its list; `gone` has room. */
static struct gap leave(struct gap_set *s, struct gap_list *list, size_t index) {
    struct gap gap = list->items[index];
    remove_at(list, index);
    struct gap gone = gap;
    gone.died = s->version;
    ASSERT(gone.born < gone.died);
    append(&s->gone, gone);
    return gap;
}

static int reserve_for_fill(struct gap_set *s, struct gap_list *list) {
    int r = reserve(list, 2);
    return r ? r : reserve(&s->gone, 1);
}

/* Both parts, the upper one first, so that one place serves for both. */
static void insert_rest(struct gap_list *list, size_t index, struct gap gap, int64_t position, uint64_t version) {
    struct gap low = gap, high = gap;
    low.range.last = position - 1;
    high.range.first = position + 1;
    low.born = high.born = version;
    low.stored = high.stored = false;
    if (position < gap.range.last)
        insert(list, index, high);
    if (position > gap.range.first)
        insert(list, index, low);
}

int gap_set_fill_live(struct gap_set *s, size_t index, int64_t position) {
    int r = reserve_for_fill(s, &s->live);
    if (r)
        return r;
    s->version++;
    struct gap gap = leave(s, &s->live, index);
    ASSERT(gap.range.first <= position);
    ASSERT(position <= gap.range.last);
    insert_rest(&s->live, index, gap, position, s->version);
    return 0;
}

int gap_set_fill_dead(struct gap_set *s, size_t index, int64_t position) {
    int r = reserve_for_fill(s, &s->dead);
    if (r)
        return r;
    s->version++;
    struct gap gap = leave(s, &s->dead, index);
    ASSERT(gap.range.first <= position);
    ASSERT(position <= gap.range.last);
    insert_rest(&s->dead, s->dead.count, gap, position, s->version);
    return 0;
}

/* Dying. -------------------------------------------------------------------- */

/* The cut changes nothing for any mark: both parts have always been gaps. */
static void split(struct gap_list *list, size_t index, int64_t last) {
    struct gap high = list->items[index];
    high.range.first = last + 1;
    list->items[index].range.last = last;
    insert(list, index + 1, high);
}

int gap_set_list(struct gap_set *s, uint64_t listing, int64_t drawn) {
    ASSERT(listing > 0);
    int r = reserve(&s->live, 1);
    if (r || drawn == INT64_MIN)
        return r;
    for (size_t i = 0; i < s->live.count && s->live.items[i].range.first <= drawn; i++) {
        struct gap *gap = &s->live.items[i];
        if (gap->listing != 0)
            continue;
        if (gap->range.last > drawn)
            split(&s->live, i, drawn);
        s->live.items[i].listing = listing;
    }
    return 0;
}

static bool is_provable(const struct gap *gap, uint64_t oldest) {
    return gap->listing != 0 && gap->listing < oldest;
}

static size_t count_provable(const struct gap_set *s, uint64_t oldest, int64_t upto) {
    size_t count = 0;
    for (size_t i = 0; i < s->live.count && s->live.items[i].range.first <= upto; i++)
        count += is_provable(&s->live.items[i], oldest);
    return count;
}

static void bury(struct gap_set *s, struct gap gap, int64_t until_us) {
    struct gap gone = gap;
    gone.died = s->version;
    append(&s->gone, gone);
    if (until_us == INT64_MIN)
        return;
    gap.dead = true;
    gap.born = s->version;
    gap.time_us = until_us;
    append(&s->dead, gap);
}

/* So that no gap stands on both sides of it; `live` has room. */
static void split_at(struct gap_set *s, int64_t last) {
    size_t at = gap_set_find(s, last);
    if (at < s->live.count && s->live.items[at].range.last > last)
        split(&s->live, at, last);
}

int gap_set_bury(struct gap_set *s, uint64_t oldest, int64_t upto, int64_t until_us) {
    size_t count = count_provable(s, oldest, upto), kept = 0;
    if (count == 0)
        return 0;
    int r = reserve(&s->gone, count);
    if (r == 0)
        r = reserve(&s->dead, count);
    if (r == 0)
        r = reserve(&s->live, 1);
    if (r)
        return r;
    split_at(s, upto);
    s->version++;
    for (size_t i = 0; i < s->live.count; i++) {
        struct gap gap = s->live.items[i];
        if (gap.range.last <= upto && is_provable(&gap, oldest))
            bury(s, gap, until_us);
        else
            s->live.items[kept++] = gap;
    }
    s->live.count = kept;
    return 0;
}

int gap_set_forget(struct gap_set *s, size_t first, size_t count, const bool *which) {
    ASSERT(first + count <= s->dead.count);
    size_t kept = first;
    int r = reserve(&s->gone, count);
    if (r)
        return r;
    s->version++;
    for (size_t i = first; i < s->dead.count; i++) {
        struct gap gap = s->dead.items[i];
        if (i - first < count && (!which || which[i - first])) {
            gap.died = s->version;
            append(&s->gone, gap);
        } else {
            s->dead.items[kept++] = gap;
        }
    }
    s->dead.count = kept;
    return 0;
}

/* At a mark. ---------------------------------------------------------------- */

static bool existed(const struct gap *gap, uint64_t version) {
    return gap->born <= version && version < gap->died;
}

int gap_set_open_at(struct gap_set *s, uint64_t version, const struct ranges **ret_open) {
    int r = 0;
    ranges_clear(&s->scratch);
    for (size_t i = 0; r == 0 && i < s->live.count; i++) {
        if (existed(&s->live.items[i], version))
            r = ranges_add(&s->scratch, s->live.items[i].range);
    }
    for (size_t i = 0; r == 0 && i < s->gone.count; i++) {
        if (!s->gone.items[i].dead && existed(&s->gone.items[i], version))
            r = ranges_add(&s->scratch, s->gone.items[i].range);
    }
    if (r)
        return r;
    ranges_sort(&s->scratch);
    *ret_open = &s->scratch;
    return 0;
}

static int changes_of(const struct gap_list *list, uint64_t version, gap_set_change *change, void *context) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < list->count; i++) {
        const struct gap *gap = &list->items[i];
        if (gap->dead && existed(gap, version) != gap->stored)
            r = change(context, gap, gap->stored);
    }
    return r;
}

int gap_set_changes(const struct gap_set *s, uint64_t version, gap_set_change *change, void *context) {
    int r = changes_of(&s->dead, version, change, context);
    return r ? r : changes_of(&s->gone, version, change, context);
}

static int stop_at(void *context, const struct gap *gap, bool removed) {
    (void)context, (void)gap, (void)removed;
    return 1;
}

bool gap_set_changed(const struct gap_set *s, uint64_t version) {
    return gap_set_changes(s, version, stop_at, NULL) != 0;
}

static void store(struct gap_list *list, uint64_t version) {
    for (size_t i = 0; i < list->count; i++)
        list->items[i].stored = list->items[i].dead && existed(&list->items[i], version);
}

void gap_set_stored(struct gap_set *s, uint64_t version) {
    store(&s->dead, version);
    store(&s->gone, version);
}

void gap_set_release(struct gap_set *s, uint64_t version) {
    size_t kept = 0;
    for (size_t i = 0; i < s->gone.count; i++) {
        const struct gap *gap = &s->gone.items[i];
        if (gap->died > version || gap->stored)
            s->gone.items[kept++] = *gap;
    }
    s->gone.count = kept;
}

/* Invariants. --------------------------------------------------------------- */

static const char *live_broken(const struct gap_set *s) {
    for (size_t i = 0; i < s->live.count; i++) {
        const struct gap *gap = &s->live.items[i];
        if (gap->dead || gap->stored)
            return "a live gap is not dead";
        if (gap->range.first > gap->range.last)
            return "a gap is not empty";
        if (i > 0 && s->live.items[i - 1].range.last >= gap->range.first)
            return "live gaps are sorted and don't overlap";
    }
    return NULL;
}

static const char *dead_broken(const struct gap_set *s) {
    for (size_t i = 0; i < s->dead.count; i++) {
        const struct gap *gap = &s->dead.items[i];
        if (!gap->dead || gap->died != GAP_SET_NEVER || gap->range.first > gap->range.last)
            return "a dead gap is dead and not gone";
        size_t at = gap_set_find(s, gap->range.first);
        if (at < s->live.count)
            return "no position is in two gaps";
    }
    return NULL;
}

const char *gap_set_broken(const struct gap_set *s) {
    for (size_t i = 0; i < s->gone.count; i++) {
        const struct gap *gap = &s->gone.items[i];
        if (gap->died > s->version || gap->born >= gap->died)
            return "what is gone was there before";
        if (i > 0 && gap->died < s->gone.items[i - 1].died)
            return "what is gone is in its order";
    }
    const char *broken = live_broken(s);
    return broken ? broken : dead_broken(s);
}
