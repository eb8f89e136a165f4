/* news: pure: which changes of state are said in the log, and when */
#ifndef PENSTOCK_FORWARDER_NEWS_H
#define PENSTOCK_FORWARDER_NEWS_H

#include "forwarder/stats.h"

#define NEWS_CAUSE_MAX 1024
/* What was said of a state is not said again for so long; then what is true by then is. */
#define NEWS_INTERVAL_US INT64_C(10000000)

/* Embedded; zero is valid: `starting` has been said. */
struct news {
    enum forwarder_state said, seen;
    char cause[NEWS_CAUSE_MAX];
    int64_t next_us[FORWARDER_STATE_COUNT];
    uint64_t unsaid; /* changes since the last one that was said */
};

enum news_kind {
    NEWS_NONE,      /* nothing new, or it waits: ask again later */
    NEWS_MOVES,     /* between states in which events move: for debugging only */
    NEWS_CHANGE,    /* into a state that an operator may have to know of */
    NEWS_RECOVERED, /* out of such a one */
    NEWS_CAUSE,     /* the same state for another reason */
};

/* What is true now. *ret_from: the state that was said last; *ret_unsaid: how
 * many changes between were not said. A state that lasts is always said in the
 * end: thinning out flapping never hides where it came to rest. */
enum news_kind news_next(struct news *n, enum forwarder_state state, const char *cause, int64_t now_us,
                         enum forwarder_state *ret_from, uint64_t *ret_unsaid);

/* Events move, or there are none to move. */
bool news_moves(enum forwarder_state state);

#endif
