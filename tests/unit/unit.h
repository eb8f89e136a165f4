/* unit: what every unit program shares: one suite, one main */
#ifndef PENSTOCK_TESTS_UNIT_H
#define PENSTOCK_TESTS_UNIT_H

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Check gives a test 4 s and reads this when a case is made; a busy machine may
 * take longer without anything being wrong. */
__attribute__((constructor)) static void unit_be_patient(void) {
    setenv("CK_DEFAULT_TIMEOUT", "60", 0);
}

/* Runs one suite; CK_FORK=no for sanitizers and valgrind. Exit status 0 only if all passed. */
static inline int unit_run(Suite *suite) {
    /* Check's own 4 s are for a machine with nothing else to do; this only ends what hangs. */
    setenv("CK_DEFAULT_TIMEOUT", "120", 0);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Waits until fd is readable; false after 10 s. */
static inline bool unit_wait_readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 10000) == 1;
}

static inline bool unit_readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* The statement breaks a rule that only a bug of ours can break: it must end
 * its process (a child) with status 70. */
#define ck_assert_bug(statement)                                 \
    do {                                                         \
        pid_t child_ = fork();                                   \
        if (child_ == 0) {                                       \
            dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);    \
            statement;                                           \
            _exit(0);                                            \
        }                                                        \
        int status_ = 0;                                         \
        ck_assert_int_eq(waitpid(child_, &status_, 0), child_);  \
        ck_assert(WIFEXITED(status_));                           \
        ck_assert_int_eq(WEXITSTATUS(status_), 70);              \
    } while (0)

#endif
