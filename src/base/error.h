/* error: one sentence and a class, for what a library or a peer refused */
#ifndef PENSTOCK_BASE_ERROR_H
#define PENSTOCK_BASE_ERROR_H

#include "base/cleanup.h"

/* What the decider may do with it. */
enum error_class {
    ERROR_NONE = 0,
    ERROR_RETRY,     /* may pass by itself: try again with backoff */
    ERROR_TAKEN,     /* somebody else has it, and may: try again soon */
    ERROR_PERMANENT, /* this event or request will never succeed as it is */
    ERROR_CONFIG,    /* an operator must mend configuration, rights or schema */
    ERROR_BUG,       /* ours */
};

#define ERROR_TEXT_MAX 1024

/* Plain data; text is NUL-terminated, one line, without secrets and payload. */
struct error {
    enum error_class class;
    char text[ERROR_TEXT_MAX];
};

/* Nothing has gone wrong: without clearing all of the text. */
static inline void error_clear(struct error *error) {
    error->class = ERROR_NONE;
    error->text[0] = '\0';
}

/* Sets class and text; line breaks and other controls from a library's own
 * words become spaces, too long a text is cut with "...". The arguments must
 * not point into error->text: error_prefix is for that. */
void error_set(struct error *error, enum error_class class, const char *format, ...) PRINTF_LIKE(3, 4);

/* Puts "prefix: " (at most 255 bytes of prefix) before the text that is there. */
void error_prefix(struct error *error, const char *format, ...) PRINTF_LIKE(2, 3);

const char *error_class_name(enum error_class class);

#endif
