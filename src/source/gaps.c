/* gaps: pure: tailing by position: what was read, which gaps are open, when one is proven dead */
#include "source/gaps.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "source/portion.h"

static_assert(GAPS_TURN_US <= GAPS_ROUND_US, "a round has turns");
static_assert(GAPS_LIST_US <= GAPS_LIST_SLOW_US, "slow is not faster");

enum stage {
    STAGE_RESTING, /* no read is wanted */
    STAGE_READY,   /* gaps_next decides */
    STAGE_ASKED,   /* a statement is out */
};

/* What is left of the read, in this order. */
enum step { STEP_DEAD, STEP_PAGE, STEP_LIST, STEP_WHO, STEP_ENDED };

struct gaps {
    struct gaps_options options;
    struct gap_set set;
    struct holders holders;
    int64_t position; /* reached; INT64_MIN: nothing */
    int64_t changes;  /* of our table gap, as they are stored */

    enum stage stage;
    enum step step;
    struct portion portion;
    bool caught_up;
    bool full;
    uint64_t dropped;

    struct gaps_statement asked;
    int64_t asked_us;
    struct ranges ranges; /* of the statement */
    uint32_t rows;        /* it has returned so far */
    int64_t row_position; /* of the last one, and of the first that was not kept */
    bool cut;
    bool cut_for_gaps; /* because there was no room for a gap */

    /* Proving. */
    int64_t drawn;      /* by the sequence, before the next list */
    uint64_t provable;  /* what the last list proves: live gaps listed before it, once a page doesn't show them */
    int64_t list_due_us;
    int64_t who_due_us;
    char who[HOLDERS_ID_MAX];

    /* The turn of dead gaps under way: `turn_count` of the list from `turn_at`. */
    size_t turn_at, turn_count;
    int64_t turn_due_us, round_since_us;
};

int gaps_new(const struct gaps_options *options, struct gaps **ret_gaps) {
    ASSERT(options->max > 0);
    ASSERT(options->retention_us >= 0);
    struct gaps *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->options = *options;
    portion_init(&g->portion);
    g->position = INT64_MIN;
    *ret_gaps = g;
    return 0;
}

void gaps_free(struct gaps *g) {
    if (!g)
        return;
    gap_set_done(&g->set);
    holders_done(&g->holders);
    ranges_done(&g->ranges);
    free(g);
}

/* Opening. ------------------------------------------------------------------ */

int gaps_open(struct gaps *g, const struct cursor_gaps *at, int64_t now_us) {
    gap_set_clear(&g->set);
    holders_forget(&g->holders);
    g->position = at->position;
    g->changes = at->changes;
    g->stage = STAGE_RESTING;
    g->full = false;
    g->provable = 0;
    g->drawn = INT64_MIN;
    g->list_due_us = g->turn_due_us = g->round_since_us = g->who_due_us = now_us;
    g->turn_at = g->turn_count = 0;
    g->who[0] = '\0';
    int r = 0;
    for (size_t i = 0; r == 0 && i < at->open.count; i++) {
        ASSERT(at->open.items[i].last < at->position);
        r = gap_set_add_live(&g->set, at->open.items[i], now_us);
    }
    return r;
}

int gaps_retain(struct gaps *g, struct range range, int64_t until_us) {
    ASSERT(g->stage == STAGE_RESTING);
    const struct gap_list *dead = &g->set.dead;
    bool behind = dead->count == 0 || dead->items[dead->count - 1].range.last < range.first;
    if (!behind || range.first > range.last || range.last >= g->position || gap_set_touches(&g->set, range))
        return 0;
    return gap_set_add_stored(&g->set, range, until_us);
}

void gaps_rewrite(struct gaps *g) {
    g->set.version++;
}

void gaps_drop(struct gaps *g, uint64_t count) {
    g->dropped += count;
}

/* Statements. --------------------------------------------------------------- */

void gaps_want(struct gaps *g, uint32_t events, uint64_t bytes) {
    ASSERT(g->stage == STAGE_RESTING);
    ASSERT(events > 0);
    portion_want(&g->portion, events, bytes);
    g->caught_up = false;
    g->step = STEP_DEAD;
    g->stage = STAGE_READY;
}

/* A list says nothing of a gap that the sequence has not reached. */
static bool is_drawn(const struct gaps *g, const struct gap *gap) {
    return gap->listing != 0 || gap->range.first <= g->drawn;
}

static bool list_is_due(const struct gaps *g, int64_t now_us) {
    bool any = g->set.live.count > 0 && is_drawn(g, &g->set.live.items[0]);
    return any && (now_us >= g->list_due_us || gap_set_unlisted(&g->set, g->drawn, GAPS_LIST_SOON) == GAPS_LIST_SOON);
}

static bool who_is_due(const struct gaps *g, int64_t now_us) {
    struct gaps_wait wait;
    if (!gaps_waits(g, now_us, &wait) || !wait.holder)
        return false;
    return now_us >= g->who_due_us || strcmp(wait.holder, g->who) != 0;
}

/* What keeps the save from coming that makes room is said by whoever waits for it. Those that are still
 * stored leave with a save, too, but an idle forwarder makes none: they don't count. */
static bool may_read(const struct gaps *g) {
    return g->set.gone.count < GAPS_GONE_MAX + g->options.max;
}

static bool is_due(const struct gaps *g, enum step step, int64_t now_us) {
    switch (step) {
    case STEP_DEAD:
        return g->set.dead.count > 0 && now_us >= g->turn_due_us && may_read(g);
    case STEP_PAGE:
        return g->portion.events > 0 && may_read(g);
    case STEP_LIST:
        return list_is_due(g, now_us);
    case STEP_WHO:
        return who_is_due(g, now_us);
    case STEP_ENDED:
        break;
    }
    return true;
}

static int ask_dead(struct gaps *g) {
    const struct gap_list *dead = &g->set.dead;
    if (g->turn_at >= dead->count)
        g->turn_at = 0;
    if (g->turn_at == 0)
        g->round_since_us = g->asked_us;
    g->turn_count = dead->count - g->turn_at < GAPS_TURN_MAX ? dead->count - g->turn_at : GAPS_TURN_MAX;
    int r = 0;
    for (size_t i = 0; r == 0 && i < g->turn_count; i++)
        r = ranges_add(&g->ranges, dead->items[g->turn_at + i].range);
    g->asked.kind = GAPS_DEAD;
    return r;
}

static int ask_page(struct gaps *g) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < g->set.live.count; i++)
        r = ranges_add(&g->ranges, g->set.live.items[i].range);
    g->asked.kind = GAPS_PAGE;
    g->asked.position = g->position;
    return r;
}

static void ask_who(struct gaps *g) {
    struct gaps_wait wait;
    bool waits = gaps_waits(g, g->asked_us, &wait);
    ASSERT(waits);
    snprintf(g->who, sizeof g->who, "%s", wait.holder);
    g->who_due_us = g->asked_us + GAPS_LIST_SLOW_US;
    g->asked.kind = GAPS_WHO;
    g->asked.holder = g->who;
}

static int ask(struct gaps *g, enum step step) {
    switch (step) {
    case STEP_DEAD:
        return ask_dead(g);
    case STEP_PAGE:
        return ask_page(g);
    case STEP_LIST:
        g->asked.kind = GAPS_LIST;
        holders_begin(&g->holders);
        return 0;
    case STEP_WHO:
        ask_who(g);
        return 0;
    case STEP_ENDED:
        break;
    }
    return 0;
}

int gaps_next(struct gaps *g, int64_t now_us, struct gaps_statement *ret_statement) {
    ASSERT(g->stage == STAGE_READY);
    while (!is_due(g, g->step, now_us))
        g->step++;
    if (g->step == STEP_ENDED) {
        g->stage = STAGE_RESTING;
        return GAPS_E_END;
    }
    g->asked = (struct gaps_statement){.limit = portion_limit(&g->portion), .ranges = &g->ranges};
    g->asked_us = now_us;
    g->rows = 0;
    g->row_position = INT64_MIN;
    g->cut = g->cut_for_gaps = false;
    ranges_clear(&g->ranges);
    int r = ask(g, g->step);
    if (r)
        return r;
    ranges_sort(&g->ranges);
    g->step++;
    g->stage = STAGE_ASKED;
    *ret_statement = g->asked;
    return 0;
}

/* Rows. --------------------------------------------------------------------- */

void gaps_drawn(struct gaps *g, int64_t drawn) {
    ASSERT(g->stage == STAGE_ASKED);
    ASSERT(g->asked.kind == GAPS_PAGE);
    g->drawn = drawn;
}

static bool fits_question(const struct gaps *g, int64_t position) {
    bool page = g->asked.kind == GAPS_PAGE;
    if ((!page && g->asked.kind != GAPS_DEAD) || g->rows >= g->asked.limit)
        return false;
    /* These stand for "nothing" and for no place at all. */
    if (position == INT64_MIN || position == INT64_MAX || position < g->row_position)
        return false;
    return (page && position > g->asked.position) || ranges_find(&g->ranges, position) < g->ranges.count;
}

static bool is_full(const struct gaps *g) {
    size_t max = g->options.max < GAPS_LIVE_MAX ? g->options.max : GAPS_LIVE_MAX;
    return g->set.live.count >= max;
}

/* Beyond the place: the positions between are a gap. *ret_keep false: there is no room for it. */
static int go_to(struct gaps *g, int64_t position, bool *ret_keep) {
    bool gap = g->position == INT64_MIN || position > g->position + 1;
    *ret_keep = true;
    if (gap && is_full(g)) {
        *ret_keep = false;
        return 0;
    }
    struct range range = {g->position == INT64_MIN ? INT64_MIN : g->position + 1, position - 1};
    int r = gap ? gap_set_add_live(&g->set, range, g->asked_us) : 0;
    if (r == 0)
        g->position = position;
    return r;
}

static int fill_dead(struct gaps *g, int64_t position) {
    const struct gap_list *dead = &g->set.dead;
    for (size_t i = 0; i < g->turn_count; i++) {
        if (!range_holds(dead->items[g->turn_at + i].range, position))
            continue;
        int r = gap_set_fill_dead(&g->set, g->turn_at + i, position);
        g->turn_count -= r == 0;
        return r;
    }
    /* What another row of this answer has left of its gap stands last. */
    size_t at = dead->count;
    do
        ASSERT(at > 0);
    while (!range_holds(dead->items[--at].range, position));
    return gap_set_fill_dead(&g->set, at, position);
}

static int fill_live(struct gaps *g, int64_t position, bool *ret_keep) {
    size_t at = gap_set_find(&g->set, position);
    ASSERT(at < g->set.live.count);
    const struct range *range = &g->set.live.items[at].range;
    bool cuts_in_two = range->first < position && position < range->last;
    *ret_keep = !cuts_in_two || g->set.live.count < CURSOR_OPEN_MAX;
    return *ret_keep ? gap_set_fill_live(&g->set, at, position) : 0;
}

static int take(struct gaps *g, int64_t position, bool *ret_keep) {
    *ret_keep = true;
    if (g->asked.kind == GAPS_DEAD)
        return fill_dead(g, position);
    return position > g->position ? go_to(g, position, ret_keep) : fill_live(g, position, ret_keep);
}

int gaps_row(struct gaps *g, int64_t position, uint64_t bytes, bool *ret_keep) {
    ASSERT(g->stage == STAGE_ASKED);
    if (!fits_question(g, position))
        return GAPS_E_ANSWER;
    /* Rows of one position can't be told apart by a place: they go together. */
    bool same_place = g->rows > 0 && position == g->row_position && !g->cut;
    bool fits = !g->cut && (same_place || portion_has_room(&g->portion, bytes)), keep = fits;
    int r = fits && !same_place ? take(g, position, &keep) : 0;
    if (r)
        return r;
    g->cut_for_gaps |= fits && !keep;
    portion_row(&g->portion, bytes, keep);
    g->rows++;
    if (!g->cut)
        g->row_position = position;
    g->cut = !keep;
    *ret_keep = keep;
    ASSERT(!keep || position <= g->position);
    return 0;
}

int gaps_holder(struct gaps *g, struct span id) {
    ASSERT(g->stage == STAGE_ASKED);
    if (g->asked.kind != GAPS_LIST)
        return GAPS_E_ANSWER;
    int r = holders_add(&g->holders, id);
    return r == HOLDERS_E_TOO_MANY ? GAPS_E_ANSWER : r;
}

/* Ends. --------------------------------------------------------------------- */

static bool returned_all(const struct gaps *g) {
    return !g->cut && g->rows < g->asked.limit;
}

/* Dead ones go first, those of which it is known longest. */
static int keep_to_max(struct gaps *g) {
    size_t count = g->set.live.count + g->set.dead.count;
    if (count <= g->options.max)
        return 0;
    size_t excess = count - g->options.max;
    if (excess > g->set.dead.count)
        excess = g->set.dead.count;
    int r = excess > 0 ? gap_set_forget(&g->set, 0, excess, NULL) : 0;
    if (r)
        return r;
    g->dropped += excess;
    g->turn_at = g->turn_at > excess ? g->turn_at - excess : 0;
    return 0;
}

/* The page has looked at all that stands there or below: its rows come by
 * position, and each that was kept is no part of a gap any more. */
static int64_t looked_upto(const struct gaps *g) {
    if (returned_all(g) || g->row_position > g->asked.position)
        return INT64_MAX;
    return g->cut ? g->row_position - 1 : g->row_position;
}

/* (d): the page was asked for after the list that proves them. A page that was cut
 * proves what lies before its row, else a row that finds no room for one gap more
 * would wait for ever. */
static int end_page(struct gaps *g, int64_t now_us) {
    g->caught_up = returned_all(g);
    g->full = g->cut_for_gaps;
    int64_t until_us = g->options.retention_us > 0 ? now_us + g->options.retention_us : INT64_MIN;
    int r = gap_set_bury(&g->set, g->provable, looked_upto(g), until_us);
    return r ? r : keep_to_max(g);
}

/* The time of some may be over; they have been looked at once more behind it. */
static int end_dead(struct gaps *g, int64_t now_us) {
    bool over[GAPS_TURN_MAX];
    bool any = false;
    for (size_t i = 0; i < g->turn_count; i++) {
        over[i] = returned_all(g) && g->set.dead.items[g->turn_at + i].time_us <= g->asked_us;
        any |= over[i];
    }
    size_t before = g->set.dead.count;
    int r = any ? gap_set_forget(&g->set, g->turn_at, g->turn_count, over) : 0;
    if (r)
        return r;
    g->turn_due_us = now_us + GAPS_TURN_US;
    if (!returned_all(g))
        return 0; /* once more */
    g->turn_at += g->turn_count - (before - g->set.dead.count);
    bool round_ends = g->turn_at >= g->set.dead.count;
    if (round_ends && g->turn_due_us < g->round_since_us + GAPS_ROUND_US)
        g->turn_due_us = g->round_since_us + GAPS_ROUND_US;
    return 0;
}

/* (b) for those that were seen since the last list, (c) for those of before. */
static int end_list(struct gaps *g, int64_t now_us) {
    holders_end(&g->holders);
    int r = gap_set_list(&g->set, g->holders.list, g->drawn);
    if (r)
        return r;
    g->provable = holders_oldest(&g->holders);
    const struct gap *newest = &g->set.live.items[g->set.live.count - 1];
    bool young = now_us - newest->time_us < GAPS_LIST_SLOW_US;
    g->list_due_us = now_us + (young ? GAPS_LIST_US : GAPS_LIST_SLOW_US);
    return 0;
}

int gaps_end(struct gaps *g, int64_t now_us) {
    ASSERT(g->stage == STAGE_ASKED);
    g->stage = STAGE_READY;
    switch (g->asked.kind) {
    case GAPS_PAGE:
        return end_page(g, now_us);
    case GAPS_DEAD:
        return end_dead(g, now_us);
    case GAPS_LIST:
        return end_list(g, now_us);
    case GAPS_WHO:
        break;
    }
    return 0;
}

bool gaps_caught_up(const struct gaps *g) {
    return g->caught_up;
}

/* Places. ------------------------------------------------------------------- */

struct gaps_mark gaps_mark(const struct gaps *g) {
    return (struct gaps_mark){g->position, g->set.version};
}

int gaps_cursor(struct gaps *g, struct gaps_mark mark, struct cursor_gaps *ret_cursor) {
    const struct ranges *open;
    int r = gap_set_open_at(&g->set, mark.version, &open);
    if (r)
        return r;
    *ret_cursor = (struct cursor_gaps){mark.position, *open, g->changes + gap_set_changed(&g->set, mark.version), {0}};
    ASSERT(open->count == 0 || open->items[open->count - 1].last < mark.position);
    return 0;
}

const struct gap_set *gaps_set(const struct gaps *g) {
    return &g->set;
}

void gaps_saved(struct gaps *g, uint64_t version) {
    g->changes += gap_set_changed(&g->set, version);
    gap_set_stored(&g->set, version);
    ASSERT(!gap_set_changed(&g->set, version));
}

void gaps_release(struct gaps *g, uint64_t version) {
    gap_set_release(&g->set, version);
}

/* Seeing. ------------------------------------------------------------------- */

bool gaps_waits(const struct gaps *g, int64_t now_us, struct gaps_wait *ret_wait) {
    const struct gap *gap = gap_set_oldest(&g->set);
    if (!gap || now_us - gap->time_us < GAPS_WAIT_US)
        return false;
    const struct holder *holder = gap->listing ? holders_first(&g->holders, gap->listing) : NULL;
    *ret_wait = (struct gaps_wait){
        .range = gap->range, .count = g->set.live.count, .since_us = gap->time_us,
        .holders = gap->listing ? holders_count(&g->holders, gap->listing) : 0,
        .holder = holder ? holder->id : NULL,
        .undrawn = gap->listing == 0 && gap->range.first > g->drawn,
    };
    return true;
}

void gaps_view(const struct gaps *g, struct gaps_view *ret_view) {
    *ret_view = (struct gaps_view){g->set.live.count, g->set.dead.count, g->full, g->dropped};
}

const char *gaps_broken(const struct gaps *g) {
    size_t live = g->set.live.count;
    if (live > 0 && g->set.live.items[live - 1].range.last >= g->position)
        return "gaps lie below the place";
    if (live > CURSOR_OPEN_MAX)
        return "live gaps fit into the cursor";
    return gap_set_broken(&g->set);
}
