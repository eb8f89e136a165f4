/* test_copied: the messages of COPY in binary form, whole, cut and broken */
#include "unit/unit.h"

#include <errno.h>

#include "pg/copied.h"

#define HEADER "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0"
/* Three columns: two bytes, NULL, empty. */
#define ROW "\0\3" "\0\0\0\2" "ab" "\377\377\377\377" "\0\0\0\0"
#define MESSAGE(literal) ((struct span){literal, sizeof literal - 1})

static struct span values[PGCONN_COLUMNS_MAX];

static void expect_row(void) {
    ck_assert(span_is(values[0], "ab"));
    ck_assert(span_absent(values[1]));
    ck_assert(!span_absent(values[2]));
    ck_assert_uint_eq(values[2].len, 0);
}

START_TEST(a_row_has_its_values_and_null_is_not_empty) {
    ck_assert_int_eq(copied_read(MESSAGE(ROW), false, values), 3);
    expect_row();
    ck_assert_int_eq(copied_read(MESSAGE("\0\0"), false, values), 0);
}
END_TEST

START_TEST(the_header_stands_before_the_first_row_or_alone) {
    ck_assert_int_eq(copied_read(MESSAGE(HEADER ROW), true, values), 3);
    expect_row();
    ck_assert_int_eq(copied_read(MESSAGE(HEADER), true, values), 0);
    ck_assert_int_eq(copied_read(MESSAGE(HEADER "\377\377"), true, values), 0);
}
END_TEST

START_TEST(the_trailer_is_no_row) {
    ck_assert_int_eq(copied_read(MESSAGE("\377\377"), false, values), 0);
}
END_TEST

START_TEST(a_message_that_ends_too_early_or_too_late_is_refused) {
    for (size_t len = 0; len < sizeof ROW - 1; len++)
        ck_assert_msg(copied_read((struct span){ROW, len}, false, values) == -EINVAL, "%zu", len);
    for (size_t len = 0; len < sizeof HEADER - 1; len++)
        ck_assert_msg(copied_read((struct span){HEADER, len}, true, values) == -EINVAL, "%zu", len);
    ck_assert_int_eq(copied_read(MESSAGE(ROW "x"), false, values), -EINVAL);
}
END_TEST

START_TEST(what_no_server_says_is_refused) {
    ck_assert_int_eq(copied_read(MESSAGE(ROW), true, values), -EINVAL);             /* no header */
    ck_assert_int_eq(copied_read(MESSAGE("PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\4abcd"), true, values), -EINVAL); /* an extension */
    ck_assert_int_eq(copied_read(MESSAGE("\177\377"), false, values), -EINVAL);     /* too many columns */
    ck_assert_int_eq(copied_read(MESSAGE("\377\376"), false, values), -EINVAL);
    ck_assert_int_eq(copied_read(MESSAGE("\0\1\377\377\377\376"), false, values), -EINVAL); /* a length below NULL's */
    ck_assert_int_eq(copied_read(MESSAGE("\0\1\177\377\377\377"), false, values), -EINVAL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("copied");
    TCase *cases = tcase_create("copied");
    tcase_add_test(cases, a_row_has_its_values_and_null_is_not_empty);
    tcase_add_test(cases, the_header_stands_before_the_first_row_or_alone);
    tcase_add_test(cases, the_trailer_is_no_row);
    tcase_add_test(cases, a_message_that_ends_too_early_or_too_late_is_refused);
    tcase_add_test(cases, what_no_server_says_is_refused);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
