/* nearest: which of the valid words was probably meant */
#ifndef PENSTOCK_CONFIG_NEAREST_H
#define PENSTOCK_CONFIG_NEAREST_H

#include "base/span.h"

/* Embedded: {.word = …}, then nearest_try for each valid word. */
struct nearest {
    struct span word;  /* as written, wrong */
    struct span found; /* absent: none is near enough to be worth saying. Borrowed. */
    size_t distance;
};

void nearest_try(struct nearest *n, struct span candidate);

#endif
