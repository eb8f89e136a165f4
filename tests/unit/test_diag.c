/* test_diag: findings about the configuration, each with its place; all of one run */
#include "unit/unit.h"

#include <string.h>

#include "config/diag.h"

static const struct diag_place HERE = {"penstock.yaml", 3, 7};

static void diag_cleanup(struct diag **d) {
    diag_free(*d);
}

static struct diag *new_diag(void) {
    struct diag *d;
    ck_assert_int_eq(diag_new(&d), 0);
    return d;
}

static void add_at(struct diag *d, const char *file, uint32_t line, uint32_t column, const char *text) {
    diag_add(d, DIAG_ERROR, (struct diag_place){file, line, column}, "%s", text);
}

START_TEST(a_finding_says_where_what_and_how_bad_it_is) {
    CLEANUP(diag_cleanup) struct diag *d = new_diag();
    enum diag_level level;
    diag_add(d, DIAG_WARNING, HERE, "%s is odd; %d is allowed", "x", 5);
    ck_assert_str_eq(diag_text(d, 0, &level), "penstock.yaml:3:7: warning: x is odd; 5 is allowed");
    ck_assert_int_eq(level, DIAG_WARNING);
    ck_assert_ptr_null(diag_text(d, 1, &level));
    ck_assert_uint_eq(diag_count(d, DIAG_WARNING), 1);
    ck_assert_uint_eq(diag_count(d, DIAG_ERROR), 0);
}
END_TEST

START_TEST(a_finding_about_the_whole_file_has_no_line) {
    CLEANUP(diag_cleanup) struct diag *d = new_diag();
    enum diag_level level;
    add_at(d, "a.yaml", 0, 0, "empty");
    ck_assert_str_eq(diag_text(d, 0, &level), "a.yaml: error: empty");
}
END_TEST

START_TEST(findings_come_in_the_order_of_their_places) {
    CLEANUP(diag_cleanup) struct diag *d = new_diag();
    enum diag_level level;
    add_at(d, "b.yaml", 1, 1, "6");
    add_at(d, "a.yaml", 2, 9, "3");
    add_at(d, "a.yaml", 10, 1, "5");
    add_at(d, "a.yaml", 2, 10, "4");
    add_at(d, "a.yaml", 0, 0, "1");
    add_at(d, "a.yaml", 1, 1, "2");
    add_at(d, "b.yaml", 1, 1, "7: as it was added");
    for (size_t i = 0; i < 7; i++)
        ck_assert_int_eq(strstr(diag_text(d, i, &level), "error: ")[7], (char)('1' + i));
}
END_TEST

START_TEST(a_finding_is_one_line_whatever_the_file_holds) {
    CLEANUP(diag_cleanup) struct diag *d = new_diag();
    enum diag_level level;
    diag_add(d, DIAG_ERROR, HERE, "\"%s\" is no key", "a\nb\033[2J\x7f");
    ck_assert_str_eq(diag_text(d, 0, &level), "penstock.yaml:3:7: error: \"a?b?[2J?\" is no key");
}
END_TEST

START_TEST(too_many_findings_are_counted_and_said) {
    CLEANUP(diag_cleanup) struct diag *d = new_diag();
    enum diag_level level;
    for (uint32_t i = 0; i < DIAG_MAX; i++)
        add_at(d, "a.yaml", i + 1, 1, "x");
    ck_assert_ptr_null(diag_text(d, DIAG_MAX, &level));
    add_at(d, "a.yaml", 1, 1, "one more");
    ck_assert_ptr_nonnull(strstr(diag_text(d, DIAG_MAX, &level), "more findings"));
    ck_assert_int_eq(level, DIAG_ERROR);
    ck_assert_ptr_null(diag_text(d, DIAG_MAX + 1, &level));
    ck_assert_uint_eq(diag_count(d, DIAG_ERROR), DIAG_MAX + 1);
}
END_TEST

START_TEST(printing_writes_one_line_for_each) {
    CLEANUP(diag_cleanup) struct diag *d = new_diag();
    char printed[200] = "";
    FILE *out = fmemopen(printed, sizeof(printed), "w");
    add_at(d, "b", 1, 2, "y");
    add_at(d, "a", 1, 2, "x");
    diag_print(d, out);
    fclose(out);
    ck_assert_str_eq(printed, "a:1:2: error: x\nb:1:2: error: y\n");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("diag");
    TCase *cases = tcase_create("diag");
    tcase_add_test(cases, a_finding_says_where_what_and_how_bad_it_is);
    tcase_add_test(cases, a_finding_about_the_whole_file_has_no_line);
    tcase_add_test(cases, findings_come_in_the_order_of_their_places);
    tcase_add_test(cases, a_finding_is_one_line_whatever_the_file_holds);
    tcase_add_test(cases, too_many_findings_are_counted_and_said);
    tcase_add_test(cases, printing_writes_one_line_for_each);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
