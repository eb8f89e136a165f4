/* findings: what is wrong with the event table, a line each with the statement that mends it */
#include "source/findings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"

void findings_done(struct findings *f) {
    buf_done(&f->note);
}

void findings_clear(struct findings *f) {
    f->count = 0;
    f->failure = 0;
    f->refused = false;
    buf_clear(&f->note);
    if (f->note.data)
        f->note.data[0] = '\0';
}

void findings_add(struct findings *f, enum findings_severity severity, const char *format, ...) {
    char text[FINDINGS_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
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
    if (r == -ENOMEM)
        f->failure = r;
}

void findings_sum_up(const struct findings *f, struct error *reterr) {
    ASSERT(f->refused);
    *reterr = f->first;
    if (f->count > 1)
        error_prefix(reterr, "%u findings, the first", f->count);
}
