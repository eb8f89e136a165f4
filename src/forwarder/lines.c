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

void lines_say(enum log_level level, const struct log_fields *fields, const char *table, const char *lines) {
    while (*lines) {
        int len = (int)strcspn(lines, "\n");
        log_say(level, fields, "event table %s: %.*s", table, len, lines);
        lines += len + (lines[len] == '\n');
    }
}
