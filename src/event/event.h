/* event: one immutable CloudEvent 1.0, in one storage that is used again */
#ifndef PENSTOCK_EVENT_EVENT_H
#define PENSTOCK_EVENT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

/* CloudEvents type system (cloudevents/spec.md "Type System"); values are kept as canonical text. */
enum attribute_type {
    ATTRIBUTE_STRING,
    ATTRIBUTE_BOOLEAN,
    ATTRIBUTE_INTEGER,
    ATTRIBUTE_BINARY, /* base64 text */
    ATTRIBUTE_URI,
    ATTRIBUTE_URI_REFERENCE,
    ATTRIBUTE_TIMESTAMP,
};

/* The core attributes have fixed places; extensions follow in the order they were added. */
enum event_core {
    EVENT_ID,
    EVENT_SOURCE,
    EVENT_TYPE,
    EVENT_SUBJECT,
    EVENT_TIME,
    EVENT_DATACONTENTTYPE,
    EVENT_DATASCHEMA,
    EVENT_CORE_COUNT
};

enum event_data_kind {
    EVENT_DATA_NONE,   /* SQL NULL: no data */
    EVENT_DATA_JSON,   /* JSON text, byte for byte as written */
    EVENT_DATA_TEXT,   /* UTF-8 */
    EVENT_DATA_BINARY, /* bytes */
};

#define EVENT_EXTENSIONS_MAX 96

/* Places in the storage: the storage may move while the event is being built. */
struct event_attribute {
    uint32_t name_at, name_len;
    uint32_t value_at, value_len;
    enum attribute_type type;
    bool present;
    bool internal; /* for rules and order only: no binding sends it */
    bool sound;    /* valid by its making: attribute_check_event passes it over */
    bool name_sound; /* of an extension: its name is ours; the value is looked at */
};

/* Embedded in a window slot; keeps its storage from one event to the next.
 * Built by row_to_event or by event_set_*; everyone else borrows it const. */
struct event {
    struct buf storage;
    struct event_attribute core[EVENT_CORE_COUNT];
    struct event_attribute *extensions; /* owned; grows to EVENT_EXTENSIONS_MAX */
    uint32_t extension_count, extension_capacity;
    enum event_data_kind data_kind;
    uint32_t data_at, data_len;
    /* Structured form of a text under a JSON type that is no JSON: data_base64
     * (json-format.md 3.1.1 allows it) instead of a rejected event. */
    bool invalid_json_as_base64;
    int64_t position;    /* the row's */
    int64_t recorded_us; /* wall clock, since 1970; INT64_MIN: unknown */
};

/* max_bytes: of the storage; at most EVENT_BYTES_MAX (more counts as that). */
#define EVENT_BYTES_MAX UINT32_MAX
void event_init(struct event *e, size_t max_bytes);
void event_done(struct event *e);
/* Empties it for the next row; keeps capacity up to keep_bytes. */
void event_clear(struct event *e, size_t keep_bytes);

/* 0; -ENOMEM; -EMSGSIZE (also past EVENT_EXTENSIONS_MAX). No validation here
 * (attribute.h does that); a name given twice replaces. The spans may not
 * point into the event. */
int event_set_core(struct event *e, enum event_core which, struct span value) MUST_CHECK;
int event_set_extension(struct event *e, struct span name, enum attribute_type type, struct span value) MUST_CHECK;
int event_set_data(struct event *e, enum event_data_kind kind, struct span data) MUST_CHECK;

/* The same for a value built in place: what was appended to e->storage since its
 * length was value_at; what fails is taken back. */
void event_place_core(struct event *e, enum event_core which, size_t value_at);
int event_place_extension(struct event *e, struct span name, enum attribute_type type, size_t value_at) MUST_CHECK;
/* The event has that extension; from now on it is only for rules and order. */
void event_make_internal(struct event *e, struct span name);
/* The event has it, and its name and value need no check: they were made of a number or a time. */
void event_vouch_core(struct event *e, enum event_core which);
void event_vouch_extension(struct event *e, struct span name);
void event_vouch_name(struct event *e, struct span name);

/* Inline, for the many small pieces. */
static inline struct span event_stored(const struct event *e, uint32_t at, uint32_t len) {
    /* An empty value has no bytes of its own, and the storage may have none yet. */
    return len > 0 ? (struct span){e->storage.data + at, len} : SPAN_LITERAL("");
}

/* Absent span if the event has it not. Valid until the event changes. */
static inline struct span event_core_value(const struct event *e, enum event_core which) {
    const struct event_attribute *a = &e->core[which];
    return a->present ? event_stored(e, a->value_at, a->value_len) : SPAN_ABSENT;
}
/* By attribute name, core or extension ("specversion" gives "1.0"). */
struct span event_get(const struct event *e, struct span name);
/* Extension number i < extension_count. */
static inline struct span event_extension(const struct event *e, uint32_t i, struct span *ret_name,
                                          enum attribute_type *ret_type) {
    const struct event_attribute *a = &e->extensions[i];
    *ret_name = event_stored(e, a->name_at, a->name_len);
    *ret_type = a->type;
    return event_stored(e, a->value_at, a->value_len);
}
/* Does it stay with us? */
static inline bool event_extension_internal(const struct event *e, uint32_t i) {
    return e->extensions[i].internal;
}
/* Absent for EVENT_DATA_NONE. */
static inline struct span event_data(const struct event *e) {
    return e->data_kind == EVENT_DATA_NONE ? SPAN_ABSENT : event_stored(e, e->data_at, e->data_len);
}

/* What it costs of the window's bytes. */
size_t event_bytes(const struct event *e);

/* "id", "source", … */
struct span event_core_name(enum event_core which);
/* -1 if name is none of the core attributes with a place. */
int event_core_by_name(struct span name);

#endif
