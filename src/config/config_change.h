/* config_change: what a new configuration changes in the one that is in force */
#ifndef PENSTOCK_CONFIG_CONFIG_CHANGE_H
#define PENSTOCK_CONFIG_CONFIG_CHANGE_H

#include "config/config.h"

/* A finding (error) for all that can't change while the daemon runs, each with the way that there is: what a
 * forwarder would lose its place by, the status socket, and where our own tables are. path: the new one's file. */
void config_change_check(const struct config *old, const struct config *new, const char *path, struct diag *diag);

/* Does anything differ that this forwarder depends on? One that `old` doesn't have: yes. 0; -ENOMEM; -EMSGSIZE. */
int config_change_of(const struct config *old, const struct config *new, const struct config_forwarder *forwarder,
                     bool *ret_changed) MUST_CHECK;

#endif
