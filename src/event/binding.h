/* binding: event -> headers and bytes, binary or structured, for AMQP or Kafka */
#ifndef PENSTOCK_EVENT_BINDING_H
#define PENSTOCK_EVENT_BINDING_H

#include "base/option.h"
#include "event/event.h"

enum binding_mode { BINDING_BINARY, BINDING_STRUCTURED };
enum binding_protocol { BINDING_AMQP, BINDING_KAFKA };
/* Of AMQP's binary mode; Kafka's is always ce_. */
enum binding_prefix { BINDING_PREFIX_UNDERSCORE, BINDING_PREFIX_COLON, BINDING_PREFIX_CE };

/* Stand in the sink's options and, overriding, at a destination. */
struct binding_options {
    int mode;          /* enum binding_mode */
    int header_prefix; /* enum binding_prefix: cloudEvents_ | cloudEvents: | ce- */
    bool mark_empty_data;
};

/* The names of enum binding_mode; ends with NULL. */
extern const char *const binding_modes[];
/* Keys: mode, header_prefix, mark_empty_data; offsets count from struct binding_options. */
extern const struct option binding_options_table[];

/* What the table can't say. 0; -EINVAL with *reterr (mark_empty_data under
 * another prefix than cloudEvents_: readers lose the event over it). */
int binding_options_check(const struct binding_options *options, struct error *reterr) MUST_CHECK;

struct binding_header {
    struct span name, value;
};

/* The message. Spans point into storage or into the event; valid until the next
 * encode or until the event changes. Used again and again: no allocation in steady state. */
struct binding_message {
    struct span content_type; /* AMQP's property; absent: none. Kafka has a header instead. */
    struct binding_header *headers; /* owned array; in binary mode specversion, id, source, type … first */
    size_t header_count, header_capacity;
    struct span body; /* absent: no data (Kafka null value; AMQP empty) */
    struct buf storage;
};

void binding_message_init(struct binding_message *m, size_t max_bytes);
void binding_message_done(struct binding_message *m);

/* The event can't be expressed that way: in binary mode a datacontenttype that
 * would be read as structured, or that AMQP's property can't hold; in
 * structured mode text under a JSON type that is no JSON (unless it may go as
 * base64). */
#define BINDING_E_REJECTED 1

/* 0; BINDING_E_REJECTED with *reterr; -ENOMEM; -EMSGSIZE. */
int binding_encode(enum binding_protocol protocol, const struct binding_options *options, const struct event *e,
                   struct binding_message *m, struct error *reterr) MUST_CHECK;

/* Appends the JSON event format (json-format.md), one object. JSON data stands
 * in it byte for byte, line breaks too; between its tokens only, so whoever
 * needs one line may turn them into spaces. 0; BINDING_E_REJECTED with
 * *reterr; -ENOMEM; -EMSGSIZE; b is as before then. */
int binding_add_json(const struct event *e, struct buf *b, struct error *reterr) MUST_CHECK;

/* Would a header of that name collide with ours (any CloudEvents prefix,
 * content-type, x-penstock-…)? Used at load. */
bool binding_header_reserved(struct span name);

#endif
