/* error: one sentence and a class, for what a library or a peer refused */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Library texts like to end in a line break. */
static void trim_end(char *text) {
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' '))
        text[--len] = '\0';
}

static void make_fit(struct error *error, int wanted) {
    if (wanted >= ERROR_TEXT_MAX)
        text_mark_cut(error->text, sizeof error->text);
    trim_end(error->text);
    text_one_line(error->text);
}

void error_set(struct error *error, enum error_class class, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    make_fit(error, wanted);
    error->class = class;
}

void error_prefix(struct error *error, const char *format, ...) {
    char prefix[256];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);

    char old[ERROR_TEXT_MAX];
    memcpy(old, error->text, sizeof old);
    int wanted = snprintf(error->text, sizeof error->text, "%s: %s", prefix, old);
    make_fit(error, wanted);
}

const char *error_class_name(enum error_class class) {
    switch (class) {
    case ERROR_NONE:
        return "none";
    case ERROR_RETRY:
        return "retry";
    case ERROR_TAKEN:
        return "taken";
    case ERROR_PERMANENT:
        return "permanent";
    case ERROR_CONFIG:
        return "config";
    case ERROR_BUG:
        return "bug";
    }
    return "unknown";
}
