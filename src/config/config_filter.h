/* config_filter: filter: {exact | prefix | suffix | all | any | not: …} -> struct filter */
#ifndef PENSTOCK_CONFIG_CONFIG_FILTER_H
#define PENSTOCK_CONFIG_CONFIG_FILTER_H

#include "config/yaml.h"
#include "rule/filter.h"

/* *ret_filter is NULL if there were findings. 0; -ENOMEM. */
int config_filter_read(const struct yaml_node *node, struct diag *diag, struct filter **ret_filter) MUST_CHECK;

#endif
