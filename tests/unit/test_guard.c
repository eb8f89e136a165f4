/* test_guard: lets the main thread end a call that hangs, by shutdown(2) of its socket */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/guard.h"
#include "unit/fail_alloc.h"

struct pair {
    int ours, peers;
};

static struct pair new_pair(void) {
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    return (struct pair){fds[0], fds[1]};
}

static void close_pair(struct pair p) {
    close(p.ours);
    close(p.peers);
}

static struct guard *new_guard(void) {
    struct guard *g = NULL;
    ck_assert_int_eq(guard_new(&g), 0);
    return g;
}

/* What a peer sees of a socket that was shut down: the end. */
static bool is_shut(struct pair p) {
    char byte;
    return recv(p.peers, &byte, 1, MSG_DONTWAIT) == 0;
}

START_TEST(an_armed_socket_is_shut_at_its_deadline_and_not_before) {
    struct guard *g = new_guard();
    struct pair p = new_pair(), other = new_pair();
    guard_watch(g, p.ours);
    guard_watch(g, other.ours);
    guard_arm(g, p.ours, 1000);
    ck_assert(!guard_expire(g, 999));
    ck_assert(!is_shut(p));
    ck_assert(guard_expire(g, 1000));
    ck_assert(is_shut(p));
    ck_assert(!is_shut(other));
    guard_disarm(g);
    guard_free(g);
    close_pair(p);
    close_pair(other);
}
END_TEST

START_TEST(it_expires_once_per_call) {
    struct guard *g = new_guard();
    struct pair p = new_pair();
    guard_watch(g, p.ours);
    guard_arm(g, p.ours, 1000);
    ck_assert(guard_expire(g, 2000));
    ck_assert(!guard_expire(g, 3000));
    guard_disarm(g);
    guard_arm(g, p.ours, 4000);
    ck_assert(guard_expire(g, 4000));
    guard_free(g);
    close_pair(p);
}
END_TEST

START_TEST(a_call_that_returned_in_time_is_left_alone) {
    struct guard *g = new_guard();
    struct pair p = new_pair();
    guard_watch(g, p.ours);
    ck_assert(!guard_expire(g, CLOCK_NEVER));
    guard_arm(g, p.ours, 1000);
    guard_disarm(g);
    ck_assert(!guard_expire(g, CLOCK_NEVER));
    ck_assert(!is_shut(p));
    guard_free(g);
    close_pair(p);
}
END_TEST

START_TEST(all_watched_sockets_can_be_shut_and_no_other) {
    struct guard *g = new_guard();
    struct pair pairs[GUARD_FDS_MAX];
    for (int i = 0; i < GUARD_FDS_MAX; i++) {
        pairs[i] = new_pair();
        guard_watch(g, pairs[i].ours);
    }
    guard_forget(g, pairs[0].ours);
    guard_forget(g, pairs[3].ours);
    guard_shut(g);
    for (int i = 0; i < GUARD_FDS_MAX; i++)
        ck_assert_int_eq(is_shut(pairs[i]), i != 0 && i != 3);
    guard_free(g);
    for (int i = 0; i < GUARD_FDS_MAX; i++)
        close_pair(pairs[i]);
}
END_TEST

static void *expire_until_done(void *argument) {
    while (!guard_expire(argument, clock_now_us()))
        sched_yield();
    return NULL;
}

START_TEST(a_thread_that_hangs_in_a_call_gets_out) {
    struct guard *g = new_guard();
    struct pair p = new_pair();
    guard_watch(g, p.ours);
    guard_arm(g, p.ours, clock_now_us() + 20 * CLOCK_US_PER_MS);
    pthread_t watcher;
    ck_assert_int_eq(pthread_create(&watcher, NULL, expire_until_done, g), 0);
    char byte;
    ck_assert_int_eq(recv(p.ours, &byte, 1, 0), 0);
    guard_disarm(g);
    ck_assert_int_eq(pthread_join(watcher, NULL), 0);
    guard_free(g);
    close_pair(p);
}
END_TEST

static atomic_bool stop;

static void *expire_and_shut(void *argument) {
    while (!atomic_load(&stop)) {
        (void)guard_expire(argument, CLOCK_NEVER - 1);
        guard_shut(argument);
        sched_yield(); /* glibc's mutexes are not fair */
    }
    return NULL;
}

START_TEST(a_number_that_was_given_again_is_never_hit) {
    struct guard *g = new_guard();
    pthread_t watcher;
    atomic_store(&stop, false);
    ck_assert_int_eq(pthread_create(&watcher, NULL, expire_and_shut, g), 0);
    for (int i = 0; i < 1000; i++) {
        struct pair watched = new_pair();
        guard_watch(g, watched.ours);
        guard_arm(g, watched.ours, 0);
        guard_disarm(g);
        guard_forget(g, watched.ours);
        close_pair(watched);
        struct pair innocent = new_pair(); /* gets the same numbers */
        sched_yield();
        ck_assert(!is_shut(innocent));
        close_pair(innocent);
    }
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(watcher, NULL), 0);
    guard_free(g);
}
END_TEST

START_TEST(misuse_is_a_bug_of_ours) {
    struct guard *g = new_guard();
    ck_assert_bug(guard_arm(g, 0, 1));
    ck_assert_bug(guard_forget(g, 0));
    guard_watch(g, 0);
    ck_assert_bug(guard_watch(g, 0));
    guard_arm(g, 0, CLOCK_NEVER);
    ck_assert_bug(guard_arm(g, 0, 1));
    ck_assert_bug(guard_forget(g, 0));
    for (int fd = 1; fd < GUARD_FDS_MAX; fd++)
        guard_watch(g, fd);
    ck_assert_bug(guard_watch(g, GUARD_FDS_MAX));
    guard_free(g);
}
END_TEST

START_TEST(out_of_memory_is_an_ordinary_failure) {
    FAIL_ALLOC_EACH(n) {
        struct guard *g = NULL;
        int r = guard_new(&g);
        ck_assert_int_eq(r, fail_alloc_end() ? -ENOMEM : 0);
        guard_free(g);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("guard");
    TCase *cases = tcase_create("guard");
    tcase_add_test(cases, an_armed_socket_is_shut_at_its_deadline_and_not_before);
    tcase_add_test(cases, it_expires_once_per_call);
    tcase_add_test(cases, a_call_that_returned_in_time_is_left_alone);
    tcase_add_test(cases, all_watched_sockets_can_be_shut_and_no_other);
    tcase_add_test(cases, a_thread_that_hangs_in_a_call_gets_out);
    tcase_add_test(cases, a_number_that_was_given_again_is_never_hit);
    tcase_add_test(cases, misuse_is_a_bug_of_ours);
    tcase_add_test(cases, out_of_memory_is_an_ordinary_failure);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
