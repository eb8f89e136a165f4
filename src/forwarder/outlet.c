/* outlet: a forwarder's sink, opened with what its rules name */
#include "forwarder/outlet.h"

#include <errno.h>

/* Returns how many there are. */
static size_t collect(struct outlet *o, const struct rule_set *rules, size_t destinations) {
    size_t named = 0;
    for (size_t i = 0; i < destinations; i++) {
        struct span literal = rule_set_literal(rules, i, 0);
        if (span_absent(literal))
            continue;
        o->named_seconds[named] = rule_set_literal(rules, i, 1);
        o->named[named++] = literal;
    }
    return named;
}

int outlet_open(struct outlet *o, const struct forwarder_options *options, struct guard *guard, uint64_t seed) {
    size_t destinations = rule_set_destinations(options->rules);
    *o = (struct outlet){
        .named = calloc(destinations + 1, sizeof *o->named),
        .named_seconds = calloc(destinations + 1, sizeof *o->named_seconds),
    };
    if (!o->named || !o->named_seconds)
        return -ENOMEM;
    size_t named = collect(o, options->rules, destinations);
    struct sink_setup setup = {
        .forwarder = options->name,
        .connection_name = options->sink_connection_name,
        .connection = options->sink_connection,
        .options = options->sink_options,
        .in_flight = options->flow.sink_in_flight,
        .guard = guard,
        .seed = seed,
        .named = o->named,
        .named_seconds = o->named_seconds,
        .named_count = named,
        .names_more = named < destinations,
    };
    return options->sink_kind->open(&setup, &o->sink);
}

void outlet_close(struct outlet *o) {
    if (o->sink)
        o->sink->kind->close(o->sink);
    free(o->named);
    free(o->named_seconds);
    *o = (struct outlet){.sink = NULL};
}
