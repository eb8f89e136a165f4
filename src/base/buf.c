/* buf: bytes that grow up to a maximum */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum { BUF_SMALLEST = 64 };

int buf_reserve(struct buf *b, size_t more) {
    if (more > b->max || b->len > b->max - more)
        return -EMSGSIZE;
    size_t need = b->len + more;
    if (need <= b->capacity)
        return 0;
    size_t capacity = b->capacity ? b->capacity : BUF_SMALLEST;
    while (capacity < need)
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    char *data = realloc(b->data, capacity);
    if (!data)
        return -ENOMEM;
    b->data = data;
    b->capacity = capacity;
    return 0;
}

int buf_addf(struct buf *b, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0)
        return -EINVAL;
    /* vsnprintf writes a NUL too; it may stand past max, never in len. */
    size_t max = b->max;
    b->max = max < SIZE_MAX ? max + 1 : max;
    int r = buf_reserve(b, (size_t)len + 1);
    b->max = max;
    if (r < 0)
        return r;
    va_start(args, format);
    vsnprintf(b->data + b->len, (size_t)len + 1, format, args);
    va_end(args);
    b->len += (size_t)len;
    return 0;
}

int buf_terminate(struct buf *b) {
    size_t max = b->max;
    b->max = max < SIZE_MAX ? max + 1 : max;
    int r = buf_reserve(b, 1);
    b->max = max;
    if (r < 0)
        return r;
    b->data[b->len] = '\0';
    return 0;
}

void buf_shrink(struct buf *b, size_t keep_bytes) {
    if (b->capacity <= keep_bytes || b->len > keep_bytes)
        return;
    if (keep_bytes == 0) {
        buf_done(b);
        return;
    }
    char *data = realloc(b->data, keep_bytes);
    if (!data)
        return; /* the larger one stays: nothing is lost */
    b->data = data;
    b->capacity = keep_bytes;
}

void buf_done(struct buf *b) {
    free(b->data);
    b->data = NULL;
    b->len = 0;
    b->capacity = 0;
}
