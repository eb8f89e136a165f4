/* test_plan_model: the plan against a model of PostgreSQL's visibility: nothing lost, nothing twice, causes first */
#include "unit/unit.h"

#include <stdint.h>
#include <stdio.h>

#include "source/plan.h"

/* Check writes each of its assertions to a file; there are millions here. */
#define MUST(condition, ...) ((condition) ? (void)0 : ck_abort_msg(__VA_ARGS__))

#define TRANSACTIONS 60
#define ROWS 240
#define SEEDS 5000
#define PLACES 32

/* The model. A transaction's id is its index plus FIRST_XID, drawn at its first
 * write; rows get their position then too, but commit whenever it pleases. */
#define FIRST_XID 3

enum fate { UNBORN, RUNNING, COMMITTED, ABORTED };

struct world {
    uint64_t random;
    enum fate fates[TRANSACTIONS];
    int ended_at[TRANSACTIONS]; /* step */
    int begun, completed_max;   /* transactions; index of the highest completed one */
    struct {
        int transaction, inserted_at;
        bool delivered;
    } rows[ROWS]; /* position = index + 1 */
    int row_count;
    int step;
};

static uint64_t next_random(struct world *w) {
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static int below(struct world *w, int n) {
    return (int)(next_random(w) % (uint64_t)n);
}

/* As PostgreSQL takes it: xmax is behind the highest completed id, so that a
 * running id can be above it and is not in the list. */
static void take_snapshot(const struct world *w, char *text, size_t size) {
    int xmax = w->completed_max + 1, xmin = xmax;
    size_t len = 0;
    char list[TRANSACTIONS * 5] = "";
    for (int i = 0; i < xmax; i++) {
        if (w->fates[i] != RUNNING)
            continue;
        xmin = xmin < i ? xmin : i;
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%d", len ? "," : "", i + FIRST_XID);
    }
    snprintf(text, size, "%d:%d:%s", xmin + FIRST_XID, xmax + FIRST_XID, list);
}

struct snapshot {
    int xmax;
    bool running[TRANSACTIONS + FIRST_XID];
};

static struct snapshot parse(struct span text) {
    struct snapshot s = {0};
    char copy[TRANSACTIONS * 5 + 32];
    MUST(text.len < sizeof copy, "too long");
    snprintf(copy, sizeof copy, "%.*s", SPAN_ARGS(text));
    char *at = strchr(copy, ':') + 1;
    s.xmax = (int)strtol(at, &at, 10);
    for (at++; *at; at += *at == ',')
        s.running[strtol(at, &at, 10)] = true;
    return s;
}

static bool sees(const struct snapshot *s, int xid) {
    return xid < s->xmax && !s->running[xid];
}

/* Which branch of a statement would find the row. */
static bool in_list(const struct snapshot *s, const struct snapshot *n, int xid) {
    return s->running[xid] && !(xid < (int)ARRAY_LENGTH(n->running) && n->running[xid]);
}

static int xid_of(const struct world *w, int index) {
    return w->rows[index].transaction + FIRST_XID;
}

static bool committed(const struct world *w, int index) {
    return w->fates[w->rows[index].transaction] == COMMITTED;
}

/* Random histories. */
static void write_something(struct world *w) {
    w->step++;
    int t = below(w, TRANSACTIONS);
    int what = below(w, 10);
    if (what < 4 && w->begun < TRANSACTIONS) {
        w->fates[w->begun++] = RUNNING;
    } else if (what < 8 && w->fates[t] == RUNNING && w->row_count < ROWS) {
        for (int i = below(w, 4); i >= 0 && w->row_count < ROWS; i--) {
            w->rows[w->row_count].inserted_at = w->step;
            w->rows[w->row_count++].transaction = t;
        }
    } else if (w->fates[t] == RUNNING) {
        w->fates[t] = below(w, 4) ? COMMITTED : ABORTED;
        w->ended_at[t] = w->step;
        w->completed_max = w->completed_max > t ? w->completed_max : t;
    }
}

static void end_all(struct world *w) {
    for (int t = 0; t < w->begun; t++) {
        if (w->fates[t] != RUNNING)
            continue;
        w->fates[t] = COMMITTED;
        w->ended_at[t] = ++w->step;
        w->completed_max = w->completed_max > t ? w->completed_max : t;
    }
}

/* Reader. */
struct reader {
    struct plan *plan;
    struct {
        char text[CURSOR_TEXT_MAX > 2048 ? 2048 : CURSOR_TEXT_MAX];
        bool delivered[ROWS];
    } places[PLACES]; /* what was stored once, and what it stands for */
    int place_count;
};

/* Whoever began after another's commit was visible must come behind it, if it
 * also stands behind it. */
static void check_causes(const struct world *w, int index) {
    for (int i = 0; i < index; i++) {
        if (committed(w, i) && w->ended_at[w->rows[i].transaction] < w->rows[index].inserted_at)
            MUST(w->rows[i].delivered, "row %d came before its cause %d", index + 1, i + 1);
    }
}

static void store_place(struct world *w, struct reader *r) {
    struct cursor c;
    CLEANUP(buf_done) struct buf b = BUF_INIT(2048);
    if (plan_cursor(r->plan, plan_mark(r->plan), &c) != 0)
        return;
    MUST(cursor_print(&c, &b) == 0, "refused");
    int i = r->place_count < PLACES ? r->place_count++ : below(w, PLACES);
    snprintf(r->places[i].text, sizeof r->places[i].text, "%.*s", SPAN_ARGS(buf_span(&b)));
    for (int row = 0; row < w->row_count; row++)
        r->places[i].delivered[row] = w->rows[row].delivered;
    for (int row = w->row_count; row < ROWS; row++)
        r->places[i].delivered[row] = false;
}

static bool deliver(struct world *w, struct reader *r, int index) {
    bool keep;
    MUST(plan_row(r->plan, index + 1, (uint64_t)below(w, 3000), &keep) == 0, "refused");
    if (!keep)
        return false;
    MUST(!w->rows[index].delivered, "row %d came twice", index + 1);
    check_causes(w, index);
    w->rows[index].delivered = true;
    if (below(w, 4) == 0)
        store_place(w, r);
    return true;
}

static int collect(const struct world *w, const struct plan_statement *st, struct span n_text, int *found) {
    struct snapshot s = parse(st->s), n = parse(n_text);
    int count = 0;
    for (int i = 0; i < w->row_count; i++) {
        int xid = xid_of(w, i);
        bool small = st->kind == PLAN_SMALL;
        bool bounds = small || (i + 1 > st->position && i + 1 <= st->end);
        bool newer = xid >= s.xmax && sees(&n, xid) && (small || i + 1 >= st->first);
        if (bounds && committed(w, i) && (in_list(&s, &n, xid) || newer))
            found[count++] = i;
    }
    return count;
}

static void deliver_all(struct world *w, struct reader *r, const int *found, int count) {
    for (int i = 0; i < count; i++)
        deliver(w, r, found[i]);
}

static void answer_small(struct world *w, struct reader *r, const struct plan_statement *st) {
    char now[TRANSACTIONS * 5 + 32];
    int found[ROWS];
    take_snapshot(w, now, sizeof now);
    int count = collect(w, st, span_of(now), found);
    bool overflow = count > (int)st->limit;
    int64_t end = overflow ? w->row_count : count ? found[count - 1] + 1 : INT64_MIN;
    MUST(plan_small(r->plan, span_of(now), overflow, end) == 0, "refused");
    if (!overflow)
        deliver_all(w, r, found, count);
}

static void answer_first(struct world *w, struct reader *r, const struct plan_statement *st) {
    struct snapshot s = parse(st->s), n = parse(st->n);
    for (int i = 0; i < w->row_count; i++) {
        int xid = xid_of(w, i);
        if (committed(w, i) && i + 1 > st->position && xid >= s.xmax && xid < n.xmax) {
            plan_first(r->plan, true, i + 1);
            return;
        }
    }
    plan_first(r->plan, false, 0);
}

static void answer_page(struct world *w, struct reader *r, const struct plan_statement *st) {
    int found[ROWS];
    int count = collect(w, st, st->n, found);
    deliver_all(w, r, found, count < (int)st->limit ? count : (int)st->limit);
}

static void read_something(struct world *w, struct reader *r) {
    struct plan_statement st;
    plan_want(r->plan, 1 + (uint32_t)below(w, 20), 1 + (uint64_t)below(w, 20000));
    while (plan_next(r->plan, &st)) {
        switch (st.kind) {
        case PLAN_SMALL:
            answer_small(w, r, &st);
            break;
        case PLAN_FIRST:
            answer_first(w, r, &st);
            break;
        case PLAN_PAGE:
            answer_page(w, r, &st);
            break;
        }
        plan_end(r->plan);
        if (below(w, 2))
            write_something(w);
    }
    store_place(w, r);
}

/* Starts over from a stored place: what it stands for is done, the rest comes again. */
static void crash(struct world *w, struct reader *r) {
    struct cursor c;
    struct error error;
    int i = below(w, r->place_count);
    MUST(cursor_parse(span_of(r->places[i].text), &c, &error) == 0, "refused");
    MUST(plan_open(r->plan, &c) == 0, "refused");
    for (int row = 0; row < ROWS; row++)
        w->rows[row].delivered = r->places[i].delivered[row];
    r->place_count = 0;
    store_place(w, r);
}

static void play(uint64_t seed) {
    struct world w = {.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .completed_max = -1};
    static struct reader r;
    struct cursor beginning = {.s = CURSOR_BEGINNING};
    r.place_count = 0;
    MUST(plan_new(&r.plan) == 0, "refused");
    MUST(plan_open(r.plan, &beginning) == 0, "refused");
    store_place(&w, &r);
    for (int i = 0; i < 150; i++) {
        for (int writes = below(&w, 12); writes > 0; writes--)
            write_something(&w);
        if (below(&w, 2))
            read_something(&w, &r);
        if (below(&w, 20) == 0)
            crash(&w, &r);
    }
    end_all(&w);
    for (int reads = 0; reads < 2 || !plan_caught_up(r.plan); reads++) {
        MUST(reads < 2000, "endless");
        read_something(&w, &r);
    }
    for (int i = 0; i < w.row_count; i++)
        MUST(w.rows[i].delivered || !committed(&w, i), "seed %llu: row %d was lost", (unsigned long long)seed, i + 1);
    plan_free(r.plan);
}

START_TEST(no_schedule_loses_a_row_or_repeats_one_or_puts_it_before_its_cause) {
    const char *more = getenv("PLAN_SEEDS");
    uint64_t seeds = more ? strtoull(more, NULL, 10) : SEEDS;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        play(seed);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("plan against a model");
    TCase *cases = tcase_create("model");
    tcase_set_timeout(cases, 600);
    tcase_add_test(cases, no_schedule_loses_a_row_or_repeats_one_or_puts_it_before_its_cause);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
