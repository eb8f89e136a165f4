/* survey_findings: what a survey has found: each with its weight and its place */
#ifndef PENSTOCK_FORWARDER_SURVEY_FINDINGS_H
#define PENSTOCK_FORWARDER_SURVEY_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

enum survey_level {
    SURVEY_NOTE,
    SURVEY_WARNING,
    SURVEY_ERROR, /* it would not start to deliver, or not everywhere */
};

struct survey_finding {
    enum survey_level level;
    char *place; /* "connection 'shop-db'" */
    char *text;  /* one line, with the statement that mends it */
};

#define SURVEY_FINDINGS_MAX 5000

/* Embedded; zero is valid. */
struct survey_findings {
    struct survey_finding *items;
    size_t count, capacity;
    bool failed; /* there was no memory, or no room, for one: treat it as an error */
};

void survey_findings_done(struct survey_findings *f);
/* place: a format of one %s, which is `name`. */
void survey_findings_add(struct survey_findings *f, enum survey_level level, const char *place, const char *name,
                         const char *text);

#endif
