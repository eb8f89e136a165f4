/* sink: the contract of everything that publishes, and the list of its kinds */
#include "sink/sink.h"

#define SINK(name) extern const struct sink_kind sink_kind_##name;
#include "sink/sinks.list"
#undef SINK

static const struct sink_kind *const kinds[] = {
#define SINK(name) &sink_kind_##name,
#include "sink/sinks.list"
#undef SINK
};

const struct option sink_options_table[] = {
    {
        .key = "ack_timeout",
        .kind = OPTION_DURATION,
        .offset = offsetof(struct sink_options, ack_timeout_us),
        .fallback = "5s",
        .min = 1000, /* "1ms" */
        .max = INT64_C(3600) * 1000 * 1000,
        .summary = "how long a confirm may take before the connection is renewed; stands still while the broker blocks",
    },
    {
        .key = "in_flight",
        .kind = OPTION_INTEGER,
        .offset = offsetof(struct sink_options, in_flight),
        .min = 1,
        .max = 100 * 1000,
        .summary = "messages published and not yet confirmed; half of window.events if not given",
    },
    {
        .key = "max_message_bytes",
        .kind = OPTION_SIZE,
        .offset = offsetof(struct sink_options, max_message_bytes),
        .fallback = STRING(SINK_MAX_MESSAGE_MIB) "MiB",
        .min = 1024,
        .max = 128 * 1024 * 1024, /* what RabbitMQ takes at most before 4.0 (max_message_size) */
        .summary = "a larger message is rejected by name, without being loaded",
    },
    OPTION_END,
};

const struct sink_kind *sink_kind_find(struct span name) {
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++)
        if (span_is(name, kinds[i]->name))
            return kinds[i];
    return NULL;
}

const struct sink_kind *sink_kind_at(size_t i) {
    return i < ARRAY_LENGTH(kinds) ? kinds[i] : NULL;
}
