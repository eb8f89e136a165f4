/* words: pure: why a forwarder does not move, and what ends that, as sentences */
#ifndef PENSTOCK_FORWARDER_WORDS_H
#define PENSTOCK_FORWARDER_WORDS_H

#include <stddef.h>

#include "base/error.h"
#include "base/span.h"
#include "flow/view.h"
#include "forwarder/stats.h"
#include "sink/sink.h"

/* No number that changes while the sentence stands is in the reason: those are in the snapshot, where they are counted
 * anew each time. */
struct words {
    char reason[FORWARDER_TEXT_MAX];
    size_t cause_len; /* of the reason: what it is about, without what may change from one attempt to the next */
    char resumes[512];
};

/* Only what ends it: the attempt at next_us; CLOCK_NEVER: the one that runs. */
void words_next_attempt(struct words *w, int64_t next_us, int64_t now_us);

/* Only what ends it, that a checkpoint does not fit the table; given_out_again: because its positions may be another's. */
void words_ahead(struct words *w, const char *forwarder, bool gaps, bool given_out_again);

/* Another instance is active; `own` looks like it if both are the first process of a container. */
void words_another(struct error *reterr, struct span owner, struct span own);

/* The sink is connected and blocked. */
void words_blocked(struct words *w, const char *connection, const struct sink_view *sink);

/* The sink waits for what another instance has at the broker. */
void words_elsewhere(struct words *w, const char *connection, const struct sink_view *sink);

/* The oldest event that is not settled, and `why` it does not go. */
void words_held(struct words *w, const char *forwarder, int64_t position, struct span id, const char *why,
                const struct flow_view *flow, int64_t now_us);

#endif
