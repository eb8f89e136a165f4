/* dial: one connection attempt in a helper thread that may hang */
#ifndef PENSTOCK_BASE_DIAL_H
#define PENSTOCK_BASE_DIAL_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/error.h"

/* What to do with whom. All run in the helper thread, `close` also in the owner's. */
struct dial_ops {
    /* Returns the open handle, or NULL with *reterr set. May block for as long as it likes. */
    void *(*connect)(void *argument, struct error *reterr);
    void (*close)(void *handle);
    void (*free_argument)(void *argument);
};

/* At most one attempt runs at a time. Belongs to one thread. */
struct dial;

int dial_new(const struct dial_ops *ops, struct dial **ret_dial) MUST_CHECK;

/* Never waits: an attempt that still runs is left to its thread, which closes
 * what it gets and frees all. */
void dial_free(struct dial *d);

/* Attempts given up that still hang. */
#define DIAL_ABANDONED_MAX 8

/* Takes ownership of argument in every case. 0; -ENOMEM; -EBUSY while dial_running;
 * -EAGAIN without threads, or while DIAL_ABANDONED_MAX given up before still hang. */
int dial_start(struct dial *d, void *argument) MUST_CHECK;

/* From dial_start until the attempt's end is taken or it is abandoned. */
bool dial_running(const struct dial *d);

/* poll(2) for POLLIN: readable once the attempt has ended. Valid as long as d. */
int dial_fd(const struct dial *d);

#define DIAL_E_RUNNING 1 /* not yet, or none was started */
#define DIAL_E_FAILED 2  /* *reterr says why */
/* 0: *ret_handle is the caller's now. */
int dial_take(struct dial *d, void **ret_handle, struct error *reterr) MUST_CHECK;

/* Gives the running attempt up (it ends by itself, its handle is closed); a new one may be started. */
void dial_abandon(struct dial *d);

#endif
