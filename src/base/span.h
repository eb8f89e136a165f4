/* span: a borrowed piece of text or bytes; data NULL means absent, which is not empty */
#ifndef PENSTOCK_BASE_SPAN_H
#define PENSTOCK_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct span {
    const char *data; /* not NUL-terminated; NULL: absent */
    size_t len;
};

#define SPAN_LITERAL(text) ((struct span){(text), sizeof(text) - 1})
#define SPAN_ABSENT ((struct span){NULL, 0})
/* For printf: "%.*s", SPAN_ARGS(s). */
#define SPAN_ARGS(s) (int)(s).len, (s).data ? (s).data : ""

static inline struct span span_of(const char *text) {
    return (struct span){text, text ? strlen(text) : 0};
}

static inline bool span_absent(struct span s) {
    return s.data == NULL;
}

static inline bool span_equal(struct span a, struct span b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool span_is(struct span s, const char *text) {
    return s.data != NULL && span_equal(s, span_of(text));
}

/* As a C string, cut where the room ends; absent: "". */
static inline void span_copy(char *to, size_t size, struct span s) {
    snprintf(to, size, "%.*s", SPAN_ARGS(s));
}

#endif
