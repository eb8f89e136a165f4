/* config_forwarder: forwarders: NAME: {…} -> struct config_forwarder */
#ifndef PENSTOCK_CONFIG_CONFIG_FORWARDER_H
#define PENSTOCK_CONFIG_CONFIG_FORWARDER_H

#include "config/config.h"
#include "config/yaml.h"

/* The connections that it may name. kind_known[i]: may connections[i] be asked for its kind? */
struct config_forwarder_peers {
    const struct config_connection *connections;
    const bool *kind_known;
    size_t count;
    const struct config_forwarder *forwarders; /* read before this one */
    size_t forwarder_count;
};

/* *f is zeroed before. 0; -ENOMEM. */
int config_forwarder_read(const struct yaml_node *key, const struct yaml_node *node,
                          const struct config_forwarder_peers *peers, struct diag *diag,
                          struct config_forwarder *f) MUST_CHECK;
void config_forwarder_done(struct config_forwarder *f);

#endif
