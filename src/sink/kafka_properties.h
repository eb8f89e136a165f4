/* kafka_properties: which properties of librdkafka a connection may set, and which are secrets */
#ifndef PENSTOCK_SINK_KAFKA_PROPERTIES_H
#define PENSTOCK_SINK_KAFKA_PROPERTIES_H

#include "base/option.h"

/* For the configuration: every property of a producer that leaves the
 * guarantees (penstockd(8)) as they are, in a form that librdkafka understands
 * as it was meant. */
extern const struct option_property_rules kafka_property_rules;

/* Is it one that Penstock sets, so that it may be written down but not changed? */
bool kafka_property_fixed(struct span name);

#endif
