/* test_dial: one connection attempt in a helper thread that may hang */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/dial.h"
#include "unit/fail_alloc.h"

/* A peer that answers when it is told to, and counts. */
struct peer {
    int gate;      /* connect returns once this is readable */
    int connected; /* eventfds that count, EFD_SEMAPHORE */
    int closed;
    int freed;
    bool refuses;
    atomic_bool signals_blocked;
};

static void *peer_connect(void *argument, struct error *reterr) {
    struct peer *p = argument;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    atomic_store(&p->signals_blocked, sigismember(&mask, SIGTERM) == 1);
    eventfd_t one;
    eventfd_read(p->gate, &one);
    eventfd_write(p->connected, 1);
    if (!p->refuses)
        return p;
    error_set(reterr, ERROR_RETRY, "the peer refuses");
    return NULL;
}

static void peer_close(void *handle) {
    struct peer *p = handle;
    eventfd_write(p->closed, 1);
}

static void peer_free_argument(void *argument) {
    struct peer *p = argument;
    eventfd_write(p->freed, 1);
}

static const struct dial_ops peer_ops = {peer_connect, peer_close, peer_free_argument};

static struct peer new_peer(unsigned answers) {
    struct peer p = {
        .gate = eventfd(answers, EFD_CLOEXEC | EFD_SEMAPHORE),
        .connected = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE),
        .closed = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE),
        .freed = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE),
    };
    ck_assert_int_ge(p.freed, 0);
    return p;
}

static void peer_done(struct peer *p) {
    close(p->gate);
    close(p->connected);
    close(p->closed);
    close(p->freed);
}

/* The counter has been raised, or is within 10 s. */
static void wait_one(int fd) {
    eventfd_t one;
    ck_assert(unit_wait_readable(fd));
    ck_assert_int_eq(eventfd_read(fd, &one), 0);
}

static struct dial *new_dial(void) {
    struct dial *d = NULL;
    ck_assert_int_eq(dial_new(&peer_ops, &d), 0);
    return d;
}

START_TEST(an_open_handle_is_handed_over) {
    struct peer p = new_peer(1);
    struct dial *d = new_dial();
    struct error e = {0};
    void *handle = NULL;
    ck_assert_int_eq(dial_start(d, &p), 0);
    ck_assert(unit_wait_readable(dial_fd(d)));
    ck_assert(dial_running(d));
    ck_assert_int_eq(dial_take(d, &handle, &e), 0);
    ck_assert_ptr_eq(handle, &p);
    ck_assert(!dial_running(d));
    ck_assert(!unit_readable(dial_fd(d)));
    dial_free(d);
    ck_assert(unit_readable(p.freed));
    ck_assert(!unit_readable(p.closed));
    peer_done(&p);
}
END_TEST

START_TEST(a_refusal_brings_its_sentence) {
    struct peer p = new_peer(1);
    p.refuses = true;
    struct dial *d = new_dial();
    struct error e = {0};
    void *handle = NULL;
    ck_assert_int_eq(dial_start(d, &p), 0);
    ck_assert(unit_wait_readable(dial_fd(d)));
    ck_assert_int_eq(dial_take(d, &handle, &e), DIAL_E_FAILED);
    ck_assert_int_eq(e.class, ERROR_RETRY);
    ck_assert_str_eq(e.text, "the peer refuses");
    ck_assert_ptr_null(handle);
    ck_assert(!dial_running(d));
    dial_free(d);
    peer_done(&p);
}
END_TEST

START_TEST(nothing_is_there_before_it_has_ended) {
    struct peer p = new_peer(0);
    struct dial *d = new_dial();
    struct error e = {0};
    void *handle = NULL;
    ck_assert_int_eq(dial_take(d, &handle, &e), DIAL_E_RUNNING);
    ck_assert_int_eq(dial_start(d, &p), 0);
    ck_assert_int_eq(dial_take(d, &handle, &e), DIAL_E_RUNNING);
    ck_assert(!unit_readable(dial_fd(d)));
    eventfd_write(p.gate, 1);
    ck_assert(unit_wait_readable(dial_fd(d)));
    ck_assert_int_eq(dial_take(d, &handle, &e), 0);
    dial_free(d);
    peer_done(&p);
}
END_TEST

START_TEST(one_attempt_at_a_time) {
    struct peer p = new_peer(0), second = new_peer(1);
    struct dial *d = new_dial();
    ck_assert_int_eq(dial_start(d, &p), 0);
    ck_assert_int_eq(dial_start(d, &second), -EBUSY);
    ck_assert(unit_readable(second.freed));
    eventfd_write(p.gate, 1);
    ck_assert(unit_wait_readable(dial_fd(d)));
    ck_assert_int_eq(dial_start(d, &second), -EBUSY);
    dial_free(d);
    wait_one(p.closed);
    peer_done(&p);
    peer_done(&second);
}
END_TEST

START_TEST(freeing_does_not_wait_for_an_attempt_that_hangs) {
    struct peer p = new_peer(0);
    struct dial *d = new_dial();
    ck_assert_int_eq(dial_start(d, &p), 0);
    dial_free(d);
    ck_assert(!unit_readable(p.connected));
    eventfd_write(p.gate, 1);
    wait_one(p.connected);
    wait_one(p.freed);
    wait_one(p.closed);
    peer_done(&p);
}
END_TEST

START_TEST(a_new_attempt_follows_one_that_was_abandoned) {
    struct peer hangs = new_peer(0), answers = new_peer(1);
    struct dial *d = new_dial();
    struct error e = {0};
    void *handle = NULL;
    ck_assert_int_eq(dial_start(d, &hangs), 0);
    dial_abandon(d);
    ck_assert(!dial_running(d));
    ck_assert_int_eq(dial_start(d, &answers), 0);
    ck_assert(unit_wait_readable(dial_fd(d)));
    eventfd_write(hangs.gate, 1);
    wait_one(hangs.closed);
    ck_assert_int_eq(dial_take(d, &handle, &e), 0);
    ck_assert_ptr_eq(handle, &answers);
    ck_assert(!unit_readable(dial_fd(d)));
    dial_free(d);
    peer_done(&hangs);
    peer_done(&answers);
}
END_TEST

START_TEST(abandoning_one_that_has_ended_closes_its_handle) {
    struct peer p = new_peer(1);
    struct dial *d = new_dial();
    ck_assert_int_eq(dial_start(d, &p), 0);
    ck_assert(unit_wait_readable(dial_fd(d)));
    dial_abandon(d);
    ck_assert(unit_readable(p.closed));
    ck_assert(!unit_readable(dial_fd(d)));
    dial_abandon(d);
    dial_free(d);
    peer_done(&p);
}
END_TEST

START_TEST(attempts_that_hang_are_bounded) {
    struct peer p = new_peer(0);
    struct dial *d = new_dial();
    for (int i = 0; i < DIAL_ABANDONED_MAX; i++) {
        ck_assert_int_eq(dial_start(d, &p), 0);
        dial_abandon(d);
    }
    ck_assert_int_eq(dial_start(d, &p), -EAGAIN);
    wait_one(p.freed);
    eventfd_write(p.gate, DIAL_ABANDONED_MAX);
    for (int i = 0; i < DIAL_ABANDONED_MAX; i++)
        wait_one(p.closed);
    dial_free(d);
    peer_done(&p);
}
END_TEST

START_TEST(signals_stay_with_the_main_thread) {
    struct peer p = new_peer(1);
    struct dial *d = new_dial();
    ck_assert_int_eq(dial_start(d, &p), 0);
    ck_assert(unit_wait_readable(dial_fd(d)));
    ck_assert(atomic_load(&p.signals_blocked));
    sigset_t mask;
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    ck_assert(!sigismember(&mask, SIGTERM));
    dial_free(d);
    wait_one(p.closed);
    peer_done(&p);
}
END_TEST

START_TEST(giving_up_at_any_moment_closes_each_handle_once) {
    enum { ROUNDS = 500 };
    struct peer p = new_peer(ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        struct dial *d = new_dial();
        ck_assert_int_eq(dial_start(d, &p), 0);
        if (i % 3 == 1)
            ck_assert(unit_wait_readable(p.connected));
        if (i % 3 == 2)
            ck_assert(unit_wait_readable(dial_fd(d)));
        dial_free(d);
        wait_one(p.connected);
        wait_one(p.freed);
        wait_one(p.closed);
    }
    ck_assert(!unit_readable(p.closed));
    peer_done(&p);
}
END_TEST

static bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *argument) {
    return no_threads ? EAGAIN : __real_pthread_create(thread, attr, start, argument);
}

START_TEST(without_threads_the_argument_is_freed_and_all_is_as_before) {
    struct peer p = new_peer(1);
    struct dial *d = new_dial();
    no_threads = true;
    ck_assert_int_eq(dial_start(d, &p), -EAGAIN);
    no_threads = false;
    wait_one(p.freed);
    ck_assert(!dial_running(d));
    ck_assert_int_eq(dial_start(d, &p), 0);
    ck_assert(unit_wait_readable(dial_fd(d)));
    dial_free(d);
    wait_one(p.closed);
    peer_done(&p);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_failure) {
    struct peer p = new_peer(1);
    FAIL_ALLOC_EACH(n) {
        struct dial *d = NULL;
        int r = dial_new(&peer_ops, &d);
        if (r == 0)
            r = dial_start(d, &p);
        ck_assert_int_eq(r, fail_alloc_end() ? -ENOMEM : 0);
        dial_free(d);
    }
    wait_one(p.closed);
    peer_done(&p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("dial");
    TCase *cases = tcase_create("dial");
    tcase_add_test(cases, an_open_handle_is_handed_over);
    tcase_add_test(cases, a_refusal_brings_its_sentence);
    tcase_add_test(cases, nothing_is_there_before_it_has_ended);
    tcase_add_test(cases, one_attempt_at_a_time);
    tcase_add_test(cases, freeing_does_not_wait_for_an_attempt_that_hangs);
    tcase_add_test(cases, a_new_attempt_follows_one_that_was_abandoned);
    tcase_add_test(cases, abandoning_one_that_has_ended_closes_its_handle);
    tcase_add_test(cases, attempts_that_hang_are_bounded);
    tcase_add_test(cases, signals_stay_with_the_main_thread);
    tcase_add_test(cases, giving_up_at_any_moment_closes_each_handle_once);
    tcase_add_test(cases, without_threads_the_argument_is_freed_and_all_is_as_before);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_failure);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
