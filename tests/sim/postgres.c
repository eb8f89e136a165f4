/* postgres: a model of what a reader sees of a table while writers come, go and crash */
#include "sim/postgres.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define FOREIGN_XID UINT64_C(1000000)

void postgres_copy_text(char *to, const char *from) {
    size_t len = strlen(from);
    ASSERT(len < POSTGRES_TEXT_MAX);
    memcpy(to, from, len + 1);
}

void postgres_init(struct postgres *pg) {
    pg->row_count = pg->writer_count = 0;
    pg->next_xid = pg->durable_next_xid = 100;
    pg->latest_completed = 99;
    pg->log = pg->flushed = 0;
    pg->sequence = pg->sequence_logged = pg->sequence_durable = 0;
    pg->renames = false;
    pg->gaps.count = 0;
    pg->checkpoint[0] = 0;
    pg->lease = (struct postgres_lease){0};
}

/* --- Writers. ------------------------------------------------------------ */

static struct postgres_writer *running(struct postgres *pg, uint32_t writer) {
    bool is = writer < pg->writer_count && pg->writers[writer].state == WRITER_RUNNING;
    return is ? &pg->writers[writer] : NULL;
}

static bool is_open(const struct postgres_writer *w) {
    return w->state == WRITER_RUNNING || w->state == WRITER_PREPARED;
}

void postgres_begin(struct postgres *pg) {
    if (pg->writer_count < POSTGRES_WRITERS_MAX)
        pg->writers[pg->writer_count++] = (struct postgres_writer){.state = WRITER_RUNNING};
}

void postgres_take_xid(struct postgres *pg, uint32_t writer) {
    struct postgres_writer *w = running(pg, writer);
    if (w && w->xid == 0)
        w->xid = pg->next_xid++;
}

/* The unique index over stream and version makes the second writer of a stream wait. */
static bool waits(const struct postgres *pg, uint32_t writer, uint32_t key) {
    for (uint32_t i = 0; i < pg->row_count; i++) {
        const struct postgres_row *row = &pg->rows[i];
        if (row->key == key && row->writer != writer && !row->undone && is_open(&pg->writers[row->writer]))
            return true;
    }
    return false;
}

/* The record that covers a position may be written long before it is drawn, but never after. */
static int64_t next_position(struct postgres *pg) {
    if (pg->sequence == pg->sequence_logged) {
        pg->sequence_logged += POSTGRES_LOGGED_AHEAD;
        pg->log++;
    }
    return ++pg->sequence;
}

static void lock(struct postgres_writer *w) {
    w->savepoint_lock |= w->in_savepoint && !w->locked;
    w->locked = true;
}

void postgres_draw(struct postgres *pg, uint32_t writer, uint32_t count, bool locked) {
    struct postgres_writer *w = running(pg, writer);
    if (!w || w->drawn != 0)
        return;
    if (locked)
        lock(w);
    w->drawn = next_position(pg);
    for (w->drawn_last = w->drawn; count > 1; count--)
        w->drawn_last = next_position(pg);
}

static int64_t take_position(struct postgres *pg, struct postgres_writer *w) {
    if (w->drawn == 0)
        return next_position(pg);
    int64_t position = w->drawn;
    w->drawn = position == w->drawn_last ? 0 : position + 1;
    return position;
}

void postgres_unlock(struct postgres *pg) {
    for (uint32_t i = 0; i < pg->writer_count; i++)
        if (!is_open(&pg->writers[i]))
            pg->writers[i].locked = false;
}

bool postgres_insert(struct postgres *pg, uint32_t writer, const struct postgres_row *row) {
    struct postgres_writer *w = running(pg, writer);
    bool keyed = row->keyed && w && w->drawn == 0;
    if (!w || pg->row_count == POSTGRES_ROWS_MAX || (keyed && waits(pg, writer, row->key)))
        return false;
    postgres_take_xid(pg, writer);
    /* A sub-transaction has an id of its own, but the column holds the top one's (pg_current_xact_id). */
    if (w->in_savepoint && w->savepoint_xid == 0)
        w->savepoint_xid = pg->next_xid++;
    struct postgres_row *added = &pg->rows[pg->row_count++];
    *added = *row;
    added->keyed = keyed;
    lock(w);
    added->early = w->drawn != 0;
    added->position = take_position(pg, w);
    added->xid = w->xid;
    added->writer = writer;
    pg->log++;
    if (w->first_record == 0)
        w->first_record = pg->log;
    return true;
}

static void complete(struct postgres *pg, uint64_t xid) {
    if (xid > pg->latest_completed)
        pg->latest_completed = xid;
}

void postgres_savepoint(struct postgres *pg, uint32_t writer) {
    struct postgres_writer *w = running(pg, writer);
    if (!w || w->in_savepoint)
        return;
    w->in_savepoint = true;
    w->savepoint_row = pg->row_count;
    w->savepoint_xid = 0;
}

void postgres_rollback_to_savepoint(struct postgres *pg, uint32_t writer) {
    struct postgres_writer *w = running(pg, writer);
    if (!w || !w->in_savepoint)
        return;
    for (uint32_t i = w->savepoint_row; i < pg->row_count; i++)
        if (pg->rows[i].writer == writer)
            pg->rows[i].undone = true;
    complete(pg, w->savepoint_xid);
    w->in_savepoint = false;
    w->locked &= !w->savepoint_lock;
    w->savepoint_lock = false;
    w->drawn = 0;
}

void postgres_flush(struct postgres *pg) {
    pg->flushed = pg->log;
    pg->sequence_durable = pg->sequence_logged;
    for (uint32_t i = 0; i < pg->writer_count; i++) {
        const struct postgres_writer *w = &pg->writers[i];
        uint64_t highest = w->savepoint_xid > w->xid ? w->savepoint_xid : w->xid;
        if (w->first_record > 0 && highest >= pg->durable_next_xid)
            pg->durable_next_xid = highest + 1;
    }
}

void postgres_prepare(struct postgres *pg, uint32_t writer) {
    struct postgres_writer *w = running(pg, writer);
    if (!w || w->first_record == 0)
        return;
    w->state = WRITER_PREPARED;
    w->renamed = pg->renames;
    pg->log++;
    postgres_flush(pg);
}

/* It keeps its lock: that is given up a little later. */
static void end(struct postgres *pg, struct postgres_writer *w, enum postgres_state state) {
    complete(pg, w->xid);
    complete(pg, w->savepoint_xid);
    w->state = state;
}

void postgres_commit(struct postgres *pg, uint32_t writer, bool synchronous) {
    struct postgres_writer *w = &pg->writers[writer];
    if (writer >= pg->writer_count || !is_open(w))
        return;
    bool flush = synchronous || w->state == WRITER_PREPARED;
    end(pg, w, WRITER_COMMITTED);
    w->committed_at = pg->row_count;
    if (w->first_record == 0)
        return; /* wrote nothing: no record */
    w->commit_record = ++pg->log;
    if (flush)
        postgres_flush(pg);
}

void postgres_rollback(struct postgres *pg, uint32_t writer) {
    if (writer < pg->writer_count && is_open(&pg->writers[writer]))
        end(pg, &pg->writers[writer], WRITER_ENDED);
}

uint32_t postgres_any_open(const struct postgres *pg, struct random *random) {
    if (pg->writer_count == 0)
        return UINT32_MAX;
    uint32_t start = random_below(random, pg->writer_count);
    for (uint32_t i = 0; i < pg->writer_count; i++) {
        uint32_t writer = (start + i) % pg->writer_count;
        if (is_open(&pg->writers[writer]))
            return writer;
    }
    return UINT32_MAX;
}

void postgres_restore_row(struct postgres *pg) {
    if (pg->row_count == POSTGRES_ROWS_MAX || pg->writer_count == POSTGRES_WRITERS_MAX)
        return;
    pg->writers[pg->writer_count++] = (struct postgres_writer){.state = WRITER_COMMITTED};
    pg->rows[pg->row_count++] = (struct postgres_row){.position = next_position(pg),
                                                      .xid = FOREIGN_XID,
                                                      .writer = pg->writer_count - 1,
                                                      .foreign = true,
                                                      .destinations = 1,
                                                      .bytes = 1};
}

void postgres_crash(struct postgres *pg) {
    for (uint32_t i = 0; i < pg->writer_count; i++) {
        struct postgres_writer *w = &pg->writers[i];
        bool forgotten = w->state == WRITER_COMMITTED && w->commit_record > pg->flushed;
        if (w->state == WRITER_RUNNING || forgotten)
            w->state = WRITER_ENDED;
        if (w->first_record > pg->flushed)
            w->first_record = 0;
        w->renamed = true;
    }
    postgres_unlock(pg);
    pg->sequence = pg->sequence_logged = pg->sequence_durable;
    pg->log = pg->flushed;
    pg->next_xid = pg->durable_next_xid;
    pg->latest_completed = pg->next_xid - 1;
}

bool postgres_exists(const struct postgres *pg, uint32_t row) {
    const struct postgres_row *r = &pg->rows[row];
    return !r->undone && pg->writers[r->writer].state == WRITER_COMMITTED;
}

bool postgres_may_exist(const struct postgres *pg, uint32_t row) {
    const struct postgres_row *r = &pg->rows[row];
    return !r->undone && pg->writers[r->writer].state != WRITER_ENDED;
}

/* --- Snapshots. ---------------------------------------------------------- */

static void parse_snapshot(struct span text, struct postgres_snapshot *ret_snapshot) {
    char copy[POSTGRES_TEXT_MAX], *next;
    ASSERT(text.len < sizeof(copy));
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    ret_snapshot->xmin = strtoull(copy, &next, 10);
    ret_snapshot->xmax = strtoull(next + 1, &next, 10);
    ret_snapshot->count = 0;
    while (next + 1 < copy + text.len)
        ret_snapshot->running[ret_snapshot->count++] = strtoull(next + 1, &next, 10);
}

static bool is_running(const struct postgres_snapshot *s, uint64_t xid) {
    for (uint32_t i = 0; i < s->count; i++)
        if (s->running[i] == xid)
            return true;
    return false;
}

/* pg_visible_in_snapshot. */
static bool is_visible(const struct postgres_snapshot *s, uint64_t xid) {
    return xid < s->xmax && !is_running(s, xid);
}

/* xmax is the latest completed one + 1: a running id may be above it, and is not in the list then. */
static void print_snapshot(const struct postgres *pg, char *text) {
    uint64_t running[POSTGRES_WRITERS_MAX], xmax = pg->latest_completed + 1;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pg->writer_count; i++) {
        const struct postgres_writer *w = &pg->writers[i];
        if (!is_open(w) || w->xid == 0 || w->xid >= xmax)
            continue;
        uint32_t at = count++;
        for (; at > 0 && running[at - 1] > w->xid; at--)
            running[at] = running[at - 1];
        running[at] = w->xid;
    }
    int len = snprintf(text, POSTGRES_TEXT_MAX, "%" PRIu64 ":%" PRIu64 ":", count > 0 ? running[0] : xmax, xmax);
    for (uint32_t i = 0; i < count; i++)
        len += snprintf(text + len, POSTGRES_TEXT_MAX - (size_t)len, "%s%" PRIu64, i > 0 ? "," : "", running[i]);
    ASSERT(len < POSTGRES_TEXT_MAX);
}

/* --- Statements of the plan (source/plan.h). ------------------------------ */

static void add_row(const struct postgres *pg, struct postgres_result *result, uint32_t row) {
    uint32_t at = result->row_count++;
    for (; at > 0 && pg->rows[result->rows[at - 1]].position > pg->rows[row].position; at--)
        result->rows[at] = result->rows[at - 1];
    result->rows[at] = row;
}

static void execute_small(struct postgres *pg, const struct plan_statement *st, struct postgres_result *result) {
    struct postgres_snapshot s, n;
    print_snapshot(pg, result->n);
    parse_snapshot(st->s, &s);
    parse_snapshot(span_of(result->n), &n);
    int64_t highest = INT64_MIN;
    for (uint32_t i = 0; i < pg->row_count; i++) {
        uint64_t xid = pg->rows[i].xid;
        if (!postgres_exists(pg, i))
            continue;
        if (pg->rows[i].position > highest)
            highest = pg->rows[i].position;
        bool above = xid >= s.xmax && xid < n.xmax;
        bool ended = is_running(&s, xid) && !is_running(&n, xid);
        if (above || ended)
            add_row(pg, result, i);
    }
    result->overflow = result->row_count > st->limit;
    result->end = highest;
    if (result->overflow)
        result->row_count = 0;
    else if (result->row_count > 0)
        result->end = pg->rows[result->rows[result->row_count - 1]].position;
}

static void execute_first(struct postgres *pg, const struct plan_statement *st, struct postgres_result *result) {
    struct postgres_snapshot s, n;
    parse_snapshot(st->s, &s);
    parse_snapshot(st->n, &n);
    for (uint32_t i = 0; i < pg->row_count; i++) {
        const struct postgres_row *row = &pg->rows[i];
        if (!postgres_exists(pg, i) || row->position <= st->position || row->xid < s.xmax || row->xid >= n.xmax)
            continue;
        if (!result->any || row->position < result->first)
            result->first = row->position;
        result->any = true;
    }
}

static void execute_page(struct postgres *pg, const struct plan_statement *st, struct postgres_result *result) {
    struct postgres_snapshot s, n;
    parse_snapshot(st->s, &s);
    parse_snapshot(st->n, &n);
    for (uint32_t i = 0; i < pg->row_count; i++) {
        const struct postgres_row *row = &pg->rows[i];
        if (!postgres_exists(pg, i) || row->position <= st->position || row->position > st->end)
            continue;
        bool ended = is_running(&s, row->xid) && !is_running(&n, row->xid);
        bool above = row->position >= st->first && row->xid >= s.xmax && is_visible(&n, row->xid);
        if (ended || above)
            add_row(pg, result, i);
    }
    if (result->row_count > st->limit)
        result->row_count = st->limit;
}

void postgres_execute(struct postgres *pg, const struct plan_statement *statement, struct postgres_result *ret_result) {
    ret_result->n[0] = 0;
    ret_result->overflow = ret_result->any = false;
    ret_result->end = ret_result->first = 0;
    ret_result->row_count = 0;
    switch (statement->kind) {
    case PLAN_SMALL:
        execute_small(pg, statement, ret_result);
        break;
    case PLAN_FIRST:
        execute_first(pg, statement, ret_result);
        break;
    case PLAN_PAGE:
        execute_page(pg, statement, ret_result);
        break;
    }
}

/* --- Statements of the gaps (source/gaps.h). ------------------------------ */

static void list_holders(const struct postgres *pg, struct postgres_result *result) {
    for (uint32_t i = 0; i < pg->writer_count; i++) {
        const struct postgres_writer *w = &pg->writers[i];
        if (!w->locked)
            continue;
        char *id = result->holders[result->holder_count++];
        if (w->renamed)
            snprintf(id, HOLDERS_ID_MAX, "-1/%" PRIu64, w->xid);
        else
            snprintf(id, HOLDERS_ID_MAX, "%" PRIu32 "/1", i);
    }
}

static void find_rows(const struct postgres *pg, const struct gaps_statement *st, struct postgres_result *result) {
    for (uint32_t i = 0; i < pg->row_count; i++) {
        int64_t position = pg->rows[i].position;
        bool above = st->kind == GAPS_PAGE && position > st->position;
        if (postgres_exists(pg, i) && (above || ranges_find(st->ranges, position) < st->ranges->count))
            add_row(pg, result, i);
    }
    if (result->row_count > st->limit)
        result->row_count = st->limit;
}

void postgres_execute_gaps(const struct postgres *pg, const struct gaps_statement *statement, struct postgres_result *ret_result) {
    ret_result->row_count = ret_result->holder_count = 0;
    ret_result->drawn = pg->sequence > 0 ? pg->sequence : INT64_MIN;
    switch (statement->kind) {
    case GAPS_PAGE:
    case GAPS_DEAD:
        find_rows(pg, statement, ret_result);
        break;
    case GAPS_LIST:
        list_holders(pg, ret_result);
        break;
    case GAPS_WHO:
        break;
    }
}

/* --- The checkpoint row. -------------------------------------------------- */

/* It is a transaction too; its commit takes all before it to disk. */
static void write_checkpoint(struct postgres *pg) {
    uint64_t xid = pg->next_xid++;
    complete(pg, xid);
    pg->log++;
    postgres_flush(pg);
    if (xid >= pg->durable_next_xid)
        pg->durable_next_xid = xid + 1;
}

static bool is_lease_of(const struct postgres *pg, const struct postgres_lease *lease) {
    return pg->lease.owner == lease->owner && pg->lease.epoch == lease->epoch;
}

bool postgres_take(struct postgres *pg, const char *previous, const struct postgres_lease *loaded, uint32_t owner,
                   bool gone, int64_t now_us, int64_t until_us) {
    if (strcmp(pg->checkpoint, previous) != 0 || !is_lease_of(pg, loaded))
        return false;
    if (pg->lease.owner != owner && !gone && pg->lease.until_us > now_us)
        return false;
    pg->lease = (struct postgres_lease){owner, loaded->epoch + 1, until_us};
    write_checkpoint(pg);
    return true;
}

bool postgres_extend(struct postgres *pg, const struct postgres_lease *lease, int64_t until_us) {
    if (!is_lease_of(pg, lease))
        return false;
    pg->lease.until_us = until_us;
    write_checkpoint(pg);
    return true;
}

bool postgres_save(struct postgres *pg, const char *previous, const char *text, const struct postgres_lease *lease,
                   int64_t until_us) {
    if (strcmp(pg->checkpoint, previous) != 0 || (previous[0] && !is_lease_of(pg, lease)))
        return false;
    postgres_copy_text(pg->checkpoint, text);
    pg->lease = (struct postgres_lease){lease->owner, lease->epoch, until_us};
    write_checkpoint(pg);
    return true;
}

static bool is_change(const struct postgres_gaps *gaps, struct range range) {
    for (uint32_t i = 0; i < gaps->count; i++)
        if (gaps->items[i].range.first == range.first)
            return true;
    return false;
}

static void put_gap(struct postgres_gaps *gaps, struct postgres_gap gap) {
    ASSERT(gaps->count < POSTGRES_GAPS_MAX);
    uint32_t at = gaps->count++;
    for (; at > 0 && gaps->items[at - 1].range.first > gap.range.first; at--)
        gaps->items[at] = gaps->items[at - 1];
    gaps->items[at] = gap;
}

void postgres_change_gaps(struct postgres *pg, const struct postgres_changes *changes) {
    uint32_t kept = 0, gone = changes->gone.count;
    for (uint32_t i = 0; i < pg->gaps.count; i++) {
        if (is_change(&changes->gone, pg->gaps.items[i].range))
            gone--;
        else
            pg->gaps.items[kept++] = pg->gaps.items[i];
    }
    ASSERT(gone == 0);
    pg->gaps.count = kept;
    for (uint32_t i = 0; i < changes->more.count; i++)
        put_gap(&pg->gaps, changes->more.items[i]);
}

static void read_gaps(const char *text, const struct postgres_gaps *gaps, struct postgres_place *place) {
    struct cursor_gaps cursor;
    struct error error;
    ASSERT(cursor_parse_gaps(span_of(text), &cursor, &error) == 0);
    place->position = cursor.position;
    place->open = *gaps;
    for (size_t i = 0; i < cursor.open.count; i++)
        put_gap(&place->open, (struct postgres_gap){cursor.open.items[i], 0});
    cursor_gaps_done(&cursor);
}

void postgres_read_place(const char *text, const struct postgres_gaps *gaps, struct postgres_place *ret_place) {
    struct cursor cursor;
    struct error error;
    enum source_mode mode;
    ASSERT(cursor_mode(span_of(text), &mode, &error) == 0);
    ret_place->by_gaps = mode == SOURCE_MODE_GAPS;
    if (ret_place->by_gaps) {
        read_gaps(text, gaps, ret_place);
        return;
    }
    ASSERT(cursor_parse(span_of(text), &cursor, &error) == 0);
    parse_snapshot(cursor.s, &ret_place->s);
    ret_place->in_target = !span_absent(cursor.n);
    ret_place->position = cursor.position;
    if (ret_place->in_target)
        parse_snapshot(cursor.n, &ret_place->n);
}

static bool is_open_at(const struct postgres_place *place, int64_t position) {
    for (uint32_t i = 0; i < place->open.count; i++)
        if (place->open.items[i].range.first <= position && position <= place->open.items[i].range.last)
            return true;
    return false;
}

bool postgres_is_behind(const struct postgres *pg, const struct postgres_place *place, uint32_t row) {
    const struct postgres_row *r = &pg->rows[row];
    if (place->by_gaps)
        return r->position <= place->position && !is_open_at(place, r->position);
    return is_visible(&place->s, r->xid) ||
           (place->in_target && is_visible(&place->n, r->xid) && r->position <= place->position);
}
