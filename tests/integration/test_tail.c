/* test_tail: concurrent writers of every kind against one source: no row lost, none twice, streams in order */
#include "integration/reader.h"
#include "unit/unit.h"

#include <pthread.h>

#define WRITERS 12
#define STREAMS 40
#define POSITIONS_MAX 2000000
#define PLACES 8
#define DEFAULT_SECONDS 6

/* Writers. Each transaction picks at random:
 * plain, batch, savepoints, rollback, two-phase, long, with an early id. -------- */

struct writer {
    pthread_t thread;
    unsigned seed;
    int number;
    int64_t until_us;
};

static int below(struct writer *w, int n) {
    return rand_r(&w->seed) % n;
}

/* Bumps the stream under its row lock and inserts the event: versions are the true order of causes. */
static void insert(PGconn *pg, struct writer *w) {
    direct_run(pg, "WITH v AS (UPDATE stream SET version = version + 1 WHERE id = %d RETURNING id, version)"
               " INSERT INTO event (id, source, type, streamid, streamversion, data)"
               " SELECT gen_random_uuid(), '/s', 'a.b', id, version, jsonb_build_object('text', repeat('x', %d)) FROM v",
               below(w, STREAMS), below(w, 20) ? below(w, 500) : below(w, 20000));
}

static void insert_batch(PGconn *pg, struct writer *w) {
    direct_run(pg, "WITH v AS (UPDATE stream SET version = version + 20 WHERE id = %d RETURNING id, version)"
               " INSERT INTO event (id, source, type, streamid, streamversion)"
               " SELECT gen_random_uuid(), '/s', 'a.b', id, version - 20 + i FROM v, generate_series(1, 20) i ORDER BY i",
               below(w, STREAMS));
}

static void insert_with_savepoints(PGconn *pg, struct writer *w) {
    direct_run(pg, "SAVEPOINT a");
    insert(pg, w);
    direct_run(pg, "ROLLBACK TO a; SAVEPOINT b");
    insert(pg, w);
    direct_run(pg, "RELEASE b");
}

static void write_once(PGconn *pg, struct writer *w, int count) {
    direct_run(pg, "BEGIN");
    if (below(w, 2))
        direct_run(pg, "UPDATE unrelated SET n = n + 1 WHERE id = %d", w->number);
    switch (below(w, 4)) {
    case 0:
        insert_batch(pg, w);
        break;
    case 1:
        insert_with_savepoints(pg, w);
        break;
    default:
        insert(pg, w);
    }
    direct_run(pg, "SELECT pg_sleep(%f)", below(w, 60) ? below(w, 25) / 1000.0 : below(w, 1200) / 1000.0);
    int end = below(w, 10);
    if (end == 0)
        direct_run(pg, "ROLLBACK");
    else if (end > 1)
        direct_run(pg, "COMMIT");
    else {
        direct_run(pg, "PREPARE TRANSACTION 'w%d-%d'", w->number, count);
        direct_run(pg, "SELECT pg_sleep(%f)", below(w, 40) / 1000.0);
        direct_run(pg, "%s PREPARED 'w%d-%d'", below(w, 2) ? "COMMIT" : "ROLLBACK", w->number, count);
    }
}

static void *write_all(void *arg) {
    struct writer *w = arg;
    PGconn *pg = direct_open();
    for (int count = 0; clock_now_us() < w->until_us; count++)
        write_once(pg, w, count);
    PQfinish(pg);
    return NULL;
}

static const char schema_sql[] =
    "DROP TABLE IF EXISTS event, stream, unrelated;"
    "CREATE TABLE stream (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 0);"
    "CREATE TABLE unrelated (id int PRIMARY KEY, n int NOT NULL DEFAULT 0);"
    "CREATE TABLE event (position bigserial PRIMARY KEY, id uuid NOT NULL, source text, type text, streamid int,"
    " streamversion bigint, data jsonb, xid xid8 NOT NULL DEFAULT pg_current_xact_id());"
    "CREATE INDEX ON event (xid, position);"
    "INSERT INTO stream SELECT i FROM generate_series(0, 999) i;"
    "INSERT INTO unrelated SELECT i FROM generate_series(0, 999) i";

/* The tail. ------------------------------------------------------------------- */

struct oracle {
    struct reader reader;
    unsigned char stream_of[POSITIONS_MAX]; /* + 1; 0: never seen */
    int64_t version_of[POSITIONS_MAX];
    unsigned char delivered[POSITIONS_MAX]; /* since the beginning, as the place we continue from tells it */
    int64_t highest;
    int64_t versions[STREAMS]; /* last delivered one */
    uint64_t rows, repeats, reopened;
    unsigned seed;
    /* Places that a checkpoint could hold. */
    int place_count;
    struct {
        char *cursor;
        unsigned char *delivered;
        int64_t highest;
        struct reader_gap *gaps;
        size_t gap_count;
    } places[PLACES];
};

static void deliver(struct oracle *o, const struct row *row) {
    int64_t position = reader_integer(row, ROW_POSITION), version = reader_integer(row, ROW_STREAM_VERSION);
    int stream = (int)reader_integer(row, ROW_STREAM_ID);
    if (position >= POSITIONS_MAX || o->delivered[position])
        ck_abort_msg("position %lld came twice", (long long)position);
    /* Versions have no holes: a lost row shows as soon as the next of its stream comes. */
    if (version != o->versions[stream] + 1)
        ck_abort_msg("stream %d: version %lld came after %lld (position %lld)", stream, (long long)version,
                     (long long)o->versions[stream], (long long)position);
    o->versions[stream] = version;
    o->repeats += o->stream_of[position] != 0;
    o->stream_of[position] = (unsigned char)(stream + 1);
    o->version_of[position] = version;
    o->delivered[position] = 1;
    o->highest = position > o->highest ? position : o->highest;
    o->rows++;
}

static void store_place(struct oracle *o) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8 << 20);
    reader_save(&o->reader, source_row_mark(o->reader.source), &b);
    int i = o->place_count < PLACES ? o->place_count++ : rand_r(&o->seed) % PLACES;
    free(o->places[i].cursor);
    free(o->places[i].delivered);
    free(o->places[i].gaps);
    o->places[i].gap_count = o->reader.gap_count;
    o->places[i].gaps = malloc((o->reader.gap_count + 1) * sizeof *o->reader.gaps);
    memcpy(o->places[i].gaps, o->reader.gaps, o->reader.gap_count * sizeof *o->reader.gaps);
    o->places[i].cursor = strndup(b.data, b.len);
    o->places[i].highest = o->highest;
    o->places[i].delivered = malloc((size_t)o->highest + 1);
    memcpy(o->places[i].delivered, o->delivered, (size_t)o->highest + 1);
}

/* A crash: what is in memory is gone, and a stored place is all there is. */
static void reopen(struct oracle *o) {
    int i = rand_r(&o->seed) % o->place_count;
    o->reader.gaps = realloc(o->reader.gaps, (o->places[i].gap_count + 1) * sizeof *o->reader.gaps);
    o->reader.gap_count = o->places[i].gap_count;
    memcpy(o->reader.gaps, o->places[i].gaps, o->places[i].gap_count * sizeof *o->reader.gaps);
    ck_assert_msg(reader_open(&o->reader, o->places[i].cursor) == SOURCE_OPENED, "%s", o->reader.error.text);
    memset(o->delivered, 0, sizeof o->delivered);
    memset(o->versions, 0, sizeof o->versions);
    memcpy(o->delivered, o->places[i].delivered, (size_t)o->places[i].highest + 1);
    o->highest = o->places[i].highest;
    for (int64_t p = 0; p <= o->highest; p++) {
        int stream = o->stream_of[p] - 1;
        if (o->delivered[p] && o->version_of[p] > o->versions[stream])
            o->versions[stream] = o->version_of[p];
    }
    o->reopened++;
    while (o->place_count > 0) {
        o->place_count--;
        free(o->places[o->place_count].cursor);
        free(o->places[o->place_count].delivered);
        free(o->places[o->place_count].gaps);
        o->places[o->place_count].gaps = NULL;
        o->places[o->place_count].cursor = NULL;
        o->places[o->place_count].delivered = NULL;
    }
    store_place(o);
}

/* Small demands, so that targets of several pages and byte cuts are common. */
static void read_once(struct oracle *o) {
    struct reader *r = &o->reader;
    uint32_t events = 1 + (uint32_t)(rand_r(&o->seed) % (rand_r(&o->seed) % 4 ? 50 : 1500));
    uint64_t bytes = 1000 + (uint64_t)(rand_r(&o->seed) % 60000);
    uint64_t had = o->rows;
    ck_assert_int_eq(source_want(r->source, events, bytes, clock_now_us()), 0);
    for (;;) {
        enum source_signal signal = reader_next(r);
        if (signal == SOURCE_DONE)
            break;
        ck_assert_msg(signal == SOURCE_ROW || signal == SOURCE_MARK, "%d: %s", signal, r->error.text);
        if (signal == SOURCE_ROW)
            deliver(o, source_row(r->source));
        if (rand_r(&o->seed) % 200 == 0)
            store_place(o);
    }
    ck_assert_uint_le(o->rows - had, events);
    source_release(r->source, source_row_mark(r->source).target);
    store_place(o);
}

static int seconds(void) {
    const char *text = getenv("TAIL_SECONDS");
    return text ? (int)strtol(text, NULL, 10) : DEFAULT_SECONDS;
}

static void tail_until(struct oracle *o, int64_t until_us) {
    while (clock_now_us() < until_us || !source_caught_up(o->reader.source)) {
        read_once(o);
        if (rand_r(&o->seed) % 100 == 0)
            reopen(o);
    }
}

static void run_with_writers(struct oracle *o) {
    struct writer writers[WRITERS];
    int64_t until_us = clock_now_us() + seconds() * CLOCK_US_PER_S;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.seed = (unsigned)i + 1, .number = i, .until_us = until_us};
        ck_assert_int_eq(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]), 0);
    }
    tail_until(o, until_us);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i].thread, NULL);
    do
        read_once(o);
    while (!source_caught_up(o->reader.source));
}

static void tail_a_table(const char *change) {
    struct oracle *o = calloc(1, sizeof *o);
    PGconn *pg = direct_open();
    direct_run(pg, "%s", schema_sql);
    if (change)
        direct_run(pg, "%s", change);
    o->seed = 4711;
    reader_init(&o->reader, "event");
    ck_assert_msg(reader_open(&o->reader, NULL) == SOURCE_OPENED, "%s", o->reader.error.text);
    store_place(o);
    run_with_writers(o);

    int64_t there = direct_number(pg, "SELECT count(*) FROM event"), delivered = 0;
    int64_t burnt = direct_number(pg, "SELECT max(position) - count(*) FROM event");
    for (int64_t p = 0; p <= o->highest; p++)
        delivered += o->delivered[p];
    ck_assert_int_eq(there, delivered);
    for (int i = 0; i < STREAMS; i++)
        ck_assert_int_eq(o->versions[i], direct_number(pg, "SELECT version FROM stream WHERE id = %d", i));
    printf("%lld rows, %lld positions burnt, %llu repeats after %llu restarts, %llu cancels: none lost, none twice\n",
           (long long)there, (long long)burnt, (unsigned long long)o->repeats, (unsigned long long)o->reopened,
           (unsigned long long)o->reader.cancels);
    ck_assert_int_gt(there, 100 * seconds());
    ck_assert_uint_gt(o->reopened, 0);
    for (int i = 0; i < PLACES; i++) {
        free(o->places[i].cursor);
        free(o->places[i].delivered);
        free(o->places[i].gaps);
    }
    reader_done(&o->reader);
    PQfinish(pg);
    free(o);
}

START_TEST(concurrent_writers_lose_nothing_and_streams_stay_in_order) {
    tail_a_table(NULL);
}
END_TEST

START_TEST(a_bigint_transaction_id_serves_as_well) {
    tail_a_table("DROP INDEX event_xid_position_idx; ALTER TABLE event DROP xid,"
                 " ADD xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint; CREATE INDEX ON event (xid, position)");
}
END_TEST

START_TEST(a_partitioned_table_serves_as_well) {
    tail_a_table("DROP TABLE event; CREATE TABLE event (position bigserial, id uuid NOT NULL, source text, type text,"
                 " streamid int, streamversion bigint, data jsonb, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),"
                 " PRIMARY KEY (position, streamid)) PARTITION BY LIST (streamid);"
                 "CREATE INDEX ON event (xid, position);"
                 "CREATE TABLE event_low PARTITION OF event FOR VALUES IN (0,1,2,3,4,5,6,7,8,9);"
                 "CREATE TABLE event_rest PARTITION OF event DEFAULT");
}
END_TEST

START_TEST(a_table_without_transaction_ids_serves_as_well) {
    tail_a_table("ALTER TABLE event DROP xid");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tail");
    TCase *cases = tcase_create("tail");
    tcase_set_timeout(cases, 60 + 20 * seconds());
    tcase_add_test(cases, concurrent_writers_lose_nothing_and_streams_stay_in_order);
    tcase_add_test(cases, a_bigint_transaction_id_serves_as_well);
    tcase_add_test(cases, a_partitioned_table_serves_as_well);
    tcase_add_test(cases, a_table_without_transaction_ids_serves_as_well);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
