/* error: one sentence and a class, for what a library or a peer refused */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void make_one_line(char *text) {
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' '))
        text[--len] = '\0';
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20)
            *p = ' ';
}

static void mark_cut(char *text, int wanted) {
    if (wanted >= ERROR_TEXT_MAX)
        memcpy(text + ERROR_TEXT_MAX - 4, "...", 4);
}

void error_set(struct error *error, enum error_class class, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    mark_cut(error->text, wanted);
    make_one_line(error->text);
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
    mark_cut(error->text, wanted);
}

const char *error_class_name(enum error_class class) {
    switch (class) {
    case ERROR_NONE:
        return "none";
    case ERROR_RETRY:
        return "retry";
    case ERROR_PERMANENT:
        return "permanent";
    case ERROR_CONFIG:
        return "config";
    case ERROR_BUG:
        return "bug";
    }
    return "unknown";
}
