/* findings: what is wrong with the event table, a line each with the statement that mends it */
#include "source/findings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/text.h"

void findings_done(struct findings *f) {
    buf_done(&f->note);
}

void findings_clear(struct findings *f) {
    f->count = 0;
    f->failure = 0;
    f->refused = false;
    f->refusing_lines = 0;
    f->refusing_len = 0;
    buf_clear(&f->note);
    if (f->note.data)
        f->note.data[0] = '\0';
}

bool findings_refuses(const struct findings *f, unsigned line) {
    return line < f->refusing_lines;
}

/* Behind what refuses already, or at the end. 0; -ENOMEM; -EMSGSIZE. */
static int insert_line(struct findings *f, bool refuses, const char *text) {
    struct buf *note = &f->note;
    size_t at = refuses ? f->refusing_len : note->len, len = strlen(text), bytes = len + (note->len > 0);
    int r = buf_reserve(note, bytes + 1);
    if (r)
        return r;
    memmove(note->data + at + bytes, note->data + at, note->len - at);
    char *to = note->data + at;
    if (at > 0)
        *to++ = '\n';
    memcpy(to, text, len);
    if (at == 0 && note->len > 0)
        to[len] = '\n';
    note->len += bytes;
    if (refuses) {
        f->refusing_len = at + len + (at > 0);
        f->refusing_lines++;
    }
    return buf_terminate(note);
}

void findings_add(struct findings *f, enum findings_severity severity, const char *format, ...) {
    char text[FINDINGS_LINE_MAX];
    bool refuses = severity == FINDINGS_REFUSE;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_one_line(text); /* names of a server may hold anything, and a finding is a line */
    if (refuses && !f->refused)
        error_set(&f->first, ERROR_CONFIG, "%s", text);
    f->refused |= refuses;
    f->count++;
    int r = insert_line(f, refuses, text);
    if (r == -ENOMEM)
        f->failure = r;
}

void findings_sum_up(const struct findings *f, struct error *reterr) {
    ASSERT(f->refused);
    *reterr = f->first;
    if (f->count > 1)
        error_prefix(reterr, "%u findings, the first", f->count);
}
