/* window: events read and not settled, their marks by arrival, the prefix that is settled */
#include "flow/window.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

/* Of one seq. DONE is of the event; the others are of the mark before it. */
enum { DONE = 1, EVERYTHING = 2 /* of its target: position INT64_MAX */, DEAD = 4, PASSED_ROWS = 8 };

struct window {
    uint32_t events, unsaved; /* the caps */
    uint64_t mask;
    struct flow_mark *marks; /* marks[seq]: the place before event seq; marks[next_seq]: where reading stands */
    uint8_t *flags;
    uint32_t *slot_of;
    struct slot *slots;
    uint32_t *free_slots; /* a stack */
    uint32_t free_count;
    uint64_t saved_seq, settled_seq, next_seq;
    uint64_t savable_seq; /* newest live mark of the prefix */
    int64_t savable_position, passed_position;
    uint32_t open, ahead; /* `ahead`: settled beyond settled_seq */
    uint64_t bytes;
};

static uint64_t at(const struct window *w, uint64_t seq) {
    return seq & w->mask;
}

static uint64_t power_of_two_above(uint64_t n) {
    uint64_t power = 1;
    while (power <= n)
        power *= 2;
    return power;
}

int window_new(uint32_t events, uint32_t unsaved, struct window **ret_window) {
    ASSERT(events > 0);
    ASSERT(unsaved > 0);
    struct window *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    uint64_t capacity = power_of_two_above((uint64_t)events + unsaved);
    w->events = events;
    w->unsaved = unsaved;
    w->mask = capacity - 1;
    w->marks = calloc(capacity, sizeof(*w->marks));
    w->flags = calloc(capacity, sizeof(*w->flags));
    w->slot_of = calloc(capacity, sizeof(*w->slot_of));
    w->slots = calloc(events, sizeof(*w->slots));
    w->free_slots = calloc(events, sizeof(*w->free_slots));
    if (!w->marks || !w->flags || !w->slot_of || !w->slots || !w->free_slots) {
        window_free(w);
        return -ENOMEM;
    }
    window_reset(w, (struct flow_mark){.position = INT64_MAX});
    *ret_window = w;
    return 0;
}

void window_free(struct window *w) {
    if (!w)
        return;
    free(w->marks);
    free(w->flags);
    free(w->slot_of);
    free(w->slots);
    free(w->free_slots);
    free(w);
}

/* Keeps the position that people see when only "everything of the target" is said. */
static void set_mark(struct window *w, uint64_t seq, struct flow_mark mark, int64_t position_before) {
    bool everything = mark.position == INT64_MAX;
    if (everything)
        mark.position = position_before;
    w->marks[at(w, seq)] = mark;
    w->flags[at(w, seq)] = everything ? EVERYTHING : 0;
}

/* The prefix has reached `seq`, or its mark has changed. */
static void reach(struct window *w, uint64_t seq) {
    int64_t position = w->marks[at(w, seq)].position;
    if (position > w->passed_position)
        w->passed_position = position;
    if (w->flags[at(w, seq)] & DEAD)
        return;
    w->savable_seq = seq;
    w->savable_position = w->passed_position;
}

void window_reset(struct window *w, struct flow_mark mark) {
    memset(w->slots, 0, w->events * sizeof(*w->slots));
    for (uint32_t i = 0; i < w->events; i++)
        w->free_slots[i] = w->events - 1 - i;
    w->free_count = w->events;
    w->open = w->ahead = 0;
    w->bytes = 0;
    w->saved_seq = w->settled_seq = w->next_seq;
    w->passed_position = INT64_MIN;
    set_mark(w, w->next_seq, mark, INT64_MIN);
    reach(w, w->next_seq);
}

struct slot *window_slots(struct window *w) {
    return w->slots;
}

bool window_has_slot(const struct window *w) {
    return w->free_count > 0;
}

uint32_t window_next_slot(const struct window *w) {
    ASSERT(w->free_count > 0);
    return w->free_slots[w->free_count - 1];
}

uint32_t window_add(struct window *w, const struct flow_event *event, int64_t now_us) {
    struct flow_mark before = w->marks[at(w, w->next_seq)];
    ASSERT(event->mark.target >= before.target);
    ASSERT(w->next_seq - w->saved_seq < (uint64_t)w->events + w->unsaved);
    uint32_t slot = window_next_slot(w);
    w->free_count--;
    uint64_t seq = w->next_seq++;
    w->slot_of[at(w, seq)] = slot;
    set_mark(w, w->next_seq, event->mark, before.position);
    w->slots[slot] = (struct slot){
        .seq = seq,
        .bytes = event->bytes,
        .since_us = now_us,
        .key = WINDOW_NONE,
        .next = WINDOW_NONE,
        .verdict = event->verdict,
        .todo = event->verdict == FLOW_DELIVER ? (uint16_t)((1U << event->destinations) - 1) : 0,
        .open = true,
    };
    w->open++;
    w->bytes += event->bytes;
    return slot;
}

void window_mark(struct window *w, struct flow_mark mark, uint32_t rows) {
    struct flow_mark before = w->marks[at(w, w->next_seq)];
    ASSERT(mark.target >= before.target);
    uint8_t kept = w->flags[at(w, w->next_seq)] & PASSED_ROWS;
    set_mark(w, w->next_seq, mark, before.position);
    w->flags[at(w, w->next_seq)] |= kept | (rows > 0 ? PASSED_ROWS : 0);
    if (w->settled_seq == w->next_seq)
        reach(w, w->next_seq);
}

/* The first of saved_seq … next_seq whose target is not below: targets grow with seq. */
static uint64_t first_of_target(const struct window *w, uint64_t target) {
    uint64_t low = w->saved_seq, high = w->next_seq + 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (w->marks[at(w, middle)].target < target)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void window_drop(struct window *w, uint64_t target) {
    for (uint64_t seq = first_of_target(w, target); seq <= w->next_seq && w->marks[at(w, seq)].target == target; seq++)
        w->flags[at(w, seq)] |= DEAD;
    while (w->savable_seq > w->saved_seq && w->flags[at(w, w->savable_seq)] & DEAD)
        w->savable_seq--;
}

void window_settle(struct window *w, uint32_t slot) {
    struct slot *s = &w->slots[slot];
    ASSERT(s->open);
    ASSERT((s->todo | s->flying | s->failed | s->rejected) == 0);
    s->open = false;
    w->free_slots[w->free_count++] = slot;
    w->open--;
    w->bytes -= s->bytes;
    w->flags[at(w, s->seq)] |= DONE;
    w->ahead++;
    while (w->settled_seq < w->next_seq && w->flags[at(w, w->settled_seq)] & DONE) {
        w->settled_seq++;
        w->ahead--;
        reach(w, w->settled_seq);
    }
}

bool window_savable(const struct window *w, struct window_place *ret_place) {
    uint8_t flags = w->flags[at(w, w->savable_seq)];
    if (flags & DEAD || (w->savable_seq == w->saved_seq && !(flags & PASSED_ROWS)))
        return false;
    *ret_place = (struct window_place){
        .seq = w->savable_seq,
        .mark = w->marks[at(w, w->savable_seq)],
        .position = w->savable_position,
    };
    if (flags & EVERYTHING)
        ret_place->mark.position = INT64_MAX;
    return true;
}

void window_saving(struct window *w, const struct window_place *place) {
    w->flags[at(w, place->seq)] &= (uint8_t)~PASSED_ROWS;
}

void window_saved(struct window *w, const struct window_place *place) {
    ASSERT(place->seq >= w->saved_seq);
    ASSERT(place->seq <= w->settled_seq);
    w->saved_seq = place->seq;
    /* Its target may have been dropped while the save was under way. */
    if (w->savable_seq < w->saved_seq)
        w->savable_seq = w->saved_seq;
}

void window_not_saved(struct window *w, const struct window_place *place) {
    ASSERT(place->seq >= w->saved_seq);
    w->flags[at(w, place->seq)] |= PASSED_ROWS;
}

uint32_t window_open(const struct window *w) {
    return w->open;
}

uint64_t window_bytes(const struct window *w) {
    return w->bytes;
}

uint32_t window_unsaved(const struct window *w) {
    return (uint32_t)(w->settled_seq - w->saved_seq) + w->ahead;
}

uint64_t window_saved_seq(const struct window *w) {
    return w->saved_seq;
}

uint32_t window_oldest(const struct window *w) {
    return w->settled_seq == w->next_seq ? WINDOW_NONE : w->slot_of[at(w, w->settled_seq)];
}

uint64_t window_oldest_target(const struct window *w) {
    return w->marks[at(w, w->saved_seq)].target;
}

static const char *marks_broken(const struct window *w) {
    if (w->saved_seq > w->settled_seq || w->settled_seq > w->next_seq)
        return "saved <= settled <= read";
    if (w->savable_seq < w->saved_seq || w->savable_seq > w->settled_seq)
        return "saved <= savable <= settled";
    uint32_t ahead = 0;
    for (uint64_t seq = w->saved_seq; seq < w->next_seq; seq++) {
        bool done = w->flags[at(w, seq)] & DONE;
        if (!done && seq < w->settled_seq)
            return "the settled prefix has no gap";
        if (done && seq == w->settled_seq)
            return "the settled prefix is as long as can be";
        if (!done && (!w->slots[w->slot_of[at(w, seq)]].open || w->slots[w->slot_of[at(w, seq)]].seq != seq))
            return "an event that is not settled has its slot";
        if (w->marks[at(w, seq)].target > w->marks[at(w, seq + 1)].target)
            return "targets grow with arrival";
        ahead += done && seq > w->settled_seq;
    }
    return ahead == w->ahead ? NULL : "ahead is counted";
}

const char *window_broken(const struct window *w) {
    uint32_t open = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < w->events; i++) {
        const struct slot *s = &w->slots[i];
        if (!s->open)
            continue;
        open++;
        bytes += s->bytes;
        if (s->todo & s->flying || s->todo & s->failed || s->todo & s->rejected || s->flying & s->failed ||
            s->flying & s->rejected || s->failed & s->rejected)
            return "a destination is in one set";
    }
    if (open != w->open || bytes != w->bytes)
        return "open events and their bytes are counted";
    if (w->open + w->free_count != w->events)
        return "a slot is open or free";
    if (w->next_seq - w->saved_seq > (uint64_t)w->events + w->unsaved)
        return "at most window.events + window.unsaved are not saved";
    if (w->next_seq - w->saved_seq != (uint64_t)w->open + window_unsaved(w))
        return "read = open + unsaved";
    return marks_broken(w);
}
