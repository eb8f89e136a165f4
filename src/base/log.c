/* log: one sentence to the journal or to standard error */
#define SD_JOURNAL_SUPPRESS_LOCATION /* it would always name this file */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "base/message_id.h"
#include "base/text.h"

enum {
    SENTENCE_MAX = 3072,
    NAME_MAX_SHOWN = 256,
    LINE_MAX_BYTES = SENTENCE_MAX + NAME_MAX_SHOWN + 32,
    FIELDS_MAX = 9,
    FIELDS_BYTES = SENTENCE_MAX + 4096,
    EXIT_BUG = 70,
};
static_assert(LINE_MAX_BYTES <= PIPE_BUF, "a pipe takes a line as a whole or not at all");

/* Set by log_open, before the first thread; only the level is read by all. */
static atomic_int log_max_level = LOG_LEVEL_INFO;
static bool log_to_journal;

/* Does JOURNAL_STREAM name what standard error is connected to (systemd.exec(5))? */
static bool stderr_is_journal(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    if (!stream || fstat(STDERR_FILENO, &st) < 0)
        return false;
    char *end;
    errno = 0;
    unsigned long long device = strtoull(stream, &end, 10);
    if (end == stream || *end != ':')
        return false;
    const char *rest = end + 1;
    unsigned long long inode = strtoull(rest, &end, 10);
    return end != rest && *end == '\0' && errno == 0 && device == st.st_dev && inode == st.st_ino;
}

void log_open(enum log_level max_level) {
    atomic_store_explicit(&log_max_level, (int)max_level, memory_order_relaxed);
    log_to_journal = stderr_is_journal();
}

int log_wants(enum log_level level) {
    return (int)level <= atomic_load_explicit(&log_max_level, memory_order_relaxed);
}

static const char *level_name(enum log_level level) {
    switch (level) {
    case LOG_LEVEL_ERR:
        return "error";
    case LOG_LEVEL_WARNING:
        return "warning";
    case LOG_LEVEL_NOTICE:
        return "notice";
    case LOG_LEVEL_INFO:
        return "info";
    case LOG_LEVEL_DEBUG:
        return "debug";
    }
    return "error";
}

static void make_sentence(char text[SENTENCE_MAX], const char *format, va_list args) {
    int wanted = vsnprintf(text, SENTENCE_MAX, format, args);
    if (wanted < 0)
        text[0] = '\0';
    else if (wanted >= SENTENCE_MAX)
        text_mark_cut(text, SENTENCE_MAX);
    text_one_line(text);
}

/* "NAME=value" texts one behind the other in a bounded place. */
struct field_set {
    struct iovec fields[FIELDS_MAX];
    int count;
    char bytes[FIELDS_BYTES];
    size_t len;
};

static void add_field(struct field_set *set, const char *name, const char *value) {
    size_t room = sizeof set->bytes - set->len;
    if (!value || set->count == FIELDS_MAX || room < 64)
        return;
    char *text = set->bytes + set->len;
    int wanted = snprintf(text, room, "%s=%s", name, value);
    if (wanted < 0)
        return;
    if ((size_t)wanted >= room)
        text_mark_cut(text, room);
    size_t len = strlen(text);
    set->fields[set->count++] = (struct iovec){text, len};
    set->len += len + 1;
}

static int send_to_journal(enum log_level level, const struct log_fields *fields, const char *sentence) {
    char message[SENTENCE_MAX + NAME_MAX_SHOWN];
    if (fields->forwarder)
        snprintf(message, sizeof message, "%.*s: %s", NAME_MAX_SHOWN - 3, fields->forwarder, sentence);
    char priority[2] = {(char)('0' + level), '\0'};
    struct field_set set = {.count = 0};
    add_field(&set, "PRIORITY", priority);
    add_field(&set, "MESSAGE", fields->forwarder ? message : sentence);
    add_field(&set, "MESSAGE_ID", fields->message_id);
    add_field(&set, "PENSTOCK_FORWARDER", fields->forwarder);
    add_field(&set, "PENSTOCK_STATE", fields->state);
    add_field(&set, "PENSTOCK_POSITION", fields->position);
    add_field(&set, "PENSTOCK_EVENT_ID", fields->event_id);
    add_field(&set, "PENSTOCK_DESTINATION", fields->destination);
    add_field(&set, "PENSTOCK_ERROR", fields->error);
    return sd_journal_sendv(set.fields, set.count);
}

/* A pipe that says so has a page free, which is a whole line. The descriptor is shared
 * with whoever started us, so it stays blocking. */
static bool stderr_takes_a_line(void) {
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&fd, 1, 0) > 0 && fd.revents & POLLOUT;
}

/* One write(2): lines of several threads don't mix. A full or closed standard error loses the line:
 * a reader that has stopped reading must not stop a forwarder. */
static void write_to_stderr(enum log_level level, const struct log_fields *fields, const char *sentence) {
    char line[LINE_MAX_BYTES];
    char prefix[4] = "";
    if (log_to_journal) /* the journal reads the level from there (sd-daemon(3)); a person reads the word */
        snprintf(prefix, sizeof prefix, "<%d>", level);
    int len = snprintf(line, sizeof line, "%s%s%s%.*s: %s\n", prefix, level_name(level), fields->forwarder ? " " : "",
                       NAME_MAX_SHOWN, fields->forwarder ? fields->forwarder : "", sentence);
    if (len > 0 && stderr_takes_a_line())
        (void)!write(STDERR_FILENO, line, (size_t)len);
}

static void say(enum log_level level, const struct log_fields *fields, const char *sentence) {
    if (!log_to_journal || send_to_journal(level, fields, sentence) < 0)
        write_to_stderr(level, fields, sentence);
}

void log_say(enum log_level level, const struct log_fields *fields, const char *format, ...) {
    static const struct log_fields none;
    if (!log_wants(level))
        return;
    int saved_errno = errno;
    char sentence[SENTENCE_MAX];
    va_list args;
    va_start(args, format);
    make_sentence(sentence, format, args);
    va_end(args);
    say(level, fields ? fields : &none, sentence);
    errno = saved_errno;
}

void log_bug(const char *file, int line, const char *what) {
    static const struct log_fields fields = {.message_id = MESSAGE_ID_FAULT};
    char sentence[SENTENCE_MAX];
    snprintf(sentence, sizeof sentence,
             "a fault of ours, stopping: '%s' does not hold (%s:%d, version " PENSTOCK_VERSION
             "); nothing is lost: a restart goes on from the checkpoint; please report this line",
             what, file, line);
    /* The journal may drop it without a word; the last word is said on both ways. */
    if (log_to_journal)
        (void)send_to_journal(LOG_LEVEL_ERR, &fields, sentence);
    write_to_stderr(LOG_LEVEL_ERR, &fields, sentence);
    _exit(EXIT_BUG);
}
