/* kafka_suspects: reports that say no: whom they blame, and who of a refused batch it was */
#include "sink/kafka_suspects.h"

#include "base/log.h"

int kafka_suspects_init(struct kafka_suspects *s, uint32_t capacity) {
    *s = (struct kafka_suspects){.key = hash_key_random()};
    return kafka_careful_new(capacity, &s->careful);
}

void kafka_suspects_done(struct kafka_suspects *s) {
    kafka_careful_free(s->careful);
}

void kafka_suspects_reset(struct kafka_suspects *s) {
    s->count = 0;
    s->batch_topic = NULL;
    s->batch_bytes = s->least_bytes = 0;
}

enum kafka_blame kafka_suspects_blame(rd_kafka_resp_err_t err) {
    switch ((int)err) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
        return KAFKA_BLAME_MESSAGE;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return KAFKA_BLAME_TOPIC;
    default:
        return KAFKA_BLAME_INSTANCE;
    }
}

/* Marks. ----------------------------------------------------------------- */

static uint64_t mix(const struct kafka_suspects *s, uint64_t mark, const void *data, size_t len) {
    return (mark << 7 | mark >> 57) ^ hash_bytes(&s->key, (struct span){data, len});
}

static uint64_t mark_sent(const struct kafka_suspects *s, const struct kafka_message *m) {
    const struct binding_message *b = &m->binding;
    const struct destination *d = m->destination;
    uint64_t mark = mix(s, mix(s, 0, m->value.data, m->value.len), m->key.data, m->key.len);
    for (size_t i = 0; i < b->header_count; i++)
        mark = mix(s, mark, b->headers[i].value.data, b->headers[i].value.len);
    for (size_t i = 0; i < d->header_count; i++)
        mark = mix(s, mark, d->headers[i].value.data, d->headers[i].value.len);
    return mark;
}

static uint64_t mark_reported(const struct kafka_suspects *s, const rd_kafka_message_t *m) {
    uint64_t mark = mix(s, mix(s, 0, m->payload, m->len), m->key, m->key_len);
    rd_kafka_headers_t *headers;
    if (rd_kafka_message_headers(m, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return mark;
    const char *name;
    const void *value;
    size_t len;
    for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &len) == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        mark = mix(s, mark, value, len);
    return mark;
}

/* Suspects. -------------------------------------------------------------- */

static bool is_about_size(rd_kafka_resp_err_t err) {
    return err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE || err == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE;
}

static void end_batch(struct kafka_suspects *s) {
    if (s->batch_bytes > 0 && (s->least_bytes == 0 || s->batch_bytes < s->least_bytes))
        s->least_bytes = s->batch_bytes;
    s->batch_bytes = 0;
}

/* Keys and headers don't count: it only has to become less. */
static void weigh(struct kafka_suspects *s, const rd_kafka_message_t *m) {
    if (m->rkt != s->batch_topic || m->partition != s->batch_partition)
        end_batch(s);
    s->batch_topic = m->rkt;
    s->batch_partition = m->partition;
    s->batch_bytes += (int64_t)m->len;
}

void kafka_suspects_note(struct kafka_suspects *s, const rd_kafka_message_t *m) {
    s->count++;
    s->last_tag = (uint64_t)(uintptr_t)m->_private;
    s->last_mark = mark_reported(s, m);
    error_set(&s->last, ERROR_PERMANENT, "topic %s: %s (%s); its value is %zu bytes",
              m->rkt ? rd_kafka_topic_name(m->rkt) : "?", rd_kafka_err2str(m->err), rd_kafka_err2name(m->err), m->len);
    kafka_careful_suspect(s->careful, s->last_mark);
    if (is_about_size(m->err))
        weigh(s, m);
}

/* A batch of one is known by its report, and so is what went alone. */
bool kafka_suspects_guilty(struct kafka_suspects *s, uint64_t *ret_tag) {
    end_batch(s);
    if (s->count > 1)
        s->too_large_bytes = s->least_bytes;
    if (s->count != 1)
        return false;
    s->too_large_bytes = 0;
    kafka_careful_clear(s->careful, s->last_mark);
    *ret_tag = s->last_tag;
    return true;
}

void kafka_suspects_sent_alone(struct kafka_suspects *s, const struct kafka_message *m) {
    s->alone_mark = mark_sent(s, m);
}

bool kafka_suspects_cleared(struct kafka_suspects *s, int64_t *ret_bytes) {
    kafka_careful_clear(s->careful, s->alone_mark);
    if (kafka_suspects_alone(s) || s->too_large_bytes == 0)
        return false;
    *ret_bytes = s->too_large_bytes;
    s->too_large_bytes = 0;
    return true;
}
