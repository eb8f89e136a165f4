/* kafka_rig: librdkafka's mock cluster, and a small forwarder before the sink, for what it does with keys and failures */
#include "unit/kafka_rig.h"

#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"

/* The cluster. ----------------------------------------------------------- */

void kafka_rig_set(struct kafka_rig *k, const char *name, const char *value) {
    struct option_properties *all = &k->connection.properties;
    ck_assert_uint_lt(all->count, ARRAY_LENGTH(k->properties));
    all->items[all->count++] = (struct option_property){
        .name = (char *)(uintptr_t)name,
        .value = {.kind = SECRET_INLINE, .value = (char *)(uintptr_t)value},
    };
}

/* proc(5): a directory for each. */
static uint64_t count_threads(void) {
    struct stat tasks;
    ck_assert_int_eq(stat("/proc/self/task", &tasks), 0);
    return (uint64_t)tasks.st_nlink - 2;
}

void kafka_rig_open(struct kafka_rig *k, int brokers, uint32_t in_flight) {
    *k = (struct kafka_rig){
        .options = {.ack_timeout_us = 5 * CLOCK_US_PER_S, .max_message_bytes = 100000},
        .own = {.partition = KAFKA_PARTITION_BY_KEY},
    };
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "0", NULL, 0);
    k->handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    ck_assert_msg(k->handle, "%s", why);
    k->mock = rd_kafka_mock_cluster_new(k->handle, brokers);
    ck_assert_ptr_nonnull(k->mock);
    ck_assert_int_eq(rd_kafka_mock_topic_create(k->mock, KAFKA_RIG_TOPIC, KAFKA_RIG_PARTITIONS, brokers), 0);
    k->connection.properties.items = k->properties;
    kafka_rig_set(k, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(k->mock));
    destination_init(&k->destination);
    k->destination.fields[KAFKA_TOPIC] = SPAN_LITERAL(KAFKA_RIG_TOPIC);
    k->destination.literal = 1U << KAFKA_TOPIC;
    k->destination.options = &k->own;
    k->contract = (struct contract){
        .kind = sink_kind_find(SPAN_LITERAL("kafka")),
        .connection = &k->connection,
        .options = &k->options,
        .destination = &k->destination,
        .in_flight = in_flight,
    };
    k->threads = count_threads();
}

void kafka_rig_close(struct kafka_rig *k) {
    int64_t deadline_us = clock_now_us() + 20 * CLOCK_US_PER_S;
    while (count_threads() > k->threads && clock_now_us() < deadline_us)
        poll(NULL, 0, 10);
    destination_done(&k->destination);
    rd_kafka_mock_cluster_destroy(k->mock);
    rd_kafka_destroy(k->handle);
}

/* The consumer. ---------------------------------------------------------- */

static rd_kafka_t *open_consumer(struct kafka_rig *k) {
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(k->mock), NULL, 0);
    rd_kafka_conf_set(conf, "group.id", "reader", NULL, 0);
    rd_kafka_conf_set(conf, "log_level", "0", NULL, 0);
    rd_kafka_t *consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    ck_assert_msg(consumer, "%s", why);
    rd_kafka_poll_set_consumer(consumer);
    return consumer;
}

static size_t assign_all(rd_kafka_t *consumer, const char *topic) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(KAFKA_RIG_PARTITIONS);
    size_t total = 0;
    for (int32_t p = 0; p < KAFKA_RIG_PARTITIONS; p++) {
        int64_t low = 0, high = 0;
        ck_assert_int_eq(rd_kafka_query_watermark_offsets(consumer, topic, p, &low, &high, 10000), 0);
        total += (size_t)(high - low);
        rd_kafka_topic_partition_list_add(list, topic, p)->offset = low;
    }
    ck_assert_int_eq(rd_kafka_assign(consumer, list), 0);
    rd_kafka_topic_partition_list_destroy(list);
    return total;
}

static void note_headers(const rd_kafka_message_t *m, struct kafka_found *f) {
    rd_kafka_headers_t *headers;
    if (rd_kafka_message_headers(m, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    const char *name;
    const void *value;
    size_t len, used = 0;
    for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &len) == 0 && used < sizeof f->headers; i++)
        used += (size_t)snprintf(f->headers + used, sizeof f->headers - used, "%s=%.*s;", name, (int)len, (const char *)value);
}

static void note(const rd_kafka_message_t *m, struct kafka_found *f) {
    *f = (struct kafka_found){.no_key = !m->key, .no_value = !m->payload, .partition = m->partition};
    snprintf(f->key, sizeof f->key, "%.*s", (int)m->key_len, m->key ? (const char *)m->key : "");
    snprintf(f->value, sizeof f->value, "%.*s", (int)m->len, m->payload ? (const char *)m->payload : "");
    note_headers(m, f);
}

size_t kafka_rig_consume(struct kafka_rig *k, const char *topic, struct kafka_found *ret_found, size_t max) {
    rd_kafka_t *consumer = open_consumer(k);
    size_t total = assign_all(consumer, topic), count = 0;
    ck_assert_uint_le(total, max);
    int64_t deadline_us = clock_now_us() + 30 * CLOCK_US_PER_S;
    while (count < total) {
        ck_assert_msg(clock_now_us() < deadline_us, "%zu of %zu messages could be read", count, total);
        rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, 100);
        if (m && m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            note(m, &ret_found[count++]);
        if (m)
            rd_kafka_message_destroy(m);
    }
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    return count;
}

/* The small forwarder. --------------------------------------------------- */

void kafka_drive_open(struct kafka_drive *d, struct kafka_rig *k, uint32_t events, uint32_t keys) {
    ck_assert_uint_le(events, KAFKA_RIG_EVENTS_MAX);
    memset(d, 0, sizeof *d);
    d->kafka = k;
    d->events = d->left = events;
    d->keys = keys;
    rig_open(&d->rig, &k->contract);
    rig_until(&d->rig, rig_connected, 30, "connected");
}

void kafka_drive_close(struct kafka_drive *d) {
    rig_close(&d->rig);
}

static void settle(struct kafka_drive *d, uint64_t token) {
    uint32_t i = d->event_of[token];
    ck_assert_int_eq(d->state[i], FLYING);
    switch ((enum sink_outcome_kind)d->rig.last[token]) {
    case SINK_CONFIRMED:
        d->state[i] = CONFIRMED;
        d->confirmed++;
        d->left--;
        return;
    case SINK_REJECTED:
        d->state[i] = REJECTED;
        d->held[i % d->keys] = true;
        d->rejected++;
        return;
    case SINK_LOST:
    case SINK_NACKED:
    case SINK_RETURNED:
        d->state[i] = PENDING;
        d->lost++;
        return;
    }
}

static void settle_all(struct kafka_drive *d) {
    for (uint64_t token = d->seen; token < d->rig.accepted; token++)
        if (d->rig.outcomes[token] == 1) {
            settle(d, token);
            d->rig.outcomes[token]++;
        }
    while (d->seen < d->rig.accepted && d->rig.outcomes[d->seen] > 0)
        d->seen++;
}

static bool submit(struct kafka_drive *d, uint32_t i) {
    char id[24], key[24];
    snprintf(id, sizeof id, "%u", i);
    snprintf(key, sizeof key, "k%u", i % d->keys);
    rig_event(&d->rig, span_of(id));
    ck_assert_int_eq(event_set_core(&d->rig.event, EVENT_ID, span_of(id)), 0);
    d->kafka->destination.fields[KAFKA_KEY] = span_of(key);
    if (d->before && d->rig.sink->kind->ready(d->rig.sink))
        d->before(d, i);
    uint64_t token = d->rig.accepted;
    int result = rig_submit(&d->rig);
    d->kafka->destination.fields[KAFKA_KEY] = SPAN_ABSENT;
    ck_assert_msg(result != SINK_E_REJECTED, "event %u was refused: %s", i, d->rig.refusal.text);
    if (result != 0)
        return false;
    d->event_of[token] = i;
    d->state[i] = FLYING;
    return true;
}

void kafka_drive_turn(struct kafka_drive *d) {
    rig_turn(&d->rig, clock_now_us() + 20 * CLOCK_US_PER_MS);
    settle_all(d);
    for (uint32_t i = 0; i < d->events; i++) {
        if (d->state[i] != PENDING || d->held[i % d->keys])
            continue;
        if (!d->rig.sink->kind->ready(d->rig.sink) || !submit(d, i))
            break;
    }
    d->rig.sink->kind->flush(d->rig.sink);
}

static bool finished(const struct kafka_drive *d) {
    for (uint32_t i = 0; i < d->events; i++)
        if (d->state[i] == FLYING || (d->state[i] == PENDING && !d->held[i % d->keys]))
            return false;
    return true;
}

void kafka_drive_finish(struct kafka_drive *d, int seconds) {
    int64_t deadline_us = clock_now_us() + seconds * CLOCK_US_PER_S;
    while (!finished(d)) {
        struct sink_view view;
        d->rig.sink->kind->view(d->rig.sink, &view);
        ck_assert_msg(clock_now_us() < deadline_us, "%u of %u not confirmed after %d s (%s; %s)", d->left, d->events, seconds,
                      view.down_reason ? view.down_reason : "connected", view.blocked_reason ? view.blocked_reason : "moves");
        kafka_drive_turn(d);
    }
}

void kafka_drive_check(struct kafka_drive *d) {
    static struct kafka_found found[2 * KAFKA_RIG_EVENTS_MAX];
    static bool there[KAFKA_RIG_EVENTS_MAX];
    static uint32_t next_of[KAFKA_RIG_EVENTS_MAX];
    memset(there, 0, sizeof there);
    for (uint32_t key = 0; key < d->keys; key++)
        next_of[key] = key;
    size_t count = kafka_rig_consume(d->kafka, KAFKA_RIG_TOPIC, found, ARRAY_LENGTH(found));
    for (size_t n = 0; n < count; n++) {
        uint32_t i = (uint32_t)strtoul(found[n].value, NULL, 10), key = i % d->keys;
        ck_assert_uint_lt(i, d->events);
        ck_assert_msg(d->state[i] != REJECTED, "event %u was rejected and has arrived", i);
        if (there[i])
            continue;
        ck_assert_msg(i == next_of[key], "event %u arrived before event %u of its key", i, next_of[key]);
        next_of[key] += d->keys;
        there[i] = true;
    }
    for (uint32_t i = 0; i < d->events; i++)
        ck_assert_msg(there[i] == (d->state[i] == CONFIRMED), "event %u: confirmed %d, arrived %d", i,
                      d->state[i] == CONFIRMED, there[i]);
}
