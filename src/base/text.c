/* text: makes foreign words fit into one line of a message */
#include "base/text.h"

#include <stdbool.h>
#include <string.h>

void text_one_line(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        bool c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;
        if (*p < 0x20 || *p == 0x7f || c1)
            *p = ' ';
        if (c1)
            p[1] = ' ';
    }
}

void text_mark_cut(char *text, size_t size) {
    size_t at = size - 4;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    memcpy(text + at, "...", 4);
}
