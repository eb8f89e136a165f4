/* test_explain: plans as PostgreSQL 15 prints them, good and bad */
#include "source/explain.h"

#include <stdio.h>

#include "unit/unit.h"

/* NULL: good. */
static const char *judge(struct explain *e, const char *plan) {
    *e = (struct explain){0};
    while (*plan) {
        size_t len = strcspn(plan, "\n");
        explain_line(e, (struct span){plan, len});
        plan += len + (plan[len] == '\n');
    }
    return explain_bad(e);
}

static struct explain explain;

static void expect_good(const char *plan) {
    const char *bad = judge(&explain, plan);
    ck_assert_msg(!bad, "%s", bad);
}

static void expect_bad(const char *plan, const char *node) {
    const char *bad = judge(&explain, plan);
    ck_assert_msg(bad, "nothing bad in %s", plan);
    ck_assert_str_eq(bad, node);
}

START_TEST(an_index_condition_in_the_indexs_order_is_good) {
    expect_good("Limit\n"
                "  ->  Index Scan using event_xid_position_idx on event e\n"
                "        Index Cond: ((xid >= pg_snapshot_xmax($1)) AND (xid < pg_snapshot_xmax($0)))\n"
                "        Filter: pg_visible_in_snapshot(xid, $1)");
}
END_TEST

START_TEST(one_row_from_the_end_of_an_index_is_good) {
    /* As PostgreSQL 17 prints max() of a column that is NOT NULL. */
    expect_good("Result\n"
                "  InitPlan 1\n"
                "    ->  Limit\n"
                "          ->  Index Only Scan Backward using event_pkey on event e");
}
END_TEST

START_TEST(a_walk_of_the_table_is_bad) {
    expect_bad("Limit\n"
               "  ->  Seq Scan on event_1 e\n"
               "        Filter: (xid >= pg_snapshot_xmax($1))",
               "Seq Scan on event_1 e");
}
END_TEST

START_TEST(a_walk_of_an_index_is_bad) {
    expect_bad("Limit\n"
               "  ->  Index Scan using event_pkey on event e\n"
               "        Filter: (xid >= pg_snapshot_xmax($1))\n"
               "  ->  Result",
               "Index Scan using event_pkey on event e");
    expect_bad("Aggregate\n"
               "  ->  Index Only Scan using event_pkey on event e",
               "Index Only Scan using event_pkey on event e");
}
END_TEST

START_TEST(sorting_all_that_was_found_is_bad) {
    expect_bad("Limit\n"
               "  ->  Incremental Sort\n"
               "        Sort Key: e.xid, e.\"position\"\n"
               "        Presorted Key: e.xid\n"
               "        ->  Index Scan using event_xid_idx on event e\n"
               "              Index Cond: (xid >= pg_snapshot_xmax($1))",
               "Index Scan using event_xid_idx on event e");
}
END_TEST

START_TEST(sorting_what_a_limit_has_cut_is_good) {
    expect_good("Sort\n"
                "  Sort Key: r.p\n"
                "  ->  Limit\n"
                "        InitPlan 1 (returns $0)\n"
                "          ->  Result\n"
                "        ->  Index Scan using event_xid_position_idx on event e\n"
                "              Index Cond: (xid >= pg_snapshot_xmax($1))");
}
END_TEST

START_TEST(a_sort_beside_the_scan_is_not_above_it) {
    expect_good("Append\n"
                "  ->  Sort\n"
                "        Sort Key: found.p\n"
                "        ->  CTE Scan on found\n"
                "  ->  Index Scan using event_pkey on event e\n"
                "        Index Cond: (\"position\" > $1)");
}
END_TEST

START_TEST(one_bad_plan_of_several_is_found) {
    expect_bad("Limit\n"
               "  ->  Index Scan using a on event e\n"
               "        Index Cond: (xid > $1)\n"
               "Limit\n"
               "  ->  Seq Scan on event e\n"
               "Limit\n"
               "  ->  Index Scan using a on event e\n"
               "        Index Cond: (xid > $1)",
               "Seq Scan on event e");
}
END_TEST

START_TEST(a_plan_deeper_than_any_and_a_line_longer_than_any_do_no_harm) {
    char line[1000];
    explain = (struct explain){0};
    explain_line(&explain, SPAN_LITERAL(""));
    for (int i = 1; i < 3 * EXPLAIN_DEPTH_MAX; i++) {
        int len = snprintf(line, sizeof line, "%*s->  Index Scan using %0*d on t", 2 * i, "", 400, i);
        explain_line(&explain, (struct span){line, (size_t)len});
    }
    const char *bad = explain_bad(&explain);
    ck_assert(bad);
    ck_assert_uint_lt(strlen(bad), EXPLAIN_LINE_MAX);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("explain");
    TCase *cases = tcase_create("explain");
    tcase_add_test(cases, an_index_condition_in_the_indexs_order_is_good);
    tcase_add_test(cases, one_row_from_the_end_of_an_index_is_good);
    tcase_add_test(cases, a_walk_of_the_table_is_bad);
    tcase_add_test(cases, a_walk_of_an_index_is_bad);
    tcase_add_test(cases, sorting_all_that_was_found_is_bad);
    tcase_add_test(cases, sorting_what_a_limit_has_cut_is_good);
    tcase_add_test(cases, a_sort_beside_the_scan_is_not_above_it);
    tcase_add_test(cases, one_bad_plan_of_several_is_found);
    tcase_add_test(cases, a_plan_deeper_than_any_and_a_line_longer_than_any_do_no_harm);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
