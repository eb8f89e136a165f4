/* text: makes foreign words fit into one line of a message */
#ifndef PENSTOCK_BASE_TEXT_H
#define PENSTOCK_BASE_TEXT_H

#include <stddef.h>

/* Every control character (C0, DEL, and C1 as UTF-8 writes them) becomes a
 * space: no line break and no terminal control comes out of a peer's words. */
void text_one_line(char *text);

/* After snprintf into text[size] wanted more: ends it with "...", between two
 * characters of UTF-8. size >= 4; the buffer is full. */
void text_mark_cut(char *text, size_t size);

#endif
