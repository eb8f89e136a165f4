/* test_checkpoint_row: the checkpoint's row in a real server: made, loaded, saved, refused */
#include "integration/reader.h"
#include "unit/unit.h"

#include <sys/wait.h>

#include "base/instance.h"
#include "forwarder/checkpoint.h"

/* One instance. */
struct instance {
    struct pgconn_options database;
    struct guard *guard;
    struct pgconn *keep;
    struct checkpoint *checkpoint;
    struct error error;
};

static PGconn *pg;
static char identifier[24];

#define LEASE_US (20 * CLOCK_US_PER_S)
#define SCHEMA "our \"tables\""
#define TABLE "\"our \"\"tables\"\"\".checkpoint"

static void setup(void) {
    pg = direct_open();
    snprintf(identifier, sizeof identifier, "%lld",
             (long long)direct_number(pg, "SELECT system_identifier FROM pg_control_system()"));
    direct_run(pg, "DROP SCHEMA IF EXISTS \"our \"\"tables\"\"\" CASCADE; DROP TABLE IF EXISTS public.event;"
               "DO $$ BEGIN CREATE ROLE \"other role\" LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
}

static void teardown(void) {
    PQfinish(pg);
}

static void run_sql_of_schema(const char *role, const char *event_table) {
    CLEANUP(buf_done) struct buf sql = BUF_INIT(65536);
    ck_assert_int_eq(checkpoint_add_schema_sql(SPAN_LITERAL(SCHEMA), &sql), 0);
    if (role)
        ck_assert_int_eq(checkpoint_add_role_sql(SPAN_LITERAL(SCHEMA), span_of(role), span_of(event_table), &sql), 0);
    ck_assert_int_eq(buf_terminate(&sql), 0);
    direct_run(pg, "%s", sql.data);
}

static enum checkpoint_signal next(struct instance *i) {
    for (;;) {
        enum checkpoint_signal signal = checkpoint_next(i->checkpoint, clock_now_us(), &i->error);
        if (signal != CHECKPOINT_NONE)
            return signal;
        wait_for(i->keep);
        if (pgconn_work(i->keep, clock_now_us(), &i->error) != 0)
            return CHECKPOINT_LOST;
    }
}

static void start(struct instance *i, const char *owner, const char *user, bool create) {
    *i = (struct instance){0};
    i->database.connect_timeout_us = i->database.statement_timeout_us = 10 * CLOCK_US_PER_S;
    if (user)
        ck_assert_int_ge(asprintf(&i->database.conninfo, "user='%s'", user), 0);
    ck_assert_int_eq(guard_new(&i->guard), 0);
    ck_assert_int_eq(pgconn_new(&i->database, "db", "f", "keep", i->guard, &i->keep), 0);
    ck_assert_int_eq(checkpoint_new("f", SCHEMA, create, owner, LEASE_US, i->keep, &i->checkpoint), 0);
    ck_assert_int_eq(pgconn_dial(i->keep, clock_now_us()), 0);
    while (pgconn_state(i->keep) == PGCONN_DIALING) {
        wait_for(i->keep);
        int r = pgconn_work(i->keep, clock_now_us(), &i->error);
        ck_assert_msg(r == 0, "%s", i->error.text);
    }
    ck_assert_int_eq(checkpoint_inspect(i->checkpoint, clock_now_us()), 0);
    ck_assert(checkpoint_busy(i->checkpoint));
}

static void stop(struct instance *i) {
    checkpoint_free(i->checkpoint);
    pgconn_free(i->keep);
    guard_free(i->guard);
    free(i->database.conninfo);
}

static enum checkpoint_signal inspect(struct instance *i) {
    ck_assert_int_eq(checkpoint_inspect(i->checkpoint, clock_now_us()), 0);
    return next(i);
}

static enum checkpoint_signal load(struct instance *i) {
    ck_assert_int_eq(checkpoint_load(i->checkpoint, clock_now_us()), 0);
    return next(i);
}

static enum checkpoint_signal create(struct instance *i, const char *cursor) {
    ck_assert_int_eq(checkpoint_create(i->checkpoint, span_of(cursor), 0, span_of(identifier), clock_now_us()), 0);
    return next(i);
}

static enum checkpoint_signal take(struct instance *i) {
    ck_assert_int_eq(checkpoint_take(i->checkpoint, clock_now_us()), 0);
    return next(i);
}

static enum checkpoint_signal watch(struct instance *i) {
    ck_assert_int_eq(checkpoint_watch(i->checkpoint, clock_now_us()), 0);
    return next(i);
}

static enum checkpoint_signal extend(struct instance *i) {
    ck_assert_int_eq(checkpoint_extend(i->checkpoint, clock_now_us()), 0);
    return next(i);
}

static enum checkpoint_signal yield(struct instance *i) {
    ck_assert_int_eq(checkpoint_yield(i->checkpoint, clock_now_us()), 0);
    return next(i);
}

/* Loaded and taken by another, as if the lease had run out. */
static void start_over(struct instance *i, const char *owner) {
    direct_run(pg, "UPDATE " TABLE " SET lease_until = now()");
    start(i, owner, NULL, false);
    ck_assert_int_eq(next(i), CHECKPOINT_INSPECTED);
    ck_assert_int_eq(load(i), CHECKPOINT_LOADED);
    ck_assert(checkpoint_is_free(i->checkpoint));
    ck_assert_int_eq(take(i), CHECKPOINT_TAKEN);
}

static enum checkpoint_signal save(struct instance *i, const char *cursor, int64_t position) {
    ck_assert_int_eq(checkpoint_save(i->checkpoint, span_of(cursor), NULL, position, clock_now_us()), 0);
    return next(i);
}

static void expect_row(const char *cursor, int64_t position) {
    PGresult *r = PQexec(pg, "SELECT cursor, position FROM " TABLE " WHERE forwarder = 'f'");
    ck_assert_int_eq(PQntuples(r), 1);
    ck_assert_str_eq(PQgetvalue(r, 0, 0), cursor);
    ck_assert_int_eq(strtoll(PQgetvalue(r, 0, 1), NULL, 10), position);
    PQclear(r);
}

/* With our tables and no row. */
static void start_fresh(struct instance *i) {
    run_sql_of_schema(NULL, NULL);
    start(i, "a", NULL, false);
    ck_assert_int_eq(next(i), CHECKPOINT_INSPECTED);
    ck_assert_int_eq(load(i), CHECKPOINT_ABSENT);
    ck_assert(!checkpoint_has_row(i->checkpoint));
}

START_TEST(the_sql_of_schema_runs_twice_and_suffices_for_its_role) {
    struct instance a;
    direct_run(pg, "CREATE TABLE public.event (position bigint)");
    run_sql_of_schema("other role", "public.event");
    run_sql_of_schema("other role", "public.event");
    ck_assert_int_eq(direct_number(pg, "SELECT has_table_privilege('other role', 'public.event', 'SELECT')::int"), 1);
    start(&a, "a", "other role", false);
    ck_assert_msg(next(&a) == CHECKPOINT_INSPECTED, "%s", a.error.text);
    ck_assert_str_eq(checkpoint_note(a.checkpoint), "");
    ck_assert_int_eq(load(&a), CHECKPOINT_ABSENT);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    ck_assert_int_eq(save(&a, "c1", 17), CHECKPOINT_SAVED);
    expect_row("c1", 17);
    stop(&a);
    direct_run(pg, "DROP OWNED BY \"other role\"");
}
END_TEST

START_TEST(missing_tables_are_told_with_what_makes_them) {
    struct instance a;
    start(&a, "a", NULL, false);
    ck_assert_int_eq(next(&a), CHECKPOINT_MISSING);
    ck_assert_int_eq(a.error.class, ERROR_CONFIG);
    ck_assert_msg(strstr(checkpoint_note(a.checkpoint), "`penstock schema --role penstock`"), "%s", checkpoint_note(a.checkpoint));
    run_sql_of_schema(NULL, NULL);
    ck_assert_int_eq(inspect(&a), CHECKPOINT_INSPECTED);
    stop(&a);
}
END_TEST

START_TEST(missing_tables_are_made_if_asked) {
    struct instance a;
    for (int i = 0; i < 2; i++) {
        start(&a, "a", NULL, true);
        ck_assert_int_eq(next(&a), CHECKPOINT_INSPECTED);
        stop(&a);
    }
    ck_assert_int_eq(direct_number(pg, "SELECT count(*) FROM " TABLE), 0);
}
END_TEST

START_TEST(tables_that_may_not_be_made_are_told) {
    struct instance a;
    start(&a, "a", "other role", true);
    ck_assert_int_eq(next(&a), CHECKPOINT_MISSING);
    ck_assert_msg(strstr(a.error.text, "permission denied"), "%s", a.error.text);
    ck_assert(strstr(checkpoint_note(a.checkpoint), "penstock schema"));
    stop(&a);
}
END_TEST

START_TEST(missing_rights_are_told_with_the_grants) {
    struct instance a;
    run_sql_of_schema(NULL, NULL);
    start(&a, "a", "other role", true);
    ck_assert_int_eq(next(&a), CHECKPOINT_MISSING);
    ck_assert_msg(strstr(checkpoint_note(a.checkpoint), "GRANT SELECT, INSERT, UPDATE, DELETE ON"), "%s",
                  checkpoint_note(a.checkpoint));
    direct_run(pg, "%s", strstr(checkpoint_note(a.checkpoint), "GRANT"));
    ck_assert_int_eq(inspect(&a), CHECKPOINT_INSPECTED);
    stop(&a);
    direct_run(pg, "DROP OWNED BY \"other role\"");
}
END_TEST

START_TEST(a_table_of_somebody_else_is_left_alone) {
    struct instance a;
    direct_run(pg, "CREATE SCHEMA \"our \"\"tables\"\"\"; CREATE TABLE " TABLE " (forwarder text, position bigint)");
    start(&a, "a", NULL, true);
    ck_assert_int_eq(next(&a), CHECKPOINT_MISSING);
    ck_assert_msg(strstr(a.error.text, "it lacks cursor, system_identifier"), "%s", a.error.text);
    stop(&a);
}
END_TEST

START_TEST(a_saved_row_is_loaded_byte_by_byte) {
    struct instance a, b;
    const char *cursor = "{\"v\": 1,  \"mode\": \"snapshot\", \"s\": \"10:20:\"} \\ 'x' ü";
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    ck_assert_int_eq(checkpoint_row(a.checkpoint)->epoch, 1);
    ck_assert_int_eq(save(&a, cursor, -3), CHECKPOINT_SAVED);
    ck_assert(span_is(checkpoint_row(a.checkpoint)->cursor, cursor));
    ck_assert_int_eq(save(&a, cursor, 5), CHECKPOINT_SAVED);
    stop(&a);
    start(&b, "b", NULL, false);
    ck_assert_int_eq(next(&b), CHECKPOINT_INSPECTED);
    ck_assert_int_eq(load(&b), CHECKPOINT_LOADED);
    const struct checkpoint_row *row = checkpoint_row(b.checkpoint);
    ck_assert(span_is(row->cursor, cursor));
    ck_assert_int_eq(row->position, 5);
    ck_assert(span_is(row->system_identifier, identifier));
    ck_assert(span_is(row->owner, "a"));
    ck_assert_int_eq(row->epoch, 1);
    ck_assert(!row->paused);
    stop(&b);
}
END_TEST

/* Whatever the one before still writes is refused by the database. */
START_TEST(who_takes_the_row_shuts_out_who_had_it) {
    struct instance a, b;
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    start_over(&b, "b");
    ck_assert_int_eq(checkpoint_row(b.checkpoint)->epoch, 2);
    ck_assert_int_eq(save(&a, "c1", 1), CHECKPOINT_REFUSED);
    ck_assert(!checkpoint_has_row(a.checkpoint));
    expect_row("c0", 0);
    ck_assert_int_eq(save(&b, "c2", 2), CHECKPOINT_SAVED);
    ck_assert_int_eq(checkpoint_row(b.checkpoint)->epoch, 2);
    expect_row("c2", 2);
    ck_assert_int_eq(load(&a), CHECKPOINT_LOADED);
    ck_assert(span_is(checkpoint_row(a.checkpoint)->cursor, "c2"));
    ck_assert(!checkpoint_is_free(a.checkpoint));
    ck_assert_int_eq(take(&a), CHECKPOINT_REFUSED);
    stop(&a);
    stop(&b);
}
END_TEST

static enum checkpoint_signal command(struct instance *i) {
    struct checkpoint_command pause = {.name = "pause", .who = "w", .reason = "r", .pauses = true};
    ck_assert_int_eq(checkpoint_command(i->checkpoint, &pause, clock_now_us()), 0);
    return next(i);
}

START_TEST(every_kind_of_writing_is_refused_from_an_earlier_owner) {
    enum checkpoint_signal (*const writes[])(struct instance *) = {extend, yield, command};
    for (size_t i = 0; i < ARRAY_LENGTH(writes); i++) {
        struct instance a, b;
        setup();
        start_fresh(&a);
        ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
        start_over(&b, "a"); /* even under the same name */
        int64_t before = direct_number(pg, "SELECT xmin::text::bigint FROM " TABLE);
        ck_assert_int_eq(writes[i](&a), CHECKPOINT_REFUSED);
        ck_assert_int_eq(direct_number(pg, "SELECT xmin::text::bigint FROM " TABLE), before);
        ck_assert_int_eq(direct_number(pg, "SELECT count(*) FROM \"our \"\"tables\"\"\".journal"), 0);
        stop(&a);
        stop(&b);
        teardown();
    }
    setup();
}
END_TEST

/* How much of a lease is left may be a little less than what was asked for. */
static void expect_lease(int64_t left_us) {
    int64_t is_us = direct_number(pg, "SELECT (extract(epoch FROM lease_until - now()) * 1000000)::int8 FROM " TABLE);
    ck_assert_int_le(is_us, left_us);
    ck_assert_int_gt(is_us, left_us - 10 * CLOCK_US_PER_S);
}

START_TEST(the_lease_is_taken_extended_and_given_back) {
    struct instance a, b;
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    expect_lease(LEASE_US);
    direct_run(pg, "UPDATE " TABLE " SET lease_until = now() + interval '1 s'");
    ck_assert_int_eq(extend(&a), CHECKPOINT_EXTENDED);
    expect_lease(LEASE_US);
    direct_run(pg, "UPDATE " TABLE " SET lease_until = now() + interval '1 s'");
    ck_assert_int_eq(save(&a, "c1", 1), CHECKPOINT_SAVED);
    expect_lease(LEASE_US);
    start(&b, "b", NULL, false);
    ck_assert_int_eq(next(&b), CHECKPOINT_INSPECTED);
    ck_assert_int_eq(load(&b), CHECKPOINT_LOADED);
    ck_assert(!checkpoint_is_free(b.checkpoint));
    ck_assert_int_eq(take(&b), CHECKPOINT_REFUSED); /* by the database too, if it came to that */
    ck_assert_int_eq(load(&b), CHECKPOINT_LOADED);
    ck_assert_int_eq(watch(&b), CHECKPOINT_WATCHED);
    ck_assert(!checkpoint_is_free(b.checkpoint));
    ck_assert(span_is(checkpoint_row(b.checkpoint)->owner, "a"));
    ck_assert_int_gt(checkpoint_row(b.checkpoint)->lease_left_us, 0);
    ck_assert_int_eq(yield(&a), CHECKPOINT_YIELDED);
    ck_assert_int_eq(watch(&b), CHECKPOINT_WATCHED);
    ck_assert(checkpoint_is_free(b.checkpoint));
    ck_assert_int_eq(take(&b), CHECKPOINT_TAKEN);
    expect_lease(LEASE_US);
    stop(&a);
    stop(&b);
}
END_TEST

START_TEST(an_owner_takes_its_own_row_again_at_once) {
    struct instance a;
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    ck_assert_int_eq(load(&a), CHECKPOINT_LOADED);
    ck_assert(checkpoint_is_free(a.checkpoint));
    ck_assert_int_eq(take(&a), CHECKPOINT_TAKEN);
    ck_assert_int_eq(checkpoint_row(a.checkpoint)->epoch, 2);
    ck_assert_int_eq(save(&a, "c1", 1), CHECKPOINT_SAVED);
    stop(&a);
}
END_TEST

/* As after a crash on this machine. */
START_TEST(the_row_of_a_process_that_is_gone_is_taken_at_once) {
    struct instance a, b;
    char owner[INSTANCE_NAME_MAX];
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    instance_name(owner);
    char *place = strchr(strchr(owner, ':') + 1, ':');
    CLEANUP(buf_done) struct buf gone = BUF_INIT(INSTANCE_NAME_MAX);
    ck_assert_int_eq(buf_addf(&gone, "elsewhere:%d%s", (int)child, place), 0);
    ck_assert_int_eq(buf_terminate(&gone), 0);
    start(&a, gone.data, NULL, true);
    ck_assert_int_eq(next(&a), CHECKPOINT_INSPECTED);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    start(&b, "b", NULL, false);
    ck_assert_int_eq(next(&b), CHECKPOINT_INSPECTED);
    ck_assert_int_eq(load(&b), CHECKPOINT_LOADED);
    ck_assert_int_gt(checkpoint_row(b.checkpoint)->lease_left_us, 0);
    ck_assert(checkpoint_is_free(b.checkpoint));
    ck_assert_int_eq(take(&b), CHECKPOINT_TAKEN);
    waitpid(child, NULL, 0);
    stop(&a);
    stop(&b);
}
END_TEST

START_TEST(loading_leaves_the_row_as_it_was) {
    struct instance a;
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    int64_t before = direct_number(pg, "SELECT xmin::text::bigint FROM " TABLE);
    ck_assert_int_eq(load(&a), CHECKPOINT_LOADED);
    ck_assert_int_eq(direct_number(pg, "SELECT xmin::text::bigint FROM " TABLE), before);
    stop(&a);
}
END_TEST

START_TEST(a_row_of_another_cluster_is_refused_at_the_look_and_at_the_load) {
    struct instance a;
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    direct_run(pg, "UPDATE " TABLE " SET system_identifier = '4711'");
    ck_assert_int_eq(load(&a), CHECKPOINT_MISSING);
    ck_assert_int_eq(a.error.class, ERROR_CONFIG);
    ck_assert_int_eq(inspect(&a), CHECKPOINT_MISSING);
    ck_assert(strstr(checkpoint_note(a.checkpoint), "penstock rebase f --upgraded --reason TEXT"));
    ck_assert(!checkpoint_has_row(a.checkpoint));
    direct_run(pg, "UPDATE " TABLE " SET system_identifier = (SELECT system_identifier FROM pg_control_system())");
    ck_assert_int_eq(inspect(&a), CHECKPOINT_INSPECTED);
    ck_assert(!checkpoint_has_row(a.checkpoint));
    ck_assert_int_eq(load(&a), CHECKPOINT_LOADED);
    stop(&a);
}
END_TEST

START_TEST(a_row_that_an_operator_moved_or_deleted_is_not_overwritten) {
    struct instance a;
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    direct_run(pg, "UPDATE " TABLE " SET cursor = 'sought'");
    ck_assert_int_eq(save(&a, "c1", 1), CHECKPOINT_REFUSED);
    expect_row("sought", 0);
    ck_assert_int_eq(load(&a), CHECKPOINT_LOADED);
    ck_assert_int_eq(take(&a), CHECKPOINT_TAKEN);
    direct_run(pg, "DELETE FROM " TABLE);
    ck_assert_int_eq(save(&a, "c1", 1), CHECKPOINT_REFUSED);
    ck_assert_int_eq(load(&a), CHECKPOINT_ABSENT); /* begins anew */
    stop(&a);
}
END_TEST

/* The earlier one wins. */
START_TEST(of_two_that_start_together_the_first_row_stays) {
    struct instance a, b;
    start_fresh(&a);
    start(&b, "b", NULL, false);
    ck_assert_int_eq(next(&b), CHECKPOINT_INSPECTED);
    ck_assert_int_eq(load(&b), CHECKPOINT_ABSENT);
    ck_assert_int_eq(create(&a, "first"), CHECKPOINT_LOADED);
    ck_assert(checkpoint_is_taken(a.checkpoint));
    ck_assert_int_eq(create(&b, "first"), CHECKPOINT_LOADED); /* even the same */
    ck_assert(!checkpoint_is_taken(b.checkpoint));
    ck_assert(span_is(checkpoint_row(b.checkpoint)->cursor, "first"));
    ck_assert(!checkpoint_is_free(b.checkpoint));
    ck_assert_int_eq(save(&a, "c1", 1), CHECKPOINT_SAVED);
    stop(&a);
    stop(&b);
}
END_TEST

START_TEST(the_longest_cursor_is_saved_and_loaded) {
    struct instance a;
    char *cursor = malloc(CHECKPOINT_CURSOR_MAX + 1);
    memset(cursor, 'x', CHECKPOINT_CURSOR_MAX);
    cursor[CHECKPOINT_CURSOR_MAX] = '\0';
    start_fresh(&a);
    ck_assert_int_eq(create(&a, cursor), CHECKPOINT_LOADED);
    cursor[0] = 'y';
    ck_assert_int_eq(save(&a, cursor, 1), CHECKPOINT_SAVED);
    ck_assert_int_eq(load(&a), CHECKPOINT_LOADED);
    ck_assert(span_is(checkpoint_row(a.checkpoint)->cursor, cursor));
    free(cursor);
    stop(&a);
}
END_TEST

START_TEST(a_refused_statement_fails_and_the_old_value_stands) {
    struct instance a;
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    direct_run(pg, "ALTER TABLE " TABLE " ADD CHECK (position < 10)");
    ck_assert_int_eq(save(&a, "c1", 10), CHECKPOINT_FAILED);
    expect_row("c0", 0);
    ck_assert(checkpoint_has_row(a.checkpoint));
    ck_assert_int_eq(save(&a, "c1", 9), CHECKPOINT_SAVED);
    expect_row("c1", 9);
    stop(&a);
}
END_TEST

START_TEST(a_connection_that_is_ended_is_lost) {
    struct instance a;
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    direct_run(pg, "SELECT pg_terminate_backend(%d)", pgconn_backend_pid(a.keep));
    int r = checkpoint_save(a.checkpoint, SPAN_LITERAL("c1"), NULL, 1, clock_now_us());
    ck_assert(r != 0 || next(&a) == CHECKPOINT_LOST);
    checkpoint_reset(a.checkpoint);
    ck_assert(!checkpoint_busy(a.checkpoint));
    ck_assert(!checkpoint_has_row(a.checkpoint));
    expect_row("c0", 0);
    stop(&a);
}
END_TEST

START_TEST(both_connections_spell_the_server_alike) {
    struct instance a;
    struct reader reader;
    direct_run(pg, "CREATE TABLE public.event (position bigserial PRIMARY KEY, id text, source text, type text,"
               " xid xid8 NOT NULL DEFAULT pg_current_xact_id())");
    start_fresh(&a);
    reader_init(&reader, "event");
    ck_assert_int_eq(reader_inspect(&reader), SOURCE_INSPECTED);
    ck_assert_str_eq(source_server(reader.source), checkpoint_server(a.checkpoint));
    reader_done(&reader);
    stop(&a);
}
END_TEST

/* A save a second apart for years: the row stays on its page. */
START_TEST(many_saves_stay_on_one_page) {
    struct instance a;
    char cursor[64];
    start_fresh(&a);
    ck_assert_int_eq(create(&a, "c0"), CHECKPOINT_LOADED);
    for (int i = 0; i < 500; i++) {
        snprintf(cursor, sizeof cursor, "{\"v\": 1, \"mode\": \"snapshot\", \"s\": \"%d:%d:\"}", 1000 + i, 1000 + i);
        ck_assert_int_eq(save(&a, cursor, i), CHECKPOINT_SAVED);
    }
    ck_assert_int_le(direct_number(pg, "SELECT pg_relation_size('" TABLE "') / 8192"), 2);
    stop(&a);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("checkpoint row");
    TCase *cases = tcase_create("checkpoint row");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, the_sql_of_schema_runs_twice_and_suffices_for_its_role);
    tcase_add_test(cases, missing_tables_are_told_with_what_makes_them);
    tcase_add_test(cases, missing_tables_are_made_if_asked);
    tcase_add_test(cases, tables_that_may_not_be_made_are_told);
    tcase_add_test(cases, missing_rights_are_told_with_the_grants);
    tcase_add_test(cases, a_table_of_somebody_else_is_left_alone);
    tcase_add_test(cases, a_saved_row_is_loaded_byte_by_byte);
    tcase_add_test(cases, who_takes_the_row_shuts_out_who_had_it);
    tcase_add_test(cases, every_kind_of_writing_is_refused_from_an_earlier_owner);
    tcase_add_test(cases, the_lease_is_taken_extended_and_given_back);
    tcase_add_test(cases, an_owner_takes_its_own_row_again_at_once);
    tcase_add_test(cases, the_row_of_a_process_that_is_gone_is_taken_at_once);
    tcase_add_test(cases, loading_leaves_the_row_as_it_was);
    tcase_add_test(cases, a_row_of_another_cluster_is_refused_at_the_look_and_at_the_load);
    tcase_add_test(cases, a_row_that_an_operator_moved_or_deleted_is_not_overwritten);
    tcase_add_test(cases, of_two_that_start_together_the_first_row_stays);
    tcase_add_test(cases, the_longest_cursor_is_saved_and_loaded);
    tcase_add_test(cases, a_refused_statement_fails_and_the_old_value_stands);
    tcase_add_test(cases, a_connection_that_is_ended_is_lost);
    tcase_add_test(cases, both_connections_spell_the_server_alike);
    tcase_add_test(cases, many_saves_stay_on_one_page);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
