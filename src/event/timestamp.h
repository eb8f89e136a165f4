/* timestamp: is a text an RFC 3339 date and time? */
#ifndef PENSTOCK_EVENT_TIMESTAMP_H
#define PENSTOCK_EVENT_TIMESTAMP_H

#include "base/span.h"

/* date-time of section 5.6: offset required, any number of digits of the
 * fraction; a day that exists; second 60 only where UTC may have one (5.7). */
bool timestamp_valid(struct span text);

#endif
