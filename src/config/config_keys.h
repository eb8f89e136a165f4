/* config_keys: the tables of what the configuration itself reads, and a walk over every key there is */
#ifndef PENSTOCK_CONFIG_CONFIG_KEYS_H
#define PENSTOCK_CONFIG_CONFIG_KEYS_H

#include "config/config.h"
#include "config/schema.h"

/* Keys of one mapping: a table whose values have one text each, and keys whose
 * values are mappings or lists of their own. Either may be NULL. */
struct config_keys {
    const char *place; /* "forwarders.NAME.window" */
    const char *name;  /* for messages: "window" */
    const struct option *table;
    const char *const *others;
    const struct schema_later *later;
};

/* Offsets count from struct config. */
extern const struct config_keys config_keys_file, config_keys_status, config_keys_health, config_keys_checkpoint;
/* A file of conf.d. */
extern const struct config_keys config_keys_added_file;
/* Offsets count from struct config_forwarder. */
extern const struct config_keys config_keys_forwarder, config_keys_source, config_keys_columns, config_keys_poll,
    config_keys_gaps, config_keys_window, config_keys_order, config_keys_retry, config_keys_idempotency;
/* Of a sink and of a destination: those besides the tables of the sink's kind. */
extern const struct config_keys config_keys_sink, config_keys_destination;
/* Offsets count from struct config_rule_keys. */
extern const struct config_keys config_keys_rule;
struct config_rule_keys {
    char *name;
    bool skip, go_on;
};
/* {value: …} in place of a column, {position: …} as a start. */
extern const struct config_keys config_keys_constant, config_keys_start;
/* The dialects, with those that do not exist yet. */
extern const struct config_keys config_keys_filter;

/* Reads by the table into *options, with the findings that go with it. */
int config_keys_read(const struct config_keys *keys, const struct yaml_node *mapping, void *options,
                     struct diag *diag) MUST_CHECK;

/* An identifier of PostgreSQL, as it is (we quote it)? 0; -EINVAL. */
int config_keys_check_column(struct span text, struct error *reterr) MUST_CHECK;

/* Calls visit for every key of every mapping, those of all kinds of sink
 * included: for the checks of the example and of the manual. option: of a key
 * with one text; else NULL. Ends with the first result that is not 0. */
typedef int (*config_keys_visitor)(void *context, const char *place, const char *key, const struct option *option);
int config_keys_visit(config_keys_visitor visit, void *context);

#endif
