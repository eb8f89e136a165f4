/* fleet: the forwarders that run, and the way from one configuration to the next */
#ifndef PENSTOCK_FLEET_H
#define PENSTOCK_FLEET_H

#include "config/config.h"
#include "forwarder/forwarder.h"

/* As many as a configuration may have, and those of the one before that are still stopping. */
#define FLEET_MEMBERS_MAX (2 * CONFIG_FORWARDERS_MAX)

/* Belongs to the main thread. */
struct fleet;

/* instance: its name, as owner of checkpoints; ended_fd: an eventfd, written when a forwarder has ended. Both are borrowed. */
int fleet_new(const char *instance, int ended_fd, struct fleet **ret_fleet) MUST_CHECK;
/* All have ended (fleet_ended). NULL is fine. */
void fleet_free(struct fleet *f);

struct fleet_changes {
    size_t started, restarted, stopped, kept;
};
/* From what runs to what `to` has: forwarders that are not in it, or that
 * anything differs for, stop until the deadline at the latest; fleet_settle
 * starts what is to run. The others go on, by the configuration that they were
 * started from. Shares `to`. Asserts that the fleet is settled; what could not be started yet starts by `to`.
 * 0; -ENOMEM, -EMSGSIZE: nothing was changed. */
int fleet_go_to(struct fleet *f, struct config *to, int64_t deadline_us, struct fleet_changes *ret_changes) MUST_CHECK;

/* Joins what has ended, starts what is due. Call it after fleet_go_to, when ended_fd is readable, and now and
 * then, but no more after fleet_stop: what can't be started is said and tried again. 0; the negative errno of the
 * last that did not start. */
int fleet_settle(struct fleet *f);
/* Nothing is on its way out any more. What is to run runs, but for what can't be started. */
bool fleet_settled(const struct fleet *f);

/* Asks all to stop until the deadline. Again with an earlier one: fine. */
void fleet_stop(struct fleet *f, int64_t deadline_us);
bool fleet_ended(const struct fleet *f);
/* Some had not settled and saved all when they ended. */
bool fleet_ended_late(const struct fleet *f);
/* Ends the calls of those that were to stop by now: shuts their sockets down. */
void fleet_shut_late(struct fleet *f, int64_t now_us);

size_t fleet_count(const struct fleet *f);
/* Number i of them, in the order of the configuration; those that only stop come last. NULL: it has not been started yet. */
struct forwarder *fleet_forwarder(const struct fleet *f, size_t i);
const char *fleet_name(const struct fleet *f, size_t i);
/* At most max; how many. */
size_t fleet_copy_stats(const struct fleet *f, struct forwarder_stats *stats, size_t max);
/* To the forwarder of that name, if it runs: as forwarder_command. FORWARDER_E_NOBODY: there is none. */
int fleet_command(const struct fleet *f, const char *name, const struct mail *mail) MUST_CHECK;

#endif
