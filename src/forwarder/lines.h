/* lines: what an inspection found, a finding a line: cut for a status, said in the log one by one */
#ifndef PENSTOCK_FORWARDER_LINES_H
#define PENSTOCK_FORWARDER_LINES_H

#include "base/buf.h"
#include "base/log.h"
#include "source/source.h"

/* What stands before a line that is only a warning, where others are why it was refused. */
#define LINES_WARNING "warning: "

/* Appends what the last inspection found: what refuses, then warnings, told apart. 0; -ENOMEM; -EMSGSIZE. */
int lines_add_note(struct buf *b, const struct source *source) MUST_CHECK;
/* Whole lines, as many as there is room for, and how many more there are. Alone, a line that is too long is cut. */
void lines_copy(char *to, size_t size, const char *lines);
/* Each line is a message: "event table TABLE: LINE", of a lower level if it is told apart as a warning. */
void lines_say(enum log_level level, const struct log_fields *fields, const char *table, const char *lines);

#endif
