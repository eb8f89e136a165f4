/* binding: event -> headers and bytes, binary or structured, for AMQP or Kafka */
#include "event/binding.h"

#include <errno.h>
#include <stddef.h>
#include <strings.h>

#include "base/json.h"
#include "base/log.h"
#include "event/base64.h"
#include "event/media.h"

static const struct span STRUCTURED_TYPE = SPAN_LITERAL("application/cloudevents+json");
static const struct span CONTENT_TYPE = SPAN_LITERAL("content-type");

/* AMQP 0-9-1 section 4.2.5.3: a short string has one byte of length. */
enum { AMQP_SHORT_STRING_MAX = 255, HEADERS_AT_FIRST = 16 };

const char *const binding_modes[] = {[BINDING_BINARY] = "binary", [BINDING_STRUCTURED] = "structured", NULL};
static const char *const PREFIXES[] = {
    [BINDING_PREFIX_UNDERSCORE] = "cloudEvents_",
    [BINDING_PREFIX_COLON] = "cloudEvents:",
    [BINDING_PREFIX_CE] = "ce-",
    NULL,
};

const struct option binding_options_table[] = {
    {
        .key = "mode",
        .kind = OPTION_CHOICE,
        .offset = offsetof(struct binding_options, mode),
        .fallback = "binary",
        .choices = binding_modes,
        .summary = "attributes as headers and data as it is (binary), or one JSON document (structured)",
    },
    {
        .key = "header_prefix",
        .kind = OPTION_CHOICE,
        .offset = offsetof(struct binding_options, header_prefix),
        .fallback = "cloudEvents_",
        .choices = PREFIXES,
        .summary = "what the headers' names begin with in binary mode",
    },
    {
        .key = "mark_empty_data",
        .kind = OPTION_BOOLEAN,
        .offset = offsetof(struct binding_options, mark_empty_data),
        .fallback = "false",
        .summary = "a header that tells empty data from none; only with the prefix cloudEvents_",
    },
    OPTION_END,
};

int binding_options_check(const struct binding_options *options, struct error *reterr) {
    if (!options->mark_empty_data || options->header_prefix == BINDING_PREFIX_UNDERSCORE)
        return 0;
    error_set(reterr, ERROR_CONFIG,
              "mark_empty_data needs header_prefix: cloudEvents_; readers of the other prefixes refuse that header");
    return -EINVAL;
}

void binding_message_init(struct binding_message *m, size_t max_bytes) {
    *m = (struct binding_message){.storage = BUF_INIT(max_bytes)};
}

void binding_message_done(struct binding_message *m) {
    buf_done(&m->storage);
    free(m->headers);
    *m = (struct binding_message){0};
}

static bool begins_any_case(struct span s, struct span prefix) {
    return s.len >= prefix.len && strncasecmp(s.data, prefix.data, prefix.len) == 0;
}

static int reject(struct error *reterr, const char *why) {
    error_set(reterr, ERROR_PERMANENT, "%s", why);
    return BINDING_E_REJECTED;
}

/* Structured: json-format.md. */

static int add_member_name(struct buf *b, struct span name) {
    int r = buf_add_char(b, ',');
    if (r == 0)
        r = json_add_string(b, name);
    if (r == 0)
        r = buf_add_char(b, ':');
    return r;
}

/* Section 2.2: Boolean and Integer are JSON's own, all others strings. */
static int add_member(struct buf *b, struct span name, enum attribute_type type, struct span value) {
    int r = add_member_name(b, name);
    if (r < 0)
        return r;
    bool native = type == ATTRIBUTE_BOOLEAN || type == ATTRIBUTE_INTEGER;
    return native ? buf_add_span(b, value) : json_add_string(b, value);
}

static int add_core_members(const struct event *e, struct buf *b) {
    int r = buf_add_span(b, SPAN_LITERAL("{\"specversion\":\"1.0\""));
    for (int i = 0; i < EVENT_CORE_COUNT && r == 0; i++) {
        struct span value = event_core_value(e, (enum event_core)i);
        if (!span_absent(value))
            r = add_member(b, event_core_name((enum event_core)i), ATTRIBUTE_STRING, value);
    }
    return r;
}

static int add_extension_members(const struct event *e, struct buf *b) {
    int r = 0;
    for (uint32_t i = 0; i < e->extension_count && r == 0; i++) {
        struct span name;
        enum attribute_type type;
        struct span value = event_extension(e, i, &name, &type);
        if (!event_extension_internal(e, i))
            r = add_member(b, name, type, value);
    }
    return r;
}

static int add_base64_member(struct buf *b, struct span data) {
    int r = add_member_name(b, SPAN_LITERAL("data_base64"));
    if (r == 0)
        r = buf_add_char(b, '"');
    if (r == 0)
        r = base64_add(b, data);
    return r == 0 ? buf_add_char(b, '"') : r;
}

static int add_json_member(struct buf *b, struct span data) {
    int r = add_member_name(b, SPAN_LITERAL("data"));
    return r == 0 ? buf_add_span(b, data) : r;
}

static int add_text_member(const struct event *e, struct buf *b, bool json_type, struct error *reterr) {
    struct span data = event_data(e);
    if (!json_type)
        return add_member(b, SPAN_LITERAL("data"), ATTRIBUTE_STRING, data);
    if (json_valid(data))
        return add_json_member(b, data);
    if (e->invalid_json_as_base64)
        return add_base64_member(b, data);
    return reject(reterr, "data is no JSON, but its datacontenttype says so; structured mode would have to embed it");
}

/* Section 3.1.1: the order of decision. */
static int add_data_member(const struct event *e, struct buf *b, struct error *reterr) {
    struct span content_type = event_core_value(e, EVENT_DATACONTENTTYPE);
    bool json_type = span_absent(content_type) || media_type_is_json(content_type);
    switch (e->data_kind) {
    case EVENT_DATA_NONE:
        return 0;
    case EVENT_DATA_BINARY:
        return add_base64_member(b, event_data(e));
    case EVENT_DATA_TEXT:
        return add_text_member(e, b, json_type, reterr);
    case EVENT_DATA_JSON:
        if (!json_type)
            return reject(reterr, "data is JSON, but its datacontenttype is none of JSON's");
        return add_json_member(b, event_data(e));
    }
    return 0;
}

int binding_add_json(const struct event *e, struct buf *b, struct error *reterr) {
    size_t start = b->len;
    int r = add_core_members(e, b);
    if (r == 0)
        r = add_extension_members(e, b);
    if (r == 0)
        r = add_data_member(e, b, reterr);
    if (r == 0)
        r = buf_add_char(b, '}');
    if (r != 0)
        b->len = start;
    return r;
}

/* Headers. */

static int reserve_headers(struct binding_message *m, size_t count) {
    if (count <= m->header_capacity)
        return 0;
    size_t capacity = count > HEADERS_AT_FIRST ? count : HEADERS_AT_FIRST;
    struct binding_header *headers = realloc(m->headers, capacity * sizeof *headers);
    if (!headers)
        return -ENOMEM;
    m->headers = headers;
    m->header_capacity = capacity;
    return 0;
}

static void add_header(struct binding_message *m, struct span name, struct span value) {
    ASSERT(m->header_count < m->header_capacity);
    m->headers[m->header_count++] = (struct binding_header){name, value};
}

static int encode_structured(enum binding_protocol protocol, const struct event *e, struct binding_message *m,
                             struct error *reterr) {
    int r = reserve_headers(m, 1);
    if (r == 0)
        r = binding_add_json(e, &m->storage, reterr);
    if (r != 0)
        return r;
    if (protocol == BINDING_KAFKA)
        add_header(m, CONTENT_TYPE, STRUCTURED_TYPE);
    else
        m->content_type = STRUCTURED_TYPE;
    m->body = buf_span(&m->storage);
    return 0;
}

#define CORE_HEADERS(prefix)                                                                                              \
    {[EVENT_ID] = SPAN_LITERAL(prefix "id"),                                                                              \
     [EVENT_SOURCE] = SPAN_LITERAL(prefix "source"),                                                                      \
     [EVENT_TYPE] = SPAN_LITERAL(prefix "type"),                                                                          \
     [EVENT_SUBJECT] = SPAN_LITERAL(prefix "subject"),                                                                    \
     [EVENT_TIME] = SPAN_LITERAL(prefix "time"),                                                                          \
     [EVENT_DATACONTENTTYPE] = SPAN_ABSENT, /* CONTENT_TYPE or a property */                                              \
     [EVENT_DATASCHEMA] = SPAN_LITERAL(prefix "dataschema")}

/* What names begin with, and those that are always the same. */
static const struct names {
    struct span prefix, specversion, core[EVENT_CORE_COUNT];
} AMQP_NAMES[] = {
    [BINDING_PREFIX_UNDERSCORE] = {SPAN_LITERAL("cloudEvents_"), SPAN_LITERAL("cloudEvents_specversion"),
                                   CORE_HEADERS("cloudEvents_")},
    [BINDING_PREFIX_COLON] = {SPAN_LITERAL("cloudEvents:"), SPAN_LITERAL("cloudEvents:specversion"),
                              CORE_HEADERS("cloudEvents:")},
    [BINDING_PREFIX_CE] = {SPAN_LITERAL("ce-"), SPAN_LITERAL("ce-specversion"), CORE_HEADERS("ce-")},
}, KAFKA_NAMES = {SPAN_LITERAL("ce_"), SPAN_LITERAL("ce_specversion"), CORE_HEADERS("ce_")};

/* The name's bytes have been reserved: the storage doesn't move. */
static void add_extension(struct binding_message *m, struct span prefix, struct span name, struct span value) {
    ASSERT(m->storage.capacity - m->storage.len >= prefix.len + name.len);
    char *at = m->storage.data + m->storage.len;
    memcpy(at, prefix.data, prefix.len);
    memcpy(at + prefix.len, name.data, name.len);
    m->storage.len += prefix.len + name.len;
    add_header(m, (struct span){at, prefix.len + name.len}, value);
}

/* Room for every header, and for the names of the extensions in the storage. */
static int reserve_attributes(const struct event *e, struct span prefix, struct binding_message *m) {
    const size_t fixed = EVENT_CORE_COUNT + 3; /* specversion; content-type; the mark of empty data */
    size_t bytes = 0;
    for (uint32_t i = 0; i < e->extension_count; i++)
        bytes += prefix.len + e->extensions[i].name_len;
    int r = buf_reserve(&m->storage, bytes);
    return r == 0 ? reserve_headers(m, fixed + e->extension_count) : r;
}

static void add_attributes(const struct event *e, const struct names *names, struct binding_message *m) {
    add_header(m, names->specversion, SPAN_LITERAL("1.0"));
    for (int i = 0; i < EVENT_CORE_COUNT; i++) {
        struct span value = event_core_value(e, (enum event_core)i);
        if (i != EVENT_DATACONTENTTYPE && !span_absent(value))
            add_header(m, names->core[i], value);
    }
    for (uint32_t i = 0; i < e->extension_count; i++) {
        struct span name;
        enum attribute_type type;
        struct span value = event_extension(e, i, &name, &type);
        if (!event_extension_internal(e, i))
            add_extension(m, names->prefix, name, value);
    }
}

static int check_binary(enum binding_protocol protocol, struct span content_type, struct error *reterr) {
    if (span_absent(content_type))
        return 0;
    /* How readers tell the modes apart (kafka-protocol-binding.md 3, amqp-protocol-binding.md 3). */
    if (begins_any_case(content_type, SPAN_LITERAL("application/cloudevents")))
        return reject(reterr, "datacontenttype begins with application/cloudevents, which readers would take for "
                              "structured mode; send it with mode: structured");
    if (protocol == BINDING_AMQP && content_type.len > AMQP_SHORT_STRING_MAX)
        return reject(reterr, "datacontenttype is longer than the 255 bytes that AMQP's content_type can hold");
    return 0;
}

static int encode_binary(enum binding_protocol protocol, const struct binding_options *options, const struct event *e,
                         struct binding_message *m, struct error *reterr) {
    struct span content_type = event_core_value(e, EVENT_DATACONTENTTYPE);
    const struct names *names = protocol == BINDING_KAFKA ? &KAFKA_NAMES : &AMQP_NAMES[options->header_prefix];
    int r = check_binary(protocol, content_type, reterr);
    if (r == 0)
        r = reserve_attributes(e, names->prefix, m);
    if (r != 0)
        return r;
    add_attributes(e, names, m);
    m->body = event_data(e);
    if (protocol == BINDING_AMQP)
        m->content_type = content_type;
    else if (!span_absent(content_type))
        add_header(m, CONTENT_TYPE, content_type);
    bool empty = !span_absent(m->body) && m->body.len == 0;
    if (protocol == BINDING_AMQP && options->mark_empty_data && empty)
        add_header(m, SPAN_LITERAL("cloudEvents_data_present_empty"), SPAN_LITERAL("true"));
    return 0;
}

int binding_encode(enum binding_protocol protocol, const struct binding_options *options, const struct event *e,
                   struct binding_message *m, struct error *reterr) {
    buf_clear(&m->storage);
    m->header_count = 0;
    m->content_type = SPAN_ABSENT;
    m->body = SPAN_ABSENT;
    if (options->mode == BINDING_STRUCTURED)
        return encode_structured(protocol, e, m, reterr);
    return encode_binary(protocol, options, e, m, reterr);
}

bool binding_header_reserved(struct span name) {
    static const struct span prefixes[] = {SPAN_LITERAL("cloudEvents_"), SPAN_LITERAL("cloudEvents:"),
                                           SPAN_LITERAL("ce-"), SPAN_LITERAL("ce_"), SPAN_LITERAL("x-penstock-")};
    if (name.len == CONTENT_TYPE.len && begins_any_case(name, CONTENT_TYPE))
        return true;
    for (size_t i = 0; i < ARRAY_LENGTH(prefixes); i++)
        if (begins_any_case(name, prefixes[i]))
            return true;
    return false;
}
