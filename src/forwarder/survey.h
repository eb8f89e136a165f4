/* survey: what a forwarder would find at its start, at its database and its broker; starts and writes nothing */
#ifndef PENSTOCK_FORWARDER_SURVEY_H
#define PENSTOCK_FORWARDER_SURVEY_H

#include "forwarder/forwarder.h"
#include "forwarder/survey_findings.h"

/* Looks at both sides at once, by the same inspections as the forwarder itself, and never waits. */
struct survey;

/* Borrows the options (ended_fd is not used). 0; -ENOMEM, -EMFILE. */
int survey_new(const struct forwarder_options *options, uint64_t seed, struct survey **ret_survey) MUST_CHECK;
void survey_free(struct survey *s);

#define SURVEY_POLL_MAX (1 + SINK_POLL_MAX)
/* Returns how many entries. */
int survey_poll(struct survey *s, struct pollfd fds[SURVEY_POLL_MAX]);
int64_t survey_deadline_us(const struct survey *s);
void survey_work(struct survey *s, int64_t now_us);
bool survey_ended(const struct survey *s);
/* What has not answered by now is a finding. Has ended then. */
void survey_give_up(struct survey *s);

const struct survey_findings *survey_findings(const struct survey *s);

#endif
