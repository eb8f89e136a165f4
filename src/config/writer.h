/* writer: prints YAML that yaml_parse reads back to the same tree */
#ifndef PENSTOCK_CONFIG_WRITER_H
#define PENSTOCK_CONFIG_WRITER_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/option.h"
#include "config/yaml.h"

/* Embedded: {.out = …, .level = …}. Block style, two spaces a level. After the
 * first failure (-ENOMEM, -EMSGSIZE; in result) nothing more is written. */
struct writer {
    struct buf *out;
    unsigned level;
    bool dash;   /* the next line begins an item */
    bool opened; /* a mapping or list was opened and has nothing in it yet */
    const struct hash_key *fingerprints; /* not NULL: what is masked is followed by its hash, for comparing */
    int result;
};

void writer_open_mapping(struct writer *w, const char *key);
void writer_close_mapping(struct writer *w);
void writer_open_list(struct writer *w, const char *key);
void writer_close_list(struct writer *w);
/* An item that is a mapping: the next line gets the dash. */
void writer_open_item(struct writer *w);
void writer_close_item(struct writer *w);

/* key: "text", quoted unless every YAML reader would take it as a text anyway. */
void writer_text(struct writer *w, const char *key, struct span text);
/* key: 5s; the value is written as it is. */
void writer_plain(struct writer *w, const char *key, struct span value);
void writer_node(struct writer *w, const char *key, const struct yaml_node *node);

/* Every option of the table that has a value; inline secrets masked, and with
 * mask_texts what looks like a password in a text. */
void writer_table(struct writer *w, const struct option *table, const void *options, bool mask_texts);

#endif
