/* test_table: names of tables, wanted columns, forms, SQL of schema */
#include "unit/unit.h"

#include <errno.h>

#include "source/snapshot.h"
#include "source/table.h"
#include "unit/fail_alloc.h"

START_TEST(names_are_split_and_folded_as_sql_does) {
    static const struct {
        const char *text, *schema, *table;
    } cases[] = {
        {"event", NULL, "event"},
        {"Event", NULL, "event"},
        {"public.event", "public", "event"},
        {"\"Event Log\".\"Events\"", "Event Log", "Events"},
        {"\"a.b\".c", "a.b", "c"},
        {"\"a\"\"b\"", NULL, "a\"b"},
        {"_x1$.y", "_x1$", "y"},
        {"ereignis_ü", NULL, "ereignis_ü"},
        {"\"\"\"\"", NULL, "\""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct table_name name;
        struct error error;
        ck_assert_msg(table_name_parse(span_of(cases[i].text), &name, &error) == 0, "%s", cases[i].text);
        ck_assert_str_eq(name.table, cases[i].table);
        if (cases[i].schema)
            ck_assert_str_eq(name.schema, cases[i].schema);
        else
            ck_assert_ptr_null(name.schema);
        ck_assert_int_eq(source_check_table(span_of(cases[i].text), &error), 0);
        table_name_done(&name);
    }
}
END_TEST

START_TEST(what_is_no_name_is_refused_by_name) {
    static const char *const cases[] = {"",     ".",     "a.",     ".b",     "a.b.c",    "a b",         "1a",  "\"\"",
                                        "\"a",  "a\"b\"", "\"a\"b", "a;drop", "\"a\".\"", "\"a\" .\"b\"", "a.-b", "\"a\"\""};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct error error;
        ck_assert_msg(source_check_table(span_of(cases[i]), &error) == -EINVAL, "%s", cases[i]);
        ck_assert_int_eq(error.class, ERROR_CONFIG);
        ck_assert(strstr(error.text, "schema.table"));
    }
    struct error error;
    ck_assert_int_eq(source_check_table((struct span){"\"a\0b\"", 5}, &error), -EINVAL);
}
END_TEST

static struct source_options some_options(void) {
    static struct source_extension extensions[] = {{.attribute = (char *)"region", .column = (char *)"Region"}};
    struct source_options o = {.table = (char *)"shop.event", .extensions = extensions, .extension_count = 1};
    return o;
}

START_TEST(a_default_column_may_lack_and_a_named_one_may_not) {
    struct source_options o = some_options();
    struct table t;
    o.columns[ROW_SUBJECT] = (char *)"about";
    o.constant_type = (char *)"a.b";
    ck_assert_int_eq(table_init(&t, &o), 0);
    ck_assert(table_column(&t, ROW_POSITION)->needed);
    ck_assert(table_column(&t, ROW_ID)->needed);
    ck_assert(table_column(&t, ROW_SOURCE)->needed);
    ck_assert_ptr_null(table_column(&t, ROW_TYPE)); /* the constant takes its place */
    ck_assert(table_column(&t, ROW_SUBJECT)->needed);
    ck_assert(!table_column(&t, ROW_TIME)->needed);
    ck_assert(table_column(&t, ROW_EXTENSION)->needed);
    ck_assert(!table_column(&t, TABLE_TRANSACTION_ID)->needed);
    ck_assert_str_eq(table_column(&t, TABLE_TRANSACTION_ID)->column, "xid");
    table_done(&t);
}
END_TEST

START_TEST(mode_snapshot_needs_its_column_and_so_does_one_who_names_it) {
    struct source_options o = some_options();
    struct table t;
    o.mode = SOURCE_MODE_SNAPSHOT;
    ck_assert_int_eq(table_init(&t, &o), 0);
    ck_assert(table_column(&t, TABLE_TRANSACTION_ID)->needed);
    table_done(&t);
    o.mode = SOURCE_MODE_DEFAULT;
    o.transaction_id = (char *)"Tx";
    ck_assert_int_eq(table_init(&t, &o), 0);
    ck_assert(table_column(&t, TABLE_TRANSACTION_ID)->needed);
    table_done(&t);
}
END_TEST

START_TEST(one_column_can_have_two_roles) {
    struct source_options o = some_options();
    struct table t;
    o.columns[ROW_TIME] = (char *)"recorded_at";
    ck_assert_int_eq(table_init(&t, &o), 0);
    struct table_fact fact = {.name = SPAN_LITERAL("recorded_at"), .oid = TABLE_OID_TIMESTAMPTZ};
    table_found(&t, &fact);
    ck_assert(table_column(&t, ROW_TIME)->found);
    ck_assert(table_column(&t, ROW_RECORDED)->found);
    table_forget(&t);
    ck_assert(!table_column(&t, ROW_TIME)->found);
    table_done(&t);
}
END_TEST

START_TEST(every_role_of_a_column_has_its_default_name) {
    for (int i = 0; i < ROW_ROLE_COUNT; i++) {
        bool none = i == ROW_DATA_BYTES || i == ROW_EXTENSION;
        ck_assert_int_eq(source_default_column((enum row_role)i) == NULL, none);
    }
}
END_TEST

START_TEST(types_without_a_binary_form_are_cast_to_text) {
    bool cast;
    ck_assert_int_eq(table_form(TABLE_OID_UUID, &cast), ROW_FORM_UUID);
    ck_assert(!cast);
    ck_assert_int_eq(table_form(1700 /* numeric */, &cast), ROW_FORM_TEXT);
    ck_assert(cast);
    ck_assert_ptr_null(table_unfit(ROW_POSITION, TABLE_OID_INT4));
    ck_assert_ptr_nonnull(table_unfit(ROW_POSITION, 1700));
    ck_assert_ptr_nonnull(table_unfit(TABLE_TRANSACTION_ID, TABLE_OID_INT4));
    ck_assert_ptr_null(table_unfit(ROW_ID, 1700));
}
END_TEST

static void find_columns(struct table *t) {
    struct table_fact facts[] = {{.name = SPAN_LITERAL("position"), .oid = TABLE_OID_INT8},
                                 {.name = SPAN_LITERAL("id"), .oid = TABLE_OID_UUID},
                                 {.name = SPAN_LITERAL("data"), .oid = TABLE_OID_JSONB},
                                 {.name = SPAN_LITERAL("xid"), .oid = TABLE_OID_XID8}};
    for (size_t i = 0; i < ARRAY_LENGTH(facts); i++)
        table_found(t, &facts[i]);
}

START_TEST(running_out_of_memory_is_an_ordinary_result) {
    struct source_options o = some_options();
    FAIL_ALLOC_EACH(n) {
        struct table t;
        struct snapshot_sql sql = {0};
        int r = table_init(&t, &o);
        if (r == 0) {
            find_columns(&t);
            r = snapshot_init(&sql, &t, 1000);
        }
        if (fail_alloc_end())
            ck_assert_int_eq(r, -ENOMEM);
        else
            ck_assert_int_eq(r, 0);
        snapshot_done(&sql);
        table_done(&t);
    }
    FAIL_ALLOC_EACH(n) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(65536);
        int r = source_add_event_table_sql(SPAN_LITERAL("a.b"), &b);
        if (r == 0)
            r = source_add_grants_sql(SPAN_LITERAL("a.b"), SPAN_LITERAL("r"), &b);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
    }
}
END_TEST

START_TEST(the_index_of_a_long_name_keeps_its_own_name) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(65536);
    const char *name = "\"123456789 123456789 123456789 123456789 12345\xc3\xbc 123456789 12\"";
    ck_assert_int_eq(source_add_transaction_id_sql(span_of(name), span_of("Nr"), &b), 0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_msg(strstr(b.data, "EXISTS \"123456789 123456789 123456789 123456789 12345_xid_position_idx\" ON"), "%s", b.data);
    ck_assert_msg(strstr(b.data, "(xid, \"Nr\")"), "%s", b.data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("table");
    TCase *cases = tcase_create("table");
    tcase_add_test(cases, names_are_split_and_folded_as_sql_does);
    tcase_add_test(cases, what_is_no_name_is_refused_by_name);
    tcase_add_test(cases, a_default_column_may_lack_and_a_named_one_may_not);
    tcase_add_test(cases, mode_snapshot_needs_its_column_and_so_does_one_who_names_it);
    tcase_add_test(cases, one_column_can_have_two_roles);
    tcase_add_test(cases, every_role_of_a_column_has_its_default_name);
    tcase_add_test(cases, types_without_a_binary_form_are_cast_to_text);
    tcase_add_test(cases, running_out_of_memory_is_an_ordinary_result);
    tcase_add_test(cases, the_index_of_a_long_name_keeps_its_own_name);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
