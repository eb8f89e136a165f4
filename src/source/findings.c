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
    f->lines = 0;
    memset(f->refusing, 0, sizeof f->refusing);
    buf_clear(&f->note);
    if (f->note.data)
        f->note.data[0] = '\0';
}

static void count_line(struct findings *f, bool refuses) {
    unsigned line = f->lines++;
    if (refuses && line < FINDINGS_LINES_MAX)
        f->refusing[line / 64] |= UINT64_C(1) << line % 64;
}

bool findings_refuses(const struct findings *f, unsigned line) {
    return line < FINDINGS_LINES_MAX && f->refusing[line / 64] >> line % 64 & 1;
}

void findings_add(struct findings *f, enum findings_severity severity, const char *format, ...) {
    char text[FINDINGS_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_one_line(text); /* names of a server may hold anything, and a finding is a line */
    if (severity == FINDINGS_REFUSE && !f->refused)
        error_set(&f->first, ERROR_CONFIG, "%s", text);
    f->refused |= severity == FINDINGS_REFUSE;
    f->count++;
    size_t before = f->note.len;
    int r = buf_addf(&f->note, "%s%s", f->note.len ? "\n" : "", text);
    if (r == 0)
        r = buf_terminate(&f->note);
    if (r)
        f->note.len = before;
    else
        count_line(f, severity == FINDINGS_REFUSE);
    if (r == -ENOMEM)
        f->failure = r;
}

void findings_sum_up(const struct findings *f, struct error *reterr) {
    ASSERT(f->refused);
    *reterr = f->first;
    if (f->count > 1)
        error_prefix(reterr, "%u findings, the first", f->count);
}
