/* order: ordering keys: which event may be submitted next (G6) */
#include "flow/order.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "flow/agenda.h"

#define NONE WINDOW_NONE

enum key_state { KEY_FREE, KEY_IDLE, KEY_READY, KEY_ASLEEP };

struct key {
    uint64_t hash;
    enum key_state state;
    bool mapped;         /* found by its hash; else of one event without a key */
    uint32_t head, tail; /* its queue, by seq */
    uint32_t again_tail; /* the last event of the queue that has started: those come before new ones */
    uint32_t events;     /* open */
    uint32_t started;    /* of these: submitted at least once */
    uint32_t waiting;    /* of these: neither started nor holding */
    uint32_t held;
    uint32_t before, behind; /* in the line of ready keys; `behind` also links free ones */
};

struct order {
    struct slot *slots;
    enum flow_order kind;
    uint32_t events, limit;
    struct key *keys;
    uint32_t free_key;
    uint32_t *map; /* open addressing, linear probing: key + 1; 0 is empty */
    uint32_t map_mask;
    uint32_t first_ready, last_ready;
    struct agenda *asleep;
    uint32_t held, followers, started;
    uint64_t start_before; /* events with a lower seq are started */
    uint64_t started_end;  /* behind the highest that was started */
};

int order_new(struct slot *slots, uint32_t events, enum flow_order kind, uint32_t limit, struct order **ret_order) {
    ASSERT(events > 0);
    ASSERT(limit > 0);
    struct order *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    o->slots = slots;
    o->kind = kind;
    o->events = events;
    o->limit = limit;
    o->start_before = UINT64_MAX;
    uint32_t map_size = 4;
    while (map_size < 2 * events)
        map_size *= 2;
    o->map_mask = map_size - 1;
    o->map = calloc(map_size, sizeof(*o->map));
    o->keys = calloc(events, sizeof(*o->keys));
    if (!o->map || !o->keys || agenda_new(events, &o->asleep) < 0) {
        order_free(o);
        return -ENOMEM;
    }
    order_reset(o);
    *ret_order = o;
    return 0;
}

void order_free(struct order *o) {
    if (!o)
        return;
    agenda_free(o->asleep);
    free(o->map);
    free(o->keys);
    free(o);
}

void order_reset(struct order *o) {
    memset(o->map, 0, ((size_t)o->map_mask + 1) * sizeof(*o->map));
    memset(o->keys, 0, o->events * sizeof(*o->keys));
    for (uint32_t i = 0; i < o->events; i++)
        o->keys[i].behind = i + 1 < o->events ? i + 1 : NONE;
    o->free_key = 0;
    o->first_ready = o->last_ready = NONE;
    o->held = o->followers = o->started = 0;
    o->started_end = 0;
    agenda_clear(o->asleep);
}

/* --- Keys by their hash. ------------------------------------------------- */

/* Fibonacci hashing (Knuth 6.4): the caller's hash is good, but tests use small numbers. */
static uint32_t home(const struct order *o, uint64_t hash) {
    return (uint32_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & o->map_mask;
}

/* Where the hash is, or the empty place where it belongs: the map is at most half full. */
static uint32_t find(const struct order *o, uint64_t hash) {
    uint32_t at = home(o, hash);
    while (o->map[at] && o->keys[o->map[at] - 1].hash != hash)
        at = (at + 1) & o->map_mask;
    return at;
}

/* Closes the hole by moving back what probed past it (Knuth 6.4, algorithm R). */
static void unmap(struct order *o, uint64_t hash) {
    uint32_t hole = find(o, hash);
    ASSERT(o->map[hole]);
    for (uint32_t at = (hole + 1) & o->map_mask; o->map[at]; at = (at + 1) & o->map_mask) {
        uint32_t wanted = home(o, o->keys[o->map[at] - 1].hash);
        if (((at - wanted) & o->map_mask) < ((at - hole) & o->map_mask))
            continue;
        o->map[hole] = o->map[at];
        hole = at;
    }
    o->map[hole] = 0;
}

static uint32_t take_key(struct order *o) {
    uint32_t number = o->free_key;
    ASSERT(number != NONE); /* every key has an open event */
    o->free_key = o->keys[number].behind;
    o->keys[number] = (struct key){
        .state = KEY_IDLE, .head = NONE, .tail = NONE, .again_tail = NONE, .before = NONE, .behind = NONE};
    return number;
}

static uint32_t key_of(struct order *o, const struct flow_event *event) {
    bool keyed = o->kind == FLOW_BY_ALL || (o->kind == FLOW_BY_KEY && event->keyed);
    if (!keyed)
        return take_key(o);
    uint64_t hash = o->kind == FLOW_BY_ALL ? 0 : event->key;
    uint32_t at = find(o, hash);
    if (!o->map[at]) {
        o->map[at] = take_key(o) + 1;
        o->keys[o->map[at] - 1].hash = hash;
        o->keys[o->map[at] - 1].mapped = true;
    }
    return o->map[at] - 1;
}

/* --- Which keys are ready. ----------------------------------------------- */

static void join_line(struct order *o, uint32_t number) {
    struct key *k = &o->keys[number];
    k->before = o->last_ready;
    k->behind = NONE;
    if (o->last_ready == NONE)
        o->first_ready = number;
    else
        o->keys[o->last_ready].behind = number;
    o->last_ready = number;
}

static void leave_line(struct order *o, uint32_t number) {
    struct key *k = &o->keys[number];
    if (k->before == NONE)
        o->first_ready = k->behind;
    else
        o->keys[k->before].behind = k->behind;
    if (k->behind == NONE)
        o->last_ready = k->before;
    else
        o->keys[k->behind].before = k->before;
}

static void rest(struct order *o, uint32_t number) {
    struct key *k = &o->keys[number];
    if (k->state == KEY_READY)
        leave_line(o, number);
    if (k->state == KEY_ASLEEP)
        agenda_remove(o->asleep, number);
    k->state = KEY_IDLE;
}

static bool is_holding(const struct slot *s, bool is_head) {
    return s->rejected || s->attempts > 0 || (s->verdict == FLOW_HOLD && is_head);
}

static uint32_t followers_of(const struct key *k) {
    return k->held > 0 ? k->waiting : 0;
}

static void note_hold(struct order *o, struct key *k, struct slot *s, bool is_head) {
    if (s->holds || !is_holding(s, is_head))
        return;
    s->holds = true;
    o->followers -= followers_of(k);
    if (!s->started)
        k->waiting--;
    k->held++;
    o->held++;
    o->followers += followers_of(k);
}

static enum key_state next_state(const struct order *o, const struct key *k) {
    if (k->head == NONE)
        return KEY_IDLE;
    const struct slot *s = &o->slots[k->head];
    if (s->todo)
        return s->started || (s->seq < o->start_before && k->started < o->limit) ? KEY_READY : KEY_IDLE;
    return s->failed ? KEY_ASLEEP : KEY_IDLE; /* rejected, or not to be delivered: an operator's turn */
}

/* The one place where a key's state changes. */
static void arrange(struct order *o, uint32_t number) {
    struct key *k = &o->keys[number];
    if (k->head != NONE)
        note_hold(o, k, &o->slots[k->head], true);
    enum key_state next = next_state(o, k);
    if (next == k->state && next != KEY_ASLEEP)
        return;
    rest(o, number);
    if (next == KEY_READY)
        join_line(o, number);
    if (next == KEY_ASLEEP)
        agenda_add(o->asleep, number, o->slots[k->head].retry_us);
    k->state = next;
}

void order_stop_starting(struct order *o) {
    o->start_before = o->started_end;
    for (uint32_t i = 0; i < o->events; i++)
        if (o->keys[i].state != KEY_FREE)
            arrange(o, i);
}

/* --- A key's queue. ------------------------------------------------------ */

static void insert_behind(struct order *o, struct key *k, uint32_t before, uint32_t slot) {
    struct slot *s = &o->slots[slot];
    uint32_t *link = before == NONE ? &k->head : &o->slots[before].next;
    s->next = *link;
    *link = slot;
    if (s->next == NONE)
        k->tail = slot;
    s->queued = true;
}

static void queue_again(struct order *o, struct key *k, uint32_t slot) {
    uint64_t seq = o->slots[slot].seq;
    uint32_t before = NONE;
    if (k->again_tail != NONE && o->slots[k->again_tail].seq < seq)
        before = k->again_tail; /* the usual case: losses come in order */
    else
        for (uint32_t at = k->head; at != NONE && o->slots[at].seq < seq; at = o->slots[at].next)
            before = at;
    if (before == k->again_tail)
        k->again_tail = slot;
    insert_behind(o, k, before, slot);
}

static void pop(struct order *o, struct key *k) {
    struct slot *s = &o->slots[k->head];
    if (k->again_tail == k->head)
        k->again_tail = NONE;
    k->head = s->next;
    if (k->head == NONE)
        k->tail = NONE;
    s->next = NONE;
    s->queued = false;
}

void order_add(struct order *o, uint32_t slot, const struct flow_event *event) {
    struct slot *s = &o->slots[slot];
    ASSERT(s->key == NONE);
    s->key = key_of(o, event);
    struct key *k = &o->keys[s->key];
    ASSERT(k->tail == NONE || o->slots[k->tail].seq < s->seq);
    o->followers -= followers_of(k);
    k->events++;
    k->waiting++;
    o->followers += followers_of(k);
    insert_behind(o, k, k->tail, slot);
    arrange(o, s->key);
}

void order_requeue(struct order *o, uint32_t slot) {
    struct slot *s = &o->slots[slot];
    ASSERT(s->started);
    ASSERT(s->todo | s->failed | s->rejected);
    struct key *k = &o->keys[s->key];
    if (!s->queued)
        queue_again(o, k, slot);
    note_hold(o, k, s, k->head == slot);
    arrange(o, s->key);
}

static void free_key(struct order *o, uint32_t number) {
    struct key *k = &o->keys[number];
    ASSERT(k->head == NONE);
    ASSERT(k->held == 0);
    rest(o, number);
    if (k->mapped)
        unmap(o, k->hash);
    k->state = KEY_FREE;
    k->behind = o->free_key;
    o->free_key = number;
}

void order_give_up(struct order *o, uint32_t slot) {
    struct slot *s = &o->slots[slot];
    struct key *k = &o->keys[s->key];
    ASSERT(!(s->todo | s->failed | s->rejected));
    ASSERT(!s->queued || k->head == slot); /* nothing of its key is older */
    if (!s->queued)
        return;
    pop(o, k);
    if (s->flying)
        arrange(o, s->key);
}

void order_settle(struct order *o, uint32_t slot) {
    struct slot *s = &o->slots[slot];
    struct key *k = &o->keys[s->key];
    ASSERT(!s->queued);
    ASSERT(s->started || s->holds);
    o->followers -= followers_of(k);
    k->events--;
    k->started -= s->started;
    o->started -= s->started;
    if (s->holds) {
        k->held--;
        o->held--;
    }
    o->followers += followers_of(k);
    if (k->events == 0)
        free_key(o, s->key);
    else
        arrange(o, s->key);
}

void order_wake(struct order *o, int64_t now_us) {
    while (agenda_deadline_us(o->asleep) <= now_us) {
        uint32_t number = agenda_first(o->asleep);
        struct slot *s = &o->slots[o->keys[number].head];
        s->todo |= s->failed;
        s->failed = 0;
        arrange(o, number);
    }
}

bool order_any_ready(const struct order *o) {
    return o->first_ready != NONE;
}

static void start(struct order *o, struct key *k, struct slot *s) {
    ASSERT(k->started < o->limit);
    o->followers -= followers_of(k);
    s->started = true;
    if (s->seq >= o->started_end)
        o->started_end = s->seq + 1;
    k->started++;
    o->started++;
    k->waiting--;
    o->followers += followers_of(k);
    ASSERT(k->again_tail == NONE);
    k->again_tail = k->head;
}

void order_next(struct order *o, uint32_t *ret_slot, uint16_t *ret_destination) {
    uint32_t number = o->first_ready;
    ASSERT(number != NONE);
    struct key *k = &o->keys[number];
    uint32_t slot = k->head;
    struct slot *s = &o->slots[slot];
    ASSERT(s->todo);
    if (!s->started)
        start(o, k, s);
    uint16_t destination = (uint16_t)__builtin_ctz(s->todo);
    s->todo &= (uint16_t)~(1U << destination);
    s->flying |= (uint16_t)(1U << destination);
    if (!s->todo) {
        if (!(s->failed | s->rejected))
            pop(o, k);
        rest(o, number); /* to the end of the line */
        arrange(o, number);
    }
    *ret_slot = slot;
    *ret_destination = destination;
}

int64_t order_deadline_us(const struct order *o) {
    return agenda_deadline_us(o->asleep);
}

uint32_t order_started(const struct order *o) {
    return o->started;
}

uint32_t order_held(const struct order *o) {
    return o->held;
}

uint32_t order_followers(const struct order *o) {
    return o->followers;
}

/* --- Invariants. --------------------------------------------------------- */

static const char *key_broken(const struct order *o, const struct key *k) {
    uint32_t fresh = 0, again = NONE;
    for (uint32_t at = k->head, steps = 0; at != NONE; at = o->slots[at].next, steps++) {
        const struct slot *s = &o->slots[at];
        if (steps > o->events)
            return "a queue ends";
        if (!s->open || !s->queued || &o->keys[s->key] != k)
            return "a queue has open events of its key";
        if (s->next != NONE && o->slots[s->next].seq <= s->seq)
            return "a queue is in order of arrival";
        if (s->next == NONE && k->tail != at)
            return "a queue knows its end";
        if (s->started && fresh > 0)
            return "what goes again goes first";
        fresh += !s->started;
        again = s->started ? at : again;
    }
    if (again != k->again_tail)
        return "a queue knows its last event that goes again";
    if (k->events != k->started + fresh)
        return "events of a key are started or wait";
    if (k->started > o->limit)
        return "at most order.in_flight of a key have started";
    return k->state == next_state(o, k) ? NULL : "a key's state fits its first event";
}

static const char *line_broken(const struct order *o) {
    uint32_t in_line = 0, ready = 0, last = NONE;
    for (uint32_t at = o->first_ready; at != NONE && in_line <= o->events; at = o->keys[at].behind, in_line++) {
        if (o->keys[at].state != KEY_READY || o->keys[at].before != last)
            return "ready keys stand in line";
        last = at;
    }
    for (uint32_t i = 0; i < o->events; i++)
        ready += o->keys[i].state == KEY_READY;
    return ready == in_line && last == o->last_ready ? NULL : "every ready key stands in line";
}

const char *order_broken(const struct order *o) {
    uint32_t held = 0, followers = 0, started = 0, open = 0;
    for (uint32_t i = 0; i < o->events; i++) {
        const struct key *k = &o->keys[i];
        if (k->state == KEY_FREE)
            continue;
        if (k->events == 0)
            return "a key has open events";
        if (k->mapped && o->map[find(o, k->hash)] != i + 1)
            return "a key is found by its hash";
        const char *broken = key_broken(o, k);
        if (broken)
            return broken;
        held += k->held;
        followers += followers_of(k);
        started += k->started;
        open += k->events;
    }
    for (uint32_t i = 0; i < o->events; i++)
        open -= o->slots[i].open;
    if (open != 0)
        return "every open event has a key";
    if (line_broken(o))
        return line_broken(o);
    bool counted = held == o->held && followers == o->followers && started == o->started;
    return counted ? NULL : "events that hold, follow or have started are counted";
}
