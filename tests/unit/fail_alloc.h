/* fail_alloc: lets the n-th allocation of our own code fail, and counts them */
#ifndef PENSTOCK_TESTS_FAIL_ALLOC_H
#define PENSTOCK_TESTS_FAIL_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

/* Every unit and simulation program is linked with fail_alloc.o and with
 * -Wl,--wrap for malloc, calloc, realloc, strdup and strndup, so nothing has to be
 * set up. Calls out of our objects are seen (and those of the test itself:
 * keep ck_assert outside); those inside shared libraries are not. State is
 * per thread.
 *
 * Every way out of memory of one function:
 *
 *     FAIL_ALLOC_EACH(n) {
 *         int r = window_new(&options, &w);
 *         if (fail_alloc_end())
 *             ck_assert_int_eq(r, -ENOMEM);   (nothing leaked: run with SANITIZE=address)
 *         else
 *             ck_assert_int_eq(r, 0), window_free(w);
 *     }
 *
 * The loop begins each turn with fail_alloc_begin(n), n = 1, 2, …, and ends
 * after the first turn in which nothing failed.
 *
 * No allocation in steady state:
 *
 *     fail_alloc_begin(0);
 *     …100,000 events…
 *     fail_alloc_end();
 *     ck_assert_uint_eq(fail_alloc_count(), 0);
 */

/* From now on the n-th allocation (from 1) fails, once; 0: none, only counted. */
void fail_alloc_begin(uint64_t n);
/* Back to normal; true if one was made to fail since fail_alloc_begin. Idempotent. */
bool fail_alloc_end(void);
/* Allocations between the last begin and end (or now). */
uint64_t fail_alloc_count(void);

#define FAIL_ALLOC_EACH(n)                                                     \
    for (uint64_t n = 1, more_ = (fail_alloc_begin(1), 1); more_;              \
         more_ = fail_alloc_end(), n++, more_ ? fail_alloc_begin(n) : (void)0)

#endif
