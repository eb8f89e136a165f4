/* rabbitmq_message: event and destination -> what basic.publish carries, its sizes checked beforehand */
#include "sink/rabbitmq_message.h"

#include <errno.h>
#include <stdint.h>

#include "base/log.h"
#include "sink/rabbitmq_options.h"

/* Attributes and rendered headers beside the data. */
#define HEADERS_BYTES_MAX (4 * 1024 * 1024)

/* On the wire (AMQP 0-9-1, 4.2.3 to 4.2.6): a frame is type, channel, size and
 * an end octet around its payload. */
enum {
    FRAME_BYTES = 8,
    METHOD_BYTES = 4 + 2 + 1 + 1 + 1,  /* ids, ticket, two short strings' lengths, bits */
    HEADER_BYTES = 2 + 2 + 8 + 2 + 1,  /* class, weight, body size, flags, delivery mode */
    TABLE_BYTES = 4,
    ENTRY_BYTES = 1 + 1 + 4,           /* name's length, kind, value's length */
    DELIVERY_PERSISTENT = 2,
};

static amqp_bytes_t bytes_of(struct span s) {
    return (amqp_bytes_t){.len = s.len, .bytes = (void *)(uintptr_t)s.data};
}

void rabbitmq_message_init(struct rabbitmq_message *m, size_t max_message_bytes) {
    *m = (struct rabbitmq_message){0};
    binding_message_init(&m->binding, max_message_bytes + HEADERS_BYTES_MAX);
}

void rabbitmq_message_done(struct rabbitmq_message *m) {
    binding_message_done(&m->binding);
    free(m->entries);
    m->entries = NULL;
}

static int reject(struct error *reterr, const char *what, size_t bytes, size_t allowed) {
    error_set(reterr, ERROR_PERMANENT, "%s is %zu bytes; %zu are allowed", what, bytes, allowed);
    return RABBITMQ_MESSAGE_E_REJECTED;
}

static int reserve_entries(struct rabbitmq_message *m, size_t count) {
    if (count <= m->entry_capacity)
        return 0;
    amqp_table_entry_t *entries = reallocarray(m->entries, count, sizeof *entries);
    if (!entries)
        return -ENOMEM;
    m->entries = entries;
    m->entry_capacity = count;
    return 0;
}

/* Decimal text of the serial, ended by the array's end. */
static struct span print_serial(char text[24], uint64_t serial) {
    size_t at = 24;
    do {
        text[--at] = (char)('0' + serial % 10);
        serial /= 10;
    } while (serial > 0);
    return (struct span){text + at, 24 - at};
}

/* Every value is a long string, in its canonical form. */
static void add_entry(struct rabbitmq_message *m, struct span name, struct span value) {
    amqp_table_t *table = &m->properties.headers;
    ASSERT((size_t)table->num_entries < m->entry_capacity);
    table->entries[table->num_entries++] = (amqp_table_entry_t){
        .key = bytes_of(name),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = bytes_of(value)},
    };
}

static int add_headers(struct rabbitmq_message *m, const struct destination *d, uint64_t serial) {
    const struct binding_message *b = &m->binding;
    int r = reserve_entries(m, 1 + b->header_count + d->header_count);
    if (r < 0)
        return r;
    m->properties.headers = (amqp_table_t){.entries = m->entries};
    m->properties._flags |= AMQP_BASIC_HEADERS_FLAG;
    add_entry(m, SPAN_LITERAL(RABBITMQ_TAG_HEADER), print_serial(m->tag_text, serial));
    for (size_t i = 0; i < b->header_count; i++)
        add_entry(m, b->headers[i].name, b->headers[i].value);
    for (size_t i = 0; i < d->header_count; i++)
        add_entry(m, d->headers[i].name, d->headers[i].value);
    return 0;
}

static void set_properties(struct rabbitmq_message *m, const struct event *e) {
    amqp_basic_properties_t *p = &m->properties;
    *p = (amqp_basic_properties_t){
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG,
        .delivery_mode = DELIVERY_PERSISTENT,
    };
    if (!span_absent(m->binding.content_type)) {
        p->_flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
        p->content_type = bytes_of(m->binding.content_type);
    }
    struct span id = event_core_value(e, EVENT_ID);
    if (!span_absent(id) && id.len <= RABBITMQ_SHORT_MAX) {
        p->_flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
        p->message_id = bytes_of(id);
    }
}

static void set_method(struct rabbitmq_message *m, const struct destination *d) {
    m->method = (amqp_basic_publish_t){
        .exchange = bytes_of(d->fields[RABBITMQ_EXCHANGE]),
        .routing_key = bytes_of(d->fields[RABBITMQ_ROUTING_KEY]),
        .mandatory = 1, /* G5 */
    };
}

/* The table's length on the wire; SIZE_MAX with *ret_long set if a name is too long for it. */
static size_t headers_bytes(const amqp_table_t *headers, const amqp_bytes_t **ret_long) {
    size_t bytes = TABLE_BYTES;
    for (int i = 0; i < headers->num_entries; i++) {
        const amqp_table_entry_t *entry = &headers->entries[i];
        if (entry->key.len > RABBITMQ_SHORT_MAX) {
            *ret_long = &entry->key;
            return SIZE_MAX;
        }
        bytes += ENTRY_BYTES + entry->key.len + entry->value.value.bytes.len;
    }
    return bytes;
}

static size_t short_bytes(const amqp_basic_properties_t *p, amqp_flags_t flag, amqp_bytes_t text) {
    return p->_flags & flag ? 1 + text.len : 0;
}

/* Too large properties are noticed by the library only after the method frame
 * went out, and the connection is lost by it: so they are summed up here. */
static int check_head(struct rabbitmq_message *m, const struct rabbitmq_limits *limits, struct error *reterr) {
    const amqp_basic_properties_t *p = &m->properties;
    if (m->method.exchange.len > RABBITMQ_SHORT_MAX)
        return reject(reterr, "its exchange", m->method.exchange.len, RABBITMQ_SHORT_MAX);
    if (m->method.routing_key.len > RABBITMQ_SHORT_MAX)
        return reject(reterr, "its routing key", m->method.routing_key.len, RABBITMQ_SHORT_MAX);
    if (m->binding.content_type.len > RABBITMQ_SHORT_MAX)
        return reject(reterr, "its content type", m->binding.content_type.len, RABBITMQ_SHORT_MAX);

    const amqp_bytes_t *long_name = NULL;
    size_t table = headers_bytes(&p->headers, &long_name);
    if (long_name)
        return reject(reterr, "the name of one of its headers", long_name->len, RABBITMQ_SHORT_MAX);
    size_t frame = FRAME_BYTES + HEADER_BYTES + table + short_bytes(p, AMQP_BASIC_CONTENT_TYPE_FLAG, p->content_type) +
                   short_bytes(p, AMQP_BASIC_MESSAGE_ID_FLAG, p->message_id);
    if (frame > limits->frame_max)
        return reject(reterr, "its headers frame (attributes and headers together)", frame, limits->frame_max);
    m->head_bytes = FRAME_BYTES + METHOD_BYTES + m->method.exchange.len + m->method.routing_key.len + frame;
    return 0;
}

static int check_body(const struct rabbitmq_message *m, const struct rabbitmq_limits *limits, struct error *reterr) {
    if (m->body.len <= limits->max_message_bytes)
        return 0;
    error_set(reterr, ERROR_PERMANENT, "its body is %zu bytes; max_message_bytes allows %zu", m->body.len,
              limits->max_message_bytes);
    return RABBITMQ_MESSAGE_E_REJECTED;
}

static int encode(struct rabbitmq_message *m, const struct rabbitmq_limits *limits, const struct binding_options *options,
                  const struct event *e, struct error *reterr) {
    int r = binding_encode(BINDING_AMQP, options, e, &m->binding, reterr);
    if (r == BINDING_E_REJECTED)
        return RABBITMQ_MESSAGE_E_REJECTED;
    if (r != -EMSGSIZE)
        return r;
    error_set(reterr, ERROR_PERMANENT, "its encoded form is larger than the %zu bytes that max_message_bytes allows",
              limits->max_message_bytes);
    return RABBITMQ_MESSAGE_E_REJECTED;
}

int rabbitmq_message_build(struct rabbitmq_message *m, const struct rabbitmq_limits *limits,
                           const struct binding_options *options, const struct event *e, const struct destination *d,
                           uint64_t serial, struct error *reterr) {
    if (span_absent(d->fields[RABBITMQ_EXCHANGE])) {
        error_set(reterr, ERROR_PERMANENT, "it has no exchange to go to");
        return RABBITMQ_MESSAGE_E_REJECTED;
    }
    /* "" in the rule means the default exchange; an attribute that is empty means nothing of the kind. */
    if (d->fields[RABBITMQ_EXCHANGE].len == 0 && !(d->literal & 1U << RABBITMQ_EXCHANGE)) {
        error_set(reterr, ERROR_PERMANENT, "its exchange came out empty: an attribute in the rule's template is empty");
        return RABBITMQ_MESSAGE_E_REJECTED;
    }
    int r = encode(m, limits, options, e, reterr);
    if (r != 0)
        return r;
    set_method(m, d);
    set_properties(m, e);
    m->body = bytes_of(m->binding.body);
    r = add_headers(m, d, serial);
    if (r == 0)
        r = check_head(m, limits, reterr);
    if (r == 0)
        r = check_body(m, limits, reterr);
    return r;
}

static int parse_serial(amqp_bytes_t text, uint64_t *ret_serial) {
    const char *digits = text.bytes;
    uint64_t serial = 0;
    if (text.len == 0)
        return -ENOENT;
    for (size_t i = 0; i < text.len; i++)
        if (digits[i] < '0' || digits[i] > '9' || __builtin_mul_overflow(serial, 10, &serial) ||
            __builtin_add_overflow(serial, (uint64_t)(digits[i] - '0'), &serial))
            return -ENOENT;
    *ret_serial = serial;
    return 0;
}

int rabbitmq_message_serial(const amqp_basic_properties_t *properties, uint64_t *ret_serial) {
    /* Without its flag a member is uninitialised memory. */
    if (!(properties->_flags & AMQP_BASIC_HEADERS_FLAG))
        return -ENOENT;
    const amqp_table_t *headers = &properties->headers;
    for (int i = 0; i < headers->num_entries; i++) {
        const amqp_table_entry_t *entry = &headers->entries[i];
        struct span name = {entry->key.bytes, entry->key.len};
        if (entry->value.kind == AMQP_FIELD_KIND_UTF8 && span_is(name, RABBITMQ_TAG_HEADER))
            return parse_serial(entry->value.value.bytes, ret_serial);
    }
    return -ENOENT;
}
