/* lines: what an inspection found, a finding a line: cut for a status, said in the log one by one */
#ifndef PENSTOCK_FORWARDER_LINES_H
#define PENSTOCK_FORWARDER_LINES_H

#include "base/log.h"

/* Whole lines, as many as there is room for, and how many more there are. Alone, a line that is too long is cut. */
void lines_copy(char *to, size_t size, const char *lines);
/* Each line is a message: "event table TABLE: LINE". */
void lines_say(enum log_level level, const struct log_fields *fields, const char *table, const char *lines);

#endif
