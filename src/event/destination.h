/* destination: where one event goes, resolved: the fields of its kind of sink, and headers */
#ifndef PENSTOCK_EVENT_DESTINATION_H
#define PENSTOCK_EVENT_DESTINATION_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"

#define DESTINATION_FIELDS_MAX 8
#define DESTINATION_HEADERS_MAX 64

/* One field of a destination, as a kind of sink declares it: "exchange",
 * "routing_key"; "topic", "key". Ended by an entry without key. */
struct destination_field {
    const char *key;
    bool required;
    const char *summary;
    /* What a literal may be; 0, or -EINVAL with *reterr. NULL: anything. */
    int (*check)(struct span text, struct error *reterr);
};

struct destination_header {
    struct span name, value;
};

/* Plain view, filled by rule_render into a storage of its own that is used
 * again; borrowed by the sink for the length of submit. */
struct destination {
    struct span fields[DESTINATION_FIELDS_MAX]; /* by the sink's index; absent: not given */
    unsigned literal;                           /* a bit for each field whose text stands in the rule as it is */
    struct destination_header headers[DESTINATION_HEADERS_MAX];
    size_t header_count;
    const void *options; /* of the destination, by the sink kind's destination_options table; NULL: the sink's own */
    struct buf storage;
};

#define DESTINATION_BYTES_MAX (1024 * 1024)

void destination_init(struct destination *d);
void destination_done(struct destination *d);

#endif
