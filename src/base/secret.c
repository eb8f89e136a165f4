/* secret: where a password stands; read at each connect, never printed (G14) */
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int refuse(struct error *reterr, const char *place, const char *name, const char *why) {
    error_set(reterr, ERROR_CONFIG, "%s '%s' %s", place, name, why);
    return -EINVAL;
}

/* One reservation for the whole file: growing would leave copies behind in freed memory. */
static int read_all(int fd, size_t size, struct buf *out) {
    int r = buf_reserve(out, size + 1);
    size_t end = out->len + size;
    while (r == 0 && out->len < end) {
        ssize_t n = read(fd, out->data + out->len, end - out->len);
        if (n == 0)
            break;
        if (n > 0)
            out->len += (size_t)n;
        else if (errno != EINTR)
            r = -errno;
    }
    return r;
}

enum readers { OWNER_ONLY, ANYONE };

static int read_file(const char *path, enum readers readers, const char *place, const char *name, struct buf *out,
                     struct error *reterr) {
    /* O_NONBLOCK: a FIFO is refused below instead of waited for. */
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        error_set(reterr, ERROR_CONFIG, "%s '%s' can't be read: %s", place, name, strerrordesc_np(errno));
        return -EINVAL;
    }
    if (!S_ISREG(st.st_mode))
        return refuse(reterr, place, name, "is not a regular file");
    if (readers == OWNER_ONLY && (st.st_mode & (S_IRGRP | S_IROTH)))
        return refuse(reterr, place, name, "can be read by group or others; run chmod 600 on it");
    if (st.st_size > SECRET_MAX_BYTES)
        return refuse(reterr, place, name, "is larger than 64 KiB");
    size_t start = out->len;
    int r = read_all(fd, (size_t)st.st_size, out);
    if (r < 0) {
        error_set(reterr, ERROR_RETRY, "%s '%s' can't be read: %s", place, name, strerrordesc_np(-r));
        return r;
    }
    if (out->len > start && out->data[out->len - 1] == '\n')
        out->len--;
    return 0;
}

static int read_credential(const char *name, struct buf *out, struct error *reterr) {
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    if (!directory)
        return refuse(reterr, "credential", name,
                      "is not there: CREDENTIALS_DIRECTORY is unset (give the unit LoadCredential=, or use a file)");
    if (strchr(name, '/') || strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
        return refuse(reterr, "credential", name, "must be a plain file name");
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (len < 0 || (size_t)len >= sizeof path)
        return refuse(reterr, "credential", name, "has too long a path");
    /* systemd grants the service's user by an ACL, which shows as group bits. */
    return read_file(path, ANYONE, "credential", name, out, reterr);
}

static int add_text(const char *text, const char *place, const char *name, struct buf *out, struct error *reterr) {
    size_t len = strlen(text);
    if (len > SECRET_MAX_BYTES)
        return refuse(reterr, place, name, "is larger than 64 KiB");
    int r = buf_reserve(out, len + 1);
    if (r < 0) {
        error_set(reterr, ERROR_RETRY, "%s '%s' can't be read: %s", place, name, strerrordesc_np(-r));
        return r;
    }
    return buf_add(out, text, len);
}

static int read_environment(const char *name, struct buf *out, struct error *reterr) {
    const char *text = getenv(name);
    if (!text)
        return refuse(reterr, "environment variable", name, "is not set");
    return add_text(text, "environment variable", name, out, reterr);
}

static int read_by_kind(const struct secret *s, struct buf *out, struct error *reterr) {
    switch (s->kind) {
    case SECRET_NONE:
        return 0;
    case SECRET_INLINE:
        return add_text(s->value, "secret", "(inline)", out, reterr);
    case SECRET_CREDENTIAL:
        return read_credential(s->value, out, reterr);
    case SECRET_FILE:
        return read_file(s->value, OWNER_ONLY, "secret file", s->value, out, reterr);
    case SECRET_ENV:
        return read_environment(s->value, out, reterr);
    }
    return -EINVAL;
}

static const char *place_of(const struct secret *s) {
    return s->kind == SECRET_INLINE || s->kind == SECRET_NONE ? "(inline)" : s->value;
}

/* What a library would take for another text, or for none. */
static int check_content(const struct secret *s, struct span text, struct error *reterr) {
    if (s->kind == SECRET_NONE)
        return 0;
    if (text.len == 0)
        return refuse(reterr, "secret", place_of(s), "is empty");
    if (memchr(text.data, '\0', text.len))
        return refuse(reterr, "secret", place_of(s), "holds a NUL byte");
    return 0;
}

int secret_read(const struct secret *s, struct buf *out, struct error *reterr) {
    size_t start = out->len;
    int r = read_by_kind(s, out, reterr);
    if (r == 0)
        r = check_content(s, (struct span){out->data + start, out->len - start}, reterr);
    if (r == 0)
        r = buf_terminate(out);
    if (r < 0 && out->len > start) {
        explicit_bzero(out->data + start, out->len - start);
        out->len = start;
    }
    return r;
}

void secret_done(struct secret *s) {
    if (s->value)
        explicit_bzero(s->value, strlen(s->value));
    free(s->value);
    *s = (struct secret){.kind = SECRET_NONE};
}

void secret_wipe(struct buf *b) {
    if (b->data)
        explicit_bzero(b->data, b->capacity);
    buf_done(b);
}
