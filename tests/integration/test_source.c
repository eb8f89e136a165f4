/* test_source: inspecting, opening and reading event tables of a real server */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "integration/reader.h"
#include "unit/unit.h"


static struct reader reader;
static PGconn *pg;

static void setup(void) {
    pg = direct_open();
    direct_run(pg, "DROP SCHEMA IF EXISTS t CASCADE; CREATE SCHEMA t;"
               "ALTER DATABASE shop RESET ALL");
    reader_init(&reader, "t.event");
}

static void teardown(void) {
    reader_done(&reader);
    PQfinish(pg);
}

static void make_table(void) {
    CLEANUP(buf_done) struct buf sql = BUF_INIT(65536);
    ck_assert_int_eq(source_add_event_table_sql(SPAN_LITERAL("t.event"), &sql), 0);
    ck_assert_int_eq(buf_terminate(&sql), 0);
    direct_run(pg, "%s", sql.data);
}

static void insert(int count) {
    direct_run(pg, "INSERT INTO t.event (source, type, streamid, data)"
               " SELECT '/s', 'a.b', i, jsonb_build_object('n', i) FROM generate_series(1, %d) i", count);
}

static void expect_opened(const char *cursor) {
    enum source_signal signal = reader_open(&reader, cursor);
    ck_assert_msg(signal == SOURCE_OPENED, "%d: %s", signal, reader.error.text);
}

static void expect_refused(const char *why) {
    enum source_signal signal = reader_inspect(&reader);
    ck_assert_msg(signal == SOURCE_REFUSED, "%d", signal);
    ck_assert_int_eq(reader.error.class, ERROR_CONFIG);
    ck_assert_msg(strstr(source_note(reader.source), why), "%s", source_note(reader.source));
}

static void expect_warned(const char *of) {
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    ck_assert_msg(strstr(source_note(reader.source), of), "note: %s", source_note(reader.source));
}

/* Executes the statements of the note's line that holds `finding`, one by one. */
static void mend(const char *finding) {
    CLEANUP(cleanup_free) char *note = strdup(source_note(reader.source));
    char *line = strstr(note, finding);
    ck_assert_msg(line, "%s", note);
    line[strcspn(line, "\n")] = '\0';
    char *statement = strstr(line, ": ");
    ck_assert(statement);
    for (char *end; (end = strchr(statement, ';')); statement = end) {
        *end++ = '\0';
        direct_run(pg, "%s", statement[0] == ':' ? statement + 1 : statement);
    }
}

/* The last row that was read: lengths, and the first bytes of the values. */
static struct {
    struct row_column column;
    struct span value;
    char bytes[64];
} last[128];
static size_t last_count;

static void remember_row(const struct row *row) {
    last_count = row->count;
    for (size_t i = 0; i < row->count; i++) {
        size_t len = row->values[i].len;
        last[i].column = row->columns[i];
        last[i].value = row->values[i];
        if (span_absent(row->values[i]))
            continue;
        memcpy(last[i].bytes, row->values[i].data, len < sizeof last[i].bytes ? len : sizeof last[i].bytes);
        last[i].value.data = last[i].bytes;
    }
}

/* Reads until all is read; how many rows there were. */
static int read_all(uint32_t events, uint64_t bytes) {
    int rows = 0;
    do {
        ck_assert_int_eq(source_want(reader.source, events, bytes, clock_now_us()), 0);
        enum source_signal signal;
        while ((signal = reader_next(&reader)) != SOURCE_DONE) {
            ck_assert_msg(signal == SOURCE_ROW || signal == SOURCE_MARK, "%d: %s", signal, reader.error.text);
            if (signal == SOURCE_ROW)
                remember_row(source_row(reader.source));
            rows += signal == SOURCE_ROW;
        }
    } while (!source_caught_up(reader.source));
    return rows;
}

static struct span value_of(enum row_role role) {
    for (size_t i = 0; i < last_count; i++) {
        if (last[i].column.role == role)
            return last[i].value;
    }
    ck_abort_msg("no such column");
}

static enum row_form form_of(enum row_role role) {
    for (size_t i = 0; i < last_count; i++) {
        if (last[i].column.role == role)
            return last[i].column.form;
    }
    ck_abort_msg("no such column");
}

static char *place(void) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(300000);
    ck_assert_int_eq(source_print_cursor(reader.source, source_row_mark(reader.source), &b), 0);
    return strndup(b.data, b.len);
}

/* Tables. ------------------------------------------------------------------ */

START_TEST(the_printed_event_table_is_fit_without_a_word) {
    make_table();
    make_table(); /* again does no harm */
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    ck_assert_str_eq(source_note(reader.source), "");
    ck_assert_str_ne(source_system_identifier(reader.source), "");
    ck_assert(strstr(source_server(reader.source), source_system_identifier(reader.source)));
}
END_TEST

START_TEST(names_need_no_care) {
    direct_run(pg, "DROP SCHEMA IF EXISTS \"Event Log\" CASCADE; CREATE SCHEMA \"Event Log\";"
               "CREATE TABLE \"Event Log\".\"The \"\"Events\"\" ü\" (\"Pos\" bigint PRIMARY KEY, \"an id\" text, \"T;y--pe\" text,"
               " \"Tx\" xid8 NOT NULL DEFAULT pg_current_xact_id());"
               "CREATE INDEX ON \"Event Log\".\"The \"\"Events\"\" ü\" (\"Tx\", \"Pos\");"
               "INSERT INTO \"Event Log\".\"The \"\"Events\"\" ü\" VALUES (1, 'a', 'b'), (2, 'c', 'd')");
    reader_set(&reader.options.table, "\"Event Log\".\"The \"\"Events\"\" ü\"");
    reader_set(&reader.options.columns[ROW_POSITION], "Pos");
    reader_set(&reader.options.columns[ROW_ID], "an id");
    reader_set(&reader.options.columns[ROW_TYPE], "T;y--pe");
    reader_set(&reader.options.transaction_id, "Tx");
    reader_set(&reader.options.constant_source, "/s");
    expect_opened(NULL);
    ck_assert_int_eq(read_all(1, 1 << 20), 2);
    ck_assert(span_is(value_of(ROW_ID), "c"));
    direct_run(pg, "DROP SCHEMA \"Event Log\" CASCADE");
}
END_TEST

static void make_old_table(const char *partitions) {
    direct_run(pg, "CREATE TABLE t.event (position bigserial, id uuid NOT NULL DEFAULT gen_random_uuid(),"
               " source text NOT NULL, type text NOT NULL, data jsonb, streamid int NOT NULL,"
               " PRIMARY KEY (position%s", partitions ? ", streamid))" : "))");
}

START_TEST(a_table_without_transaction_id_is_tailed_by_its_gaps) {
    make_old_table(NULL);
    insert(50);
    expect_opened(NULL);
    ck_assert_str_eq(source_mode(reader.source), "gaps");
    ck_assert_str_eq(source_note(reader.source), "");
    insert(50);
    ck_assert_int_eq(read_all(20, 1 << 20), 100);
}
END_TEST

START_TEST(mode_snapshot_refuses_a_table_without_transaction_id_and_the_note_mends_it) {
    make_old_table(NULL);
    insert(50);
    reader.options.mode = SOURCE_MODE_SNAPSHOT;
    expect_refused("no transaction-id column");
    mend("no transaction-id column");
    expect_opened(NULL);
    ck_assert_str_eq(source_mode(reader.source), "snapshot");
    ck_assert_str_eq(source_note(reader.source), "");
    insert(50);
    ck_assert_int_eq(read_all(20, 1 << 20), 100);
}
END_TEST

START_TEST(a_partitioned_table_is_mended_by_the_note) {
    direct_run(pg, "CREATE TABLE t.event (position bigserial, id uuid NOT NULL DEFAULT gen_random_uuid(),"
               " source text NOT NULL, type text NOT NULL, data jsonb, streamid int NOT NULL,"
               " PRIMARY KEY (position, streamid)) PARTITION BY RANGE (streamid);"
               "CREATE TABLE t.event_a PARTITION OF t.event FOR VALUES FROM (0) TO (20);"
               "CREATE TABLE t.event_b PARTITION OF t.event FOR VALUES FROM (20) TO (1000)");
    insert(50);
    reader.options.mode = SOURCE_MODE_SNAPSHOT;
    expect_refused("no transaction-id column");
    mend("no transaction-id column");
    expect_opened(NULL);
    ck_assert_str_eq(source_note(reader.source), "");
    insert(50);
    ck_assert_int_eq(read_all(7, 1 << 20), 100);
}
END_TEST

START_TEST(a_checkpoint_stays_in_its_mode) {
    make_old_table(NULL);
    insert(5);
    expect_opened(NULL);
    ck_assert_int_eq(read_all(20, 1 << 20), 5);
    CLEANUP(cleanup_free) char *gaps = place();
    direct_run(pg, "ALTER TABLE t.event ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id();"
               " CREATE INDEX ON t.event (xid, position)");
    insert(5);
    expect_opened(gaps);
    ck_assert_str_eq(source_mode(reader.source), "gaps");
    ck_assert_int_eq(read_all(20, 1 << 20), 5);
    reader.options.mode = SOURCE_MODE_SNAPSHOT;
    ck_assert_int_eq(reader_open(&reader, gaps), SOURCE_FAILED);
    ck_assert_int_eq(reader.error.class, ERROR_CONFIG);
    ck_assert_msg(strstr(reader.error.text, "set source: {mode: gaps}"), "%s", reader.error.text);
}
END_TEST

START_TEST(the_transaction_id_statements_of_schema_work_twice) {
    CLEANUP(buf_done) struct buf sql = BUF_INIT(65536);
    make_old_table(NULL);
    ck_assert_int_eq(source_add_transaction_id_sql(SPAN_LITERAL("t.event"), SPAN_LITERAL("position"), &sql), 0);
    ck_assert_int_eq(buf_terminate(&sql), 0);
    direct_run(pg, "%s", sql.data);
    direct_run(pg, "%s", sql.data);
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    ck_assert_str_eq(source_note(reader.source), "");
}
END_TEST

START_TEST(all_findings_come_in_one_run) {
    direct_run(pg, "CREATE TABLE t.event (position text, type text, data int, extensions text, xid int)");
    reader_set(&reader.options.columns[ROW_SUBJECT], "about");
    expect_refused("bigint");
    static const char *const finds[] = {
        "\"position\" of \"t\".\"event\" is of type text; as position it must be bigint",
        "no column \"id\"; set columns: {id: NAME}",
        "no column \"source\"; set columns: {source: NAME} to the one it has, or to {value: …}",
        "\"data\" of \"t\".\"event\" is of type integer; as data it must be json",
        "\"extensions\" of \"t\".\"event\" is of type text; as extensions it must be jsonb",
        "no column \"about\"; set columns: {subject: NAME}",
        "\"xid\" of \"t\".\"event\" is of type integer; as transaction_id it must be xid8 or bigint",
        "no index on (\"xid\", \"position\")",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(finds); i++)
        ck_assert_msg(strstr(source_note(reader.source), finds[i]), "%s in %s", finds[i], source_note(reader.source));
    ck_assert(strstr(reader.error.text, "findings, the first: "));
}
END_TEST

START_TEST(an_absent_table_is_refused_with_a_hint) {
    direct_run(pg, "CREATE TABLE t.\"EVENT\" (); DROP TABLE IF EXISTS public.event");
    expect_refused("there is no table \"t\".\"event\" (but there is t.\"EVENT\": names with upper case need double quotes");
}
END_TEST

START_TEST(a_view_is_refused) {
    make_table();
    direct_run(pg, "ALTER TABLE t.event RENAME TO e; CREATE VIEW t.event AS SELECT * FROM t.e");
    expect_refused("\"event\" is a view, by which late commits can't be found; name the table itself (it reads t.e)");
    ck_assert(!strchr(source_note(reader.source), '\n'));
}
END_TEST

START_TEST(columns_that_may_be_null_are_refused_and_mended_by_the_note) {
    make_table();
    direct_run(pg, "ALTER TABLE t.event ALTER xid DROP NOT NULL");
    expect_refused("\"xid\" may be NULL");
    mend("\"xid\" may be NULL");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
}
END_TEST

START_TEST(positions_that_may_repeat_are_refused_and_mended_by_the_note) {
    make_table();
    direct_run(pg, "ALTER TABLE t.event DROP CONSTRAINT event_pkey, ALTER position DROP IDENTITY;"
               "CREATE INDEX ON t.event (position)");
    expect_refused("neither unique nor from a sequence");
    mend("neither unique nor from a sequence");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
}
END_TEST

START_TEST(missing_indexes_are_warned_of_and_mended_by_the_note) {
    make_table();
    direct_run(pg, "ALTER TABLE t.event DROP CONSTRAINT event_pkey; DROP INDEX t.event_xid_position_idx");
    expect_warned("no index on (\"xid\", \"position\")");
    mend("no index on (\"xid\", \"position\")");
    expect_warned("no index on \"position\"");
    mend("no index on \"position\"");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    ck_assert_str_eq(source_note(reader.source), "");
}
END_TEST

START_TEST(an_index_in_another_order_is_warned_of_and_mended_by_the_note) {
    make_table();
    direct_run(pg, "DROP INDEX t.event_xid_position_idx; CREATE INDEX ON t.event (xid, position DESC)");
    expect_warned("no index of \"t\".\"event\" serves the reading, which looks at all rows (EXPLAIN shows \"Index Scan using ");
    mend("serves the reading");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    ck_assert_str_eq(source_note(reader.source), "");
}
END_TEST

static void make_partitioned_table(void) {
    direct_run(pg, "CREATE TABLE t.event (position bigserial, id text NOT NULL, source text NOT NULL, type text NOT NULL,"
               " xid xid8 NOT NULL DEFAULT pg_current_xact_id()) PARTITION BY RANGE (position);"
               "CREATE TABLE t.event_a PARTITION OF t.event FOR VALUES FROM (1) TO (20);"
               "CREATE TABLE t.event_b PARTITION OF t.event FOR VALUES FROM (20) TO (1000)");
}

START_TEST(indexes_of_the_partitions_alone_are_enough) {
    make_partitioned_table();
    direct_run(pg, "CREATE INDEX ON t.event_a (xid, position); CREATE INDEX ON t.event_a (position);"
               "CREATE INDEX ON t.event_b (xid, position)");
    expect_warned("no index on \"position\"");
    direct_run(pg, "CREATE INDEX ON t.event_b (position)");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    ck_assert_str_eq(source_note(reader.source), "");
}
END_TEST

START_TEST(a_foreign_partition_is_refused) {
    make_partitioned_table();
    direct_run(pg, "CREATE EXTENSION IF NOT EXISTS postgres_fdw;"
               "CREATE SERVER IF NOT EXISTS elsewhere FOREIGN DATA WRAPPER postgres_fdw;"
               "CREATE FOREIGN TABLE t.event_c PARTITION OF t.event FOR VALUES FROM (1000) TO (2000) SERVER elsewhere");
    expect_refused("are foreign tables (t.event_c)");
    direct_run(pg, "DROP EXTENSION postgres_fdw CASCADE");
}
END_TEST

START_TEST(a_transaction_id_without_its_default_is_warned_of_and_mended_by_the_note) {
    make_table();
    direct_run(pg, "ALTER TABLE t.event ALTER xid DROP DEFAULT");
    expect_warned("does not default to the transaction's id");
    mend("does not default to the transaction's id");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    ck_assert_str_eq(source_note(reader.source), "");
}
END_TEST

/* Rights. ------------------------------------------------------------------ */

static void become_other_role(void) {
    direct_run(pg, "DO $$ BEGIN CREATE ROLE \"other role\" LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    reader_set(&reader.database.conninfo, "user='other role'");
}

START_TEST(missing_rights_are_refused_together_and_mended_by_the_note) {
    make_table();
    become_other_role();
    expect_refused("GRANT USAGE ON SCHEMA \"t\" TO \"other role\";");
    ck_assert(strstr(source_note(reader.source), "GRANT SELECT ON \"t\".\"event\" TO \"other role\";"));
    mend("may not use the schema");
    mend("may not read");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    ck_assert_str_eq(source_note(reader.source), "");
}
END_TEST

START_TEST(partitions_need_no_rights_of_their_own) {
    make_partitioned_table();
    direct_run(pg, "INSERT INTO t.event (id, source, type) SELECT i, '/s', 'a' FROM generate_series(1, 30) i");
    become_other_role();
    direct_run(pg, "GRANT USAGE ON SCHEMA t TO \"other role\"; GRANT SELECT ON t.event TO \"other role\"");
    expect_opened(NULL);
    ck_assert_int_eq(read_all(7, 1 << 20), 30);
}
END_TEST

START_TEST(the_grants_of_schema_suffice) {
    CLEANUP(buf_done) struct buf sql = BUF_INIT(65536);
    make_table();
    become_other_role();
    ck_assert_int_eq(source_add_grants_sql(SPAN_LITERAL("t.event"), SPAN_LITERAL("other role"), &sql), 0);
    ck_assert_int_eq(buf_terminate(&sql), 0);
    direct_run(pg, "%s", sql.data);
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
}
END_TEST

START_TEST(row_level_security_that_hides_rows_is_refused) {
    make_table();
    become_other_role();
    direct_run(pg, "GRANT USAGE ON SCHEMA t TO \"other role\"; GRANT SELECT ON t.event TO \"other role\";"
               "ALTER TABLE t.event ENABLE ROW LEVEL SECURITY");
    expect_refused("row-level security");
    mend("row-level security");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    direct_run(pg, "ALTER ROLE \"other role\" NOBYPASSRLS");
}
END_TEST

START_TEST(row_level_security_switched_on_later_fails_instead_of_hiding) {
    make_table();
    insert(5);
    become_other_role();
    direct_run(pg, "GRANT USAGE ON SCHEMA t TO \"other role\"; GRANT SELECT ON t.event TO \"other role\"");
    expect_opened(NULL);
    ck_assert_int_eq(read_all(10, 1 << 20), 5);
    direct_run(pg, "ALTER TABLE t.event ENABLE ROW LEVEL SECURITY");
    ck_assert_int_eq(source_want(reader.source, 10, 1 << 20, clock_now_us()), 0);
    ck_assert_int_eq(reader_next(&reader), SOURCE_FAILED);
    ck_assert_int_eq(reader.error.class, ERROR_CONFIG);
}
END_TEST

/* Other clusters' transactions. --------------------------------------------- */

START_TEST(rows_of_another_cluster_are_refused) {
    make_table();
    direct_run(pg, "INSERT INTO t.event (source, type, xid) VALUES ('/s', 'a', '999999999')");
    expect_refused("make them old: UPDATE");
}
END_TEST

START_TEST(rows_of_another_cluster_are_found_along_with_the_rest) {
    make_table();
    direct_run(pg, "INSERT INTO t.event (source, type, xid) VALUES ('/s', 'a', '999999999');"
               "ALTER TABLE t.event ALTER xid DROP NOT NULL; DROP INDEX t.event_xid_position_idx");
    expect_refused("make them old: UPDATE");
    ck_assert(strstr(source_note(reader.source), "may be NULL"));
    ck_assert(strstr(source_note(reader.source), "no index on (\"xid\", \"position\")"));
}
END_TEST

START_TEST(foreign_rows_that_slip_in_later_are_not_read_again_and_again) {
    make_table();
    insert(3);
    expect_opened(NULL);
    direct_run(pg, "INSERT INTO t.event (source, type, xid) VALUES ('/s', 'a', '999999999')");
    ck_assert_int_eq(read_all(10, 1 << 20), 3);
    ck_assert_int_eq(read_all(10, 1 << 20), 0);
    insert(2);
    ck_assert_int_eq(read_all(10, 1 << 20), 2);
}
END_TEST

START_TEST(a_table_that_a_subscription_fills_is_refused_without_its_trigger) {
    make_table();
    direct_run(pg, "INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) VALUES (1, 't.event'::regclass, 'r')");
    expect_refused("filled by a subscription");
    direct_run(pg, "CREATE FUNCTION t.set_xid() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.xid := pg_current_xact_id();"
               " RETURN NEW; END $$; CREATE TRIGGER set_xid BEFORE INSERT ON t.event FOR EACH ROW EXECUTE FUNCTION t.set_xid();"
               "ALTER TABLE t.event ENABLE ALWAYS TRIGGER set_xid");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    direct_run(pg, "DELETE FROM pg_subscription_rel");
}
END_TEST

/* A backup was restored: the row knows of transactions that the server has not reached. */
START_TEST(a_cursor_from_beyond_the_server_is_ahead) {
    make_table();
    ck_assert_int_eq(reader_open(&reader, "{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"5:999999999:\"}"), SOURCE_AHEAD);
    ck_assert_msg(strstr(reader.error.text, "999999999"), "%s", reader.error.text);
    ck_assert_int_eq(reader_open(&reader, "{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"5:5:\", \"n\": \"6:999999999:\","
                                          " \"position\": 1, \"end\": 2}"), SOURCE_AHEAD);
}
END_TEST

START_TEST(an_unreadable_cursor_is_refused) {
    make_table();
    ck_assert_int_eq(reader_open(&reader, "position:17"), SOURCE_FAILED);
    ck_assert(strstr(reader.error.text, "position:17"));
}
END_TEST

/* Starts and places. --------------------------------------------------------- */

START_TEST(a_start_at_the_beginning_reads_all_rows) {
    make_table();
    insert(25);
    expect_opened(NULL);
    ck_assert_int_eq(read_all(10, 1 << 20), 25);
}
END_TEST

START_TEST(a_start_now_reads_what_commits_later_whatever_its_position) {
    PGconn *early = direct_open();
    make_table();
    direct_run(early, "BEGIN; INSERT INTO t.event (source, type) VALUES ('/s', 'early')");
    insert(25);
    reader.options.start = SOURCE_START_NOW;
    expect_opened(NULL);
    CLEANUP(cleanup_free) char *start = place();
    ck_assert_int_eq(read_all(10, 1 << 20), 0);
    direct_run(early, "COMMIT");
    PQfinish(early);
    insert(1);
    expect_opened(start);
    ck_assert_int_eq(read_all(10, 1 << 20), 2);
}
END_TEST

START_TEST(a_start_at_a_position_reads_it_and_what_follows) {
    make_table();
    insert(25);
    reader.options.start = SOURCE_START_POSITION;
    reader.options.start_position = 20;
    expect_opened(NULL);
    CLEANUP(cleanup_free) char *start = place();
    ck_assert_msg(strstr(start, "\"position\": 19, \"end\": 25"), "%s", start);
    ck_assert_int_eq(read_all(10, 1 << 20), 6);
    insert(1);
    expect_opened(start);
    ck_assert_int_eq(read_all(10, 1 << 20), 7);
    reader.options.start_position = 1000;
    expect_opened(NULL);
    ck_assert_int_eq(read_all(10, 1 << 20), 0);
    reader.options.start_position = INT64_MIN;
    expect_opened(NULL);
    ck_assert_int_eq(read_all(10, 1 << 20), 26);
}
END_TEST

START_TEST(each_place_goes_on_with_the_row_behind_it) {
    enum { ROWS = 60 };
    char *places[ROWS];
    int at = 0;
    make_table();
    insert(ROWS / 2);
    expect_opened(NULL);
    for (int round = 0; round < 2; round++) {
        do {
            ck_assert_int_eq(source_want(reader.source, 7, 1 << 20, clock_now_us()), 0);
            enum source_signal signal;
            while ((signal = reader_next(&reader)) != SOURCE_DONE) {
                if (signal == SOURCE_ROW)
                    places[at++] = place();
            }
        } while (!source_caught_up(reader.source));
        if (round == 0)
            insert(ROWS / 2);
    }
    ck_assert_int_eq(at, ROWS);
    for (int i = 0; i < ROWS; i++) {
        expect_opened(places[i]);
        ck_assert_int_eq(read_all(1 + (uint32_t)i % 13, 1 << 20), ROWS - 1 - i);
        free(places[i]);
    }
}
END_TEST

START_TEST(an_idle_table_moves_the_place_without_rows_or_marks) {
    make_table();
    expect_opened(NULL);
    for (int i = 0; i < 3; i++) {
        direct_run(pg, "SELECT pg_current_xact_id()");
        ck_assert_int_eq(source_want(reader.source, 7, 1 << 20, clock_now_us()), 0);
        ck_assert_int_eq(reader_next(&reader), SOURCE_DONE);
        ck_assert(source_caught_up(reader.source));
    }
}
END_TEST

START_TEST(a_place_of_a_dropped_target_is_gone_and_was_told) {
    make_table();
    expect_opened(NULL);
    struct source_mark marks[80];
    uint64_t dropped = 0;
    for (int i = 0; i < 80; i++) {
        insert(1);
        ck_assert_int_eq(source_want(reader.source, 7, 1 << 20, clock_now_us()), 0);
        enum source_signal signal;
        while ((signal = reader_next(&reader)) != SOURCE_DONE) {
            if (signal == SOURCE_DROPPED && dropped == 0)
                dropped = source_dropped(reader.source);
            if (signal == SOURCE_ROW)
                marks[i] = source_row_mark(reader.source);
        }
    }
    ck_assert_uint_gt(dropped, 0);
    CLEANUP(buf_done) struct buf b = BUF_INIT(300000);
    ck_assert_int_eq(source_print_cursor(reader.source, marks[0], &b), 0);
    ck_assert_int_eq(source_print_cursor(reader.source, (struct source_mark){1, dropped}, &b), SOURCE_E_GONE);
    source_release(reader.source, marks[79].target);
    ck_assert_int_eq(source_print_cursor(reader.source, marks[0], &b), SOURCE_E_GONE);
    ck_assert_int_eq(source_print_cursor(reader.source, marks[79], &b), 0);
}
END_TEST

/* Bytes. ---------------------------------------------------------------------- */

#define MIB (INT64_C(1) << 20)

/* Under AddressSanitizer what is freed stays for a while: nothing can be said then. */
static int64_t resident_bytes(void) {
#ifdef __SANITIZE_ADDRESS__
    return 0;
#endif
    FILE *f = fopen("/proc/self/statm", "r");
    long long size = 0, resident = 0;
    ck_assert(f && fscanf(f, "%lld %lld", &size, &resident) == 2);
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

static void read_large_rows(int rows, uint64_t demand) {
    int64_t before = resident_bytes();
    expect_opened(NULL);
    ck_assert_int_eq(read_all(100, demand), rows);
    ck_assert(value_of(ROW_DATA).len >= 16 * MIB);
    ck_assert_msg(resident_bytes() - before < 160 * MIB, "%lld MiB", (long long)((resident_bytes() - before) / MIB));
}

START_TEST(rows_of_16_mib_are_cut_by_a_small_demand) {
    make_table();
    direct_run(pg, "ALTER TABLE t.event ALTER data TYPE bytea USING NULL, ALTER data SET STORAGE EXTERNAL;"
               "INSERT INTO t.event (source, type, data) SELECT '/s', 'a', convert_to(repeat('x', 16777216), 'UTF8')"
               " FROM generate_series(1, 12)");
    read_large_rows(12, MIB);
    ck_assert_int_eq(form_of(ROW_DATA), ROW_FORM_BYTEA);
    /* The first page could not know how large they are: it was asked for many and cut. */
    ck_assert_uint_ge(reader.cancels, 1);
    ck_assert_uint_le(reader.cancels, 3);
}
END_TEST

START_TEST(jsonb_that_is_small_on_disk_and_large_as_text_is_cut_too) {
    make_table();
    direct_run(pg, "INSERT INTO t.event (source, type, data) SELECT '/s', 'a', to_jsonb(repeat('x', 16777216))"
               " FROM generate_series(1, 8)");
    read_large_rows(8, MIB);
    ck_assert_int_eq(form_of(ROW_DATA), ROW_FORM_JSON);
    ck_assert_uint_ge(reader.cancels, 1);
}
END_TEST

START_TEST(too_large_data_is_not_loaded_but_its_size_is_told) {
    static const char *const types[] = {"bytea", "text", "json", "jsonb", "xml", "varchar"};
    static const int sizes[] = {1000, 1000, 1002, 1002, 1000, 1000}; /* JSON has its quotes */
    reader.options.max_message_bytes = 100;
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        direct_run(pg, "DROP TABLE IF EXISTS t.event");
        make_table();
        direct_run(pg, "ALTER TABLE t.event ALTER data TYPE %s USING NULL;"
                   "INSERT INTO t.event (source, type, data) SELECT '/s', 'a', %s", types[i],
                   i == 0 ? "convert_to(repeat('x', 1000), 'UTF8')" : i == 2 ? "to_json(repeat('x', 1000))"
                   : i == 3 ? "to_jsonb(repeat('x', 1000))" : i == 4 ? "repeat('x', 1000)::xml" : "repeat('x', 1000)");
        expect_opened(NULL);
        ck_assert_int_eq(read_all(10, MIB), 1);
        ck_assert_msg(span_absent(value_of(ROW_DATA)), "%s", types[i]);
        struct span bytes = value_of(ROW_DATA_BYTES);
        ck_assert_uint_eq(bytes.len, 4);
        int told = (unsigned char)bytes.data[2] << 8 | (unsigned char)bytes.data[3];
        ck_assert_int_eq(told, sizes[i]);
    }
}
END_TEST

START_TEST(null_empty_and_json_null_stay_three_things) {
    make_table();
    direct_run(pg, "INSERT INTO t.event (source, type, data) VALUES ('/s', 'a', NULL)");
    expect_opened(NULL);
    ck_assert_int_eq(read_all(10, MIB), 1);
    ck_assert(span_absent(value_of(ROW_DATA)));
    ck_assert(span_absent(value_of(ROW_DATA_BYTES)));
    direct_run(pg, "INSERT INTO t.event (source, type, data) VALUES ('/s', 'a', 'null')");
    ck_assert_int_eq(read_all(10, MIB), 1);
    ck_assert(span_is(value_of(ROW_DATA), "null"));
    direct_run(pg, "ALTER TABLE t.event ALTER data TYPE text USING data::text;"
               "INSERT INTO t.event (source, type, data) VALUES ('/s', 'a', '')");
    expect_opened("{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"1:1:\"}");
    ck_assert_int_eq(read_all(10, MIB), 3);
    ck_assert(!span_absent(value_of(ROW_DATA)));
    ck_assert_uint_eq(value_of(ROW_DATA).len, 0);
}
END_TEST

START_TEST(columns_come_in_the_forms_that_rows_are_made_of) {
    direct_run(pg, "CREATE TABLE t.event (position int PRIMARY KEY, id uuid NOT NULL, source varchar NOT NULL,"
               " type text NOT NULL, time timestamp,"
               " streamid numeric, streamversion smallint, recorded_at timestamptz, extensions jsonb, flag bool, day date,"
               " amount money, xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint);"
               "CREATE INDEX ON t.event (xid, position);"
               "INSERT INTO t.event VALUES (7, '00000000-0000-0000-0000-000000000001', '/s', 'a', '2000-01-01 00:00:01', 1.50, 3,"
               " '2000-01-01 00:00:00Z', '{\"a\": 1}', true, '2000-01-02', 3)");
    static const char *const columns[] = {"flag", "day", "amount"};
    reader.options.extensions = calloc(3, sizeof *reader.options.extensions);
    reader.options.extension_count = 3;
    for (int i = 0; i < 3; i++) {
        reader.options.extensions[i].attribute = strdup(columns[i]);
        reader.options.extensions[i].column = strdup(columns[i]);
    }
    expect_opened(NULL);
    ck_assert_str_eq(source_note(reader.source), "");
    ck_assert_int_eq(read_all(10, MIB), 1);
    static const struct {
        enum row_role role;
        enum row_form form;
        size_t len;
    } want[] = {{ROW_POSITION, ROW_FORM_INT8, 8}, {ROW_ID, ROW_FORM_UUID, 16}, {ROW_SOURCE, ROW_FORM_TEXT, 2},
                {ROW_TIME, ROW_FORM_TIMESTAMP, 8}, {ROW_STREAM_ID, ROW_FORM_TEXT, 4}, {ROW_STREAM_VERSION, ROW_FORM_INT2, 2},
                {ROW_RECORDED, ROW_FORM_TIMESTAMPTZ, 8}, {ROW_EXTENSIONS, ROW_FORM_JSONB, 9}};
    for (size_t i = 0; i < ARRAY_LENGTH(want); i++) {
        ck_assert_int_eq(form_of(want[i].role), want[i].form);
        ck_assert_uint_eq(value_of(want[i].role).len, want[i].len);
    }
    static const enum row_form forms[] = {ROW_FORM_BOOL, ROW_FORM_DATE, ROW_FORM_TEXT};
    int found = 0;
    for (size_t i = 0; i < last_count; i++) {
        if (last[i].column.role != ROW_EXTENSION)
            continue;
        ck_assert(span_is(last[i].column.name, columns[found]));
        ck_assert_int_eq(last[i].column.form, forms[found]);
        found++;
    }
    ck_assert_int_eq(found, 3);
}
END_TEST

/* Plans. --------------------------------------------------------------------- */

/* What the server has told of the table's scans, once it tells of at least `least` rows fetched. */
static int64_t fetched_rows(int64_t least) {
    int64_t end = clock_now_us() + 30 * CLOCK_US_PER_S, fetched = 0;
    do {
        direct_run(pg, "SELECT pg_stat_clear_snapshot()");
        fetched = direct_number(pg, "SELECT sum(idx_tup_fetch) FROM pg_stat_user_tables WHERE schemaname = 't'");
        /* The tail's backend tells when it does something a second later. */
        ck_assert_int_eq(source_want(reader.source, 1000, MIB, clock_now_us()), 0);
        while (reader_next(&reader) != SOURCE_DONE)
            continue;
    } while (fetched < least && clock_now_us() < end);
    return fetched;
}

/* Statements are planned when the table is empty; it grows, and nobody analyzes it. */
START_TEST(plans_made_for_an_empty_table_are_right_when_it_has_grown) {
    enum { ROWS = 30000 };
    PGconn *early = direct_open();
    make_table();
    direct_run(pg, "ALTER TABLE t.event SET (autovacuum_enabled = false)");
    direct_run(pg, "VACUUM ANALYZE t.event"); /* now it is known to be empty */
    expect_opened(NULL);
    direct_run(early, "BEGIN; INSERT INTO t.event (source, type) SELECT '/s', 'early' FROM generate_series(1, 3)");
    for (int i = 0; i < 2; i++) { /* a small read, then a backlog of three rows: all statements are planned */
        insert(3);
        ck_assert_int_eq(read_all(2, MIB), 3);
    }
    for (int i = 0; i < ROWS / 1000; i++)
        insert(1000);
    ck_assert_int_eq(read_all(200, 100 * MIB), ROWS);
    direct_run(early, "COMMIT");
    PQfinish(early);
    ck_assert_int_eq(read_all(2, 100 * MIB), 3);
    int64_t fetched = fetched_rows(ROWS);
    ck_assert_int_ge(fetched, ROWS);
    ck_assert_msg(fetched < 3 * ROWS, "%lld rows fetched for %d", (long long)fetched, ROWS);
    ck_assert_int_eq(direct_number(pg, "SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 't'"), 0);
}
END_TEST

/* Large pages. ---------------------------------------------------------------- */

#define LARGE 5000 /* rows: a page that is copied */

static bool page_is_copied(void) {
    return direct_number(pg, "SELECT (query LIKE '%%; COPY (%%')::int FROM pg_stat_activity WHERE application_name ="
                         " 'penstock/test/tail'");
}

/* Values of all kinds, NULL and empty ones among them. */
static void insert_kinds(int count) {
    direct_run(pg, "INSERT INTO t.event (source, type, subject, time, streamid, data, extensions)"
               " SELECT '/s', 'a.b', nullif(repeat('s', i %% 3), ''), now() + i * interval '1 s',"
               " CASE WHEN i %% 7 > 0 THEN i END,"
               " CASE WHEN i %% 5 > 0 THEN jsonb_build_object('n', i, 't', repeat('x', i %% 400)) END,"
               " CASE WHEN i %% 2 = 0 THEN jsonb_build_object('e', i) END FROM generate_series(1, %d) i", count);
}

/* Reads all; every value of every row goes into the sum. */
static uint64_t sum_of_rows(uint32_t events, int *ret_rows) {
    uint64_t sum = 14695981039346656037u;
    *ret_rows = 0;
    expect_opened(NULL);
    do {
        enum source_signal signal;
        ck_assert_int_eq(source_want(reader.source, events, 100 * MIB, clock_now_us()), 0);
        while ((signal = reader_next(&reader)) != SOURCE_DONE) {
            const struct row *row = source_row(reader.source);
            ck_assert_msg(signal == SOURCE_ROW || signal == SOURCE_MARK, "%d: %s", signal, reader.error.text);
            for (size_t i = 0; signal == SOURCE_ROW && i < row->count; i++) {
                sum = (sum ^ (span_absent(row->values[i]) ? 1 : 2) ^ row->values[i].len << 8) * 1099511628211u;
                for (size_t b = 0; b < row->values[i].len; b++)
                    sum = (sum ^ (unsigned char)row->values[i].data[b]) * 1099511628211u;
            }
            *ret_rows += signal == SOURCE_ROW;
            ck_assert(*ret_rows != 1 || page_is_copied() == (events >= LARGE));
        }
    } while (!source_caught_up(reader.source));
    return sum;
}

static const enum source_mode both_modes[] = {SOURCE_MODE_SNAPSHOT, SOURCE_MODE_GAPS};

START_TEST(a_large_page_is_copied_and_says_the_same) {
    int few, many;
    make_table();
    insert_kinds(LARGE + 300);
    reader.options.mode = both_modes[_i];
    uint64_t sum = sum_of_rows(500, &few);
    ck_assert_uint_eq(sum_of_rows(LARGE, &many), sum);
    ck_assert_int_eq(few, LARGE + 300);
    ck_assert_int_eq(many, few);
}
END_TEST

START_TEST(a_large_page_is_cut_and_goes_on) {
    make_table();
    insert(3000);
    direct_run(pg, "INSERT INTO t.event (source, type, data) SELECT '/s', 'a', to_jsonb(repeat('x', 1000000))"
               " FROM generate_series(1, 40)");
    insert(2000);
    reader.options.mode = both_modes[_i];
    expect_opened(NULL);
    int64_t before = resident_bytes();
    ck_assert_int_eq(read_all(LARGE, 6 * MIB), 5040);
    ck_assert_uint_ge(reader.cancels, 1);
    ck_assert_msg(resident_bytes() - before < 32 * MIB, "%lld MiB", (long long)((resident_bytes() - before) / MIB));
}
END_TEST

/* Of one that began well, the rows that had come are told all the same. */
START_TEST(a_large_page_that_fails_or_is_lost_says_so) {
    make_table();
    insert(LARGE);
    reader.options.mode = both_modes[_i];
    expect_opened(NULL);
    ck_assert_int_eq(source_want(reader.source, LARGE, 100 * MIB, clock_now_us()), 0);
    enum source_signal signal = reader_next(&reader);
    while (signal == SOURCE_MARK)
        signal = reader_next(&reader);
    ck_assert_int_eq(signal, SOURCE_ROW);
    direct_run(pg, "SELECT pg_cancel_backend(%d)", source_cancel_pid(reader.source)); /* not asked for by us */
    while ((signal = reader_next(&reader)) == SOURCE_ROW)
        continue;
    if (signal == SOURCE_DONE) /* it was sent as a whole before */
        return;
    ck_assert_int_eq(signal, SOURCE_FAILED);
    ck_assert_msg(strstr(reader.error.text, "cancel"), "%s", reader.error.text);
    ck_assert_int_eq(pgconn_state(reader.tail), PGCONN_IDLE);
}
END_TEST

START_TEST(a_large_page_whose_connection_ends_is_lost) {
    int rows = 0;
    make_table();
    direct_run(pg, "INSERT INTO t.event (source, type, data) SELECT '/s', 'a', to_jsonb(repeat('x', 3000))"
               " FROM generate_series(1, %d)", LARGE);
    reader.options.mode = both_modes[_i];
    expect_opened(NULL);
    ck_assert_int_eq(source_want(reader.source, LARGE, 100 * MIB, clock_now_us()), 0);
    enum source_signal signal;
    while ((signal = reader_next(&reader)) == SOURCE_ROW || signal == SOURCE_MARK) {
        rows += signal == SOURCE_ROW;
        if (rows == 1)
            direct_run(pg, "SELECT pg_terminate_backend(%d)", source_cancel_pid(reader.source));
    }
    ck_assert_int_eq(signal, SOURCE_LOST);
    ck_assert_int_lt(rows, LARGE);
    ck_assert_int_eq(pgconn_state(reader.tail), PGCONN_CLOSED);
}
END_TEST

START_TEST(a_large_page_of_a_table_that_is_dropped_fails) {
    make_table();
    reader.options.mode = both_modes[_i];
    insert(10);
    expect_opened(NULL);
    direct_run(pg, "DROP TABLE t.event");
    ck_assert_int_eq(source_want(reader.source, LARGE, 100 * MIB, clock_now_us()), 0);
    ck_assert_int_eq(reader_next(&reader), SOURCE_FAILED);
    ck_assert_int_eq(reader.error.class, ERROR_CONFIG);
    ck_assert_int_eq(pgconn_state(reader.tail), PGCONN_IDLE);
}
END_TEST

/* Trouble. ------------------------------------------------------------------- */

/* Over TCP: what is sent is acknowledged in 5 s, what is idle is probed. */
START_TEST(a_dead_peer_is_noticed_by_the_sockets_own_timers) {
    struct pollfd fd;
    make_table();
    reader_set(&reader.database.conninfo, "host=127.0.0.1");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    static const struct {
        int level, option, value;
    } expected[] = {{IPPROTO_TCP, TCP_USER_TIMEOUT, 5000}, {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 2},
                    {IPPROTO_TCP, TCP_KEEPINTVL, 1}, {IPPROTO_TCP, TCP_KEEPCNT, 3}};
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(expected); i++) {
        int value = 0, at = (int)(i / 2);
        socklen_t size = sizeof value;
        pgconn_poll(i % 2 ? reader.keep : reader.tail, &fd);
        ck_assert_int_eq(getsockopt(fd.fd, expected[at].level, expected[at].option, &value, &size), 0);
        ck_assert_int_eq(value, expected[at].value);
    }
}
END_TEST

START_TEST(a_connection_that_is_ended_is_lost) {
    make_table();
    insert(5);
    expect_opened(NULL);
    direct_run(pg, "SELECT pg_terminate_backend(%d)", source_cancel_pid(reader.source));
    ck_assert_int_eq(source_want(reader.source, 7, 1 << 20, clock_now_us()) == 0 ? (int)reader_next(&reader) : (int)SOURCE_LOST,
                     SOURCE_LOST);
}
END_TEST

START_TEST(a_table_that_is_dropped_fails_and_is_refused_at_the_next_look) {
    make_table();
    expect_opened(NULL);
    direct_run(pg, "DROP TABLE t.event");
    ck_assert_int_eq(source_want(reader.source, 7, 1 << 20, clock_now_us()), 0);
    ck_assert_int_eq(reader_next(&reader), SOURCE_FAILED);
    ck_assert_int_eq(reader.error.class, ERROR_CONFIG);
    expect_refused("there is no table");
}
END_TEST

START_TEST(no_transaction_and_no_lock_stays_behind_a_read) {
    make_table();
    insert(50);
    expect_opened(NULL);
    ck_assert_int_eq(read_all(7, 1 << 20), 50);
    ck_assert_int_eq(direct_number(pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'penstock/%%'"
                                   " AND (xact_start IS NOT NULL AND state <> 'idle' OR backend_xmin IS NOT NULL)"), 0);
    ck_assert_int_eq(direct_number(pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock/test/tail'"), 1);
    ck_assert_int_eq(direct_number(pg, "SELECT count(*) FROM pg_locks WHERE relation = 't.event'::regclass"), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("source");
    TCase *cases = tcase_create("source");
    tcase_set_timeout(cases, 120);
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, the_printed_event_table_is_fit_without_a_word);
    tcase_add_test(cases, names_need_no_care);
    tcase_add_test(cases, a_table_without_transaction_id_is_tailed_by_its_gaps);
    tcase_add_test(cases, mode_snapshot_refuses_a_table_without_transaction_id_and_the_note_mends_it);
    tcase_add_test(cases, a_checkpoint_stays_in_its_mode);
    tcase_add_test(cases, a_partitioned_table_is_mended_by_the_note);
    tcase_add_test(cases, the_transaction_id_statements_of_schema_work_twice);
    tcase_add_test(cases, all_findings_come_in_one_run);
    tcase_add_test(cases, an_absent_table_is_refused_with_a_hint);
    tcase_add_test(cases, a_view_is_refused);
    tcase_add_test(cases, columns_that_may_be_null_are_refused_and_mended_by_the_note);
    tcase_add_test(cases, positions_that_may_repeat_are_refused_and_mended_by_the_note);
    tcase_add_test(cases, missing_indexes_are_warned_of_and_mended_by_the_note);
    tcase_add_test(cases, an_index_in_another_order_is_warned_of_and_mended_by_the_note);
    tcase_add_test(cases, indexes_of_the_partitions_alone_are_enough);
    tcase_add_test(cases, a_foreign_partition_is_refused);
    tcase_add_test(cases, a_transaction_id_without_its_default_is_warned_of_and_mended_by_the_note);
    tcase_add_test(cases, missing_rights_are_refused_together_and_mended_by_the_note);
    tcase_add_test(cases, partitions_need_no_rights_of_their_own);
    tcase_add_test(cases, the_grants_of_schema_suffice);
    tcase_add_test(cases, row_level_security_that_hides_rows_is_refused);
    tcase_add_test(cases, row_level_security_switched_on_later_fails_instead_of_hiding);
    tcase_add_test(cases, rows_of_another_cluster_are_refused);
    tcase_add_test(cases, rows_of_another_cluster_are_found_along_with_the_rest);
    tcase_add_test(cases, foreign_rows_that_slip_in_later_are_not_read_again_and_again);
    tcase_add_test(cases, a_table_that_a_subscription_fills_is_refused_without_its_trigger);
    tcase_add_test(cases, a_cursor_from_beyond_the_server_is_ahead);
    tcase_add_test(cases, an_unreadable_cursor_is_refused);
    tcase_add_test(cases, a_start_at_the_beginning_reads_all_rows);
    tcase_add_test(cases, a_start_now_reads_what_commits_later_whatever_its_position);
    tcase_add_test(cases, a_start_at_a_position_reads_it_and_what_follows);
    tcase_add_test(cases, each_place_goes_on_with_the_row_behind_it);
    tcase_add_test(cases, an_idle_table_moves_the_place_without_rows_or_marks);
    tcase_add_test(cases, a_place_of_a_dropped_target_is_gone_and_was_told);
    tcase_add_test(cases, rows_of_16_mib_are_cut_by_a_small_demand);
    tcase_add_test(cases, jsonb_that_is_small_on_disk_and_large_as_text_is_cut_too);
    tcase_add_test(cases, too_large_data_is_not_loaded_but_its_size_is_told);
    tcase_add_test(cases, null_empty_and_json_null_stay_three_things);
    tcase_add_test(cases, columns_come_in_the_forms_that_rows_are_made_of);
    tcase_add_test(cases, plans_made_for_an_empty_table_are_right_when_it_has_grown);
    tcase_add_loop_test(cases, a_large_page_is_copied_and_says_the_same, 0, 2);
    tcase_add_loop_test(cases, a_large_page_is_cut_and_goes_on, 0, 2);
    tcase_add_loop_test(cases, a_large_page_that_fails_or_is_lost_says_so, 0, 2);
    tcase_add_loop_test(cases, a_large_page_whose_connection_ends_is_lost, 0, 2);
    tcase_add_loop_test(cases, a_large_page_of_a_table_that_is_dropped_fails, 0, 2);
    tcase_add_test(cases, a_dead_peer_is_noticed_by_the_sockets_own_timers);
    tcase_add_test(cases, a_connection_that_is_ended_is_lost);
    tcase_add_test(cases, a_table_that_is_dropped_fails_and_is_refused_at_the_next_look);
    tcase_add_test(cases, no_transaction_and_no_lock_stays_behind_a_read);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
