/* unit: what every unit program shares: one suite, one main */
#ifndef PENSTOCK_TESTS_UNIT_H
#define PENSTOCK_TESTS_UNIT_H

#include <check.h>
#include <stdlib.h>

/* Runs one suite; CK_FORK=no for sanitizers and valgrind. Exit status 0 only if all passed. */
static inline int unit_run(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
