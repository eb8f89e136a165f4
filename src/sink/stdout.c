/* stdout: a sink for looking at a table: one line of structured JSON for each event, on standard output */
#include <errno.h>
#include <limits.h>

#include "base/clock.h"
#include "base/log.h"
#include "sink/confirms.h"
#include "sink/sink.h"

/* File descriptor 1 is shared with whoever started us, a terminal perhaps, so
 * it stays blocking. Nothing waits nevertheless: poll(2) first, then at most
 * PIPE_BUF bytes, which a pipe that said POLLOUT takes whole (pipe(7)). */
#define FD STDOUT_FILENO
#define LINES_BYTES_MAX 65536 /* lines gathered for writing, beside the last one */
#define TRY_AGAIN_US CLOCK_US_PER_S

struct console {
    struct sink sink;
    struct confirms *confirms;
    struct buf lines; /* whole lines; all of its events are confirmed when all of it is written */
    size_t written;   /* of lines */
    bool cut_line;    /* what was written last is no whole line */
    int64_t max_message_bytes;
    bool connected;
    struct error down;
    int64_t next_attempt_us;
    uint64_t reconnects;
};

static struct console *console_of(const struct sink *s) {
    return (struct console *)s;
}

static void console_close(struct sink *s) {
    struct console *c = console_of(s);
    confirms_free(c->confirms);
    buf_done(&c->lines);
    free(c);
}

static int console_open(const struct sink_setup *setup, struct sink **ret_sink) {
    const struct sink_options *options = setup->options;
    struct console *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->sink.kind = sink_kind_find(SPAN_LITERAL("stdout"));
    c->max_message_bytes = options->max_message_bytes;
    c->lines = BUF_INIT(LINES_BYTES_MAX + (size_t)options->max_message_bytes + 2);
    int r = confirms_new(setup->in_flight, setup->in_flight, &c->confirms);
    if (r < 0) {
        console_close(&c->sink);
        return r;
    }
    *ret_sink = &c->sink;
    return 0;
}

static bool pending(const struct console *c) {
    return c->written < c->lines.len;
}

static void go_down(struct console *c, int64_t now_us, const char *why) {
    error_set(&c->down, ERROR_RETRY, "standard output: %s", why);
    c->connected = false;
    c->next_attempt_us = now_us + TRY_AGAIN_US;
    c->cut_line = c->written > 0 && c->lines.data[c->written - 1] != '\n';
    buf_clear(&c->lines);
    c->written = 0;
    confirms_reset(c->confirms);
}

static short ready_events(void) {
    struct pollfd fd = {.fd = FD, .events = POLLOUT};
    if (poll(&fd, 1, 0) < 0)
        return 0;
    return fd.revents;
}

/* Whole lines if they fit, so that those of several forwarders do not mix. */
static size_t next_chunk(const struct console *c) {
    size_t left = c->lines.len - c->written;
    if (left <= PIPE_BUF)
        return left;
    const char *start = c->lines.data + c->written;
    const char *end = memrchr(start, '\n', PIPE_BUF);
    return end ? (size_t)(end - start) + 1 : PIPE_BUF;
}

static void all_is_written(struct console *c) {
    buf_clear(&c->lines);
    buf_shrink(&c->lines, LINES_BYTES_MAX);
    c->written = 0;
    if (confirms_open(c->confirms) > 0)
        ASSERT(confirms_ack(c->confirms, 0, true) == 0);
}

static void write_pending(struct console *c, int64_t now_us) {
    while (pending(c)) {
        short events = ready_events();
        if (events & (POLLERR | POLLNVAL))
            return go_down(c, now_us, "its reader is gone");
        if (!(events & POLLOUT))
            return;
        ssize_t wrote = write(FD, c->lines.data + c->written, next_chunk(c));
        if (wrote >= 0)
            c->written += (size_t)wrote;
        else if (errno == EAGAIN || errno == EINTR)
            return;
        else
            return go_down(c, now_us, strerrordesc_np(errno));
    }
    if (c->lines.len > 0)
        all_is_written(c);
}

static int console_poll(struct sink *s, struct pollfd *fds) {
    const struct console *c = console_of(s);
    if (!c->connected)
        return 0; /* a reader that is gone would be reported for ever */
    fds[0] = (struct pollfd){.fd = FD, .events = pending(c) ? POLLOUT : 0};
    return 1;
}

static int64_t console_deadline(const struct sink *s) {
    const struct console *c = console_of(s);
    if (confirms_answered(c->confirms) > 0)
        return 0;
    return c->connected ? CLOCK_NEVER : c->next_attempt_us;
}

static void console_work(struct sink *s, int64_t now_us) {
    struct console *c = console_of(s);
    if (!c->connected && now_us < c->next_attempt_us)
        return;
    if (ready_events() & (POLLERR | POLLNVAL))
        return go_down(c, now_us, "its reader is gone");
    c->connected = true;
    write_pending(c, now_us);
}

static bool console_ready(const struct sink *s) {
    const struct console *c = console_of(s);
    return c->connected && c->lines.len < LINES_BYTES_MAX && confirms_has_room(c->confirms);
}

/* JSON data keeps its line breaks; they stand between tokens only (binding.h). */
static void make_one_line(char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n' || text[i] == '\r')
            text[i] = ' ';
}

static int add_line(struct console *c, const struct event *e, struct error *reterr) {
    size_t start = c->lines.len;
    int r = c->cut_line ? buf_add_char(&c->lines, '\n') : 0;
    size_t line = c->lines.len;
    if (r == 0)
        r = binding_add_json(e, &c->lines, reterr);
    if (r == 0 && c->lines.len - line > (size_t)c->max_message_bytes)
        r = -EMSGSIZE;
    if (r == 0) {
        make_one_line(c->lines.data + line, c->lines.len - line);
        r = buf_add_char(&c->lines, '\n');
    }
    if (r == 0)
        c->cut_line = false;
    else
        c->lines.len = start;
    return r;
}

static int console_submit(struct sink *s, const struct event *e, const struct destination *d, uint64_t token,
                          int64_t now_us, struct error *reterr) {
    (void)d;
    struct console *c = console_of(s);
    if (!c->connected)
        return SINK_E_DOWN;
    if (!console_ready(s))
        return SINK_E_BUSY;
    int r = add_line(c, e, reterr);
    if (r == BINDING_E_REJECTED)
        return SINK_E_REJECTED;
    if (r == -EMSGSIZE) {
        error_set(reterr, ERROR_PERMANENT, "its JSON form is larger than the %lld bytes that max_message_bytes allows",
                  (long long)c->max_message_bytes);
        return SINK_E_REJECTED;
    }
    if (r < 0)
        return r;
    confirms_publish(c->confirms, token, now_us);
    return 0;
}

static void console_flush(struct sink *s) {
    write_pending(console_of(s), clock_now_us());
}

static bool console_next(struct sink *s, struct sink_outcome *ret_outcome) {
    struct console *c = console_of(s);
    uint64_t token, tag;
    enum confirms_outcome outcome;
    if (!confirms_next(c->confirms, &token, &tag, &outcome))
        return false;
    bool confirmed = outcome == CONFIRMS_CONFIRMED;
    *ret_outcome = (struct sink_outcome){
        .token = token,
        .kind = confirmed ? SINK_CONFIRMED : SINK_LOST,
        .reason = confirmed ? NULL : c->down.text,
    };
    return true;
}

static void console_renew(struct sink *s, int64_t now_us, const char *reason) {
    struct console *c = console_of(s);
    go_down(c, now_us, reason);
    c->next_attempt_us = now_us;
    c->reconnects++;
}

static void console_view(const struct sink *s, struct sink_view *ret_view) {
    const struct console *c = console_of(s);
    *ret_view = (struct sink_view){
        .connected = c->connected,
        .down_reason = c->connected || c->down.class == ERROR_NONE ? NULL : c->down.text,
        .next_attempt_us = c->connected ? CLOCK_NEVER : c->next_attempt_us,
        .reconnects = c->reconnects,
        .open_tokens = confirms_open(c->confirms),
    };
}

static const struct option no_options[] = {OPTION_END};
static const struct destination_field no_fields[] = {{.key = NULL}};

const struct sink_kind sink_kind_stdout = {
    .name = "stdout",
    .connection_table = no_options,
    .options_size = sizeof(struct sink_options),
    .options_table = no_options,
    .destination_options_table = no_options,
    .fields = no_fields,
    .default_window_events = 1000,
    .open = console_open,
    .close = console_close,
    .poll = console_poll,
    .deadline = console_deadline,
    .work = console_work,
    .submit = console_submit,
    .flush = console_flush,
    .next = console_next,
    .ready = console_ready,
    .renew = console_renew,
    .view = console_view,
};
