/* rabbitmq_frame: AMQP frames as bytes, by the library's encoder */
#include "sink/rabbitmq_frame.h"

#include <endian.h>
#include <errno.h>

enum {
    BEFORE_BYTES = 7,
    METHOD_ROOM = 1024,   /* of the methods sent here: short strings only */
    CONTENT_BYTES = 12,   /* class, weight, body size: before a header's properties */
};
_Static_assert(BEFORE_BYTES + 1 == RABBITMQ_FRAME_OVERHEAD, "one octet ends a frame");

static void put16(char *at, uint16_t value) {
    value = htobe16(value);
    memcpy(at, &value, sizeof value);
}

static void put32(char *at, uint32_t value) {
    value = htobe32(value);
    memcpy(at, &value, sizeof value);
}

static void put64(char *at, uint64_t value) {
    value = htobe64(value);
    memcpy(at, &value, sizeof value);
}

/* Room was reserved; the payload stands at its place already. */
static void close_frame(struct buf *out, uint8_t type, amqp_channel_t channel, size_t payload) {
    char *frame = out->data + out->len;
    frame[0] = (char)type;
    put16(frame + 1, channel);
    put32(frame + 3, (uint32_t)payload);
    frame[BEFORE_BYTES + payload] = (char)AMQP_FRAME_END;
    out->len += RABBITMQ_FRAME_OVERHEAD + payload;
}

/* What is free behind the frame's first `taken` bytes, without its end. */
static amqp_bytes_t room_in(const struct buf *out, size_t taken) {
    size_t at = out->len + BEFORE_BYTES + taken;
    return (amqp_bytes_t){.len = out->capacity - at - 1, .bytes = out->data + at};
}

static int put_method(struct buf *out, amqp_channel_t channel, amqp_method_number_t id, void *decoded) {
    int len = amqp_encode_method(id, decoded, room_in(out, 4));
    if (len < 0)
        return -EMSGSIZE;
    put32(out->data + out->len + BEFORE_BYTES, id);
    close_frame(out, AMQP_FRAME_METHOD, channel, 4 + (size_t)len);
    return 0;
}

static int put_header(struct buf *out, amqp_channel_t channel, amqp_basic_properties_t *properties, size_t body_len) {
    int len = amqp_encode_properties(AMQP_BASIC_CLASS, properties, room_in(out, CONTENT_BYTES));
    if (len < 0)
        return -EMSGSIZE;
    char *payload = out->data + out->len + BEFORE_BYTES;
    put16(payload, AMQP_BASIC_CLASS);
    put16(payload + 2, 0);
    put64(payload + 4, body_len);
    close_frame(out, AMQP_FRAME_HEADER, channel, CONTENT_BYTES + (size_t)len);
    return 0;
}

static void put_body(struct buf *out, amqp_channel_t channel, amqp_bytes_t body, size_t frame_max) {
    const size_t most = frame_max - RABBITMQ_FRAME_OVERHEAD;
    for (size_t at = 0; at < body.len;) {
        size_t len = body.len - at < most ? body.len - at : most;
        memcpy(out->data + out->len + BEFORE_BYTES, (const char *)body.bytes + at, len);
        close_frame(out, AMQP_FRAME_BODY, channel, len);
        at += len;
    }
}

int rabbitmq_frame_method(struct buf *out, amqp_channel_t channel, amqp_method_number_t id, void *decoded) {
    int r = buf_reserve(out, METHOD_ROOM);
    return r < 0 ? r : put_method(out, channel, id, decoded);
}

int rabbitmq_frame_heartbeat(struct buf *out) {
    int r = buf_reserve(out, RABBITMQ_FRAME_OVERHEAD);
    if (r == 0)
        close_frame(out, AMQP_FRAME_HEARTBEAT, 0, 0);
    return r;
}

int rabbitmq_frame_message(struct buf *out, amqp_channel_t channel, const struct rabbitmq_message *m, size_t frame_max) {
    size_t body_frames = m->body.len / (frame_max - RABBITMQ_FRAME_OVERHEAD) + 1;
    int r = buf_reserve(out, m->head_bytes + m->body.len + body_frames * RABBITMQ_FRAME_OVERHEAD);
    if (r < 0)
        return r;
    size_t before = out->len;
    amqp_basic_publish_t method = m->method;
    amqp_basic_properties_t properties = m->properties;
    r = put_method(out, channel, AMQP_BASIC_PUBLISH_METHOD, &method);
    if (r == 0)
        r = put_header(out, channel, &properties, m->body.len);
    if (r < 0)
        out->len = before;
    else
        put_body(out, channel, m->body, frame_max);
    return r;
}
