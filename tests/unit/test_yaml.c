/* test_yaml: a YAML file as a tree in which every node knows its place */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "config/writer.h"
#include "config/yaml.h"
#include "unit/fail_alloc.h"

static struct diag *diag;
static struct yaml tree;

static void before(void) {
    ck_assert_int_eq(diag_new(&diag), 0);
    tree = (struct yaml){0};
}

static void after(void) {
    yaml_done(&tree);
    diag_free(diag);
}

static int parse(const char *text) {
    yaml_done(&tree);
    return yaml_parse(span_of(text), "t.yaml", diag, &tree);
}

static const char *finding(size_t i) {
    enum diag_level level;
    const char *text = diag_text(diag, i, &level);
    return text ? text : "";
}

static const struct yaml_node *find(const char *key) {
    const struct yaml_node *node = yaml_find(tree.root, key, NULL);
    ck_assert_ptr_nonnull(node);
    return node;
}

START_TEST(every_node_knows_its_place) {
    const struct yaml_node *key, *list;
    ck_assert_int_eq(parse("a: 1\nbé: {c: [x, 'y']}\n"), 0);
    const struct yaml_node *b = yaml_find(tree.root, "bé", &key);
    ck_assert_uint_eq(key->place.line, 2);
    ck_assert_uint_eq(key->place.column, 1);
    ck_assert_uint_eq(b->place.column, 5); /* characters, not bytes */
    list = yaml_find(b, "c", NULL);
    ck_assert_int_eq(list->kind, YAML_SEQUENCE);
    ck_assert_uint_eq(list->children[1]->place.column, 13);
    ck_assert_str_eq(list->children[1]->text, "y");
    ck_assert(!list->children[1]->plain);
    ck_assert(list->children[0]->plain);
    ck_assert_uint_eq(diag_count(diag, DIAG_ERROR), 0);
}
END_TEST

START_TEST(scalars_are_the_literal_text) {
    ck_assert_int_eq(parse("a: yes\nb: 010\nc: 12:30\nd: ~\ne: null\nf: \"\\u00e9\\n\"\ng: |\n  x\n  y\nh:\n"), 0);
    ck_assert_str_eq(find("a")->text, "yes");
    ck_assert_str_eq(find("b")->text, "010");
    ck_assert_str_eq(find("c")->text, "12:30");
    ck_assert_str_eq(find("d")->text, "~");
    ck_assert_str_eq(find("e")->text, "null");
    ck_assert_str_eq(find("f")->text, "é\n");
    ck_assert_str_eq(find("g")->text, "x\ny\n");
    ck_assert(yaml_empty(find("h")));
    ck_assert(!yaml_empty(find("d")));
}
END_TEST

START_TEST(a_place_inside_a_text_is_exact_where_it_can_be) {
    ck_assert_int_eq(parse("a: é{x\nb: 'é{x'\nc: \"é{x\"\nd: \"\\u00e9{x\"\ne: |\n  é{x\n"), 0);
    ck_assert_uint_eq(yaml_place_at(find("a"), 2).column, 5);
    ck_assert_uint_eq(yaml_place_at(find("b"), 2).column, 6);
    ck_assert_uint_eq(yaml_place_at(find("c"), 2).column, 6);
    ck_assert_uint_eq(yaml_place_at(find("d"), 2).column, 4); /* escapes: where the scalar begins */
    ck_assert_uint_eq(yaml_place_at(find("e"), 2).column, 4);
    ck_assert_uint_eq(yaml_place_at(find("a"), 4).column, 7); /* its end */
}
END_TEST

START_TEST(duplicate_keys_show_both_places_and_the_first_counts) {
    ck_assert_int_eq(parse("b: 1\na: 2\nc: 3\na: 4\na: 5\n"), 0);
    ck_assert_str_eq(finding(0), "t.yaml:4:1: error: key \"a\" stands twice; first at t.yaml:2:1");
    ck_assert_str_eq(finding(1), "t.yaml:5:1: error: key \"a\" stands twice; first at t.yaml:4:1");
    ck_assert_str_eq(find("a")->text, "2");
}
END_TEST

START_TEST(what_is_not_in_the_language_is_refused_and_marked) {
    ck_assert_int_eq(parse("a: &x 1\nb: *x\nc: !!int 5\nd: !t [1]\ne: &y {}\nf: {<<: g}\nh: {[i]: j}\n\"<<\": fine\n"), 0);
    ck_assert_uint_eq(diag_count(diag, DIAG_ERROR), 7);
    ck_assert_int_eq(find("a")->kind, YAML_REFUSED);
    ck_assert_int_eq(find("b")->kind, YAML_REFUSED);
    ck_assert_int_eq(find("c")->kind, YAML_REFUSED);
    ck_assert_int_eq(find("d")->kind, YAML_REFUSED);
    ck_assert_int_eq(find("e")->kind, YAML_REFUSED);
    ck_assert_ptr_nonnull(strstr(finding(0), "t.yaml:1:4: error: an anchor (&)"));
    ck_assert_ptr_nonnull(strstr(finding(5), "t.yaml:6:5: error: a merge key"));
    ck_assert_ptr_nonnull(strstr(finding(6), "t.yaml:7:5: error: a list can't be a key"));
}
END_TEST

START_TEST(reader_errors_get_the_line_and_column_that_libyaml_lacks) {
    ck_assert_int_eq(parse("a: 1\nb: é\xff\n"), YAML_E_REFUSED);
    ck_assert_ptr_nonnull(strstr(finding(0), "t.yaml:2:5: error: not readable as UTF-8"));
}
END_TEST

START_TEST(a_file_holds_exactly_one_document) {
    ck_assert_int_eq(parse(""), YAML_E_REFUSED);
    ck_assert_int_eq(parse("# only this\n"), YAML_E_REFUSED);
    ck_assert_int_eq(parse("a: 1\n---\nb: 2\n"), 0);
    ck_assert_ptr_nonnull(strstr(finding(2), "t.yaml:2:1: error: a second document"));
    ck_assert_int_eq(parse("---\na: 1\n...\n"), 0);
    ck_assert_uint_eq(diag_count(diag, DIAG_ERROR), 3);
}
END_TEST

/* `count` times the same text. */
static void repeat(struct buf *b, const char *text, size_t count) {
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(buf_addf(b, "%s", text), 0);
}

static int parse_buf(struct buf *b) {
    ck_assert_int_eq(buf_terminate(b), 0);
    return parse(b->data);
}

START_TEST(depth_is_bounded) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    repeat(&b, "[", YAML_DEPTH_MAX);
    repeat(&b, "]", YAML_DEPTH_MAX);
    ck_assert_int_eq(parse_buf(&b), 0);
    buf_clear(&b);
    repeat(&b, "[", YAML_DEPTH_MAX + 1);
    repeat(&b, "]", YAML_DEPTH_MAX + 1);
    ck_assert_int_eq(parse_buf(&b), YAML_E_REFUSED);
    ck_assert_ptr_nonnull(strstr(finding(0), "t.yaml:1:33: error: nested too deep"));
}
END_TEST

START_TEST(a_hundred_thousand_brackets_end_at_once) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(YAML_BYTES_MAX);
    repeat(&b, "[", 100000);
    ck_assert_int_eq(parse_buf(&b), YAML_E_REFUSED); /* libyaml alone needs half a minute */
}
END_TEST

START_TEST(the_number_of_nodes_is_bounded) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(YAML_BYTES_MAX);
    repeat(&b, "- x\n", YAML_NODES_MAX - 1);
    ck_assert_int_eq(parse_buf(&b), 0);
    repeat(&b, "- x\n", 1);
    ck_assert_int_eq(parse_buf(&b), YAML_E_REFUSED);
    ck_assert_ptr_nonnull(strstr(finding(0), "too many keys and values"));
}
END_TEST

START_TEST(the_size_is_bounded) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(YAML_BYTES_MAX + 10);
    repeat(&b, "a: 1 #", 1);
    repeat(&b, "x", YAML_BYTES_MAX - b.len);
    ck_assert_int_eq(parse_buf(&b), 0);
    repeat(&b, "x", 1);
    ck_assert_int_eq(parse_buf(&b), YAML_E_REFUSED);
    ck_assert_str_eq(finding(0), "t.yaml: error: too large; 1 MiB is allowed");
}
END_TEST

START_TEST(a_file_full_of_keys_is_not_quadratic) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(YAML_BYTES_MAX);
    for (int i = 0; i < YAML_NODES_MAX / 2 - 1; i++)
        ck_assert_int_eq(buf_addf(&b, "k%d: \n", i), 0);
    ck_assert_int_eq(parse_buf(&b), 0);
    ck_assert_uint_eq(yaml_pairs(tree.root), YAML_NODES_MAX / 2 - 1);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_a_finding) {
    ck_assert_int_eq(yaml_read("/nonexistent/x.yaml", diag, &tree), YAML_E_REFUSED);
    ck_assert_str_eq(finding(0), "/nonexistent/x.yaml: error: can't be read: No such file or directory");
    ck_assert_int_eq(yaml_read("/", diag, &tree), YAML_E_REFUSED);
    ck_assert_str_eq(finding(0), "/: error: can't be read: Is a directory");
}
END_TEST

START_TEST(without_memory_it_says_so_and_keeps_nothing) {
    static const char text[] = "a: 1\nb: [x, {c: d}]\na: 2\n";
    FAIL_ALLOC_EACH(n) {
        struct yaml y = {0};
        int r = yaml_parse(span_of(text), "t.yaml", diag, &y);
        if (fail_alloc_end())
            ck_assert_int_eq(r, -ENOMEM);
        else
            ck_assert_int_eq(r, 0);
        yaml_done(&y);
    }
}
END_TEST

START_TEST(what_the_writer_prints_reads_back_the_same) {
    static const char text[] = "a: \"x\\u2028\\\"\\\\\\e\\U0001F600 é\"\nb: [plain, \"yes\", \"5\", '', {c: [], d: {}}]\n"
                               "\"k: 1\": \"\\n\"\nempty:\n";
    CLEANUP(buf_done) struct buf once = BUF_INIT(10000), twice = BUF_INIT(10000);
    for (int i = 0; i < 2; i++) {
        struct writer w = {.out = i == 0 ? &once : &twice};
        ck_assert_int_eq(parse(i == 0 ? text : once.data), 0);
        for (size_t k = 0; k < yaml_pairs(tree.root); k++)
            writer_node(&w, yaml_key(tree.root, k)->text, yaml_value(tree.root, k));
        ck_assert_int_eq(w.result, 0);
        ck_assert_int_eq(buf_terminate(w.out), 0);
        ck_assert_str_eq(find("a")->text, "x\u2028\"\\\033\U0001F600 é");
        ck_assert_str_eq(find("k: 1")->text, "\n");
    }
    ck_assert_str_eq(once.data, twice.data);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("yaml");
    TCase *cases = tcase_create("yaml");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, before, after);
    tcase_add_test(cases, every_node_knows_its_place);
    tcase_add_test(cases, scalars_are_the_literal_text);
    tcase_add_test(cases, a_place_inside_a_text_is_exact_where_it_can_be);
    tcase_add_test(cases, duplicate_keys_show_both_places_and_the_first_counts);
    tcase_add_test(cases, what_is_not_in_the_language_is_refused_and_marked);
    tcase_add_test(cases, reader_errors_get_the_line_and_column_that_libyaml_lacks);
    tcase_add_test(cases, a_file_holds_exactly_one_document);
    tcase_add_test(cases, depth_is_bounded);
    tcase_add_test(cases, a_hundred_thousand_brackets_end_at_once);
    tcase_add_test(cases, the_number_of_nodes_is_bounded);
    tcase_add_test(cases, the_size_is_bounded);
    tcase_add_test(cases, a_file_full_of_keys_is_not_quadratic);
    tcase_add_test(cases, a_file_that_is_not_there_is_a_finding);
    tcase_add_test(cases, without_memory_it_says_so_and_keeps_nothing);
    tcase_add_test(cases, what_the_writer_prints_reads_back_the_same);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
