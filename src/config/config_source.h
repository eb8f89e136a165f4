/* config_source: forwarders: NAME: source: {…} -> the source's part of a forwarder */
#ifndef PENSTOCK_CONFIG_CONFIG_SOURCE_H
#define PENSTOCK_CONFIG_CONFIG_SOURCE_H

#include "config/config.h"
#include "config/yaml.h"

/* Everything below source but its connection. 0; -ENOMEM. */
int config_source_read(const struct yaml_node *node, struct diag *diag, struct config_forwarder *f) MUST_CHECK;
void config_source_done(struct config_forwarder *f);

#endif
