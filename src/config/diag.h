/* diag: findings about the configuration, each with its place; all of one run */
#ifndef PENSTOCK_CONFIG_DIAG_H
#define PENSTOCK_CONFIG_DIAG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"

enum diag_level { DIAG_ERROR, DIAG_WARNING };

struct diag; /* the list; bounded: DIAG_MAX, then one that says so */
#define DIAG_MAX 200

int diag_new(struct diag **ret_diag) MUST_CHECK;
void diag_free(struct diag *d);

/* line and column from 1; 0: the file as a whole. "what is wrong; what is allowed". */
void diag_add(struct diag *d, enum diag_level level, const char *file, uint32_t line, uint32_t column,
              const char *format, ...) PRINTF_LIKE(6, 7);
size_t diag_count(const struct diag *d, enum diag_level level);
/* In order of file, line, column: "file:line:column: error: text". */
void diag_print(const struct diag *d, FILE *out);
/* The same as one text, for the log; number i, NULL behind the last. */
const char *diag_text(const struct diag *d, size_t i, enum diag_level *ret_level);

#endif
