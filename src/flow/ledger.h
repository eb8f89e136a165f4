/* ledger: when the checkpoint is saved, and whether publishing is allowed */
#ifndef PENSTOCK_FLOW_LEDGER_H
#define PENSTOCK_FLOW_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/window.h"

/* One save is outstanding at most, always of the newest place. A save is due
 * `interval_us` after the last one began or when `batch` events have settled
 * since; at once when it is urgent; nothing when nothing was passed.
 * Embedded; borrows the window with each call. */
struct ledger {
    int64_t interval_us;
    uint32_t batch;
    bool outstanding;
    struct window_place saving;
    int64_t due_us;
    int64_t retry_us; /* after a failure, whatever is urgent */
    int64_t saved_position;
};

void ledger_init(struct ledger *l, int64_t interval_us, uint32_t batch);
/* The checkpoint was loaded, or must be: whether the outstanding one was saved only that tells. */
void ledger_reset(struct ledger *l, int64_t saved_position);

/* true: *ret_place is being saved from now on. */
bool ledger_next(struct ledger *l, struct window *w, int64_t now_us, bool urgent, struct window_place *ret_place);
/* When ledger_next may say yes; CLOCK_NEVER. */
int64_t ledger_deadline_us(const struct ledger *l, const struct window *w, bool urgent);
/* Nothing outstanding, nothing left to save. */
bool ledger_is_even(const struct ledger *l, const struct window *w);

/* Both assert an outstanding save. */
void ledger_saved(struct ledger *l, struct window *w);
void ledger_failed(struct ledger *l, struct window *w, int64_t now_us);

/* Does this instance hold the right to publish? Always, until leases exist. */
bool ledger_may_publish(const struct ledger *l, int64_t now_us);

#endif
