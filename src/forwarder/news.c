/* news: pure: which changes of state are said in the log, and when */
#include "forwarder/news.h"

#include <stdio.h>
#include <string.h>

bool news_moves(enum forwarder_state state) {
    return state == FORWARDER_DELIVERING || state == FORWARDER_IDLE;
}

static enum news_kind kind_of(const struct news *n, enum forwarder_state state, const char *cause) {
    if (state == n->said)
        return strncmp(cause, n->cause, NEWS_CAUSE_MAX - 1) == 0 ? NEWS_NONE : NEWS_CAUSE;
    if (!news_moves(state))
        return NEWS_CHANGE;
    return news_moves(n->said) ? NEWS_MOVES : NEWS_RECOVERED;
}

static enum news_kind say(struct news *n, enum news_kind kind, enum forwarder_state state, const char *cause,
                          enum forwarder_state *ret_from, uint64_t *ret_unsaid) {
    *ret_from = n->said;
    *ret_unsaid = n->unsaid;
    n->said = state;
    n->unsaid = 0;
    snprintf(n->cause, sizeof n->cause, "%s", cause);
    return kind;
}

enum news_kind news_next(struct news *n, enum forwarder_state state, const char *cause, int64_t now_us,
                         enum forwarder_state *ret_from, uint64_t *ret_unsaid) {
    bool changed = state != n->seen;
    n->seen = state;
    enum news_kind kind = kind_of(n, state, cause);
    if (kind == NEWS_NONE)
        return NEWS_NONE;
    if (kind == NEWS_MOVES)
        return say(n, kind, state, cause, ret_from, ret_unsaid);
    if (now_us < n->next_us[state]) {
        n->unsaid += changed;
        return NEWS_NONE;
    }
    n->next_us[state] = now_us + NEWS_INTERVAL_US;
    return say(n, kind, state, cause, ret_from, ret_unsaid);
}
