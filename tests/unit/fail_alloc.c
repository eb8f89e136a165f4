/* fail_alloc: lets the n-th allocation of our own code fail, and counts them */
#include "unit/fail_alloc.h"

#include <errno.h>
#include <stddef.h>

/* ld --wrap: our calls of malloc arrive at __wrap_malloc, the library's is __real_malloc. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t max);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t max);

static _Thread_local struct {
    bool active, failed;
    uint64_t count, fail_at;
} state;

void fail_alloc_begin(uint64_t n) {
    state.active = true;
    state.failed = false;
    state.count = 0;
    state.fail_at = n;
}

bool fail_alloc_end(void) {
    state.active = false;
    return state.failed;
}

uint64_t fail_alloc_count(void) {
    return state.count;
}

static bool refused(void) {
    if (!state.active || ++state.count != state.fail_at)
        return false;
    state.failed = true;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size) {
    return refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
    return refused() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text) {
    return refused() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t max) {
    return refused() ? NULL : __real_strndup(text, max);
}
