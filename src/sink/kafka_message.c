/* kafka_message: event and destination -> key, headers and value, and how large that is for Kafka */
#include "sink/kafka_message.h"

#include <errno.h>
#include <stdint.h>

#include "sink/kafka_options.h"

/* Attributes and rendered headers beside the data. */
#define HEADERS_BYTES_MAX (4 * 1024 * 1024)

/* A batch of one (Kafka protocol guide, "Record Batch" and "Record"). */
enum {
    BATCH_BYTES = 61,
    RECORD_BYTES = 1 + 1 + 1, /* attributes, deltas of time and offset */
};

void kafka_message_init(struct kafka_message *m, size_t max_message_bytes) {
    *m = (struct kafka_message){0};
    binding_message_init(&m->binding, max_message_bytes + HEADERS_BYTES_MAX);
}

void kafka_message_done(struct kafka_message *m) {
    binding_message_done(&m->binding);
}

/* Sizes. ----------------------------------------------------------------- */

/* A length on the wire: zigzag, seven bits a byte; null is -1. */
static inline size_t varint_bytes(size_t length) {
    size_t bytes = 1;
    for (length *= 2; length >= 0x80; length >>= 7)
        bytes++;
    return bytes;
}

static inline size_t text_bytes(struct span s) {
    return varint_bytes(s.len) + s.len;
}

static size_t record_bytes(const struct kafka_message *m) {
    const struct binding_message *b = &m->binding;
    const struct destination *d = m->destination;
    size_t bytes = RECORD_BYTES + text_bytes(m->key) + text_bytes(m->value);
    bytes += varint_bytes(b->header_count + d->header_count);
    for (size_t i = 0; i < b->header_count; i++)
        bytes += text_bytes(b->headers[i].name) + text_bytes(b->headers[i].value);
    for (size_t i = 0; i < d->header_count; i++)
        bytes += text_bytes(d->headers[i].name) + text_bytes(d->headers[i].value);
    return bytes;
}

/* Building. -------------------------------------------------------------- */

/* partitionkey is CloudEvents' own extension for it. */
static struct span key_of(const struct event *e, const struct destination *d) {
    if (!span_absent(d->fields[KAFKA_KEY]))
        return d->fields[KAFKA_KEY];
    struct span key = event_get(e, SPAN_LITERAL("partitionkey"));
    return span_absent(key) ? event_get(e, SPAN_LITERAL("streamid")) : key;
}

static int reject_size(size_t bytes, size_t max_message_bytes, struct error *reterr) {
    error_set(reterr, ERROR_PERMANENT, "its message is %zu bytes with key and headers; max_message_bytes allows %zu", bytes,
              max_message_bytes);
    return KAFKA_MESSAGE_E_REJECTED;
}

int kafka_message_build(struct kafka_message *m, const struct binding_options *binding, size_t max_message_bytes,
                        const struct event *e, const struct destination *d, struct error *reterr) {
    const struct kafka_destination *own = d->options;
    int result = binding_encode(BINDING_KAFKA, own ? &own->binding : binding, e, &m->binding, reterr);
    if (result == BINDING_E_REJECTED)
        return KAFKA_MESSAGE_E_REJECTED;
    if (result == -EMSGSIZE)
        return reject_size(event_data(e).len, max_message_bytes, reterr);
    if (result < 0)
        return result;
    m->key = key_of(e, d);
    m->value = m->binding.body;
    m->destination = d;
    m->partition = own ? (int32_t)own->partition : KAFKA_PARTITION_BY_KEY;
    size_t record = record_bytes(m);
    m->bytes = BATCH_BYTES + varint_bytes(record) + record;
    return m->bytes > max_message_bytes ? reject_size(m->bytes, max_message_bytes, reterr) : 0;
}

int kafka_message_check(const struct kafka_message *m, const struct kafka_topic *topic, struct error *reterr) {
    int32_t least = m->partition == KAFKA_PARTITION_BY_KEY ? 0 : m->partition;
    if (least >= topic->partitions) {
        error_set(reterr, ERROR_RETRY, "topic %.*s has no partition %d", SPAN_ARGS(topic->name), least);
        return KAFKA_MESSAGE_E_PARTITION;
    }
    if (topic->compacted && span_absent(m->key)) {
        error_set(reterr, ERROR_PERMANENT, "topic %.*s is compacted: it takes no message without a key", SPAN_ARGS(topic->name));
        return KAFKA_MESSAGE_E_REJECTED;
    }
    if (topic->max_message_bytes > 0 && m->bytes > (size_t)topic->max_message_bytes) {
        error_set(reterr, ERROR_PERMANENT,
                  "its message is %zu bytes with key and headers; topic %.*s takes %lld (max.message.bytes)", m->bytes,
                  SPAN_ARGS(topic->name), (long long)topic->max_message_bytes);
        return KAFKA_MESSAGE_E_REJECTED;
    }
    return 0;
}
