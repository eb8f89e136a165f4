/* rabbitmq_refusals: pure: exchanges for which the broker closed the channel, until they are asked for again */
#include "sink/rabbitmq_refusals.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

enum { CODE_DENIED = 403, CODE_MISSING = 404 }; /* AMQP 0-9-1 1.2, access-refused and not-found */

/* What RabbitMQ says (rabbit_exchange, rabbit_channel, rabbit_access_control):
 *
 *   NOT_FOUND - no exchange 'NAME' in vhost '/'
 *   ACCESS_REFUSED - access to exchange 'NAME' in vhost '/' refused for user 'u'
 *   ACCESS_REFUSED - cannot publish to internal exchange 'NAME' in vhost '/'
 *
 * cut after 252 bytes and ended by "..." (rabbit_binary_generator). A name may
 * hold quotes, so its end is looked for from behind, with the vhost. */
#define BEFORE "exchange '"
#define CUT "..."

static const char *find_last(struct span in, const char *what, size_t what_len) {
    const char *last = NULL;
    for (size_t at = 0; at + what_len <= in.len; at++)
        if (memcmp(in.data + at, what, what_len) == 0)
            last = in.data + at;
    return last;
}

static bool parse_name(struct span text, struct span vhost, struct span *ret_name, bool *ret_whole) {
    const char *start = memmem(text.data, text.len, BEFORE, strlen(BEFORE));
    if (!start)
        return false;
    start += strlen(BEFORE);
    struct span rest = {start, (size_t)(text.data + text.len - start)};

    char after[REFUSAL_NAME_MAX + 16];
    int after_len = snprintf(after, sizeof after, "' in vhost '%.*s'", SPAN_ARGS(vhost));
    const char *end = NULL;
    if (after_len > 0 && (size_t)after_len < sizeof after)
        end = find_last(rest, after, (size_t)after_len);
    *ret_whole = end != NULL;
    if (!end && rest.len > strlen(CUT) && memcmp(rest.data + rest.len - strlen(CUT), CUT, strlen(CUT)) == 0)
        end = rest.data + rest.len - strlen(CUT);
    if (!end)
        return false;
    *ret_name = (struct span){start, (size_t)(end - start)};
    return ret_name->len <= REFUSAL_NAME_MAX;
}

static struct span name_of(const struct rabbitmq_refusal *item) {
    return (struct span){item->name, item->name_len};
}

static bool begins(struct span text, struct span with) {
    return text.len >= with.len && memcmp(text.data, with.data, with.len) == 0;
}

static bool fits(const struct rabbitmq_refusal *item, struct span exchange) {
    return item->whole ? span_equal(name_of(item), exchange) : begins(exchange, name_of(item));
}

static void set_name(struct rabbitmq_refusal *item, struct span name) {
    ASSERT(name.len <= REFUSAL_NAME_MAX);
    memcpy(item->name, name.data, name.len);
    item->name[name.len] = '\0';
    item->name_len = name.len;
}

bool rabbitmq_refusals_learn(struct rabbitmq_refusals *r, int code, struct span text, struct span vhost, int64_t now_us) {
    struct span name;
    bool whole;
    if ((code != CODE_DENIED && code != CODE_MISSING) || !parse_name(text, vhost, &name, &whole))
        return false;
    for (uint32_t i = 0; i < r->count; i++)
        if (fits(&r->items[i], name))
            return false;
    if (r->count == REFUSALS_MAX)
        return false;
    struct rabbitmq_refusal *item = &r->items[r->count++];
    *item = (struct rabbitmq_refusal){.whole = whole, .denied = code == CODE_DENIED};
    item->again_us = now_us + (item->denied ? REFUSAL_DENIED_US : REFUSAL_PROBE_US);
    set_name(item, name);
    snprintf(item->reason, sizeof item->reason, "%.*s", SPAN_ARGS(text));
    return true;
}

const struct rabbitmq_refusal *rabbitmq_refusals_find(struct rabbitmq_refusals *r, struct span exchange) {
    for (uint32_t i = 0; i < r->count; i++) {
        struct rabbitmq_refusal *item = &r->items[i];
        if (!fits(item, exchange))
            continue;
        if (!item->whole && exchange.len <= REFUSAL_NAME_MAX) {
            set_name(item, exchange);
            item->whole = true;
        }
        return item;
    }
    return NULL;
}

bool rabbitmq_refusal_due(const struct rabbitmq_refusal *item, int64_t now_us) {
    return !item->denied && item->again_us <= now_us;
}

int64_t rabbitmq_refusals_deadline_us(const struct rabbitmq_refusals *r) {
    int64_t first_us = CLOCK_NEVER;
    for (uint32_t i = 0; i < r->count; i++)
        if (r->items[i].again_us < first_us)
            first_us = r->items[i].again_us;
    return first_us;
}

static void forget(struct rabbitmq_refusals *r, uint32_t i) {
    ASSERT(i < r->count);
    r->items[i] = r->items[--r->count];
}

bool rabbitmq_refusals_due(struct rabbitmq_refusals *r, int64_t now_us) {
    bool due = false;
    for (uint32_t i = r->count; i-- > 0;) {
        if (r->items[i].again_us > now_us)
            continue;
        if (r->items[i].denied || !r->items[i].whole)
            forget(r, i); /* to be tried again, at the price of a channel */
        else
            due = true;
    }
    return due;
}

void rabbitmq_refusals_found(struct rabbitmq_refusals *r, struct span exchange) {
    for (uint32_t i = 0; i < r->count; i++)
        if (!r->items[i].denied && fits(&r->items[i], exchange))
            return forget(r, i);
}

void rabbitmq_refusals_put_off(struct rabbitmq_refusals *r, int64_t now_us, bool failed) {
    for (uint32_t i = 0; i < r->count; i++)
        if (!r->items[i].denied && r->items[i].again_us <= now_us)
            r->items[i].again_us = now_us + (failed ? REFUSAL_PROBE_FAILED_US : REFUSAL_PROBE_US);
}
