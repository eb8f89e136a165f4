/* media: media types as datacontenttype has them (RFC 2046; grammar in RFC 2045 section 5.1) */
#ifndef PENSTOCK_EVENT_MEDIA_H
#define PENSTOCK_EVENT_MEDIA_H

#include "base/span.h"

/* type "/" subtype *( ";" attribute "=" value ), with white space around the semicolons. */
bool media_type_valid(struct span text);

/* Of a valid one, any letter case: any/json or any/any+json, whatever the parameters. */
bool media_type_is_json(struct span text);

/* Value of the charset parameter, quotes taken off; absent if there is none. */
struct span media_type_charset(struct span text);

#endif
