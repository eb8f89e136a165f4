/* event: one immutable CloudEvent 1.0, in one storage that is used again */
#include "event/event.h"

#include <errno.h>

#include "base/log.h"

enum { EXTENSIONS_AT_FIRST = 8 };

static const struct span CORE_NAMES[] = {
    [EVENT_ID] = SPAN_LITERAL("id"),
    [EVENT_SOURCE] = SPAN_LITERAL("source"),
    [EVENT_TYPE] = SPAN_LITERAL("type"),
    [EVENT_SUBJECT] = SPAN_LITERAL("subject"),
    [EVENT_TIME] = SPAN_LITERAL("time"),
    [EVENT_DATACONTENTTYPE] = SPAN_LITERAL("datacontenttype"),
    [EVENT_DATASCHEMA] = SPAN_LITERAL("dataschema"),
};
_Static_assert(ARRAY_LENGTH(CORE_NAMES) == EVENT_CORE_COUNT, "a name for each core attribute");

static const enum attribute_type CORE_TYPES[] = {
    [EVENT_ID] = ATTRIBUTE_STRING,
    [EVENT_SOURCE] = ATTRIBUTE_URI_REFERENCE,
    [EVENT_TYPE] = ATTRIBUTE_STRING,
    [EVENT_SUBJECT] = ATTRIBUTE_STRING,
    [EVENT_TIME] = ATTRIBUTE_TIMESTAMP,
    [EVENT_DATACONTENTTYPE] = ATTRIBUTE_STRING,
    [EVENT_DATASCHEMA] = ATTRIBUTE_URI,
};
_Static_assert(ARRAY_LENGTH(CORE_TYPES) == EVENT_CORE_COUNT, "a type for each core attribute");

static void forget(struct event *e) {
    memset(e->core, 0, sizeof e->core);
    e->extension_count = 0;
    e->data_kind = EVENT_DATA_NONE;
    e->data_at = 0;
    e->data_len = 0;
    e->invalid_json_as_base64 = false;
    e->position = 0;
    e->recorded_us = INT64_MIN;
}

void event_init(struct event *e, size_t max_bytes) {
    *e = (struct event){.storage = BUF_INIT(max_bytes < EVENT_BYTES_MAX ? max_bytes : EVENT_BYTES_MAX)};
    forget(e);
}

void event_done(struct event *e) {
    buf_done(&e->storage);
    free(e->extensions);
    e->extensions = NULL;
    e->extension_capacity = 0;
    forget(e);
}

void event_clear(struct event *e, size_t keep_bytes) {
    buf_clear(&e->storage);
    buf_shrink(&e->storage, keep_bytes);
    forget(e);
}

static struct span value_of(const struct event *e, const struct event_attribute *a) {
    return a->present ? event_stored(e, a->value_at, a->value_len) : SPAN_ABSENT;
}

void event_place_core(struct event *e, enum event_core which, size_t value_at) {
    ASSERT(which < EVENT_CORE_COUNT);
    ASSERT(value_at <= e->storage.len);
    e->core[which] = (struct event_attribute){
        .value_at = (uint32_t)value_at,
        .value_len = (uint32_t)(e->storage.len - value_at),
        .type = CORE_TYPES[which],
        .present = true,
    };
}

int event_set_core(struct event *e, enum event_core which, struct span value) {
    ASSERT(!span_absent(value));
    size_t value_at = e->storage.len;
    int r = buf_add_span(&e->storage, value);
    if (r == 0)
        event_place_core(e, which, value_at);
    return r;
}

/* From the last one on: mostly it is asked for what was just placed. */
static struct event_attribute *find_extension(const struct event *e, struct span name) {
    for (uint32_t i = e->extension_count; i-- > 0;) {
        struct event_attribute *a = &e->extensions[i];
        const char *at = e->storage.data + a->name_at;
        if (a->name_len == name.len && at[0] == name.data[0] && memcmp(at, name.data, name.len) == 0)
            return a;
    }
    return NULL;
}

static int reserve_extension(struct event *e) {
    if (e->extension_count < e->extension_capacity)
        return 0;
    if (e->extension_count == EVENT_EXTENSIONS_MAX)
        return -EMSGSIZE;
    uint32_t capacity = e->extension_capacity ? e->extension_capacity * 2 : EXTENSIONS_AT_FIRST;
    if (capacity > EVENT_EXTENSIONS_MAX)
        capacity = EVENT_EXTENSIONS_MAX;
    struct event_attribute *extensions = realloc(e->extensions, capacity * sizeof *extensions);
    if (!extensions)
        return -ENOMEM;
    e->extensions = extensions;
    e->extension_capacity = capacity;
    return 0;
}

int event_place_extension(struct event *e, struct span name, enum attribute_type type, size_t value_at) {
    ASSERT(name.len > 0);
    ASSERT(value_at <= e->storage.len);
    struct event_attribute a = {
        .value_at = (uint32_t)value_at,
        .value_len = (uint32_t)(e->storage.len - value_at),
        .type = type,
        .present = true,
    };
    struct event_attribute *place = find_extension(e, name);
    if (place) {
        a.name_at = place->name_at;
        a.name_len = place->name_len;
        *place = a;
        return 0;
    }
    a.name_at = (uint32_t)e->storage.len;
    a.name_len = (uint32_t)name.len;
    int r = reserve_extension(e);
    if (r == 0)
        r = buf_add_span(&e->storage, name);
    if (r == 0)
        e->extensions[e->extension_count++] = a;
    else
        e->storage.len = value_at; /* the place of a value without a name */
    return r;
}

int event_set_extension(struct event *e, struct span name, enum attribute_type type, struct span value) {
    ASSERT(!span_absent(value));
    size_t value_at = e->storage.len;
    int r = buf_add_span(&e->storage, value);
    if (r == 0)
        r = event_place_extension(e, name, type, value_at);
    return r;
}

void event_make_internal(struct event *e, struct span name) {
    struct event_attribute *a = find_extension(e, name);
    ASSERT(a);
    a->internal = true;
}

void event_vouch_core(struct event *e, enum event_core which) {
    ASSERT(e->core[which].present);
    e->core[which].sound = true;
}

void event_vouch_extension(struct event *e, struct span name) {
    struct event_attribute *a = find_extension(e, name);
    ASSERT(a);
    a->sound = true;
}

void event_vouch_name(struct event *e, struct span name) {
    struct event_attribute *a = find_extension(e, name);
    ASSERT(a);
    a->name_sound = true;
}

int event_set_data(struct event *e, enum event_data_kind kind, struct span data) {
    ASSERT(span_absent(data) == (kind == EVENT_DATA_NONE));
    size_t data_at = e->storage.len;
    int r = buf_add_span(&e->storage, data);
    if (r < 0)
        return r;
    e->data_kind = kind;
    e->data_at = (uint32_t)data_at;
    e->data_len = (uint32_t)data.len;
    return 0;
}

struct span event_get(const struct event *e, struct span name) {
    int which = event_core_by_name(name);
    if (which >= 0)
        return value_of(e, &e->core[which]);
    if (span_is(name, "specversion"))
        return SPAN_LITERAL("1.0");
    const struct event_attribute *a = find_extension(e, name);
    return a ? value_of(e, a) : SPAN_ABSENT;
}

size_t event_bytes(const struct event *e) {
    return e->storage.len;
}

struct span event_core_name(enum event_core which) {
    ASSERT(which < EVENT_CORE_COUNT);
    return CORE_NAMES[which];
}

/* Extensions are asked for more often, and mostly have another length. */
#define CORE_LENGTHS (1U << 2 | 1U << 4 | 1U << 6 | 1U << 7 | 1U << 10 | 1U << 15)

int event_core_by_name(struct span name) {
    if (name.len > 15 || !(CORE_LENGTHS >> name.len & 1))
        return -1;
    for (int which = 0; which < EVENT_CORE_COUNT; which++)
        if (span_equal(CORE_NAMES[which], name))
            return which;
    return -1;
}
