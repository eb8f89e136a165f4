/* yaml: a YAML file as a tree in which every node knows its place; the only place that knows libyaml */
#ifndef PENSTOCK_CONFIG_YAML_H
#define PENSTOCK_CONFIG_YAML_H

#include "base/span.h"
#include "config/diag.h"

/* The language is smaller than YAML: one document, no
 * anchors, aliases, tags, directives or merge keys, every key a text and given
 * once. Scalars are not typed here: a place that wants a number reads the text. */

#define YAML_BYTES_MAX (1024 * 1024)
#define YAML_DEPTH_MAX 32
#define YAML_NODES_MAX 65536

enum yaml_kind {
    YAML_SCALAR,
    YAML_MAPPING,
    YAML_SEQUENCE,
    YAML_REFUSED, /* has a finding already: readers pass it over in silence */
};

/* Owned by its parent, read-only after yaml_parse. */
struct yaml_node {
    enum yaml_kind kind;
    struct diag_place place; /* file is the yaml's */
    bool plain;              /* scalar without quotes */
    uint32_t text_column;    /* of the text's first character if the text stands in one line as it is; else 0 */
    char *text;              /* scalar, NUL-terminated; holds no other NUL */
    struct yaml_node **children; /* sequence: the items; mapping: key, value, key, value … */
    size_t count;                /* of children */
};

/* Embedded. */
struct yaml {
    char *file;
    struct yaml_node *root;
};

#define YAML_E_REFUSED 1 /* no tree: findings are in diag */

/* 0 with a tree, even if there were findings that leave one; YAML_E_REFUSED; -ENOMEM. */
int yaml_parse(struct span text, const char *file, struct diag *diag, struct yaml *ret_yaml) MUST_CHECK;
/* The same for a file; one that can't be read is a finding. */
int yaml_read(const char *path, struct diag *diag, struct yaml *ret_yaml) MUST_CHECK;
void yaml_done(struct yaml *y);

/* Pair i of a mapping, i < yaml_pairs. */
size_t yaml_pairs(const struct yaml_node *mapping);
const struct yaml_node *yaml_key(const struct yaml_node *mapping, size_t i);
const struct yaml_node *yaml_value(const struct yaml_node *mapping, size_t i);
/* NULL if the mapping has no such key; ret_key may be NULL. */
const struct yaml_node *yaml_find(const struct yaml_node *mapping, const char *key, const struct yaml_node **ret_key);

/* Nothing stands behind the colon or dash. */
bool yaml_empty(const struct yaml_node *node);
struct span yaml_text(const struct yaml_node *scalar);
/* Where byte `at` of the scalar's text stands; of the whole scalar if that can't be told. */
struct diag_place yaml_place_at(const struct yaml_node *scalar, size_t at);
/* "a text", "a mapping", "a list": for messages. */
const char *yaml_kind_name(const struct yaml_node *node);

#endif
