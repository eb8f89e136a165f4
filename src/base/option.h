/* option: a table of keys, by which a room says what can be configured in it */
#ifndef PENSTOCK_BASE_OPTION_H
#define PENSTOCK_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/span.h"

enum option_kind {
    OPTION_BOOLEAN,  /* bool */
    OPTION_INTEGER,  /* int64_t */
    OPTION_DURATION, /* int64_t, microseconds; text needs a unit: us ms s min h */
    OPTION_SIZE,     /* int64_t, bytes; text may have KiB MiB GiB kB MB GB */
    OPTION_DECIMAL,  /* double */
    OPTION_TEXT,     /* char *, owned by the struct; NULL: not given */
    OPTION_CHOICE,   /* int: index into choices */
    OPTION_SECRET,   /* struct secret */
    OPTION_TEXTS,    /* struct option_texts: a list of texts */
    OPTION_PROPERTIES, /* struct option_properties: every key of the mapping that no other option has */
};

struct option_texts {
    char **items; /* owned, as are the items */
    size_t count;
};

/* A setting of a library that has hundreds of them, as it was written. */
struct option_property {
    char *name;
    struct secret value; /* SECRET_INLINE: the text in the file */
};

/* Owned; by order of the file, each name once. */
struct option_properties {
    struct option_property *items;
    size_t count;
};

#define OPTION_E_UNKNOWN 1 /* there is no property of that name */

/* What may stand among them: asked for each at load. */
struct option_property_rules {
    /* value absent: it stands elsewhere ({credential: …}). 0; OPTION_E_UNKNOWN; -EINVAL with *reterr saying what is
     * allowed, which shows no secret; -ENOMEM. */
    int (*check)(struct span name, struct span value, struct error *reterr);
    /* Taken, but worth a warning? 0; -EINVAL with *reterr: what is wrong as things are now; -ENOMEM. May be NULL. */
    int (*doubt)(struct span name, struct span value, struct error *reterr);
    /* Never shown, and warned about when it stands in the file. */
    bool (*secret)(struct span name);
    /* Number i of the names there are, for "did you mean"; NULL behind the last. */
    const char *(*name)(size_t i);
};

/* One key. A room exports `const struct option NOUN_options_table[]`, ended by
 * an entry without key, beside its `struct NOUN_options`. The configuration,
 * the printed form, the shipped example's check and the manual's check all
 * learn the keys from here; config does the reading. A dot in a key is a
 * mapping inside: "tls.ca_file" is written as `tls: {ca_file: …}`. */
struct option {
    const char *key;
    enum option_kind kind;
    size_t offset; /* of the member in the options struct */
    bool required;
    bool unique;          /* text, of a sink: no two forwarders may say the same of one connection */
    const char *fallback; /* the default as it would be written; NULL: none */
    int64_t min, max;     /* integer, duration (µs), size (bytes), decimal */
    const char *const *choices; /* NULL-terminated */
    const char *summary;  /* what it does, half a sentence */
    /* Further rule for a given text; 0; -EINVAL with *reterr saying what is allowed; -ENOMEM. */
    int (*check)(struct span text, struct error *reterr);
    const struct option_property_rules *properties; /* OPTION_PROPERTIES; its key is for messages only */
};

#define OPTION_END {.key = NULL}

/* Frees what the struct owns according to its table (not the struct itself); idempotent. */
void option_release(const struct option *table, void *options);

#endif
