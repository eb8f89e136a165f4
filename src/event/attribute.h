/* attribute: names and values of CloudEvents attributes: what is valid, and its canonical text */
#ifndef PENSTOCK_EVENT_ATTRIBUTE_H
#define PENSTOCK_EVENT_ATTRIBUTE_H

#include "base/error.h"
#include "event/event.h"

/* spec.md "Naming Conventions": a-z and 0-9, at least one; not "data". */
bool attribute_name_valid(struct span name);

/* Valid for that type and, for a core attribute, for its further rules
 * (non-empty, RFC 3986, RFC 3339, RFC 2046)? 0; -EINVAL with *reterr saying
 * which rule (class permanent), never the value of an event's data. */
int attribute_check_core(enum event_core which, struct span value, struct error *reterr) MUST_CHECK;
int attribute_check_extension(struct span name, enum attribute_type type, struct span value,
                              bool allow_control_characters, struct error *reterr) MUST_CHECK;

/* The whole event: required ones present, all of them valid. */
int attribute_check_event(const struct event *e, struct error *reterr) MUST_CHECK;

/* any/json or any/any+json without parameters, any case (json-format.md 3.1). */
bool attribute_is_json_type(struct span datacontenttype);

/* UTF-8 without what C8 of cloudevents.md forbids. */
bool attribute_string_valid(struct span s, bool allow_control_characters);

#endif
