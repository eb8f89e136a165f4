/* config_rules: forwarders: NAME: rules: [ … ] -> struct rule_set */
#ifndef PENSTOCK_CONFIG_CONFIG_RULES_H
#define PENSTOCK_CONFIG_CONFIG_RULES_H

#include "config/config.h"
#include "config/yaml.h"

/* Fills rules and destination_options; the sink's options and its idempotency
 * key are read before. kind NULL: unknown, what depends on it is passed over.
 * 0; -ENOMEM. */
int config_rules_read(const struct yaml_node *node, const struct sink_kind *kind, struct diag *diag,
                      struct config_forwarder *f) MUST_CHECK;
/* Appends them as they are read again, below "rules:" at that level. Only of a node without findings. */
int config_rules_print(const struct yaml_node *node, unsigned level, struct buf *b) MUST_CHECK;
void config_rules_done(struct config_forwarder *f);

/* A text with templates: the fault is found at its very place. *ret_template is
 * NULL if there were findings. 0; -ENOMEM. */
int config_rules_compile(const struct yaml_node *node, const char *key, struct diag *diag,
                         struct template **ret_template) MUST_CHECK;
/* May a destination have a header of that name? Else a finding. */
bool config_rules_is_header(const struct yaml_node *name, struct diag *diag);

#endif
