/* schema: reads a mapping of the tree into structs, by tables of options */
#ifndef PENSTOCK_CONFIG_SCHEMA_H
#define PENSTOCK_CONFIG_SCHEMA_H

#include "base/option.h"
#include "config/yaml.h"

/* A table and the struct that its offsets count from. */
struct schema_part {
    const struct option *table;
    void *options;
};

/* A key that people know from the manual's plans or from other versions: refused with its own sentence. */
struct schema_later {
    const char *key, *sentence;
};

/* What may stand in one mapping. All borrowed. */
struct schema {
    const char *name; /* of the mapping, for messages: "window" */
    const struct schema_part *parts;
    size_t part_count;
    const struct schema_part *inherit; /* values of the same key here stand in for what is not given; may be NULL */
    size_t inherit_count;
    const char *const *others; /* keys whose values the caller reads; ends with NULL; may be NULL */
    const struct schema_later *later; /* ends with a NULL key; may be NULL */
};

/* Every finding goes to diag: unknown keys with the nearest valid one, missing
 * keys, values out of range. mapping NULL: every member gets its default, and
 * what is required is not asked for. The structs are zeroed before. 0; -ENOMEM. */
int schema_read(const struct schema *s, const struct yaml_node *mapping, struct diag *diag) MUST_CHECK;

/* The value of an option's key, inside a mapping of its own if there is a dot
 * in the key. NULL: not given, or mapping is none. */
const struct yaml_node *schema_find(const struct yaml_node *mapping, const char *key);

/* For callers that read values themselves: true if the node is that; else a
 * finding is made, unless it has one already. An empty value is a mapping without keys. */
bool schema_is_mapping(const struct yaml_node *node, const char *name, struct diag *diag);
bool schema_is_list(const struct yaml_node *node, const char *name, struct diag *diag);
bool schema_is_text(const struct yaml_node *node, const char *name, struct diag *diag);

/* A secret: the text itself (a warning), or {credential | file | env: …}. 0; -ENOMEM. */
int schema_read_secret(const struct yaml_node *node, const char *name, struct secret *ret_secret,
                       struct diag *diag) MUST_CHECK;

/* Names that the file gives (connections, forwarders): letters, digits, '-', '_', '.'. */
#define SCHEMA_NAME_MAX 64
bool schema_is_name(const struct yaml_node *node, const char *what, struct diag *diag);

#endif
