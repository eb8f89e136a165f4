/* uri: is a text a URI or a URI-reference by the grammar of RFC 3986? */
#ifndef PENSTOCK_EVENT_URI_H
#define PENSTOCK_EVENT_URI_H

#include "base/span.h"

/* Section 4.1: may be relative, may be empty. */
bool uri_reference_valid(struct span text);

/* Section 3: has a scheme. CloudEvents' type URI means 4.3 absolute-URI, which
 * has no fragment; every reader takes one, and so do we. */
bool uri_valid(struct span text);

#endif
