/* survey_sink: what a start would find at the broker: the connection, and what the rules name there */
#include "forwarder/survey_sink.h"

#include <stdio.h>

#include "base/clock.h"

/* A broker that says no does so at once; one that just starts, or has several hosts, gets that long. */
#define PATIENCE_US (3 * CLOCK_US_PER_S)

int survey_sink_init(struct survey_sink *s, const struct forwarder_options *options, struct guard *guard, uint64_t seed,
                     struct survey_findings *findings) {
    *s = (struct survey_sink){.options = options, .findings = findings, .down_since_us = CLOCK_NEVER};
    return outlet_open(&s->outlet, options, guard, seed);
}

static void end(struct survey_sink *s) {
    outlet_close(&s->outlet);
    s->ended = true;
}

void survey_sink_done(struct survey_sink *s) {
    outlet_close(&s->outlet);
}

static void find(struct survey_sink *s, enum survey_level level, const char *text) {
    survey_findings_add(s->findings, level, "connection '%s'", s->options->sink_connection_name, text);
}

int survey_sink_poll(struct survey_sink *s, struct pollfd fds[SINK_POLL_MAX]) {
    return s->ended ? 0 : s->outlet.sink->kind->poll(s->outlet.sink, fds);
}

int64_t survey_sink_deadline_us(const struct survey_sink *s) {
    if (s->ended)
        return CLOCK_NEVER;
    int64_t due_us = s->outlet.sink->kind->deadline(s->outlet.sink);
    int64_t patience_us = s->down_since_us == CLOCK_NEVER ? CLOCK_NEVER : s->down_since_us + PATIENCE_US;
    return due_us < patience_us ? due_us : patience_us;
}

static void find_notices(struct survey_sink *s) {
    const struct sink_kind *kind = s->outlet.sink->kind;
    struct sink_notice notice;
    while (kind->notice && kind->notice(s->outlet.sink, &notice))
        find(s, notice.holds ? SURVEY_ERROR : notice.warning ? SURVEY_WARNING : SURVEY_NOTE, notice.text);
}

static void find_blocked(struct survey_sink *s, const struct sink_view *view) {
    char text[512];
    if (!view->blocked)
        return;
    snprintf(text, sizeof text, "nothing can be published for now: %s", view->blocked_reason ? view->blocked_reason : "blocked");
    find(s, SURVEY_WARNING, text);
}

/* Hosts that are tried in turn are waited for, and an attempt that runs. */
static bool hopeless(struct survey_sink *s, const struct sink_view *view, int64_t now_us) {
    if (!view->down_reason) {
        s->down_since_us = CLOCK_NEVER;
        return false;
    }
    if (s->down_since_us == CLOCK_NEVER)
        s->down_since_us = now_us;
    bool attempt_runs = view->next_attempt_us == CLOCK_NEVER;
    return !attempt_runs && now_us >= s->down_since_us + PATIENCE_US;
}

void survey_sink_work(struct survey_sink *s, int64_t now_us) {
    if (s->ended)
        return;
    const struct sink_kind *kind = s->outlet.sink->kind;
    struct sink_view view;
    kind->work(s->outlet.sink, now_us);
    find_notices(s);
    kind->view(s->outlet.sink, &view);
    if (view.connected && (!kind->looked || kind->looked(s->outlet.sink))) {
        find_blocked(s, &view);
        end(s);
    } else if (!view.connected && hopeless(s, &view, now_us)) {
        find(s, SURVEY_ERROR, view.down_reason);
        end(s);
    }
}

void survey_sink_give_up(struct survey_sink *s) {
    if (s->ended)
        return;
    struct sink_view view;
    s->outlet.sink->kind->view(s->outlet.sink, &view);
    find(s, SURVEY_ERROR, view.down_reason ? view.down_reason : "no answer within the time that there is for this");
    end(s);
}
