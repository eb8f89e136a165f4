/* survey_findings: what a survey has found: each with its weight and its place */
#include "forwarder/survey_findings.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void survey_findings_done(struct survey_findings *f) {
    for (size_t i = 0; i < f->count; i++) {
        free(f->items[i].place);
        free(f->items[i].text);
    }
    free(f->items);
    *f = (struct survey_findings){.items = NULL};
}

static bool make_room(struct survey_findings *f) {
    if (f->count < f->capacity)
        return true;
    size_t capacity = f->capacity > 0 ? 2 * f->capacity : 16;
    if (f->count >= SURVEY_FINDINGS_MAX)
        return false;
    struct survey_finding *items = realloc(f->items, capacity * sizeof *items);
    if (!items)
        return false;
    f->items = items;
    f->capacity = capacity;
    return true;
}

void survey_findings_add(struct survey_findings *f, enum survey_level level, const char *place, const char *name,
                         const char *text) {
    char *whole = NULL, *copy = strdup(text);
    if (asprintf(&whole, place, name) < 0)
        whole = NULL;
    if (!whole || !copy || !make_room(f)) {
        free(whole);
        free(copy);
        f->failed = true;
        return;
    }
    text_one_line(whole);
    text_one_line(copy);
    f->items[f->count++] = (struct survey_finding){level, whole, copy};
}
