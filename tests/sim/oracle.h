/* oracle: the promises, checked against what the models know */
#ifndef PENSTOCK_TESTS_SIM_ORACLE_H
#define PENSTOCK_TESTS_SIM_ORACLE_H

#include "flow/view.h"
#include "sim/world.h"

/* A broker's queue got it: G6, G7. */
void oracle_stored(struct world *w, uint32_t row, uint16_t destination);
/* The checkpoint row was written; `was` stood there (NULL: nothing): G4, and never backward. */
void oracle_saved(struct world *w, const struct postgres_place *was);
/* A clean stop at rest: the checkpoint is past every row; false: but for some in
 * gaps that are looked at now and then. */
bool oracle_stopped(struct world *w);
/* It stopped before its deadline: nothing was left to wait for (G11). */
void oracle_finished_early(struct world *w, const struct flow_view *view);
/* After every step: the cores' own invariants, and G9. */
void oracle_check(struct world *w);
/* G1: everything that was committed, and survived, was delivered. */
bool oracle_is_complete(const struct world *w);
/* The world should have come to rest and complete: says what is missing. */
void oracle_blame(struct world *w);
/* A clean stop was followed by repeats. */
void oracle_blame_repeats(struct world *w);

#endif
