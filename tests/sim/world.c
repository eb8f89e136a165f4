/* world: one schedule: writers, server, broker, daemon, faults; and what must hold after every step */
#include "sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "sim/oracle.h"

#define CALM_ROUNDS_MAX 4000
#define STOP_TIMEOUT_US 1000000

static void note(struct world *w, const char *format, ...) PRINTF_LIKE(2, 3);
static void note(struct world *w, const char *format, ...) {
    if (!w->trace || w->trace_len + 200 > WORLD_TRACE_MAX)
        return;
    w->trace_len += (size_t)snprintf(w->trace + w->trace_len, 60, "%4" PRIu32 " %9" PRId64 " us  ", w->step, w->now_us);
    va_list args;
    va_start(args, format);
    w->trace_len += (size_t)vsnprintf(w->trace + w->trace_len, 120, format, args);
    va_end(args);
    w->trace[w->trace_len++] = '\n';
    w->trace[w->trace_len] = 0;
}

/* --- Writers. ------------------------------------------------------------- */

static struct postgres_row any_row(struct world *w) {
    struct random *r = &w->luck;
    struct postgres_row row = {
        .key = random_below(r, POSTGRES_KEYS),
        .keyed = !random_percent(r, w->insert_unkeyed),
        .filtered = random_percent(r, w->insert_filtered),
        .destinations = random_percent(r, 80) ? 1 : (uint16_t)random_between(r, 1, POSTGRES_DESTINATIONS_MAX),
        .bytes = random_between(r, 1, w->bytes_max),
        .poison = random_percent(r, w->insert_poison),
        .unroutable = random_percent(r, w->insert_unroutable),
    };
    row.verdict = random_percent(r, w->insert_hold) ? FLOW_HOLD : random_percent(r, 5) ? FLOW_SKIP : FLOW_DELIVER;
    return row;
}

static void insert(struct world *w, uint32_t writer) {
    uint32_t count = random_between(&w->luck, 1, w->batch_max);
    for (uint32_t i = 0; i < count; i++) {
        struct postgres_row row = any_row(w);
        if (!postgres_insert(&w->pg, writer, &row))
            return;
        const struct postgres_row *added = &w->pg.rows[w->pg.row_count - 1];
        note(w, "writer %u inserts row %u: position %" PRId64 ", xid %" PRIu64 ", key %u%s%s%s%s%s%s, to %u", writer,
             w->pg.row_count - 1, added->position, added->xid, added->key, added->keyed ? "" : " (none)",
             added->filtered ? ", filtered" : "", added->verdict == FLOW_HOLD ? ", unmatched" : "",
             added->verdict == FLOW_SKIP ? ", skipped" : "", added->poison ? ", poison" : "",
             added->unroutable ? ", unroutable" : "", added->destinations);
    }
}

/* Begins, inserts, ends, and is gone: it keeps no gap open. */
static void write_at_once(struct world *w) {
    uint32_t writer = w->pg.writer_count;
    postgres_begin(&w->pg);
    if (writer == w->pg.writer_count)
        return;
    insert(w, writer);
    if (random_percent(&w->luck, 20))
        postgres_rollback(&w->pg, writer);
    else
        postgres_commit(&w->pg, writer, random_percent(&w->luck, 50));
    postgres_unlock(&w->pg);
    note(w, "writer %u is done", writer);
}

static void write_something(struct world *w, enum world_action action) {
    struct postgres *pg = &w->pg;
    if (action == ACT_SHORT) {
        write_at_once(w);
        return;
    }
    uint32_t writer = postgres_any_open(pg, &w->luck);
    if (action == ACT_BEGIN || action == ACT_RESTORE || action == ACT_UNLOCK || action == ACT_FLUSH) {
        if (action == ACT_BEGIN)
            postgres_begin(pg);
        if (action == ACT_RESTORE)
            postgres_restore_row(pg);
        if (action == ACT_UNLOCK)
            postgres_unlock(pg);
        if (action == ACT_FLUSH)
            postgres_flush(pg);
        return;
    }
    if (writer == UINT32_MAX)
        return;
    if (action == ACT_INSERT)
        insert(w, writer);
    if (action == ACT_TAKE_XID)
        postgres_take_xid(pg, writer);
    if (action == ACT_DRAW || action == ACT_DRAW_EARLY)
        postgres_draw(pg, writer, random_between(&w->luck, 1, 3), action == ACT_DRAW);
    if (action == ACT_SAVEPOINT)
        postgres_savepoint(pg, writer);
    if (action == ACT_UNDO)
        postgres_rollback_to_savepoint(pg, writer);
    if (action == ACT_PREPARE)
        postgres_prepare(pg, writer);
    if (action == ACT_COMMIT || action == ACT_COMMIT_ASYNC)
        postgres_commit(pg, writer, action == ACT_COMMIT);
    if (action == ACT_ROLLBACK)
        postgres_rollback(pg, writer);
    static const char *const names[ACT_COUNT] = {
        [ACT_TAKE_XID] = "takes an xid", [ACT_DRAW] = "draws positions", [ACT_DRAW_EARLY] = "draws positions without the lock",
        [ACT_SAVEPOINT] = "savepoint", [ACT_UNDO] = "rolls back to its savepoint", [ACT_PREPARE] = "prepares",
        [ACT_COMMIT] = "commits", [ACT_COMMIT_ASYNC] = "commits asynchronously", [ACT_ROLLBACK] = "rolls back",
    };
    if (names[action])
        note(w, "writer %u %s (drawn: %" PRId64 ")", writer, names[action], pg->writers[writer].drawn);
}

/* --- What goes its way, faults, operators. -------------------------------- */

static bool store(void *world, uint32_t row, uint16_t destination) {
    struct world *w = world;
    if (w->pg.rows[row].unroutable && destination == 0 && !w->calm)
        return false;
    note(w, "broker stores row %u (destination %u)", row, destination);
    oracle_stored(w, row, destination);
    return true;
}

static bool save(void *world, const struct daemon_save *save) {
    struct world *w = world;
    struct postgres_place before, *was = NULL;
    if (w->pg.checkpoint[0]) {
        postgres_read_place(w->pg.checkpoint, &w->pg.gaps, &before);
        was = &before;
    }
    bool saved = postgres_save(&w->pg, save->previous, save->text, &save->lease, w->now_us + w->daemon.options.lease_us);
    note(w, "checkpoint %s%s", saved ? "saved: " : "refused: ", save->text);
    if (!saved)
        return false;
    postgres_change_gaps(&w->pg, &save->changes);
    for (uint32_t i = 0; i < w->pg.gaps.count; i++)
        note(w, "  dead: %" PRId64 " to %" PRId64, w->pg.gaps.items[i].range.first, w->pg.gaps.items[i].range.last);
    oracle_saved(w, was);
    return true;
}

/* A failure after which repeats are allowed. */
static void fail(struct world *w, const char *what) {
    w->failures++;
    note(w, "%s", what);
}

static void start(struct world *w) {
    if (w->daemon.running)
        return;
    note(w, "daemon starts");
    w->stopping = w->paused = false;
    daemon_start(&w->daemon, w->now_us);
}

static void kill_daemon(struct world *w) {
    fail(w, "daemon is killed");
    daemon_kill(&w->daemon);
    w->stopping = false;
}

static void stop(struct world *w) {
    if (w->stopping)
        return;
    w->stopping = true;
    w->stop_deadline_us = w->now_us + STOP_TIMEOUT_US;
    note(w, "daemon is told to stop");
    flow_stop(w->daemon.flow, w->now_us, w->stop_deadline_us);
}

static void finish(struct world *w) {
    /* G7: a clean stop with nothing held repeats nothing. */
    struct flow_view view;
    flow_view(w->daemon.flow, &view);
    bool clean = view.unsaved == 0 && view.started == 0 && view.ghosts == 0 && w->daemon.keep_call == CALL_NONE;
    if (w->now_us < w->stop_deadline_us)
        oracle_finished_early(w, &view);
    if (!clean)
        w->failures++;
    note(w, "daemon has stopped%s", clean ? " clean" : "");
    daemon_kill(&w->daemon);
    w->stopping = false;
}

static void wait(struct world *w) {
    int64_t due_us = w->daemon.running ? daemon_deadline_us(&w->daemon) : CLOCK_NEVER;
    int64_t some_us = w->now_us + random_between(&w->luck, 1, random_percent(&w->luck, 20) ? 300000 : 30000);
    bool exact = random_percent(&w->luck, 70) && due_us != CLOCK_NEVER && due_us > w->now_us;
    w->now_us = exact ? due_us : some_us;
}

static void go_its_way(struct world *w, enum world_action action) {
    struct daemon *d = &w->daemon;
    const struct broker_queue queue = {.store = store, .world = w};
    if (action == ACT_EXECUTE_TAIL && daemon_execute_tail(d))
        note(w, "tail statement '%s' executed: %u rows, %u holders", tail_asked(&d->tail), d->tail.result.row_count,
             d->tail_options.mode == SOURCE_MODE_GAPS ? d->tail.result.holder_count : 0);
    if (action == ACT_EXECUTE_KEEP && daemon_execute_keep(d, w->now_us, save, w) && !w->calm && random_percent(&w->luck, 40))
        daemon_execute_late(d, save, w);
    if (action == ACT_TAKE_TAIL)
        daemon_take_tail(d, w->now_us, random_between(&w->luck, 1, 8));
    if (action == ACT_TAKE_KEEP)
        daemon_take_keep(d, w->now_us);
    if (action == ACT_BROKER_TAKE && !w->broker.stalled)
        broker_take(&w->broker, &queue, &w->luck, w->calm ? 0 : w->refuse_percent);
    if (action == ACT_BROKER_ANSWER && !w->broker.stalled)
        broker_answer(&w->broker, d->confirms, &w->luck);
    if (action == ACT_CONNECT_DATABASE)
        daemon_connect_database(d, w->now_us);
    if (action == ACT_CONNECT_SINK)
        daemon_connect_sink(d, w->now_us);
    if (action == ACT_WAKE)
        flow_wake(d->flow, w->now_us);
}

/* What is written down first stays true when the daemon dies right after it. */
static void skip(struct world *w) {
    struct daemon *d = &w->daemon;
    struct flow_view view;
    flow_view(d->flow, &view);
    if (!d->database_up || !view.any_unsettled || view.oldest_hold == FLOW_HOLD_NONE)
        return;
    uint32_t row = d->rows[view.oldest_slot];
    w->skipped[row] = true;
    note(w, "row %u is skipped by an operator", row);
    flow_skip(d->flow, w->now_us);
}

#define RIVAL UINT32_MAX

/* It delivers nothing, so it moves nothing; but it may, from now on. */
static void compete(struct world *w) {
    struct postgres *pg = &w->pg;
    int64_t until_us = w->now_us + random_between(&w->luck, 1, (uint32_t)w->daemon.options.lease_us);
    if (pg->checkpoint[0] == 0)
        return;
    struct postgres_lease lease = pg->lease;
    if (lease.owner == RIVAL && random_percent(&w->luck, 50))
        postgres_extend(pg, &lease, w->now_us);
    else if (postgres_take(pg, pg->checkpoint, &lease, RIVAL, false, w->now_us, until_us))
        fail(w, "another instance takes the lease");
}

static void break_something(struct world *w, enum world_action action) {
    struct daemon *d = &w->daemon;
    if (action == ACT_FAIL_SAVE && daemon_fail_save(d, w->now_us))
        note(w, "a save is refused by the server");
    if (action == ACT_LOSE_DATABASE) {
        fail(w, "a connection to the database dies");
        daemon_lose_database(d, w->now_us);
    }
    if (action == ACT_LOSE_SINK && w->broker.up) {
        fail(w, "the channel dies");
        daemon_lose_sink(d, w->now_us);
    }
    if (action == ACT_KILL)
        kill_daemon(w);
    if (action == ACT_STOP)
        stop(w);
    if (action == ACT_PAUSE) {
        w->paused = !w->paused;
        flow_pause(d->flow, w->now_us, w->paused);
    }
    if (action == ACT_SKIP)
        skip(w);
}

static void crash_database(struct world *w) {
    fail(w, "the database crashes");
    if (w->daemon.running)
        daemon_lose_database(&w->daemon, w->now_us);
    w->daemon.late_count = 0;
    postgres_crash(&w->pg);
}

static void go_round(struct world *w);

static void act(struct world *w, enum world_action action) {
    const struct broker_queue queue = {.store = store, .world = w};
    if (action <= ACT_FLUSH)
        write_something(w, action);
    else if (action == ACT_WAIT)
        wait(w);
    else if (action == ACT_START)
        start(w);
    else if (action == ACT_LATE_SAVE)
        daemon_execute_late(&w->daemon, save, w);
    else if (action == ACT_LATE_MESSAGE)
        broker_take_late(&w->broker, &queue);
    else if (action == ACT_CRASH_DATABASE)
        crash_database(w);
    else if (action == ACT_STALL)
        w->broker.stalled = !w->broker.stalled;
    else if (action == ACT_RIVAL)
        compete(w);
    else if (action == ACT_ROUND)
        go_round(w);
    else if (!w->daemon.running)
        return;
    else if (action < ACT_LATE_SAVE)
        go_its_way(w, action);
    else
        break_something(w, action);
}

/* --- The schedule. -------------------------------------------------------- */

static enum world_action choose(struct world *w) {
    uint32_t at = random_below(&w->random, w->weight_sum);
    enum world_action action = 0;
    while (at >= w->weights[action])
        at -= w->weights[action++];
    return action;
}

/* Each schedule has its own world: what is rare in one is common in the next
 * (Groce and others, "Swarm testing", 2012). */
static void set_weights(struct world *w, uint64_t left_out) {
    static const uint8_t usual[ACT_COUNT] = {
        [ACT_SHORT] = 10, [ACT_BEGIN] = 15, [ACT_TAKE_XID] = 3, [ACT_INSERT] = 25, [ACT_DRAW] = 6,
        [ACT_DRAW_EARLY] = 2, [ACT_UNLOCK] = 10, [ACT_SAVEPOINT] = 3, [ACT_UNDO] = 2,
        [ACT_PREPARE] = 2, [ACT_COMMIT] = 12, [ACT_COMMIT_ASYNC] = 12, [ACT_ROLLBACK] = 3, [ACT_RESTORE] = 1,
        [ACT_FLUSH] = 2, [ACT_EXECUTE_TAIL] = 20, [ACT_EXECUTE_KEEP] = 20, [ACT_TAKE_TAIL] = 20,
        [ACT_TAKE_KEEP] = 20, [ACT_BROKER_TAKE] = 20, [ACT_BROKER_ANSWER] = 20, [ACT_WAIT] = 15,
        [ACT_START] = 10, [ACT_CONNECT_DATABASE] = 10, [ACT_CONNECT_SINK] = 10, [ACT_WAKE] = 2,
        [ACT_ROUND] = 20, [ACT_LATE_SAVE] = 2, [ACT_LATE_MESSAGE] = 2, [ACT_FAIL_SAVE] = 2, [ACT_RIVAL] = 3,
        [ACT_LOSE_DATABASE] = 3, [ACT_CRASH_DATABASE] = 3, [ACT_LOSE_SINK] = 3, [ACT_STALL] = 2, [ACT_KILL] = 3,
        [ACT_STOP] = 2, [ACT_PAUSE] = 1, [ACT_SKIP] = 2,
    };
    w->weight_sum = 0;
    for (int i = 0; i < ACT_COUNT; i++) {
        bool is_needed = i == ACT_INSERT || i == ACT_COMMIT || i == ACT_UNLOCK ||
                         (i >= ACT_EXECUTE_TAIL && i <= ACT_CONNECT_SINK);
        uint32_t factor = (const uint8_t[]){0, 1, 2, 4, 8}[random_between(&w->random, is_needed ? 1 : 0, 4)];
        w->weights[i] = left_out >> i & 1 ? 0 : usual[i] * factor;
        w->weight_sum += w->weights[i];
    }
}

static uint32_t sometimes(struct world *w, uint32_t percent) {
    return random_percent(&w->random, 30) ? percent : 0;
}

static void set_options(struct world *w) {
    struct random *r = &w->random;
    w->daemon.options = (struct flow_options){
        .window_events = random_between(r, 1, 8),
        .window_bytes = random_between(r, 100, 10000),
        .unsaved = random_between(r, 1, 12),
        .sink_in_flight = random_between(r, 1, 6),
        .order = random_percent(r, 80) ? FLOW_BY_KEY : random_percent(r, 50) ? FLOW_BY_ALL : FLOW_BY_NONE,
        .key_in_flight = random_percent(r, 85) ? 1 : random_between(r, 2, 4),
        .retry = {.initial_us = 1000, .max_us = 20000, .multiplier = 2},
        .poll_min_us = 1000,
        .poll_max_us = 16000,
        .save_interval_us = random_percent(r, 50) ? 1000 : 20000,
        .ghost_timeout_us = 500000,
        .lease_us = random_percent(r, 50) ? 2000000 : random_between(r, 20000, 200000),
    };
    w->insert_hold = sometimes(w, 10);
    w->insert_filtered = sometimes(w, 30);
    w->insert_poison = sometimes(w, 10);
    w->insert_unroutable = sometimes(w, 15);
    w->insert_unkeyed = sometimes(w, 30);
    w->refuse_percent = sometimes(w, 20);
    w->bytes_max = random_between(r, 10, 4000);
    w->batch_max = random_percent(r, 70) ? 3 : 20;
}

static void set_weight(struct world *w, enum world_action action, uint32_t weight) {
    w->weight_sum += weight - w->weights[action];
    w->weights[action] = weight;
}

/* Few long transactions among many short ones: then gaps are proven dead, and
 * who draws a position early has time to be overtaken. */
static void keep_writers_short(struct world *w) {
    static const uint8_t weights[ACT_COUNT] = {
        [ACT_SHORT] = 20, [ACT_ROUND] = 60, [ACT_WAIT] = 30, [ACT_BEGIN] = 4, [ACT_INSERT] = 4,
        [ACT_DRAW] = 6, [ACT_DRAW_EARLY] = 10, [ACT_PREPARE] = 3, [ACT_COMMIT] = 3, [ACT_UNLOCK] = 10, [ACT_START] = 5,
    };
    for (int i = 0; i < ACT_COUNT; i++)
        set_weight(w, (enum world_action)i, weights[i] ? weights[i] : w->weights[i] / 16);
    w->batch_max = 2;
}

/* A position that is drawn before the lock is taken is only found by looking on: so long that no schedule sees its end. */
static void set_mode(struct world *w) {
    struct random *r = &w->random;
    if (random_percent(r, 40))
        keep_writers_short(w);
    if (random_percent(r, 50))
        set_weight(w, ACT_DRAW_EARLY, 0);
    bool early = w->weights[ACT_DRAW_EARLY] > 0;
    int64_t retention_us = early ? INT64_C(1000000000000) : random_below(r, random_percent(r, 50) ? 1 : 3000000);
    w->daemon.tail_options = (struct tail_options){
        .mode = random_percent(r, 50) ? SOURCE_MODE_GAPS : SOURCE_MODE_SNAPSHOT,
        .gaps = {.retention_us = retention_us, .max = early || random_percent(r, 80) ? 100000 : random_between(r, 1, 10)},
    };
    w->pg.renames = random_percent(r, 30);
    if (w->daemon.tail_options.mode == SOURCE_MODE_GAPS)
        set_weight(w, ACT_RESTORE, 0); /* of transaction ids it knows nothing */
}

static void check(struct world *w) {
    oracle_check(w);
    if (w->broken[0])
        note(w, "BROKEN: %s", w->broken);
}

static void work(struct world *w, uint32_t wants) {
    if (!w->daemon.running || w->broken[0])
        return;
    daemon_work(&w->daemon, w->now_us, wants);
    if (w->daemon.finished)
        finish(w);
}

/* Everything goes its way once, in turn. */
static void go_round(struct world *w) {
    for (enum world_action a = ACT_EXECUTE_TAIL; a <= ACT_BROKER_ANSWER && !w->broken[0]; a++) {
        act(w, a);
        work(w, 64);
        check(w);
    }
    act(w, ACT_CONNECT_DATABASE);
    act(w, ACT_CONNECT_SINK);
    if (random_percent(&w->luck, 3))
        act(w, ACT_FAIL_SAVE); /* no connection is lost, no repeat is allowed */
    int64_t due_us = w->daemon.running ? daemon_deadline_us(&w->daemon) : CLOCK_NEVER;
    bool busy = w->daemon.running && (w->daemon.tail_call != CALL_NONE || w->daemon.keep_call != CALL_NONE ||
                                      w->broker.taken < w->broker.published);
    if (!busy && due_us != CLOCK_NEVER && due_us > w->now_us)
        w->now_us = due_us;
}

/* Some rows are held for long while others come, so that the source gives targets up. */
static void hoard(struct world *w) {
    w->daemon.options.unsaved = POSTGRES_ROWS_MAX;
    w->daemon.options.window_events = DAEMON_WINDOW_MAX;
    w->daemon.options.window_bytes = 100000;
    w->insert_unroutable = 10;
    w->insert_unkeyed = 80;
    w->batch_max = 1;
    for (uint32_t i = 0; i < 3 * PLAN_TARGETS_MAX / 2 && !w->broken[0]; i++) {
        postgres_begin(&w->pg);
        insert(w, w->pg.writer_count - 1);
        postgres_commit(&w->pg, w->pg.writer_count - 1, true);
        w->step++;
        start(w);
        for (int rounds = 0; rounds < 3; rounds++)
            go_round(w);
    }
}

static bool is_at_rest(struct world *w) {
    struct flow_view view;
    if (!w->daemon.running || !w->daemon.database_up)
        return false;
    flow_view(w->daemon.flow, &view);
    return view.caught_up && view.events == 0 && view.unsaved == 0 && view.ghosts == 0 && !w->daemon.reading;
}

/* The faults cease: writers end, bindings appear, rules are mended. */
static void cease(struct world *w) {
    w->calm = true;
    w->broker.stalled = false;
    if (w->daemon.running && !w->stopping && w->paused)
        flow_pause(w->daemon.flow, w->now_us, false);
    w->paused = false;
    for (uint32_t i = 0; i < w->pg.writer_count; i++)
        if (random_percent(&w->luck, 50))
            postgres_rollback(&w->pg, i);
        else
            postgres_commit(&w->pg, i, false);
    postgres_unlock(&w->pg);
    note(w, "the faults cease");
    if (!w->daemon.mended && w->daemon.running && (w->insert_hold > 0 || w->insert_poison > 0))
        kill_daemon(w); /* a new configuration */
    w->daemon.mended = true;
}

static void come_to_rest(struct world *w) {
    bool rest = false;
    uint32_t under_way = w->daemon.reads + 1; /* its page may be older than the last commit */
    for (uint32_t i = 0; i < CALM_ROUNDS_MAX && !rest && !w->broken[0]; i++) {
        w->step++;
        start(w);
        go_round(w);
        rest = is_at_rest(w) && oracle_is_complete(w) && w->daemon.reads > under_way;
    }
    if (!rest)
        oracle_blame(w);
}

/* G7, G11: after a clean stop the next start repeats nothing. */
static void stop_and_start(struct world *w) {
    uint32_t repeats = w->repeats, reloads = w->daemon.reloads;
    stop(w);
    for (uint32_t i = 0; i < CALM_ROUNDS_MAX && w->daemon.running && !w->broken[0]; i++)
        go_round(w);
    bool clean = w->daemon.reloads == reloads; /* else a save of before came in between */
    bool all = clean && oracle_stopped(w); /* else what is repeated may be what a kill of before left behind */
    come_to_rest(w);
    if (all && w->repeats > repeats)
        oracle_blame_repeats(w);
}

static void settle_down(struct world *w) {
    cease(w);
    come_to_rest(w);
    if (!w->broken[0])
        stop_and_start(w);
    if (w->broken[0])
        note(w, "BROKEN: %s", w->broken);
}

bool world_run(struct world *w, const struct world_schedule *schedule, char *trace) {
    w->random.state = schedule->seed * 2 + 1;
    w->luck.state = schedule->seed * 2;
    w->now_us = 1000000;
    w->paused = w->stopping = w->calm = false;
    w->repeats = w->failures = w->step = 0;
    w->broken[0] = 0;
    w->trace = trace;
    w->trace_len = 0;
    memset(w->stored, 0, sizeof(w->stored));
    postgres_init(&w->pg);
    broker_init(&w->broker);
    daemon_init(&w->daemon, &w->pg, &w->broker, &w->luck);
    set_weights(w, schedule->left_out);
    set_options(w);
    set_mode(w);
    uint32_t steps = random_between(&w->random, 30, random_percent(&w->random, 5) ? WORLD_STEPS_MAX : 300);
    if (random_percent(&w->random, 1)) {
        hoard(w);
        steps = w->step + steps / 10;
    }
    for (; w->step < steps && w->step < schedule->steps && !w->broken[0]; w->step++) {
        act(w, choose(w));
        work(w, random_between(&w->luck, 1, 8));
        check(w);
    }
    if (!w->broken[0])
        settle_down(w);
    if (w->daemon.running)
        daemon_kill(&w->daemon);
    return w->broken[0] == 0;
}
