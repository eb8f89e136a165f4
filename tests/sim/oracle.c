/* oracle: the promises, checked against what the models know */
#include "sim/oracle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void blame(struct world *w, const char *format, ...) PRINTF_LIKE(2, 3);
static void blame(struct world *w, const char *format, ...) {
    if (w->broken[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(w->broken, sizeof(w->broken), format, args);
    va_end(args);
}

static bool is_wanted(const struct postgres_row *row) {
    return !row->foreign && !row->filtered && row->verdict != FLOW_SKIP;
}

static bool is_delivered(const struct world *w, uint32_t row) {
    if (w->skipped[row])
        return true;
    for (uint16_t i = 0; i < w->pg.rows[row].destinations; i++)
        if (w->stored[row][i] == 0)
            return false;
    return true;
}

/* G6: first deliveries in table order. Rows of one key stand in the order in
 * which they were inserted, each after the writer of the one before had ended.
 * By `all`, what was committed before a row was inserted goes before it. The position
 * of a row that drew it early says nothing about its causes. */
static bool goes_before(const struct world *w, uint32_t before, uint32_t row) {
    const struct postgres_row *b = &w->pg.rows[before], *r = &w->pg.rows[row];
    if (!is_wanted(b) || !postgres_exists(&w->pg, before) || b->early || r->early)
        return false;
    if (w->daemon.options.order == FLOW_BY_ALL)
        return w->pg.writers[b->writer].committed_at <= row;
    return w->daemon.options.order == FLOW_BY_KEY && b->keyed && r->keyed && b->key == r->key;
}

static void check_order(struct world *w, uint32_t row) {
    /* More than one in flight is an explicit choice: later ones may overtake one that is nacked or returned. */
    if (w->daemon.options.key_in_flight > 1 && (w->refuse_percent > 0 || w->insert_unroutable > 0))
        return;
    for (uint32_t i = 0; i < row; i++)
        if (goes_before(w, i, row) && !is_delivered(w, i))
            blame(w, "G6: row %" PRIu32 " is delivered before row %" PRIu32 ", on which it follows", row, i);
}

void oracle_stored(struct world *w, uint32_t row, uint16_t destination) {
    if (w->pg.rows[row].foreign)
        blame(w, "a row with a transaction id from the future is delivered");
    if (w->stored[row][destination] == 0)
        check_order(w, row);
    else
        w->repeats++;
    w->stored[row][destination]++;
    const struct flow_options *o = &w->daemon.options;
    uint32_t each = (o->window_events + o->unsaved) * POSTGRES_DESTINATIONS_MAX;
    uint32_t failures = w->failures + w->daemon.renewals + w->daemon.reloads;
    if (w->repeats > failures * each + w->broker.refused_but_stored)
        blame(w, "G7: %" PRIu32 " repeats after %" PRIu32 " failures (row %" PRIu32 ")", w->repeats, failures, row);
}

void oracle_saved(struct world *w, const struct postgres_place *was) {
    struct postgres_place is;
    postgres_read_place(w->pg.checkpoint, &w->pg.gaps, &is);
    for (uint32_t i = 0; i < w->pg.row_count; i++) {
        if (!is_wanted(&w->pg.rows[i]) || !postgres_may_exist(&w->pg, i))
            continue;
        bool behind = postgres_is_behind(&w->pg, &is, i);
        if (behind && !is_delivered(w, i))
            blame(w, "G4: the checkpoint is past row %" PRIu32 ", which has not settled", i);
        if (!behind && was && postgres_is_behind(&w->pg, was, i))
            blame(w, "the checkpoint goes back before row %" PRIu32, i);
    }
}

bool oracle_stopped(struct world *w) {
    bool all = true;
    struct postgres_place is;
    postgres_read_place(w->pg.checkpoint, &w->pg.gaps, &is);
    for (uint32_t i = 0; i < w->pg.row_count; i++) {
        if (w->pg.rows[i].foreign || !postgres_exists(&w->pg, i) || postgres_is_behind(&w->pg, &is, i))
            continue;
        all = false;
        if (!is.by_gaps || !w->pg.rows[i].early) /* else in a gap that is looked at now and then */
            blame(w, "after a clean stop the checkpoint is not past row %" PRIu32, i);
    }
    return all;
}

void oracle_finished_early(struct world *w, const struct flow_view *view) {
    if (view->in_flight > 0)
        blame(w, "G11: it stopped before its deadline with %" PRIu32 " deliveries on the wire", view->in_flight);
    if (w->daemon.keep_call != CALL_NONE && w->daemon.database_up)
        blame(w, "G11: it stopped before its deadline with a save under way");
}

void oracle_check(struct world *w) {
    const struct daemon *d = &w->daemon;
    if (d->broken)
        blame(w, "%s", d->broken);
    if (!d->running)
        return;
    const char *broken = flow_broken(d->flow);
    if (broken)
        blame(w, "flow: %s", broken);
    struct flow_view view;
    flow_view(d->flow, &view);
    if (view.in_flight + view.ghosts > d->options.sink_in_flight)
        blame(w, "G9: more than sink.in_flight on the wire");
    if (view.events > d->options.window_events)
        blame(w, "G9: more events than the window has");
    if (view.bytes > d->options.window_bytes + w->bytes_max)
        blame(w, "G9: more bytes than the window and one row");
    if (view.events + view.unsaved > d->options.window_events + d->options.unsaved)
        blame(w, "G7: more events at risk than window.events + window.unsaved");
    if (view.in_flight + view.ghosts < confirms_open(d->confirms))
        blame(w, "every open tag belongs to a delivery");
}

static uint32_t first_missing(const struct world *w) {
    for (uint32_t i = 0; i < w->pg.row_count; i++)
        if (is_wanted(&w->pg.rows[i]) && postgres_exists(&w->pg, i) && !is_delivered(w, i))
            return i;
    return UINT32_MAX;
}

bool oracle_is_complete(const struct world *w) {
    return first_missing(w) == UINT32_MAX;
}

void oracle_blame(struct world *w) {
    uint32_t row = first_missing(w);
    if (row != UINT32_MAX)
        blame(w, "G1: row %" PRIu32 " was committed and never delivered", row);
    else
        blame(w, "G10: everything is delivered, and it does not come to rest");
}

void oracle_blame_repeats(struct world *w) {
    blame(w, "G7: a clean stop is followed by repeats");
}
