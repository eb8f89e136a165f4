/* penstock_check: the command that says whether the daemon could start: all findings, of the configuration and beyond */
#ifndef PENSTOCK_PENSTOCK_CHECK_H
#define PENSTOCK_PENSTOCK_CHECK_H

#include "config/config.h"
#include "forwarder/survey_findings.h"

/* Borrowed. */
struct penstock_checked {
    const char *name;
    const struct survey_findings *findings;
};

/* It would deliver, as far as can be seen. */
bool penstock_checked_ready(const struct penstock_checked *c);

/* Looks at what all forwarders would find at their start, a few of them at once,
 * each for a bounded time; hands them over in the order of the configuration.
 * 0; -ENOMEM, -EMFILE. Threads of the libraries may be left behind: end by _exit(2). */
typedef void penstock_connect_show(void *argument, const struct penstock_checked *checked);
int penstock_connect(const struct config *config, penstock_connect_show *show, void *argument) MUST_CHECK;

#endif
