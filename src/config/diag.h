/* diag: findings about the configuration, each with its place; all of one run */
#ifndef PENSTOCK_CONFIG_DIAG_H
#define PENSTOCK_CONFIG_DIAG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"

enum diag_level { DIAG_ERROR, DIAG_WARNING };

struct diag; /* the list; bounded: DIAG_MAX, then one that says so */
#define DIAG_MAX 200

int diag_new(struct diag **ret_diag) MUST_CHECK;
void diag_free(struct diag *d);

/* Where in which file; line and column (characters) from 1; line 0: the file
 * as a whole. file is borrowed for the call. */
struct diag_place {
    const char *file;
    uint32_t line, column;
};

/* "what is wrong; what is allowed", one line. Can't fail: what finds no room any more is still counted. */
void diag_add(struct diag *d, enum diag_level level, struct diag_place place, const char *format, ...)
    PRINTF_LIKE(4, 5);
void diag_add_list(struct diag *d, enum diag_level level, struct diag_place place, const char *format, va_list args)
    PRINTF_LIKE(4, 0);
size_t diag_count(const struct diag *d, enum diag_level level);
/* In order of file, line, column: "file:line:column: error: text". */
void diag_print(const struct diag *d, FILE *out);
/* The same as one text, for the log; number i, NULL behind the last. */
const char *diag_text(const struct diag *d, size_t i, enum diag_level *ret_level);

#endif
