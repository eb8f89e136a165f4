/* heap: counts the allocations of a test program, and fails the n-th */
#ifndef PENSTOCK_TESTS_HEAP_H
#define PENSTOCK_TESTS_HEAP_H

#include <stddef.h>

/* glibc's own functions, below the ones defined here; a sanitizer brings its
 * own allocator, so there nothing is counted and nothing fails. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEAP_COUNTS 0
#endif
#endif
#ifndef HEAP_COUNTS
#define HEAP_COUNTS 1
#endif

static long heap_allocations;
static long heap_fail_after = -1; /* so many succeed, then all fail; -1: none fails */

#if HEAP_COUNTS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);

static inline int heap_refuses(void) {
    heap_allocations++;
    if (heap_fail_after < 0)
        return 0;
    return heap_fail_after == 0 || heap_fail_after-- == 0;
}

void *malloc(size_t size) {
    return heap_refuses() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return heap_refuses() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *pointer, size_t size) {
    return heap_refuses() ? NULL : __libc_realloc(pointer, size);
}
#endif

#endif
