/* outlet: a forwarder's sink, opened with what its rules name */
#ifndef PENSTOCK_FORWARDER_OUTLET_H
#define PENSTOCK_FORWARDER_OUTLET_H

#include "forwarder/forwarder.h"

/* Embedded. */
struct outlet {
    struct sink *sink;
    struct span *named, *named_seconds; /* as in struct sink_setup */
};

/* Borrows options and guard. 0; -ENOMEM. outlet_close in every case. */
int outlet_open(struct outlet *o, const struct forwarder_options *options, struct guard *guard, uint64_t seed) MUST_CHECK;
void outlet_close(struct outlet *o);

#endif
