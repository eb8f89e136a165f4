/* words: pure: why a forwarder does not move, and what ends that, as sentences */
#include "forwarder/words.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/instance.h"
#include "base/log.h"

/* What would be shown as 0.0 s. */
#define AT_ONCE_US (CLOCK_US_PER_S / 20)

#define SAY(member, ...) snprintf(w->member, sizeof w->member, __VA_ARGS__)

void words_next_attempt(struct words *w, int64_t next_us, int64_t now_us) {
    if (next_us == CLOCK_NEVER)
        SAY(resumes, "when the attempt that runs now succeeds");
    else if (next_us - now_us < AT_ONCE_US)
        SAY(resumes, "with the next attempt, made at once");
    else
        SAY(resumes, "with the next attempt in %.1f s", (double)(next_us - now_us) / (double)CLOCK_US_PER_S);
}

void words_ahead(struct words *w, const char *forwarder, bool gaps, bool given_out_again) {
    if (given_out_again)
        SAY(resumes, "when an operator has decided: penstock rebase %s --position N --reason TEXT, N the last position that counts "
            "as sent (0: all that is there is sent), or penstock rebase %s --upgraded --reason TEXT if none was given out again; "
            "looked at again every 30 s", forwarder, forwarder);
    else
        SAY(resumes, "when an operator has decided: %spenstock rebase %s --position N --reason TEXT, N the last position that "
            "counts as sent; looked at again every 30 s",
            gaps ? "setval if rows were written past the table's sequence, else " : "", forwarder);
}

void words_another(struct error *reterr, struct span owner, struct span own) {
    struct span brief = instance_brief(owner), place = instance_place(owner);
    if (!span_equal(brief, instance_brief(own)) || span_absent(place))
        error_set(reterr, ERROR_RETRY, "another instance is active: %.*s", SPAN_ARGS(brief));
    else
        error_set(reterr, ERROR_RETRY, "another instance is active: %.*s in place %.*s (this one is %.*s in place %.*s)",
                  SPAN_ARGS(brief), SPAN_ARGS(place), SPAN_ARGS(brief), SPAN_ARGS(instance_place(own)));
}

void words_blocked(struct words *w, const char *connection, const struct sink_view *sink) {
    ASSERT(sink->blocked);
    SAY(reason, "broker '%s': %s", connection, sink->blocked_reason ? sink->blocked_reason : "it takes nothing at present");
    SAY(resumes, "%s", sink->blocked_ends ? sink->blocked_ends : "when confirms come again; until then nothing is given up");
}

void words_elsewhere(struct words *w, const char *connection, const struct sink_view *sink) {
    ASSERT(sink->elsewhere);
    SAY(reason, "broker '%s': %s", connection, sink->down_reason ? sink->down_reason : "another instance is connected");
    SAY(resumes, "when that one has stopped, or the broker has noticed that it is gone (about two heartbeats); asked every second");
}

/* What one held event does to all the others; G8 wants it said. */
static const char *standstill(const struct flow_view *flow) {
    if (flow->unsaved_full)
        return "; nothing more is read: window.unsaved is full of events that settled behind it";
    if (flow->window_full)
        return "; nothing more is read: window.events is full of events that wait behind it";
    return "";
}

void words_held(struct words *w, const char *forwarder, int64_t position, struct span id, const char *why,
                const struct flow_view *flow, int64_t now_us) {
    ASSERT(flow->any_unsettled);
    SAY(reason, "event at position %" PRId64 " (id %.*s): %s%s", position, SPAN_ARGS(id), why, standstill(flow));
    if (flow->oldest_hold == FLOW_HOLD_RETRY)
        words_next_attempt(w, flow->oldest_retry_us, now_us);
    else
        SAY(resumes,
            "when the rules or max_message_bytes are mended and penstockd is reloaded, when the row or the topic's limit is mended "
            "and penstockd is restarted, or with penstock skip %s %" PRId64 " --reason TEXT",
            forwarder, position);
}
