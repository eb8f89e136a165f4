/* cleanup: release what a variable owns when it goes out of scope */
#ifndef PENSTOCK_BASE_CLEANUP_H
#define PENSTOCK_BASE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

/* CLEANUP(fn): fn receives a pointer to the variable (gcc manual, "Common
 * Variable Attributes"). clang does not count that as a use of the variable. */
#define CLEANUP(fn) __attribute__((cleanup(fn), unused))

/* Every function whose result must be looked at carries this. */
#define MUST_CHECK __attribute__((warn_unused_result))

#define PRINTF_LIKE(format_at, args_at) __attribute__((format(printf, format_at, args_at)))

static inline void cleanup_free(void *pointer) {
    free(*(void **)pointer);
}

static inline void cleanup_close(int *fd) {
    if (*fd >= 0)
        close(*fd);
}

/* Hands an owned pointer out and leaves NULL behind, so that its cleanup does nothing. */
#define TAKE(variable)                        \
    ({                                        \
        __auto_type taken_ = (variable);      \
        (variable) = NULL;                    \
        taken_;                               \
    })

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* What a macro stands for, as text. */
#define STRING(number) STRING_OF(number)
#define STRING_OF(number) #number

#endif
