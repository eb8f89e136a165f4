/* buf: bytes that grow up to a maximum */
#ifndef PENSTOCK_BASE_BUF_H
#define PENSTOCK_BASE_BUF_H

#include <stdint.h>

#include "base/cleanup.h"
#include "base/span.h"

/* Embedded; zero plus a maximum is valid (BUF_INIT). Owns data. data may be
 * NULL while len is 0. The bytes move when it grows: keep offsets, not
 * pointers, until it is finished. */
struct buf {
    char *data;
    size_t len;
    size_t capacity;
    size_t max; /* bytes; len never exceeds it */
};

#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})

/* Makes room for `more` bytes after len. 0; -ENOMEM; -EMSGSIZE past max.
 * The content is untouched on failure. */
int buf_reserve(struct buf *b, size_t more) MUST_CHECK;
int buf_addf(struct buf *b, const char *format, ...) MUST_CHECK PRINTF_LIKE(2, 3);

/* Inline, for the many small pieces of an event that mostly have room already. */
static inline int MUST_CHECK buf_add(struct buf *b, const void *bytes, size_t len) {
    int r = len > b->capacity - b->len || len > b->max - b->len ? buf_reserve(b, len) : 0;
    if (r < 0)
        return r;
    if (len > 0)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
    return 0;
}

static inline int MUST_CHECK buf_add_span(struct buf *b, struct span s) {
    return buf_add(b, s.data, s.len);
}

static inline int MUST_CHECK buf_add_char(struct buf *b, char c) {
    return buf_add(b, &c, 1);
}

/* Appends a NUL that does not count in len, so that data is a C string. */
int buf_terminate(struct buf *b) MUST_CHECK;

/* Empties it, keeps the capacity. */
static inline void buf_clear(struct buf *b) {
    b->len = 0;
}

/* Gives capacity above keep_bytes back (only when empty or small enough). */
void buf_shrink(struct buf *b, size_t keep_bytes);

/* Frees; idempotent. Usable as CLEANUP(buf_done). */
void buf_done(struct buf *b);

static inline struct span buf_span(const struct buf *b) {
    return (struct span){b->data ? b->data : "", b->len};
}

#endif
