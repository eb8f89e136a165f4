/* command: an operator's command to a forwarder: written down, done, answered; one is written down at a time */
#include "forwarder/command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/message_id.h"
#include "base/utf8.h"
#include "flow/view.h"

/* Answers. ------------------------------------------------------------------ */

static const char *name_of(enum mail_kind kind) {
    switch (kind) {
    case MAIL_PAUSE:
        return "pause";
    case MAIL_RESUME:
        return "resume";
    case MAIL_SKIP:
        return "skip";
    case MAIL_STOP:
        break;
    }
    return "?";
}

static const char *verdict_name(enum forwarder_verdict verdict) {
    switch (verdict) {
    case FORWARDER_DONE:
        return "done";
    case FORWARDER_REFUSES:
        return "refused";
    case FORWARDER_CANNOT:
        return "not done";
    }
    return "?";
}

/* In the log with who and why: the journal of the machine has what was refused, too. */
static void say(const struct command *c, const struct mail *mail, const struct forwarder_answer *answer) {
    char position[24] = "";
    bool skips = mail->kind == MAIL_SKIP;
    if (skips)
        snprintf(position, sizeof position, "%" PRId64, mail->command.position);
    struct log_fields fields = {.forwarder = c->reach.forwarder, .message_id = MESSAGE_ID_COMMAND,
                                .position = skips ? position : NULL};
    const char *reason = mail->command.reason;
    log_say(LOG_LEVEL_NOTICE, &fields, "operator command %s%s%s by %s: %s: %s%s%s%s", name_of(mail->kind), skips ? " " : "",
            position, mail->command.who, verdict_name(answer->verdict), answer->words, reason[0] ? " (reason: " : "", reason,
            reason[0] ? ")" : "");
}

static void answer_mail(struct command *c, const struct mail *mail, enum forwarder_verdict verdict, const char *format,
                        va_list args) {
    struct forwarder_answer answer = {.number = mail->command.number, .verdict = verdict};
    vsnprintf(answer.words, sizeof answer.words, format, args);
    say(c, mail, &answer);
    report_answer(c->reach.report, &answer);
}

static void refuse(struct command *c, const struct mail *mail, enum forwarder_verdict verdict, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* `mail` is not the one that is under way. */
static void refuse(struct command *c, const struct mail *mail, enum forwarder_verdict verdict, const char *format, ...) {
    va_list args;
    va_start(args, format);
    answer_mail(c, mail, verdict, format, args);
    va_end(args);
}

/* Of the one that is being written down. */
static void end(struct command *c, enum forwarder_verdict verdict, const char *format, ...) PRINTF_LIKE(3, 4);

static void end(struct command *c, enum forwarder_verdict verdict, const char *format, ...) {
    ASSERT(c->writes);
    c->writes = false;
    va_list args;
    va_start(args, format);
    answer_mail(c, &c->mail, verdict, format, args);
    va_end(args);
}

static void end_skip(struct command *c, enum forwarder_verdict verdict, const char *format, ...) PRINTF_LIKE(3, 4);

static void end_skip(struct command *c, enum forwarder_verdict verdict, const char *format, ...) {
    ASSERT(c->skips);
    c->skips = false;
    va_list args;
    va_start(args, format);
    answer_mail(c, &c->skip, verdict, format, args);
    va_end(args);
}

/* Writing it down. ----------------------------------------------------------- */

/* "key": "text", where whatever a peer sent as words becomes UTF-8 that jsonb takes. */
static int add_member(struct buf *b, const char *key, const char *text) {
    char clean[1024];
    size_t len = 0;
    const char *end = text + strlen(text);
    while (text < end && len + 4 < sizeof clean) {
        uint32_t code;
        size_t bytes = utf8_next(text, end, &code);
        memcpy(clean + len, bytes ? text : "?", bytes ? bytes : 1);
        len += bytes ? bytes : 1;
        text += bytes ? bytes : 1;
    }
    int r = buf_addf(b, ", \"%s\": ", key);
    return r ? r : json_add_string(b, (struct span){clean, len});
}

/* What was skipped, for whoever has to deliver it by hand. */
static int describe(struct command *c, const struct flow_view *view, struct buf *b) {
    const struct event *e = delivery_event(c->reach.delivery, view->oldest_slot);
    char id[512];
    snprintf(id, sizeof id, "%.*s", SPAN_ARGS(event_core_value(e, EVENT_ID)));
    int r = buf_addf(b, "{\"position\": %" PRId64, e->position);
    if (r == 0)
        r = add_member(b, "id", id);
    if (r == 0)
        r = add_member(b, "destination", delivery_describe(c->reach.delivery, view->oldest_slot));
    if (r == 0)
        r = add_member(b, "words", delivery_reason(c->reach.delivery, view->oldest_slot));
    return r ? r : buf_addf(b, "}");
}

static void write_down(struct command *c, const struct mail *mail, int64_t now_us) {
    c->mail = *mail;
    c->writes = true;
    bool skips = mail->kind == MAIL_SKIP;
    if (!skips) {
        snprintf(c->before, sizeof c->before, "{\"paused\": %s}", c->paused ? "true" : "false");
        snprintf(c->after, sizeof c->after, "{\"paused\": %s}", c->paused ? "false" : "true");
    }
    c->row = (struct checkpoint_command){
        .name = name_of(mail->kind),
        .who = c->mail.command.who,
        .reason = c->mail.command.reason,
        .before = c->before,
        .after = skips ? NULL : c->after,
        .pauses = mail->kind == MAIL_PAUSE,
        .resumes = mail->kind == MAIL_RESUME,
    };
    database_command(c->reach.database, &c->row, now_us);
}

/* pause and resume. ------------------------------------------------------------ */

static void begin_pause(struct command *c, const struct mail *mail, int64_t now_us) {
    bool pauses = mail->kind == MAIL_PAUSE;
    if (c->paused == pauses)
        refuse(c, mail, FORWARDER_DONE, pauses ? "it is paused already" : "it is not paused");
    else
        write_down(c, mail, now_us);
}

static void do_pause(struct command *c, int64_t now_us) {
    c->paused = c->mail.kind == MAIL_PAUSE;
    flow_pause(c->reach.flow, now_us, c->paused);
    end(c, FORWARDER_DONE, c->paused ? "paused, also over restarts: what is under way settles, nothing new is read or published"
                                     : "goes on from where it was");
}

/* skip. ------------------------------------------------------------------------ */

static bool holds(const struct flow_view *view) {
    return view->any_unsettled && view->oldest_hold != FLOW_HOLD_NONE;
}

static int64_t oldest_position(const struct command *c, const struct flow_view *view) {
    return delivery_event(c->reach.delivery, view->oldest_slot)->position;
}

static void begin_skip(struct command *c, const struct mail *mail, int64_t now_us) {
    struct flow_view view;
    flow_view(c->reach.flow, &view);
    if (!holds(&view)) {
        refuse(c, mail, FORWARDER_REFUSES, "no event is held, so there is nothing to skip");
        return;
    }
    if (oldest_position(c, &view) != mail->command.position) {
        refuse(c, mail, FORWARDER_REFUSES, "what holds everything up is the event at position %" PRId64 ", and only that one "
               "can be skipped", oldest_position(c, &view));
        return;
    }
    CLEANUP(buf_done) struct buf text = BUF_INIT(sizeof c->before - 1);
    if (describe(c, &view, &text) != 0 || buf_terminate(&text) != 0) {
        refuse(c, mail, FORWARDER_CANNOT, "no memory; nothing was done");
        return;
    }
    memcpy(c->before, text.data, text.len + 1);
    write_down(c, mail, now_us);
}

static void do_skip(struct command *c, int64_t now_us) {
    struct flow_view view;
    flow_view(c->reach.flow, &view);
    if (!view.any_unsettled || oldest_position(c, &view) != c->mail.command.position) {
        end(c, FORWARDER_DONE, "it has settled meanwhile by itself");
        return;
    }
    c->seq = flow_skip(c->reach.flow, now_us);
    c->reach.counts->skipped++;
    c->writes = false;
    c->skips = true;
    c->skip = c->mail;
}

void command_saved(struct command *c) {
    if (c->skips && flow_is_saved(c->reach.flow, c->seq))
        end_skip(c, FORWARDER_DONE, "skipped the event at position %" PRId64 ", and the checkpoint is past it",
                 c->skip.command.position);
}

/* ------------------------------------------------------------------------------- */

void command_begin(struct command *c, const struct mail *mail, int64_t now_us) {
    ASSERT(mail->command.number != 0);
    if (c->writes)
        refuse(c, mail, FORWARDER_CANNOT, "another command is under way; try again");
    else if (c->skips && mail->kind == MAIL_SKIP)
        refuse(c, mail, FORWARDER_CANNOT, "the event at position %" PRId64 " is being skipped, and the checkpoint is not past it "
               "yet; try again", c->skip.command.position);
    else if (!database_connected(c->reach.database))
        refuse(c, mail, FORWARDER_CANNOT, "the database is away or another instance is active, so it can't be written down; "
               "nothing was done");
    else if (mail->kind == MAIL_SKIP)
        begin_skip(c, mail, now_us);
    else
        begin_pause(c, mail, now_us);
}

void command_loaded(struct command *c, int64_t now_us) {
    ASSERT(!c->writes && !c->skips);
    c->paused = database_paused(c->reach.database);
    flow_pause(c->reach.flow, now_us, c->paused);
}

void command_written(struct command *c, int64_t now_us) {
    ASSERT(c->writes);
    if (c->mail.kind == MAIL_SKIP)
        do_skip(c, now_us);
    else
        do_pause(c, now_us);
}

void command_failed(struct command *c, const char *why) {
    ASSERT(c->writes);
    end(c, FORWARDER_CANNOT, "it can't be written down, so nothing was done: %s (penstock schema prints tables and rights)", why);
}

void command_lost(struct command *c, const char *why) {
    if (c->writes)
        end(c, FORWARDER_CANNOT, "whether it was done, penstock status will tell: %s", why);
    if (c->skips)
        end_skip(c, FORWARDER_CANNOT, "it is in the journal, but the checkpoint is not known to be past the event; if that is "
                 "still held, repeat it: %s", why);
}
