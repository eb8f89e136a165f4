/* test_judge: what is found of a sequence, which only mode gaps asks about; the rest is tried on a real server */
#include "source/judge.h"

#include "unit/unit.h"

static struct source_options options;
static struct table table;
static struct findings findings;
static struct judge judge;

static void setup(void) {
    options = (struct source_options){.table = strdup("shop.event")};
    ck_assert_int_eq(table_init(&table, &options), 0);
    findings = FINDINGS_INIT;
    judge = (struct judge){.table = &table, .findings = &findings, .role = "reader", .by_gaps = true};
}

static void teardown(void) {
    findings_done(&findings);
    table_done(&table);
    source_options_done(&options);
}

static const struct judge_sequence sound = {
    .name = SPAN_LITERAL("shop.event_position_seq"), .cache = 1, .increment = 1, .readable = true};

static const char *note(void) {
    return findings.note.len ? findings.note.data : "";
}

static void expect(bool refused, const char *end) {
    const char *at = strstr(note(), end);
    ck_assert_uint_eq(findings.count, 1);
    ck_assert_int_eq(findings.refused, refused);
    ck_assert_msg(at && strlen(at) == strlen(end), "%s", note());
}

/* Everything is there that the roles need, but the transaction's id. */
static void find_columns(const char *transaction_id) {
    table_done(&table);
    options.transaction_id = transaction_id ? strdup(transaction_id) : NULL;
    ck_assert_int_eq(table_init(&table, &options), 0);
    for (size_t i = 0; i < table.count; i++) {
        struct table_column *c = &table.columns[i];
        c->found = c->needed && c->role != TABLE_TRANSACTION_ID;
        c->oid = c->role == ROW_POSITION ? TABLE_OID_INT8 : TABLE_OID_TEXT;
        c->not_null = c->readable = true;
    }
}

START_TEST(mode_gaps_does_without_the_transactions_id_unless_a_column_is_named_for_it) {
    find_columns(NULL);
    judge_columns(&judge);
    ck_assert_str_eq(note(), "");
    find_columns("txid");
    judge_columns(&judge);
    expect(true, "has no column \"txid\", which transaction_id names; name the one it has, or leave the key out for mode gaps");
}
END_TEST

START_TEST(a_sequence_that_counts_up_one_by_one_is_not_worth_a_word) {
    judge_sequence(&judge, &sound);
    ck_assert_str_eq(note(), "");
}
END_TEST

START_TEST(a_cache_is_warned_of_with_its_mend) {
    struct judge_sequence s = sound;
    s.cache = 10;
    judge_sequence(&judge, &s);
    expect(false, ": ALTER SEQUENCE shop.event_position_seq CACHE 1;");
}
END_TEST

START_TEST(a_default_that_is_no_sequence_is_warned_of_with_its_mend) {
    judge_sequence(&judge, NULL);
    expect(false, ": ALTER TABLE \"shop\".\"event\" ADD COLUMN \"xid\" xid8 NOT NULL DEFAULT pg_current_xact_id(); "
           "CREATE INDEX CONCURRENTLY ON \"shop\".\"event\" (\"xid\", \"position\");");
}
END_TEST

START_TEST(a_sequence_that_counts_downward_is_refused) {
    struct judge_sequence s = sound;
    s.increment = -1;
    judge_sequence(&judge, &s);
    expect(true, "ALTER SEQUENCE shop.event_position_seq INCREMENT 1;");
}
END_TEST

START_TEST(a_sequence_that_begins_anew_is_refused) {
    struct judge_sequence s = sound;
    s.cycles = true;
    judge_sequence(&judge, &s);
    expect(true, ": ALTER SEQUENCE shop.event_position_seq NO CYCLE;");
}
END_TEST

START_TEST(a_sequence_that_may_not_be_read_is_refused_with_the_grant) {
    struct judge_sequence s = sound;
    s.readable = false;
    judge_sequence(&judge, &s);
    expect(true, ": GRANT SELECT ON SEQUENCE shop.event_position_seq TO \"reader\";");
}
END_TEST

START_TEST(in_mode_snapshot_a_sequence_is_not_worth_a_word) {
    struct judge_sequence s = {.name = sound.name, .cache = 100, .increment = -1, .cycles = true};
    judge.by_gaps = false;
    judge_sequence(&judge, &s);
    judge_sequence(&judge, NULL);
    ck_assert_str_eq(note(), "");
}
END_TEST

START_TEST(the_note_keeps_whole_lines_up_to_its_bound) {
    for (int i = 0; i < 1000; i++)
        judge_sequence(&judge, NULL);
    ck_assert_uint_eq(findings.count, 1000);
    ck_assert_int_eq(findings.failure, 0);
    ck_assert_uint_le(findings.note.len, FINDINGS_MAX_BYTES);
    ck_assert_int_eq(note()[findings.note.len - 1], ';');
}
END_TEST

int main(void) {
    Suite *suite = suite_create("judge");
    TCase *cases = tcase_create("judge");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, mode_gaps_does_without_the_transactions_id_unless_a_column_is_named_for_it);
    tcase_add_test(cases, a_sequence_that_counts_up_one_by_one_is_not_worth_a_word);
    tcase_add_test(cases, a_cache_is_warned_of_with_its_mend);
    tcase_add_test(cases, a_default_that_is_no_sequence_is_warned_of_with_its_mend);
    tcase_add_test(cases, a_sequence_that_counts_downward_is_refused);
    tcase_add_test(cases, a_sequence_that_begins_anew_is_refused);
    tcase_add_test(cases, a_sequence_that_may_not_be_read_is_refused_with_the_grant);
    tcase_add_test(cases, in_mode_snapshot_a_sequence_is_not_worth_a_word);
    tcase_add_test(cases, the_note_keeps_whole_lines_up_to_its_bound);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
