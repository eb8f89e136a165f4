/* wiring: the configuration -> what each forwarder is started with */
#include "wiring.h"

#include "base/clock.h"

#define SAVE_INTERVAL_US (100 * CLOCK_US_PER_MS)

static struct row_options row_of(const struct config_forwarder *from) {
    const struct sink_options *sink = from->sink_options;
    return (struct row_options){
        .constant_source = span_of(from->source.constant_source),
        .constant_type = span_of(from->source.constant_type),
        .default_text_type = span_of(from->default_text_type),
        .invalid_json_as_base64 = from->invalid_json_as_base64,
        .emit_streamid = from->emit_streamid,
        .emit_streamversion = from->emit_streamversion,
        .emit_position = from->emit_position,
        .allow_control_characters = from->allow_control_characters,
        .allow_control_characters_count = from->allow_control_characters_count,
        .max_message_bytes = sink->max_message_bytes,
    };
}

/* A sink that keeps the order on the wire needs no limit; across all keys no sink can. */
static uint32_t key_in_flight_of(const struct config_forwarder *from) {
    bool pipelined = from->sink_connection->sink->pipelines_keys && from->order == FLOW_BY_KEY;
    return (uint32_t)(pipelined ? from->window_events : from->order_in_flight);
}

static struct flow_options flow_of(const struct config_forwarder *from) {
    const struct sink_options *sink = from->sink_options;
    int64_t in_flight = sink->in_flight > 0 ? sink->in_flight : (from->window_events + 1) / 2;
    return (struct flow_options){
        .window_events = (uint32_t)from->window_events,
        .window_bytes = (uint64_t)from->window_bytes,
        .unsaved = (uint32_t)from->window_unsaved,
        .sink_in_flight = (uint32_t)in_flight,
        .order = from->order,
        .key_in_flight = key_in_flight_of(from),
        .retry = from->retry,
        .poll_min_us = from->poll_min_us,
        .poll_max_us = from->poll_max_us,
        .save_interval_us = SAVE_INTERVAL_US,
        .ghost_timeout_us = sink->ack_timeout_us,
    };
}

static enum forwarder_policy policy_of(enum config_policy policy) {
    switch (policy) {
    case CONFIG_HOLD:
        return FORWARDER_POLICY_HOLD;
    case CONFIG_SKIP:
        return FORWARDER_POLICY_SKIP;
    }
    return FORWARDER_POLICY_HOLD;
}

void wiring_forwarder(const struct config *config, const struct config_forwarder *from, const char *owner, int ended_fd,
                      struct forwarder_options *ret_options) {
    *ret_options = (struct forwarder_options){
        .name = from->name,
        .source_connection_name = from->source_connection->name,
        .database = &from->source_connection->postgresql,
        .source = &from->source,
        .row = row_of(from),
        .filter = from->filter,
        .checkpoint_schema = config->checkpoint_schema,
        .checkpoint_create = config->checkpoint_create,
        .listen = from->listen,
        .owner = owner,
        .lease_us = config->checkpoint_lease_us,
        .sink_connection_name = from->sink_connection->name,
        .sink_kind = from->sink_connection->sink,
        .sink_connection = from->sink_connection->sink_connection,
        .sink_options = from->sink_options,
        .rules = from->rules,
        .order_attribute = from->order_attribute,
        .on_unmatched = policy_of(from->on_unmatched),
        .flow = flow_of(from),
        .ended_fd = ended_fd,
    };
}
