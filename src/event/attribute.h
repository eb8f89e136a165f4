/* attribute: names and values of CloudEvents attributes: what is valid */
#ifndef PENSTOCK_EVENT_ATTRIBUTE_H
#define PENSTOCK_EVENT_ATTRIBUTE_H

#include "base/error.h"
#include "event/event.h"

/* spec.md "Naming Conventions": a-z and 0-9, at least one; not "data". */
bool attribute_name_valid(struct span name);

/* One of the core attributes, specversion too: no extension may have its name. */
bool attribute_name_is_core(struct span name);

/* UTF-8 without what spec.md "Type System" forbids in a String: control
 * characters (which may be allowed here) and noncharacters. */
bool attribute_string_valid(struct span s, bool allow_control_characters);

/* Valid for that type and, for a core attribute or an extension that
 * CloudEvents documents, for its further rules? 0; -EINVAL with *reterr saying
 * which attribute and which rule (class permanent), never the value. */
int attribute_check_core(enum event_core which, struct span value, struct error *reterr) MUST_CHECK;
int attribute_check_extension(struct span name, enum attribute_type type, struct span value,
                              bool allow_control_characters, struct error *reterr) MUST_CHECK;

/* Names of extensions that may have control characters. Borrowed. */
struct attribute_names {
    const struct span *items;
    size_t count;
};

/* The whole event: required ones present, all of them valid. Internal
 * extensions are checked too: they may be the ordering key. */
int attribute_check_event(const struct event *e, const struct attribute_names *allow_control_characters,
                          struct error *reterr) MUST_CHECK;

#endif
