/* test_secret: where a password stands; read at each connect, never printed */
#include "unit/unit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/secret.h"
#include "unit/fail_alloc.h"

static char directory[64];

static void set_up(void) {
    snprintf(directory, sizeof directory, "/tmp/test_secret.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void tear_down(void) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/file", directory);
    unlink(path);
    rmdir(directory);
}

/* Makes directory/file; returns its path (the test's own static place). */
static char *make_file(const void *content, size_t len, mode_t mode) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/file", directory);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(content, 1, len, f), len);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
    return path;
}

static void check_read(enum secret_kind kind, char *value, const char *expected) {
    CLEANUP(secret_wipe) struct buf b = BUF_INIT(2 * SECRET_MAX_BYTES);
    struct error e = {0};
    ck_assert_int_eq(buf_add(&b, "user:", 5), 0);
    ck_assert_msg(secret_read(&(struct secret){kind, value}, &b, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(b.len, 5 + strlen(expected));
    ck_assert_mem_eq(b.data, "user:", 5);
    ck_assert_str_eq(b.data + 5, expected);
}

static void check_refused(enum secret_kind kind, char *value, const char *part) {
    CLEANUP(secret_wipe) struct buf b = BUF_INIT(2 * SECRET_MAX_BYTES);
    struct error e = {0};
    ck_assert_int_eq(buf_reserve(&b, b.max), 0);
    memset(b.data, 0, b.capacity); /* looked through below */
    ck_assert_int_eq(buf_add(&b, "user:", 5), 0);
    ck_assert_int_eq(secret_read(&(struct secret){kind, value}, &b, &e), -EINVAL);
    ck_assert_int_eq(e.class, ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, part));
    ck_assert_ptr_null(strstr(e.text, "geheim"));
    ck_assert_uint_eq(b.len, 5);
    for (size_t i = 5; i + 6 <= b.capacity; i++)
        ck_assert(memcmp(b.data + i, "geheim", 6) != 0);
}

START_TEST(an_inline_secret_is_its_own_text) {
    check_read(SECRET_INLINE, (char[]){"geheim"}, "geheim");
    check_read(SECRET_NONE, NULL, "");
}
END_TEST

START_TEST(one_newline_of_a_file_is_dropped) {
    check_read(SECRET_FILE, make_file("geheim\n", 7, 0600), "geheim");
    check_read(SECRET_FILE, make_file("geheim\n\n", 8, 0400), "geheim\n");
    check_read(SECRET_FILE, make_file("geheim", 6, 0600), "geheim");
}
END_TEST

START_TEST(a_file_that_others_can_read_is_refused) {
    check_refused(SECRET_FILE, make_file("geheim", 6, 0640), "chmod 600");
    check_refused(SECRET_FILE, make_file("geheim", 6, 0604), "chmod 600");
}
END_TEST

START_TEST(a_credential_is_a_file_of_systemd) {
    setenv("CREDENTIALS_DIRECTORY", directory, 1);
    make_file("geheim\n", 7, 0440);
    check_read(SECRET_CREDENTIAL, (char[]){"file"}, "geheim");
    check_refused(SECRET_CREDENTIAL, (char[]){"../file"}, "plain file name");
    check_refused(SECRET_CREDENTIAL, (char[]){".."}, "plain file name");
    check_refused(SECRET_CREDENTIAL, (char[]){"other"}, "No such file");
    unsetenv("CREDENTIALS_DIRECTORY");
    check_refused(SECRET_CREDENTIAL, (char[]){"file"}, "LoadCredential=");
}
END_TEST

START_TEST(an_environment_variable_must_be_set) {
    setenv("PENSTOCK_TEST_SECRET", "geheim", 1);
    check_read(SECRET_ENV, (char[]){"PENSTOCK_TEST_SECRET"}, "geheim");
    unsetenv("PENSTOCK_TEST_SECRET");
    check_refused(SECRET_ENV, (char[]){"PENSTOCK_TEST_SECRET"}, "PENSTOCK_TEST_SECRET");
}
END_TEST

START_TEST(what_a_library_would_misread_is_refused) {
    check_refused(SECRET_FILE, make_file("", 0, 0600), "is empty");
    check_refused(SECRET_FILE, make_file("\n", 1, 0600), "is empty");
    check_refused(SECRET_FILE, make_file("geheim\0x", 8, 0600), "NUL");
    check_refused(SECRET_INLINE, (char[]){""}, "is empty");
}
END_TEST

START_TEST(what_is_no_small_regular_file_is_refused) {
    check_refused(SECRET_FILE, directory, "not a regular file");
    check_refused(SECRET_FILE, (char[]){"/nowhere/at/all"}, "No such file");
    CLEANUP(cleanup_free) char *large = calloc(1, SECRET_MAX_BYTES + 1);
    check_refused(SECRET_FILE, make_file(large, SECRET_MAX_BYTES + 1, 0600), "64 KiB");
    char fifo[PATH_MAX];
    snprintf(fifo, sizeof fifo, "%s/file", directory);
    unlink(fifo);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    check_refused(SECRET_FILE, fifo, "not a regular file");
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_failure) {
    char *path = make_file("geheim\n", 7, 0600);
    FAIL_ALLOC_EACH(n) {
        CLEANUP(secret_wipe) struct buf b = BUF_INIT(1000);
        struct error e = {0};
        int r = secret_read(&(struct secret){SECRET_FILE, path}, &b, &e);
        if (fail_alloc_end())
            ck_assert_int_eq(r, -ENOMEM);
        else
            ck_assert_int_eq(r, 0);
    }
}
END_TEST

START_TEST(too_small_a_buffer_is_an_ordinary_failure) {
    CLEANUP(secret_wipe) struct buf b = BUF_INIT(5);
    struct error e = {0};
    ck_assert_int_eq(secret_read(&(struct secret){SECRET_INLINE, (char[]){"geheim"}}, &b, &e), -EMSGSIZE);
    ck_assert_uint_eq(b.len, 0);
}
END_TEST

START_TEST(the_copy_is_overwritten_before_it_is_freed) {
    struct secret s = {SECRET_INLINE, strdup("geheim")};
    secret_done(&s);
    ck_assert_ptr_null(s.value);
    ck_assert_int_eq(s.kind, SECRET_NONE);
    secret_done(&s);
    struct buf b = BUF_INIT(100);
    ck_assert_int_eq(buf_add(&b, "geheim", 6), 0);
    secret_wipe(&b);
    ck_assert_ptr_null(b.data);
    secret_wipe(&b);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("secret");
    TCase *cases = tcase_create("secret");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, an_inline_secret_is_its_own_text);
    tcase_add_test(cases, one_newline_of_a_file_is_dropped);
    tcase_add_test(cases, a_file_that_others_can_read_is_refused);
    tcase_add_test(cases, a_credential_is_a_file_of_systemd);
    tcase_add_test(cases, an_environment_variable_must_be_set);
    tcase_add_test(cases, what_a_library_would_misread_is_refused);
    tcase_add_test(cases, what_is_no_small_regular_file_is_refused);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_failure);
    tcase_add_test(cases, too_small_a_buffer_is_an_ordinary_failure);
    tcase_add_test(cases, the_copy_is_overwritten_before_it_is_freed);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
