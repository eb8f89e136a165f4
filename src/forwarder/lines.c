/* lines: what an inspection found, a finding a line: cut for a status, said in the log one by one */
#include "forwarder/lines.h"

#include <stdio.h>
#include <string.h>

#define MORE_MAX 64 /* bytes of how many more there are */

void lines_copy(char *to, size_t size, const char *lines) {
    size_t len = strlen(lines), more = 0;
    ASSERT(size > MORE_MAX);
    if (len < size) {
        memcpy(to, lines, len + 1);
        return;
    }
    for (len = size - MORE_MAX; len > 0 && lines[len] != '\n'; len--)
        continue;
    len = len > 0 ? len : size - MORE_MAX;
    for (const char *p = lines + len; *p; p++)
        more += *p == '\n';
    if (more > 0)
        snprintf(to, size, "%.*s\n(%zu more findings stand in the log)", (int)len, lines, more);
    else
        snprintf(to, size, "%.*s...", (int)len, lines);
}

int lines_add_note(struct buf *b, const struct source *source) {
    int r = 0;
    unsigned number = 0;
    for (const char *at = source_note(source); r == 0 && *at; number++) {
        size_t len = strcspn(at, "\n");
        r = buf_addf(b, "%s%s%.*s", b->len > 0 ? "\n" : "", source_note_refuses(source, number) ? "" : LINES_WARNING, (int)len, at);
        at += len + (at[len] == '\n');
    }
    return r;
}

void lines_say(enum log_level level, const struct log_fields *fields, const char *table, const char *lines) {
    size_t prefix = strlen(LINES_WARNING);
    while (*lines) {
        int len = (int)strcspn(lines, "\n");
        bool warns = strncmp(lines, LINES_WARNING, prefix) == 0;
        int skip = warns ? (int)prefix : 0;
        log_say(warns ? LOG_LEVEL_WARNING : level, fields, "event table %s: %.*s", table, len - skip, lines + skip);
        lines += len + (lines[len] == '\n');
    }
}
