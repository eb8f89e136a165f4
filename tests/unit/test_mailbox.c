/* test_mailbox: a bounded queue of commands from the main thread to a forwarder */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include "base/mailbox.h"
#include "unit/fail_alloc.h"

static struct mailbox *new_mailbox(void) {
    struct mailbox *m = NULL;
    ck_assert_int_eq(mailbox_new(&m), 0);
    return m;
}

static int put(struct mailbox *m, int64_t deadline_us) {
    return mailbox_put(m, &(struct mail){MAIL_STOP, deadline_us});
}

START_TEST(mail_comes_out_in_order_as_it_went_in) {
    struct mailbox *m = new_mailbox();
    struct mail mail;
    ck_assert_int_eq(mailbox_put(m, &(struct mail){MAIL_PAUSE, 0}), 0);
    ck_assert_int_eq(mailbox_put(m, &(struct mail){MAIL_STOP, 42}), 0);
    ck_assert_int_eq(mailbox_take(m, &mail), 0);
    ck_assert_int_eq(mail.kind, MAIL_PAUSE);
    ck_assert_int_eq(mailbox_take(m, &mail), 0);
    ck_assert_int_eq(mail.kind, MAIL_STOP);
    ck_assert_int_eq(mail.deadline_us, 42);
    ck_assert_int_eq(mailbox_take(m, &mail), MAILBOX_E_EMPTY);
    mailbox_free(m);
}
END_TEST

START_TEST(it_is_readable_while_mail_lies_in_it) {
    struct mailbox *m = new_mailbox();
    struct mail mail;
    ck_assert(!unit_readable(mailbox_fd(m)));
    ck_assert_int_eq(put(m, 1), 0);
    ck_assert_int_eq(put(m, 2), 0);
    ck_assert(unit_readable(mailbox_fd(m)));
    ck_assert_int_eq(mailbox_take(m, &mail), 0);
    ck_assert(unit_readable(mailbox_fd(m)));
    ck_assert_int_eq(mailbox_take(m, &mail), 0);
    ck_assert(!unit_readable(mailbox_fd(m)));
    mailbox_free(m);
}
END_TEST

START_TEST(a_full_one_refuses_and_stays_as_it_was) {
    struct mailbox *m = new_mailbox();
    struct mail mail;
    for (int i = 0; i < MAILBOX_CAPACITY; i++)
        ck_assert_int_eq(put(m, i), 0);
    ck_assert_int_eq(put(m, 99), -ENOBUFS);
    for (int i = 0; i < MAILBOX_CAPACITY; i++) {
        ck_assert_int_eq(mailbox_take(m, &mail), 0);
        ck_assert_int_eq(mail.deadline_us, i);
    }
    ck_assert_int_eq(mailbox_take(m, &mail), MAILBOX_E_EMPTY);
    mailbox_free(m);
}
END_TEST

enum { MANY = 20000 };

static void *put_many(void *argument) {
    for (int64_t i = 0; i < MANY; i++)
        while (put(argument, i) == -ENOBUFS)
            sched_yield();
    return NULL;
}

START_TEST(nothing_is_lost_between_two_threads) {
    struct mailbox *m = new_mailbox();
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, put_many, m), 0);
    for (int64_t i = 0; i < MANY; i++) {
        struct mail mail;
        ck_assert(unit_wait_readable(mailbox_fd(m)));
        ck_assert_int_eq(mailbox_take(m, &mail), 0);
        ck_assert_int_eq(mail.deadline_us, i);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!unit_readable(mailbox_fd(m)));
    mailbox_free(m);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_failure) {
    FAIL_ALLOC_EACH(n) {
        struct mailbox *m = NULL;
        int r = mailbox_new(&m);
        ck_assert_int_eq(r, fail_alloc_end() ? -ENOMEM : 0);
        mailbox_free(m);
    }
}
END_TEST

START_TEST(out_of_file_descriptors_is_an_ordinary_failure) {
    struct rlimit before, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    struct mailbox *m = NULL;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int r = mailbox_new(&m);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(r, -EMFILE);
    ck_assert_ptr_null(m);
    mailbox_free(NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("mailbox");
    TCase *cases = tcase_create("mailbox");
    tcase_add_test(cases, mail_comes_out_in_order_as_it_went_in);
    tcase_add_test(cases, it_is_readable_while_mail_lies_in_it);
    tcase_add_test(cases, a_full_one_refuses_and_stays_as_it_was);
    tcase_add_test(cases, nothing_is_lost_between_two_threads);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_failure);
    tcase_add_test(cases, out_of_file_descriptors_is_an_ordinary_failure);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
