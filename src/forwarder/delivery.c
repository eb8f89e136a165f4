/* delivery: the way of one event through a forwarder: row -> event -> rules -> sink -> outcome */
#include "forwarder/delivery.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limit.h"
#include "base/log.h"
#include "flow/view.h"
#include "forwarder/outlet.h"

/* Attributes beside the data: their texts come from columns of any length. */
#define EVENT_ATTRIBUTES_MAX_BYTES (4 * 1024 * 1024)
#define EVENT_KEEP_BYTES_LEAST 1024
#define REASON_MAX 512
/* An event that only an operator can free is named, whatever else goes on; a
 * broker's daily refusals are counted instead. */
#define HELD_INTERVAL_US (10 * CLOCK_US_PER_S)
#define HELD_BURST 100
#define ANSWER_INTERVAL_US (5 * CLOCK_US_PER_S)
#define ANSWER_BURST 1

struct slot {
    struct event event;
    uint16_t destinations[RULE_DESTINATIONS_MAX];
    uint16_t destination_count;
    uint16_t failed; /* which of them is spoken of in reason */
    char *reason; /* REASON_MAX bytes once it was needed; "" otherwise NULL */
};

struct delivery {
    const struct forwarder_options *options;
    struct flow *flow;
    struct forwarder_counts *counts;
    struct forwarder_times *times;
    int64_t *handed_us; /* to the sink, by the number in the token */
    int64_t wall_us;    /* of this turn: an event's whole way is told by it */
    struct outlet outlet;
    struct sink *sink; /* the outlet's */
    struct slot *slots;
    uint32_t slot_count;
    size_t keep_bytes;
    struct hash_key hash_key;
    struct span order_attribute;
    struct destination destination; /* scratch: filled for one submit */
    char described[512];
    bool sink_up;
    struct limit limits[SINK_REJECTED + 1]; /* by outcome: one storm doesn't hide another */
    struct limit verdict_limit;
};

int delivery_new(const struct forwarder_options *o, struct flow *flow, struct guard *guard,
                 struct forwarder_counts *counts, struct forwarder_times *times, uint64_t seed,
                 struct delivery **ret_delivery) {
    struct delivery *d = calloc(1, sizeof *d);
    if (!d)
        return -ENOMEM;
    d->options = o;
    d->flow = flow;
    d->counts = counts;
    d->times = times;
    d->hash_key = hash_key_random();
    d->order_attribute = span_of(o->order_attribute);
    destination_init(&d->destination);
    d->slot_count = o->flow.window_events;
    d->keep_bytes = (size_t)(o->flow.window_bytes / o->flow.window_events);
    if (d->keep_bytes < EVENT_KEEP_BYTES_LEAST)
        d->keep_bytes = EVENT_KEEP_BYTES_LEAST;
    d->slots = calloc(d->slot_count, sizeof *d->slots);
    d->handed_us = calloc(o->flow.sink_in_flight, sizeof *d->handed_us);
    int r = d->slots && d->handed_us ? outlet_open(&d->outlet, o, guard, seed) : -ENOMEM;
    if (r < 0) {
        delivery_free(d);
        return r;
    }
    d->sink = d->outlet.sink;
    size_t max_bytes = (size_t)o->row.max_message_bytes + EVENT_ATTRIBUTES_MAX_BYTES;
    for (uint32_t i = 0; i < d->slot_count; i++)
        event_init(&d->slots[i].event, max_bytes);
    *ret_delivery = d;
    return 0;
}

void delivery_free(struct delivery *d) {
    if (!d)
        return;
    outlet_close(&d->outlet);
    for (uint32_t i = 0; d->slots && i < d->slot_count; i++) {
        event_done(&d->slots[i].event);
        free(d->slots[i].reason);
    }
    free(d->handed_us);
    free(d->slots);
    destination_done(&d->destination);
    free(d);
}

static struct log_fields fields_of(const struct delivery *d, const struct slot *s, char position[24], char id[256]) {
    snprintf(position, 24, "%" PRId64, s->event.position);
    snprintf(id, 256, "%.*s", SPAN_ARGS(event_core_value(&s->event, EVENT_ID)));
    return (struct log_fields){.forwarder = d->options->name, .position = position, .event_id = id};
}

static void set_reason(struct slot *s, const char *text) {
    if (!s->reason)
        s->reason = malloc(REASON_MAX);
    if (s->reason)
        snprintf(s->reason, REASON_MAX, "%s", text);
}

static void clear_reason(struct slot *s) {
    if (s->reason)
        s->reason[0] = '\0';
}

/* Rows. ----------------------------------------------------------------- */

static void say_held(struct delivery *d, const struct slot *s, const char *why, int64_t now_us) {
    uint64_t left_out;
    if (!limit_allows(&d->verdict_limit, now_us, HELD_INTERVAL_US, HELD_BURST, &left_out))
        return;
    char position[24], id[256];
    struct log_fields fields = fields_of(d, s, position, id);
    fields.error = why;
    log_say(LOG_LEVEL_ERR, &fields, "event at position %s (id %s) can't be delivered as it is: %s; holding its ordering key%s",
            position, id, why, left_out ? " (others before it were not listed)" : "");
}

static enum flow_verdict reject(struct delivery *d, struct slot *s, const char *why, int64_t now_us) {
    d->counts->rejected++;
    set_reason(s, why);
    say_held(d, s, why, now_us);
    return FLOW_HOLD;
}

static enum flow_verdict unmatched(struct delivery *d, struct slot *s, int64_t now_us) {
    d->counts->unmatched++;
    if (d->options->on_unmatched == FORWARDER_POLICY_SKIP)
        return FLOW_SKIP;
    char why[REASON_MAX];
    size_t rules = rule_set_count(d->options->rules);
    snprintf(why, sizeof why, "no rule matches type %.*s (%zu rule%s tried; on_unmatched: hold)",
             SPAN_ARGS(event_core_value(&s->event, EVENT_TYPE)), rules, rules == 1 ? "" : "s");
    set_reason(s, why);
    say_held(d, s, why, now_us);
    return FLOW_HOLD;
}

static enum flow_verdict resolve(struct delivery *d, struct slot *s, int64_t now_us) {
    struct rule_result result;
    struct error error;
    rule_resolve(d->options->rules, &s->event, &result, &error);
    switch (result.outcome) {
    case RULE_DESTINATIONS:
        s->destination_count = (uint16_t)result.count;
        memcpy(s->destinations, result.destinations, result.count * sizeof result.destinations[0]);
        return FLOW_DELIVER;
    case RULE_SKIPPED:
        d->counts->skipped++;
        return FLOW_SKIP;
    case RULE_UNMATCHED:
        return unmatched(d, s, now_us);
    case RULE_REJECTED:
        return reject(d, s, error.text, now_us);
    }
    return FLOW_HOLD;
}

int delivery_row(struct delivery *d, const struct row *row, struct flow_mark mark, int64_t now_us) {
    uint32_t number = flow_next_slot(d->flow);
    ASSERT(number < d->slot_count);
    struct slot *s = &d->slots[number];
    event_clear(&s->event, d->keep_bytes);
    clear_reason(s);
    s->destination_count = s->failed = 0;
    d->counts->read++;

    struct error error;
    int r = row_to_event(row, &d->options->row, &s->event, &error);
    if (r == -EMSGSIZE) {
        error_set(&error, ERROR_PERMANENT, "its attributes are over %d bytes together", EVENT_ATTRIBUTES_MAX_BYTES);
        r = ROW_E_REJECTED;
    }
    if (r < 0)
        return r;
    if (r == 0 && !filter_match(d->options->filter, &s->event)) {
        d->counts->filtered++;
        flow_mark(d->flow, now_us, mark, 1);
        return 0;
    }
    struct flow_event fact = {.mark = mark};
    fact.verdict = r == ROW_E_REJECTED ? reject(d, s, error.text, now_us) : resolve(d, s, now_us);
    fact.destinations = fact.verdict == FLOW_DELIVER ? s->destination_count : 0;
    fact.bytes = event_bytes(&s->event);
    struct span key = event_get(&s->event, d->order_attribute);
    fact.keyed = !span_absent(key);
    fact.key = fact.keyed ? hash_bytes(&d->hash_key, key) : 0;
    flow_add(d->flow, now_us, &fact);
    return 0;
}

/* Submits and outcomes. ------------------------------------------------- */

static const char *describe(struct delivery *d, const struct destination *to) {
    const struct destination_field *fields = d->options->sink_kind->fields;
    size_t len = 0;
    d->described[0] = '\0';
    for (size_t i = 0; fields && fields[i].key && i < DESTINATION_FIELDS_MAX; i++) {
        if (span_absent(to->fields[i]) || len >= sizeof d->described)
            continue;
        len += (size_t)snprintf(d->described + len, sizeof d->described - len, "%s%s %.*s", len ? ", " : "", fields[i].key,
                                SPAN_ARGS(to->fields[i]));
    }
    return d->described;
}

static bool render(struct delivery *d, const struct slot *s, uint16_t destination) {
    return rule_render(d->options->rules, s->destinations[destination], &s->event, &d->destination) == 0;
}

const char *delivery_describe(struct delivery *d, uint32_t slot) {
    const struct slot *s = &d->slots[slot];
    if (s->destination_count == 0 || !render(d, s, s->failed))
        return "";
    return describe(d, &d->destination);
}

static const char *verb_of(enum sink_outcome_kind kind) {
    switch (kind) {
    case SINK_CONFIRMED:
        return "confirmed";
    case SINK_NACKED:
        return "refused";
    case SINK_RETURNED:
        return "returned";
    case SINK_LOST:
        return "lost";
    case SINK_REJECTED:
        return "can't take";
    }
    return "answered";
}

/* The decision in the sentence: what the broker said, and what we do now. */
static void say_outcome(struct delivery *d, uint32_t slot, enum sink_outcome_kind kind, const char *reason, int64_t now_us) {
    uint64_t left_out;
    bool for_good = kind == SINK_REJECTED;
    if (!limit_allows(&d->limits[kind], now_us, for_good ? HELD_INTERVAL_US : ANSWER_INTERVAL_US,
                      for_good ? HELD_BURST : ANSWER_BURST, &left_out))
        return;
    const struct slot *s = &d->slots[slot];
    uint32_t attempts = 0;
    int64_t retry_us = now_us;
    enum flow_hold hold = flow_slot_hold(d->flow, slot, &attempts, &retry_us);
    char position[24], id[256], next[96], more[64] = "";
    struct log_fields fields = fields_of(d, s, position, id);
    fields.destination = delivery_describe(d, slot);
    fields.error = reason;
    if (hold == FLOW_HOLD_RETRY)
        snprintf(next, sizeof next, "attempt %" PRIu32 ", trying again in %.1f s", attempts, (double)(retry_us - now_us) / 1e6);
    else
        snprintf(next, sizeof next, "held until an operator acts");
    if (left_out)
        snprintf(more, sizeof more, " (%" PRIu64 " more such answers since the last message)", left_out);
    log_say(for_good ? LOG_LEVEL_ERR : LOG_LEVEL_WARNING, &fields,
            "broker '%s' %s event at position %s (id %s): %s: holding its ordering key, %s%s", d->options->sink_connection_name,
            verb_of(kind), position, id, reason, next, more);
}

static void say_each(struct delivery *d, uint32_t slot, enum sink_outcome_kind kind) {
    char position[24], id[256];
    struct log_fields fields = fields_of(d, &d->slots[slot], position, id);
    fields.destination = delivery_describe(d, slot);
    log_say(LOG_LEVEL_DEBUG, &fields, "event at position %s (id %s), %s: %s", position, id, fields.destination, verb_of(kind));
}

static enum flow_outcome flow_outcome_of(enum sink_outcome_kind kind) {
    switch (kind) {
    case SINK_CONFIRMED:
        return FLOW_CONFIRMED;
    case SINK_NACKED:
    case SINK_RETURNED:
        return FLOW_RETRY;
    case SINK_LOST:
        return FLOW_LOST;
    case SINK_REJECTED:
        return FLOW_REJECTED;
    }
    return FLOW_LOST;
}

static void count_outcome(struct forwarder_counts *counts, enum sink_outcome_kind kind) {
    switch (kind) {
    case SINK_CONFIRMED:
        counts->confirmed++;
        return;
    case SINK_NACKED:
        counts->nacked++;
        break;
    case SINK_RETURNED:
        counts->returned++;
        break;
    case SINK_LOST:
        break;
    case SINK_REJECTED:
        counts->rejected++;
        return;
    }
    counts->retried++;
}

static uint32_t number_of(const struct delivery *d, uint64_t token) {
    uint32_t number = (uint32_t)token;
    ASSERT(number < d->options->flow.sink_in_flight);
    return number;
}

static void note_times(struct delivery *d, uint64_t token, const struct event *e, int64_t now_us) {
    histogram_add(&d->times->confirm, now_us - d->handed_us[number_of(d, token)]);
    if (e->recorded_us != INT64_MIN)
        histogram_add(&d->times->delivery, d->wall_us - e->recorded_us);
}

static void settle(struct delivery *d, uint64_t token, enum sink_outcome_kind kind, const char *reason, int64_t now_us) {
    uint32_t slot;
    uint16_t destination;
    /* An outcome of before a reload belongs to no slot any more. */
    bool known = flow_whose(d->flow, token, &slot, &destination);
    if (known && kind != SINK_CONFIRMED) {
        d->slots[slot].failed = destination;
        set_reason(&d->slots[slot], reason ? reason : verb_of(kind));
    }
    if (known && kind == SINK_CONFIRMED)
        note_times(d, token, &d->slots[slot].event, now_us);
    if (known && log_wants(LOG_LEVEL_DEBUG))
        say_each(d, slot, kind);
    if (flow_outcome(d->flow, now_us, token, flow_outcome_of(kind), NULL) && kind != SINK_CONFIRMED && kind != SINK_LOST)
        say_outcome(d, slot, kind, delivery_reason(d, slot), now_us);
}

void delivery_submit(struct delivery *d, const struct flow_want *want, int64_t now_us) {
    struct slot *s = &d->slots[want->slot];
    struct error error;
    int r = rule_render(d->options->rules, s->destinations[want->destination], &s->event, &d->destination);
    if (r == -EMSGSIZE) {
        error_set(&error, ERROR_PERMANENT, "its destination is over %d bytes", DESTINATION_BYTES_MAX);
        r = SINK_E_REJECTED;
    } else if (r == 0) {
        r = d->sink->kind->submit(d->sink, &s->event, &d->destination, want->token, now_us, &error);
    }
    switch (r) {
    case 0:
        d->counts->published++;
        d->handed_us[number_of(d, want->token)] = now_us;
        return;
    case SINK_E_REJECTED:
        d->counts->rejected++;
        settle(d, want->token, SINK_REJECTED, error.text, now_us);
        return;
    case SINK_E_RETRY: /* like a refusal by the broker, but nothing was sent that it could have counted */
        d->counts->retried++;
        settle(d, want->token, SINK_NACKED, error.text, now_us);
        return;
    default: /* busy, down, or no memory just now */
        flow_not_taken(d->flow, now_us, want->token);
        flow_sink_ready(d->flow, now_us, false);
        return;
    }
}

void delivery_flush(struct delivery *d) {
    d->sink->kind->flush(d->sink);
}

static void say_notices(struct delivery *d) {
    struct sink_notice notice;
    while (d->sink->kind->notice && d->sink->kind->notice(d->sink, &notice)) {
        struct log_fields fields = {.forwarder = d->options->name};
        log_say(notice.warning ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, &fields, "connection '%s': %s",
                d->options->sink_connection_name, notice.text);
    }
}

void delivery_work(struct delivery *d, int64_t now_us) {
    const struct sink_kind *kind = d->sink->kind;
    kind->work(d->sink, now_us);
    d->wall_us = clock_wall_us();
    struct sink_outcome outcome;
    while (kind->next(d->sink, &outcome)) {
        count_outcome(d->counts, outcome.kind);
        settle(d, outcome.token, outcome.kind, outcome.reason, now_us);
    }
    say_notices(d);

    /* Down only after its tokens are lost (flow.h); up and down within one turn can't be: connecting takes one. */
    struct sink_view view;
    kind->view(d->sink, &view);
    if (view.connected != d->sink_up) {
        d->sink_up = view.connected;
        if (d->sink_up)
            flow_sink_up(d->flow, now_us);
        else
            flow_sink_down(d->flow, now_us);
    }
    if (d->sink_up)
        flow_sink_ready(d->flow, now_us, kind->ready(d->sink));
}

void delivery_renew(struct delivery *d, int64_t now_us, const char *reason) {
    d->sink->kind->renew(d->sink, now_us, reason);
}

void delivery_fence(struct delivery *d, int64_t now_us, const char *reason) {
    if (d->sink->kind->fence)
        d->sink->kind->fence(d->sink, now_us, reason);
}

void delivery_lead(struct delivery *d, int64_t now_us, bool leads) {
    if (d->sink->kind->lead)
        d->sink->kind->lead(d->sink, now_us, leads);
}

int delivery_poll(struct delivery *d, struct pollfd fds[SINK_POLL_MAX]) {
    return d->sink->kind->poll(d->sink, fds);
}

int64_t delivery_deadline_us(const struct delivery *d) {
    return d->sink->kind->deadline(d->sink);
}

void delivery_view(const struct delivery *d, struct sink_view *ret_view) {
    d->sink->kind->view(d->sink, ret_view);
}

const struct event *delivery_event(const struct delivery *d, uint32_t slot) {
    return &d->slots[slot].event;
}

const char *delivery_reason(const struct delivery *d, uint32_t slot) {
    return d->slots[slot].reason ? d->slots[slot].reason : "";
}
