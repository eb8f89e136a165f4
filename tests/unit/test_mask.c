/* test_mask: takes the password out of a connection string before it is shown */
#include "unit/unit.h"

#include <errno.h>

#include "config/mask.h"

#define M MASK_TEXT

static const struct {
    const char *text, *masked;
} samples[] = {
    {"", ""},
    {"host=x dbname=y", "host=x dbname=y"},
    {"password=secret", "password=" M},
    {"password=secret host=x", "password=" M " host=x"},
    {"host=x password = 'se \\' cret' user=y", "host=x password = " M " user=y"},
    {"password='never closed", "password=" M},
    {"PASSWORD=a\\ b host=x", "PASSWORD=" M " host=x"},
    {"sslpassword=a password=b", "sslpassword=" M " password=" M},
    {"password=", "password="},
    {"passfile=/etc/x", "passfile=/etc/x"},
    {"postgresql://u:secret@h/db", "postgresql://u:" M "@h/db"},
    {"postgresql://u:se@cr:et@h:1/db", "postgresql://u:" M "@h:1/db"},
    {"postgresql://u@h/db?password=a&sslmode=require", "postgresql://u@h/db?password=" M "&sslmode=require"},
    {"postgresql://h:5432/db", "postgresql://h:5432/db"},
    {"postgresql://u@[::1]:5432/db", "postgresql://u@[::1]:5432/db"},
    {"amqps://u:secret@h:5671/%2f", "amqps://u:" M "@h:5671/%2f"},
    {"amqp://h/a:b@c", "amqp://h/a:b@c"},
    {"://:x@", "://:" M "@"},
};

START_TEST(passwords_are_masked_and_nothing_else) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    bool masked;
    ck_assert_int_eq(mask_add(span_of(samples[_i].text), &b, &masked), 0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_str_eq(b.data, samples[_i].masked);
    ck_assert_int_eq(masked, strcmp(samples[_i].text, samples[_i].masked) != 0);
}
END_TEST

START_TEST(masking_again_changes_nothing) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    bool masked;
    ck_assert_int_eq(mask_add(span_of(samples[_i].masked), &b, &masked), 0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_str_eq(b.data, samples[_i].masked);
}
END_TEST

START_TEST(too_small_a_buffer_is_said) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(10);
    bool masked;
    ck_assert_int_eq(mask_add(SPAN_LITERAL("password=secret"), &b, &masked), -EMSGSIZE);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("mask");
    TCase *cases = tcase_create("mask");
    tcase_add_loop_test(cases, passwords_are_masked_and_nothing_else, 0, (int)ARRAY_LENGTH(samples));
    tcase_add_loop_test(cases, masking_again_changes_nothing, 0, (int)ARRAY_LENGTH(samples));
    tcase_add_test(cases, too_small_a_buffer_is_said);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
