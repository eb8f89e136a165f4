/* rabbitmq_returns: messages that came back: which one it was, and why */
#include "sink/rabbitmq_returns.h"

#include <errno.h>
#include <stdio.h>

#include "sink/rabbitmq_message.h"

/* Reasons kept at once, by serial; a page is touched only when one is written. */
enum { KEPT_MAX = 512, REASON_MAX = 640 };

struct kept {
    uint64_t serial; /* 0: none */
    char reason[REASON_MAX];
};

struct rabbitmq_returns {
    char reason[REASON_MAX]; /* of the method whose header is still to come */
    struct kept kept[KEPT_MAX];
};

int rabbitmq_returns_new(struct rabbitmq_returns **ret_returns) {
    *ret_returns = calloc(1, sizeof **ret_returns);
    return *ret_returns ? 0 : -ENOMEM;
}

void rabbitmq_returns_free(struct rabbitmq_returns *r) {
    free(r);
}

void rabbitmq_returns_method(struct rabbitmq_returns *r, const amqp_basic_return_t *method) {
    struct span text = {method->reply_text.bytes, method->reply_text.len};
    struct span exchange = {method->exchange.bytes, method->exchange.len};
    struct span key = {method->routing_key.bytes, method->routing_key.len};
    snprintf(r->reason, sizeof r->reason, "%.*s (%u), exchange '%.*s', routing key '%.*s'", SPAN_ARGS(text),
             method->reply_code, SPAN_ARGS(exchange), SPAN_ARGS(key));
}

int rabbitmq_returns_header(struct rabbitmq_returns *r, const amqp_basic_properties_t *properties, uint64_t *ret_serial) {
    uint64_t serial;
    int found = rabbitmq_message_serial(properties, &serial);
    if (found < 0)
        return found;
    struct kept *kept = &r->kept[serial % KEPT_MAX];
    kept->serial = serial;
    memcpy(kept->reason, r->reason, sizeof kept->reason);
    *ret_serial = serial;
    return 0;
}

const char *rabbitmq_returns_reason(const struct rabbitmq_returns *r, uint64_t serial) {
    const struct kept *kept = &r->kept[serial % KEPT_MAX];
    return kept->serial == serial ? kept->reason : "returned: it could not be routed";
}
