/* kafka_suspects: reports that say no: whom they blame, and who of a refused batch it was */
#include "sink/kafka_suspects.h"

#include <stdio.h>

#include "base/log.h"
#include "sink/kafka_producer.h"

/* Of a batch that was too large when it is not known for what: few steps lead to any limit. */
#define SMALLER 16

int kafka_suspects_init(struct kafka_suspects *s, uint32_t capacity) {
    *s = (struct kafka_suspects){.key = hash_key_random()};
    return kafka_careful_new(capacity, &s->careful);
}

void kafka_suspects_done(struct kafka_suspects *s) {
    kafka_careful_free(s->careful);
}

void kafka_suspects_reset(struct kafka_suspects *s) {
    s->single = kafka_suspects_any(s);
    s->count = 0;
    s->batch_topic = NULL;
    s->batch_bytes = 0;
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

static uint64_t mark_of(const struct kafka_suspects *s, const rd_kafka_message_t *m) {
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
    if (s->batch_bytes > 0 && (s->refused_bytes == 0 || s->batch_bytes < s->refused_bytes))
        s->refused_bytes = s->batch_bytes;
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

static void begin_search(struct kafka_suspects *s, const rd_kafka_message_t *m, const struct kafka_topic *topic,
                         int64_t now_us) {
    s->total = 0;
    s->since_us = now_us;
    snprintf(s->topic, sizeof s->topic, "%s", kafka_producer_topic_of(m));
    s->word = rd_kafka_err2str(m->err);
    s->limit = topic && topic->described ? topic->max_message_bytes : 0;
    s->same = true;
    s->refused_bytes = 0;
    s->found = false;
}

void kafka_suspects_note(struct kafka_suspects *s, const rd_kafka_message_t *m, const struct kafka_topic *topic,
                         uint32_t under_way, int64_t now_us) {
    uint64_t mark = mark_of(s, m);
    if (!kafka_suspects_any(s))
        begin_search(s, m, topic, now_us);
    s->same = s->same && is_about_size(m->err) && strcmp(s->topic, kafka_producer_topic_of(m)) == 0;
    if (s->count++ == 0) {
        s->first_tag = (uint64_t)(uintptr_t)m->_private;
        s->first_mark = mark;
        error_set(&s->first, ERROR_PERMANENT, "topic %s: %s (%s); its value is %zu bytes", kafka_producer_topic_of(m),
                  rd_kafka_err2str(m->err), rd_kafka_err2name(m->err), m->len);
    }
    if (s->single)
        kafka_careful_clear(s->careful, mark); /* it may be one already */
    else
        s->total++;
    kafka_careful_suspect(s->careful, mark, under_way);
    if (is_about_size(m->err))
        weigh(s, m);
}

bool kafka_suspects_guilty(struct kafka_suspects *s, uint64_t *ret_tag) {
    end_batch(s);
    if (s->count == 0 || (s->count > 1 && !s->single))
        return false;
    s->found = true;
    kafka_careful_clear(s->careful, s->first_mark);
    *ret_tag = s->first_tag;
    return true;
}

bool kafka_suspects_any(const struct kafka_suspects *s) {
    return kafka_careful_left(s->careful) > 0;
}

bool kafka_suspects_cleared(struct kafka_suspects *s, const rd_kafka_message_t *m) {
    kafka_careful_clear(s->careful, mark_of(s, m));
    return !kafka_suspects_any(s);
}

int64_t kafka_suspects_batch_bytes(const struct kafka_suspects *s) {
    if (s->refused_bytes == 0 || (s->found && s->limit > 0))
        return 0;
    return s->refused_bytes > SMALLER ? s->refused_bytes / SMALLER : 1;
}

void kafka_suspects_explain(struct kafka_suspects *s, const struct kafka_topic *topic) {
    if (!kafka_suspects_any(s) || !s->same || topic->state != KAFKA_TOPIC_FIT || !topic->described)
        return;
    if (s->limit == 0 || topic->max_message_bytes < s->limit)
        kafka_careful_forget(s->careful);
}

void kafka_suspects_describe(const struct kafka_suspects *s, char *text, size_t size) {
    uint32_t left = kafka_careful_left(s->careful);
    snprintf(text, size, "topic %s: looking for the message for which a batch was refused (%s): %u of %u went through", s->topic,
             s->word, left < s->total ? s->total - left : 0, s->total);
}
