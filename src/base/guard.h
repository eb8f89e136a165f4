/* guard: lets the main thread end a call that hangs, by shutdown(2) of its socket */
#ifndef PENSTOCK_BASE_GUARD_H
#define PENSTOCK_BASE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

#define GUARD_FDS_MAX 8

/* One per forwarder: its sockets. Shared by the forwarder's thread and the
 * main thread, under a mutex; it owns no fd. */
struct guard;

int guard_new(struct guard **ret_guard) MUST_CHECK;
void guard_free(struct guard *g);

/* The owner of a socket says so after opening it and before closing it. */
void guard_watch(struct guard *g, int fd);
void guard_forget(struct guard *g, int fd);

/* Around a call that may block. The deadline is of clock_now_us. One call at a time. */
void guard_arm(struct guard *g, int fd, int64_t deadline_us);
void guard_disarm(struct guard *g);

/* Main thread. Shuts the armed socket down if its deadline has passed; true if it did. */
bool guard_expire(struct guard *g, int64_t now_us);

/* Main thread. Shuts all watched sockets down (the loop hangs, or the stop timeout has run out). */
void guard_shut(struct guard *g);

#endif
