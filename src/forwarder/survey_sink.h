/* survey_sink: what a start would find at the broker: the connection, and what the rules name there */
#ifndef PENSTOCK_FORWARDER_SURVEY_SINK_H
#define PENSTOCK_FORWARDER_SURVEY_SINK_H

#include "forwarder/outlet.h"
#include "forwarder/survey_findings.h"

/* Embedded. The sink itself, to which nothing is submitted. */
struct survey_sink {
    const struct forwarder_options *options;
    struct survey_findings *findings;
    struct outlet outlet;
    int64_t down_since_us; /* it has said why; CLOCK_NEVER: it hasn't */
    bool ended;
};

/* Borrows all. 0; -ENOMEM and what the kind's open returns. survey_sink_done in every case. */
int survey_sink_init(struct survey_sink *s, const struct forwarder_options *options, struct guard *guard, uint64_t seed,
                     struct survey_findings *findings) MUST_CHECK;
void survey_sink_done(struct survey_sink *s);

/* Returns how many entries. */
int survey_sink_poll(struct survey_sink *s, struct pollfd fds[SINK_POLL_MAX]);
int64_t survey_sink_deadline_us(const struct survey_sink *s);
void survey_sink_work(struct survey_sink *s, int64_t now_us);
/* The time for it is over: adds that. */
void survey_sink_give_up(struct survey_sink *s);

#endif
