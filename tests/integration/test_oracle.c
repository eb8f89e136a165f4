/* test_oracle: both modes and a naive one beside them under writers of every kind: what is lost, how late the rest is */
#include "integration/reader.h"
#include "unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>

/* Each transaction picks at random: a plain insert; a batch of 20; savepoints,
 * one rolled back and one released; rollback; two-phase commit; a sleep before
 * the end, now and then a long one. Half of them own a transaction id early. An
 * event bumps its stream's version under a row lock, so the versions are the true
 * order of causes. All tailers run at once on one table, from their checkpoints
 * again and again. ORACLE_SECONDS: how long each run lasts; ORACLE_STEADY=1: without the
 * restarts, whose rows that come again would be counted as late. */

#define WRITERS 24
#define STREAMS 60
#define POSITIONS_MAX 4000000
#define DEFAULT_SECONDS 6
#define DRAIN_US (30 * CLOCK_US_PER_S)

/* What a run looks like. */
struct scene {
    const char *name;
    const char *change;   /* of the table */
    int explicit_percent; /* of the transactions draw their position themselves, half of those before BEGIN */
    bool in_order;        /* by position no cause comes behind its effect */
};

static const struct scene *scene;
static _Atomic int64_t *committed_us; /* by position, when the writer knew; 0: not, or not yet */
static int64_t until_us;
static bool steady;

/* Writers. ------------------------------------------------------------------ */

#define BATCH 20
#define ROWS_MAX 64 /* of one transaction */

struct writer {
    pthread_t thread;
    unsigned seed;
    int number;
    int64_t positions[ROWS_MAX];
    int count;
};

static int below(struct writer *w, int n) {
    return rand_r(&w->seed) % n;
}

static void note_positions(struct writer *w, PGresult *result) {
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
    for (int i = 0; i < PQntuples(result); i++) {
        ck_assert_int_lt(w->count, ROWS_MAX);
        w->positions[w->count++] = strtoll(PQgetvalue(result, i, 0), NULL, 10);
    }
    PQclear(result);
}

/* `count` events of one stream; position 0: the default. */
static void insert(PGconn *pg, struct writer *w, int count, int64_t position) {
    char sql[1024], explicit[32];
    snprintf(explicit, sizeof explicit, "%lld, ", (long long)position);
    snprintf(sql, sizeof sql, "WITH v AS (UPDATE stream SET version = version + %d WHERE id = %d RETURNING id, version)"
             " INSERT INTO event (%sid, source, type, streamid, streamversion)"
             " SELECT %sgen_random_uuid(), '/s', 'a.b', id, version - %d + i FROM v, generate_series(1, %d) i ORDER BY i"
             " RETURNING position", count, below(w, STREAMS), position ? "position, " : "", position ? explicit : "", count, count);
    note_positions(w, PQexec(pg, sql));
}

static void insert_with_savepoints(PGconn *pg, struct writer *w) {
    direct_run(pg, "SAVEPOINT a");
    insert(pg, w, 1, 0);
    direct_run(pg, "ROLLBACK TO a; SAVEPOINT b");
    w->count = 0;
    insert(pg, w, 1, 0);
    direct_run(pg, "RELEASE b");
}

static void insert_something(PGconn *pg, struct writer *w, int64_t drawn) {
    int kind = drawn ? 3 : below(w, 4);
    if (kind == 0)
        insert(pg, w, BATCH, 0);
    else if (kind == 1)
        insert_with_savepoints(pg, w);
    else
        insert(pg, w, 1, drawn);
}

static bool end_two_phase(PGconn *pg, struct writer *w, int number) {
    bool commit = below(w, 2);
    direct_run(pg, "PREPARE TRANSACTION 'w%d-%d'", w->number, number);
    direct_run(pg, "SELECT pg_sleep(%f)", below(w, 40) / 1000.0);
    direct_run(pg, "%s PREPARED 'w%d-%d'", commit ? "COMMIT" : "ROLLBACK", w->number, number);
    return commit;
}

static void end(PGconn *pg, struct writer *w, int number) {
    int kind = below(w, 10);
    bool committed = kind > 1;
    direct_run(pg, "SELECT pg_sleep(%f)", below(w, 60) ? below(w, 25) / 1000.0 : below(w, 1500) / 1000.0);
    if (kind == 1)
        committed = end_two_phase(pg, w, number);
    else
        direct_run(pg, "%s", committed ? "COMMIT" : "ROLLBACK");
    for (int i = 0; committed && i < w->count; i++)
        committed_us[w->positions[i]] = clock_now_us();
}

static int64_t draw(PGconn *pg) {
    return direct_number(pg, "SELECT nextval('event_position_seq')");
}

static void write_once(PGconn *pg, struct writer *w, int number) {
    int when = below(w, 100) < scene->explicit_percent ? 1 + below(w, 2) : 0;
    int64_t drawn = when == 1 ? draw(pg) : 0;
    w->count = 0;
    direct_run(pg, "BEGIN");
    if (below(w, 2))
        direct_run(pg, "UPDATE unrelated SET n = n + 1 WHERE id = %d", w->number);
    if (when == 2)
        drawn = draw(pg);
    if (drawn)
        direct_run(pg, "SELECT pg_sleep(%f)", below(w, 10) / 1000.0);
    insert_something(pg, w, drawn);
    end(pg, w, number);
}

static void *write_all(void *arg) {
    struct writer *w = arg;
    PGconn *pg = direct_open();
    for (int number = 0; clock_now_us() < until_us; number++)
        write_once(pg, w, number);
    PQfinish(pg);
    return NULL;
}

/* Tailers. ------------------------------------------------------------------ */

#define PLACES 8

struct tailer {
    pthread_t thread;
    const char *name;
    enum source_mode mode;
    struct reader reader;
    unsigned seed;
    int64_t *first_us;        /* by position: when it was handed over first; 0: never */
    unsigned char *delivered; /* since the place that was opened; bounded by highest */
    int64_t highest;
    int64_t versions[STREAMS];
    int64_t rows, repeats, twice, inversions, reopened;
    int place_count;
    struct place {
        char *cursor;
        unsigned char *delivered;
        int64_t highest;
        struct reader_gap *gaps;
        size_t gap_count;
    } places[PLACES];
};

static atomic_bool drained; /* nothing is committed any more and all was handed over */

static void deliver(struct tailer *t, int64_t position, int64_t stream, int64_t version) {
    ck_assert_int_lt(position, POSITIONS_MAX);
    t->rows++;
    t->twice += t->delivered[position];
    t->repeats += t->first_us[position] != 0;
    t->delivered[position] = 1;
    t->highest = position > t->highest ? position : t->highest;
    if (t->first_us[position] != 0)
        return;
    t->first_us[position] = clock_now_us();
    t->inversions += version < t->versions[stream];
    if (version > t->versions[stream])
        t->versions[stream] = version;
}

static void free_place(struct place *p) {
    free(p->cursor);
    free(p->delivered);
    free(p->gaps);
    *p = (struct place){0};
}

static void *copy(const void *from, size_t size) {
    void *to = malloc(size + 1);
    memcpy(to, from, size);
    return to;
}

static void store_place(struct tailer *t) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8 << 20);
    reader_save(&t->reader, source_row_mark(t->reader.source), &b);
    struct place *p = &t->places[t->place_count < PLACES ? t->place_count++ : rand_r(&t->seed) % PLACES];
    free_place(p);
    *p = (struct place){
        .cursor = strndup(b.data, b.len),
        .delivered = copy(t->delivered, (size_t)t->highest + 1),
        .highest = t->highest,
        .gaps = copy(t->reader.gaps, t->reader.gap_count * sizeof *t->reader.gaps),
        .gap_count = t->reader.gap_count,
    };
}

/* kill -9: what is in memory is gone, and one of the stored places is all there is. */
static void reopen(struct tailer *t) {
    struct place *p = &t->places[rand_r(&t->seed) % t->place_count];
    free(t->reader.gaps);
    t->reader.gaps = copy(p->gaps, p->gap_count * sizeof *p->gaps);
    t->reader.gap_count = p->gap_count;
    ck_assert_msg(reader_open(&t->reader, p->cursor) == SOURCE_OPENED, "%s", t->reader.error.text);
    memset(t->delivered, 0, (size_t)t->highest + 1);
    memcpy(t->delivered, p->delivered, (size_t)p->highest + 1);
    t->highest = p->highest;
    t->reopened++;
    for (int i = 0; i < t->place_count; i++)
        free_place(&t->places[i]);
    t->place_count = 0;
    store_place(t);
}

static void read_once(struct tailer *t) {
    struct reader *r = &t->reader;
    uint32_t events = rand_r(&t->seed) % 4 ? 1000 : 1 + (uint32_t)(rand_r(&t->seed) % 50);
    int64_t had = t->rows;
    ck_assert_int_eq(source_want(r->source, events, 1 << 20, clock_now_us()), 0);
    for (;;) {
        enum source_signal signal = reader_next(r);
        if (signal == SOURCE_DONE)
            break;
        ck_assert_msg(signal == SOURCE_ROW || signal == SOURCE_MARK, "%d: %s", signal, r->error.text);
        const struct row *row = source_row(r->source);
        if (signal == SOURCE_ROW)
            deliver(t, reader_integer(row, ROW_POSITION), reader_integer(row, ROW_STREAM_ID),
                    reader_integer(row, ROW_STREAM_VERSION));
    }
    ck_assert_int_le(t->rows - had, events);
    source_release(r->source, source_row_mark(r->source).target);
    if (t->rows > had && rand_r(&t->seed) % 20 == 0)
        store_place(t);
}

/* Adaptive polling as flow/demand has it would only add its own wait. */
static void wait_for_next_poll(const struct tailer *t, bool any) {
    (void)t;
    struct timespec pause = {0, any ? 1000000 : 5000000};
    nanosleep(&pause, NULL);
}

static void *tail_all(void *arg) {
    struct tailer *t = arg;
    reader_init(&t->reader, "event");
    t->reader.options.mode = (int)t->mode;
    ck_assert_msg(reader_open(&t->reader, NULL) == SOURCE_OPENED, "%s", t->reader.error.text);
    store_place(t);
    while (!drained) {
        int64_t had = t->rows;
        read_once(t);
        if (!steady && clock_now_us() < until_us && rand_r(&t->seed) % 150 == 0)
            reopen(t);
        wait_for_next_poll(t, t->rows > had);
    }
    for (int i = 0; i < t->place_count; i++)
        free_place(&t->places[i]);
    reader_done(&t->reader);
    return NULL;
}

/* What most relays do. That it loses rows shows that this oracle sees what is lost. */
static void *tail_naively(void *arg) {
    struct tailer *t = arg;
    PGconn *pg = direct_open();
    while (!drained) {
        char sql[200];
        snprintf(sql, sizeof sql, "SELECT position, streamid, streamversion FROM event WHERE position > %lld ORDER BY position"
                 " LIMIT 1000", (long long)t->highest);
        PGresult *result = PQexec(pg, sql);
        int count = PQntuples(result);
        for (int i = 0; i < count; i++)
            deliver(t, strtoll(PQgetvalue(result, i, 0), NULL, 10), strtoll(PQgetvalue(result, i, 1), NULL, 10),
                    strtoll(PQgetvalue(result, i, 2), NULL, 10));
        PQclear(result);
        wait_for_next_poll(t, count > 0);
    }
    PQfinish(pg);
    return NULL;
}

/* The verdict. --------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t count_lost(PGconn *pg, const struct tailer *t) {
    PGresult *result = PQexec(pg, "SELECT position FROM event");
    int64_t lost = 0;
    for (int i = 0; i < PQntuples(result); i++)
        lost += t->first_us[strtoll(PQgetvalue(result, i, 0), NULL, 10)] == 0;
    PQclear(result);
    return lost;
}

static void say(const struct tailer *t, int64_t lost) {
    static int64_t late_us[POSITIONS_MAX];
    size_t count = 0;
    for (int64_t p = 0; p < POSITIONS_MAX; p++) {
        if (committed_us[p] && t->first_us[p])
            late_us[count++] = t->first_us[p] > committed_us[p] ? t->first_us[p] - committed_us[p] : 0;
    }
    qsort(late_us, count, sizeof *late_us, compare);
    printf("  %-8s  lost %6lld  twice %3lld  inversions %5lld  p50 %6.1f  p99 %7.1f  max %7.1f ms  %lld restarts, %lld repeats\n",
           t->name, (long long)lost, (long long)t->twice, (long long)t->inversions, (double)late_us[count / 2] / 1000,
           (double)late_us[count * 99 / 100] / 1000, (double)late_us[count - 1] / 1000, (long long)t->reopened,
           (long long)t->repeats);
}

static const char schema_sql[] =
    "DROP TABLE IF EXISTS event, stream, unrelated;"
    "CREATE TABLE stream (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 0);"
    "CREATE TABLE unrelated (id int PRIMARY KEY, n int NOT NULL DEFAULT 0);"
    "CREATE TABLE event (position bigserial PRIMARY KEY, id uuid NOT NULL, source text, type text, streamid int,"
    " streamversion bigint, xid xid8 NOT NULL DEFAULT pg_current_xact_id());"
    "CREATE INDEX ON event (xid, position);"
    "INSERT INTO stream SELECT i FROM generate_series(0, 999) i;"
    "INSERT INTO unrelated SELECT i FROM generate_series(0, 999) i";

static const char partitioned_sql[] =
    "DROP TABLE event; CREATE TABLE event (position bigserial, id uuid NOT NULL, source text, type text, streamid int,"
    " streamversion bigint, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (position, streamid))"
    " PARTITION BY RANGE (streamid);"
    "CREATE INDEX ON event (xid, position);"
    "CREATE TABLE event_a PARTITION OF event FOR VALUES FROM (0) TO (10);"
    "CREATE TABLE event_b PARTITION OF event FOR VALUES FROM (10) TO (20);"
    "CREATE TABLE event_c PARTITION OF event FOR VALUES FROM (20) TO (40) PARTITION BY RANGE (streamid);"
    "CREATE TABLE event_c1 PARTITION OF event_c FOR VALUES FROM (20) TO (30);"
    "CREATE TABLE event_c2 PARTITION OF event_c FOR VALUES FROM (30) TO (40);"
    "CREATE TABLE event_rest PARTITION OF event DEFAULT";

static const struct scene scenes[] = {
    {"default nextval", NULL, 0, true},
    {"explicit nextval in 15 of 100 transactions, half of them before BEGIN", NULL, 15, false},
    {"sequence with a cache of 10", "ALTER SEQUENCE event_position_seq CACHE 10", 0, false},
    {"partitions of partitions", partitioned_sql, 0, true},
};

static int64_t seconds(void) {
    const char *text = getenv("ORACLE_SECONDS");
    return text ? strtoll(text, NULL, 10) : DEFAULT_SECONDS;
}

static bool all_handed_over(PGconn *pg, const struct tailer *tailers, int count) {
    for (int i = 0; i < count; i++)
        if (tailers[i].mode != SOURCE_MODE_DEFAULT && count_lost(pg, &tailers[i]) > 0)
            return false;
    return true;
}

static void *shared_array(size_t size) {
    void *array = calloc(POSITIONS_MAX, size);
    ck_assert_ptr_nonnull(array);
    return array;
}

static void start(struct tailer *t) {
    t->first_us = shared_array(sizeof *t->first_us);
    t->delivered = shared_array(1);
    ck_assert_int_eq(pthread_create(&t->thread, NULL, t->mode == SOURCE_MODE_DEFAULT ? tail_naively : tail_all, t), 0);
}

START_TEST(nothing_is_lost_whatever_the_writers_do) {
    scene = &scenes[_i];
    struct writer writers[WRITERS];
    struct tailer tailers[] = {
        {.name = "naive", .mode = SOURCE_MODE_DEFAULT, .seed = 1},
        {.name = "snapshot", .mode = SOURCE_MODE_SNAPSHOT, .seed = 2},
        {.name = "gaps", .mode = SOURCE_MODE_GAPS, .seed = 3},
    };
    PGconn *pg = direct_open();
    direct_run(pg, "%s", schema_sql);
    if (scene->change)
        direct_run(pg, "%s", scene->change);
    committed_us = shared_array(sizeof *committed_us);
    drained = false;
    steady = getenv("ORACLE_STEADY") != NULL;
    until_us = clock_now_us() + seconds() * CLOCK_US_PER_S;
    for (size_t i = 0; i < ARRAY_LENGTH(tailers); i++)
        start(&tailers[i]);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.seed = (unsigned)i + 1, .number = i};
        ck_assert_int_eq(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i].thread, NULL);
    for (int64_t deadline = clock_now_us() + DRAIN_US;
         clock_now_us() < deadline && !all_handed_over(pg, tailers, ARRAY_LENGTH(tailers));)
        wait_for_next_poll(tailers, false);
    drained = true;
    for (size_t i = 0; i < ARRAY_LENGTH(tailers); i++)
        pthread_join(tailers[i].thread, NULL);

    printf("%s: %d writers, %lld s, %lld rows, %lld positions burnt\n", scene->name, WRITERS, (long long)seconds(),
           (long long)direct_number(pg, "SELECT count(*) FROM event"),
           (long long)direct_number(pg, "SELECT max(position) - count(*) FROM event"));
    int64_t lost[ARRAY_LENGTH(tailers)];
    for (size_t i = 0; i < ARRAY_LENGTH(tailers); i++) {
        lost[i] = count_lost(pg, &tailers[i]);
        say(&tailers[i], lost[i]);
    }
    fflush(stdout);
    ck_assert_int_gt(lost[0], 0);
    for (size_t i = 1; i < ARRAY_LENGTH(tailers); i++) {
        ck_assert_int_eq(lost[i], 0);
        ck_assert_int_eq(tailers[i].twice, 0);
        ck_assert(!scene->in_order || tailers[i].inversions == 0);
        ck_assert(steady || tailers[i].reopened > 0);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(tailers); i++) {
        free(tailers[i].first_us);
        free(tailers[i].delivered);
    }
    free(committed_us);
    PQfinish(pg);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("oracle");
    TCase *cases = tcase_create("oracle");
    tcase_set_timeout(cases, 120 + 4 * (double)seconds());
    tcase_add_loop_test(cases, nothing_is_lost_whatever_the_writers_do, 0, ARRAY_LENGTH(scenes));
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
