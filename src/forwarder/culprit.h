/* culprit: what is said of a gap that waits, and of the transaction that keeps it open */
#ifndef PENSTOCK_FORWARDER_CULPRIT_H
#define PENSTOCK_FORWARDER_CULPRIT_H

#include "forwarder/stats.h"
#include "source/source.h"

/* Pure. All texts are cut where they don't fit. */

/* The reason; returns how much of it says what it is about, without what changes all the time. */
size_t culprit_reason(const struct source_culprit *c, int64_t now_us, char *text, size_t size);
/* The same of a start that waits. */
size_t culprit_start(const struct source_culprit *c, int64_t now_us, char *text, size_t size);
/* The same of one that has locked the checkpoint in that schema. */
size_t culprit_lock_reason(const struct source_culprit *c, const char *schema, char *text, size_t size);
void culprit_resumes(const struct source_culprit *c, char *text, size_t size);
void culprit_fill(const struct source_culprit *c, struct forwarder_culprit *ret_culprit);
/* "pid 7731 (billing, user app)". */
void culprit_name(const struct source_culprit *c, char *text, size_t size);
/* Is it the same one that is waited for? */
bool culprit_same(const struct source_culprit *a, const struct source_culprit *b);

#endif
