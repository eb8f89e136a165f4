/* config_connection: connections: NAME: {KIND: {…}} -> struct config_connection */
#ifndef PENSTOCK_CONFIG_CONFIG_CONNECTION_H
#define PENSTOCK_CONFIG_CONFIG_CONNECTION_H

#include "config/config.h"
#include "config/yaml.h"

/* *c is zeroed before. *ret_kind_known: only then may c be looked at for its
 * kind, else there is a finding. 0; -ENOMEM. */
int config_connection_read(const struct yaml_node *key, const struct yaml_node *value, struct diag *diag,
                           struct config_connection *c, bool *ret_kind_known) MUST_CHECK;
void config_connection_done(struct config_connection *c);
/* "postgresql", or the sink's kind. */
const char *config_connection_kind(const struct config_connection *c);

#endif
