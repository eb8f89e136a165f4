/* test_option: a table of keys, by which a room says what can be configured in it */
#include "unit/unit.h"

#include <string.h>

#include "base/option.h"

struct sample_options {
    bool flag;
    int64_t count, wait_us, size_bytes;
    double factor;
    char *name;
    int choice;
    struct secret password;
    struct option_texts hosts;
    struct option_properties properties;
};

static const char *const choices[] = {"one", "two", NULL};

static const struct option sample_table[] = {
    {.key = "flag", .kind = OPTION_BOOLEAN, .offset = offsetof(struct sample_options, flag)},
    {.key = "count", .kind = OPTION_INTEGER, .offset = offsetof(struct sample_options, count)},
    {.key = "wait", .kind = OPTION_DURATION, .offset = offsetof(struct sample_options, wait_us)},
    {.key = "size", .kind = OPTION_SIZE, .offset = offsetof(struct sample_options, size_bytes)},
    {.key = "factor", .kind = OPTION_DECIMAL, .offset = offsetof(struct sample_options, factor)},
    {.key = "name", .kind = OPTION_TEXT, .offset = offsetof(struct sample_options, name)},
    {.key = "choice", .kind = OPTION_CHOICE, .offset = offsetof(struct sample_options, choice), .choices = choices},
    {.key = "password", .kind = OPTION_SECRET, .offset = offsetof(struct sample_options, password)},
    {.key = "hosts", .kind = OPTION_TEXTS, .offset = offsetof(struct sample_options, hosts)},
    {.key = "ANY", .kind = OPTION_PROPERTIES, .offset = offsetof(struct sample_options, properties)},
    OPTION_END,
};

START_TEST(what_a_struct_owns_is_released) {
    struct sample_options o = {.flag = true, .count = 3, .factor = 1.5, .choice = 1, .name = strdup("main")};
    o.password = (struct secret){SECRET_INLINE, strdup("geheim")};
    o.hosts = (struct option_texts){calloc(2, sizeof(char *)), 2};
    o.hosts.items[0] = strdup("a");
    o.hosts.items[1] = strdup("b");
    o.properties = (struct option_properties){calloc(1, sizeof(struct option_property)), 1};
    o.properties.items[0] = (struct option_property){strdup("sasl.password"), {SECRET_INLINE, strdup("geheim")}};
    option_release(sample_table, &o);
    ck_assert_ptr_null(o.name);
    ck_assert_ptr_null(o.properties.items);
    ck_assert_uint_eq(o.properties.count, 0);
    ck_assert_ptr_null(o.password.value);
    ck_assert_ptr_null(o.hosts.items);
    ck_assert_uint_eq(o.hosts.count, 0);
    ck_assert(o.flag);
    ck_assert_int_eq(o.count, 3);
    option_release(sample_table, &o);
}
END_TEST

START_TEST(a_struct_of_nothing_given_is_fine) {
    struct sample_options o = {0};
    option_release(sample_table, &o);
    ck_assert_ptr_null(o.name);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("option");
    TCase *cases = tcase_create("option");
    tcase_add_test(cases, what_a_struct_owns_is_released);
    tcase_add_test(cases, a_struct_of_nothing_given_is_fine);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
