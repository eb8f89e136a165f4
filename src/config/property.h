/* property: one key of a mapping that takes the properties of a library */
#ifndef PENSTOCK_CONFIG_PROPERTY_H
#define PENSTOCK_CONFIG_PROPERTY_H

#include "base/option.h"
#include "config/yaml.h"

/* Adds it to *properties, whose items have room for one more, unless there is
 * a finding. o is of kind OPTION_PROPERTIES; mapping: its name, for messages.
 * 0; -ENOMEM. */
int property_read(const struct option *o, const char *mapping, const struct yaml_node *key,
                  const struct yaml_node *value, struct diag *diag, struct option_properties *properties) MUST_CHECK;

#endif
