/* ledger: when the checkpoint is saved, and whether publishing is allowed */
#ifndef PENSTOCK_FLOW_LEDGER_H
#define PENSTOCK_FLOW_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/window.h"

/* One save is outstanding at most, always of the newest place. A save is due
 * `interval_us` after the last one began or when `batch` events have settled
 * since; at once when it is urgent; nothing when nothing was passed.
 *
 * The lease lasts `lease_us` from each statement that takes, extends or saves: the
 * database counts from when it executes it, we count from when it was wanted, which
 * is earlier, and stop a tenth before the end. So at no moment that we may
 * publish in can the database have given the lease to another (G12). It is
 * extended when half of it is over and no save has done so.
 * Embedded; borrows the window with each call. */
struct ledger {
    int64_t interval_us;
    uint32_t batch;
    bool outstanding;
    struct window_place saving;
    int64_t saving_us; /* since when */
    int64_t due_us;
    int64_t retry_us; /* after a failure, whatever is urgent */
    int64_t saved_position;

    int64_t lease_us; /* 0: nobody else can take the checkpoint */
    bool leased;
    int64_t leased_us; /* since when it counts */
    bool extending;
    int64_t extending_us;
    int64_t extend_retry_us;
};

void ledger_init(struct ledger *l, int64_t interval_us, uint32_t batch, int64_t lease_us);
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

/* The lease was taken by a statement that was sent at `since_us` or later. A reset gives it up. */
void ledger_leased(struct ledger *l, int64_t since_us);
/* true: it is being extended from now on. Never while a save is outstanding: that does it, too. */
bool ledger_extend(struct ledger *l, int64_t now_us);
/* Both assert that it is being extended. */
void ledger_extended(struct ledger *l);
void ledger_not_extended(struct ledger *l, int64_t now_us);
/* When ledger_extend may say yes, or the right to publish ends; CLOCK_NEVER. */
int64_t ledger_lease_deadline_us(const struct ledger *l);
/* Does this instance surely hold the lease? */
bool ledger_may_publish(const struct ledger *l, int64_t now_us);

#endif
