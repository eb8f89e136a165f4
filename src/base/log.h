/* log: one sentence to the journal or to standard error */
#ifndef PENSTOCK_BASE_LOG_H
#define PENSTOCK_BASE_LOG_H

#include <stdint.h>

#include "base/cleanup.h"

/* Values of syslog(3). err: an operator must act; warning: degraded, carrying
 * on; notice: start, stop, reload, state change; info: milestones; debug: per event. */
enum log_level {
    LOG_LEVEL_ERR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7,
};

/* Optional structured fields; NULL members are left out. Borrowed. */
struct log_fields {
    const char *forwarder;   /* PENSTOCK_FORWARDER */
    const char *state;       /* PENSTOCK_STATE */
    const char *position;    /* PENSTOCK_POSITION */
    const char *event_id;    /* PENSTOCK_EVENT_ID */
    const char *destination; /* PENSTOCK_DESTINATION */
    const char *error;       /* PENSTOCK_ERROR */
    const char *message_id;  /* MESSAGE_ID: 32 hex digits, has a catalog entry */
};

/* Once, before the first thread: the journal if standard error is connected to
 * it (JOURNAL_STREAM, sd-daemon(3)), else lines "level forwarder: sentence". */
void log_open(enum log_level max_level);

/* Is a message of that level wanted? For callers that must build it first. */
int log_wants(enum log_level level);

/* Thread-safe; one line whatever the sentence holds. `fields` may be NULL. */
void log_say(enum log_level level, const struct log_fields *fields, const char *format, ...) PRINTF_LIKE(3, 4);

/* A fault of ours: says the sentence and ends the process with status 70. The
 * only exit outside main: what is in memory can't be trusted any more, and
 * kill -9 loses nothing. */
_Noreturn void log_bug(const char *file, int line, const char *what);

/* Stays on in release builds; for our own bugs only. */
#define ASSERT(condition) ((condition) ? (void)0 : log_bug(__FILE__, __LINE__, #condition))

#endif
