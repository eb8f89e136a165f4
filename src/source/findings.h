/* findings: what is wrong with the event table, a line each with the statement that mends it */
#ifndef PENSTOCK_SOURCE_FINDINGS_H
#define PENSTOCK_SOURCE_FINDINGS_H

#include "base/buf.h"
#include "base/error.h"

#define FINDINGS_MAX_BYTES 65536
#define FINDINGS_LINE_MAX 2048

enum findings_severity {
    FINDINGS_WARN,   /* it can be read all the same */
    FINDINGS_REFUSE, /* it can't, or events would be passed over */
};

/* Embedded. */
struct findings {
    struct buf note; /* one a line, terminated: what refuses, then warnings; what no longer fits is left out */
    unsigned count;
    unsigned refusing_lines; /* of the note, its first; */
    size_t refusing_len;     /* so many bytes, without the line's end */
    bool refused;
    struct error first; /* of those that refuse (config) */
    int failure;        /* of ours: -ENOMEM, -EMSGSIZE; 0: none */
};

#define FINDINGS_INIT ((struct findings){.note = BUF_INIT(FINDINGS_MAX_BYTES)})

void findings_done(struct findings *f);
/* Forgets them all. */
void findings_clear(struct findings *f);
void findings_add(struct findings *f, enum findings_severity severity, const char *format, ...) PRINTF_LIKE(3, 4);
/* Does line number `line` (from 0) of the note refuse? */
bool findings_refuses(const struct findings *f, unsigned line);
/* "3 findings, the first: …". Asserts that one refuses. */
void findings_sum_up(const struct findings *f, struct error *reterr);

#endif
