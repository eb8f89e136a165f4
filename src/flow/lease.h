/* lease: what a flow is told and tells of its right to be the active instance (G12) */
#ifndef PENSTOCK_FLOW_LEASE_H
#define PENSTOCK_FLOW_LEASE_H

#include "flow/flow.h"

/* With flow_options.lease_us > 0 nothing is submitted before the first fact and after
 * flow_database_down. The rules: ledger.h. */

/* It was taken by a statement that was sent at `since_us` or later. After flow_database_up. */
void flow_leased(struct flow *f, int64_t now_us, int64_t since_us);
/* Answers to FLOW_WANT_EXTEND; not: it is tried again. */
void flow_extended(struct flow *f, int64_t now_us);
void flow_not_extended(struct flow *f, int64_t now_us);
/* Answer to FLOW_WANT_YIELD. */
void flow_yielded(struct flow *f, int64_t now_us);

/* It may have run out: nothing more may be handed to the broker, and what is on its way there is stopped as far as it can
 * be; then the database is given up, and the next load tells who is active. To be asked before each turn. */
bool flow_is_fenced(const struct flow *f, int64_t now_us);

#endif
