/* attribute: names and values of CloudEvents attributes: what is valid */
#include "event/attribute.h"

#include <errno.h>

#include "base/utf8.h"
#include "event/base64.h"
#include "event/media.h"
#include "event/timestamp.h"
#include "event/uri.h"

/* The faults, as they stand behind the attribute's name. */
static const char FAULT_EMPTY[] = "is empty; give it a value or leave it out (NULL)";
static const char FAULT_STRING[] = "has a control character, a noncharacter or bytes that are no UTF-8; "
                                   "CloudEvents allows none of them in a String";
static const char FAULT_URI_REFERENCE[] = "is no URI-reference (RFC 3986 section 4.1); "
                                          "space, quotes, brackets and non-ASCII must be percent-encoded";
static const char FAULT_URI[] = "is no URI with a scheme (RFC 3986 section 4.3)";
static const char FAULT_TIMESTAMP[] = "is no RFC 3339 time like 2026-01-02T03:04:05Z; "
                                      "use a timestamptz column within the years 1 to 9999";
static const char FAULT_MEDIA_TYPE[] = "is no media type like application/json (RFC 2046)";
static const char FAULT_BOOLEAN[] = "is neither true nor false";
static const char FAULT_INTEGER[] = "is no Integer (-2147483648 to 2147483647, no leading zeros); use a String";
static const char FAULT_BASE64[] = "is no base64 (RFC 4648 section 4)";
static const char FAULT_POSITIVE[] = "must be an Integer above 0";

/* Each byte 1. */
#define ONES UINT64_C(0x0101010101010101)

/* A longer name is cut in messages. */
enum { NAME_SHOWN_MAX = 63 };

static int refuse(struct span name, const char *fault, struct error *reterr) {
    if (name.len > NAME_SHOWN_MAX)
        name.len = NAME_SHOWN_MAX;
    error_set(reterr, ERROR_PERMANENT, "attribute '%.*s' %s", SPAN_ARGS(name), fault);
    return -EINVAL;
}

bool attribute_name_valid(struct span name) {
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return false;
    }
    return name.len > 0 && !span_is(name, "data");
}

bool attribute_name_is_core(struct span name) {
    return event_core_by_name(name) >= 0 || span_is(name, "specversion");
}

static bool is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

static bool is_noncharacter(uint32_t code) {
    return (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

/* Printable ASCII from the front, eight at once: a byte below 0x20 borrows into its highest bit, one from 0x7f on
 * has it or carries into it. */
static const char *skip_printable(const char *at, const char *end) {
    uint64_t eight;
    while ((size_t)(end - at) >= sizeof eight) {
        memcpy(&eight, at, sizeof eight);
        if ((eight | (eight - ONES * 0x20) | (eight + ONES)) & (ONES * 0x80))
            break;
        at += sizeof eight;
    }
    while (at < end && *at >= 0x20 && *at < 0x7f)
        at++;
    return at;
}

bool attribute_string_valid(struct span s, bool allow_control_characters) {
    if (s.len == 0)
        return true;
    const char *at = s.data, *end = s.data + s.len;
    for (;;) {
        at = skip_printable(at, end);
        if (at == end)
            return true;
        uint32_t code;
        size_t length = utf8_next(at, end, &code);
        if (length == 0 || is_noncharacter(code) || (is_control(code) && !allow_control_characters))
            return false;
        at += length;
    }
}

/* spec.md "Type System": as in JSON, integer part only, 32 bits. */
static bool integer_valid(struct span s, int64_t min) {
    bool negative = s.len > 0 && s.data[0] == '-';
    size_t digits = s.len - negative;
    const char *at = s.data + negative;
    if (digits == 0 || digits > 10 || (at[0] == '0' && s.len > 1))
        return false;
    int64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        value = value * 10 + (at[i] - '0');
    }
    value = negative ? -value : value;
    return value >= min && value <= INT32_MAX;
}

static const char *string_fault(struct span value, bool allow_control_characters) {
    return attribute_string_valid(value, allow_control_characters) ? NULL : FAULT_STRING;
}

static const char *non_empty_string_fault(struct span value) {
    return value.len == 0 ? FAULT_EMPTY : string_fault(value, false);
}

static const char *media_type_fault(struct span value) {
    /* a quoted parameter may hold what a String may not */
    const char *fault = non_empty_string_fault(value);
    return fault || media_type_valid(value) ? fault : FAULT_MEDIA_TYPE;
}

static const char *core_fault(enum event_core which, struct span value) {
    switch (which) {
    case EVENT_ID:
    case EVENT_TYPE:
    case EVENT_SUBJECT:
        return non_empty_string_fault(value);
    case EVENT_SOURCE:
        return value.len == 0 ? FAULT_EMPTY : uri_reference_valid(value) ? NULL : FAULT_URI_REFERENCE;
    case EVENT_TIME:
        return timestamp_valid(value) ? NULL : FAULT_TIMESTAMP;
    case EVENT_DATACONTENTTYPE:
        return media_type_fault(value);
    case EVENT_DATASCHEMA:
        return value.len == 0 ? FAULT_EMPTY : uri_valid(value) ? NULL : FAULT_URI;
    case EVENT_CORE_COUNT:
        break;
    }
    return FAULT_STRING;
}

static const char *type_fault(enum attribute_type type, struct span value, bool allow_control_characters) {
    switch (type) {
    case ATTRIBUTE_STRING:
        return string_fault(value, allow_control_characters);
    case ATTRIBUTE_BOOLEAN:
        return span_is(value, "true") || span_is(value, "false") ? NULL : FAULT_BOOLEAN;
    case ATTRIBUTE_INTEGER:
        return integer_valid(value, INT32_MIN) ? NULL : FAULT_INTEGER;
    case ATTRIBUTE_BINARY:
        return base64_valid(value) ? NULL : FAULT_BASE64;
    case ATTRIBUTE_URI:
        return uri_valid(value) ? NULL : FAULT_URI;
    case ATTRIBUTE_URI_REFERENCE:
        return uri_reference_valid(value) ? NULL : FAULT_URI_REFERENCE;
    case ATTRIBUTE_TIMESTAMP:
        return timestamp_valid(value) ? NULL : FAULT_TIMESTAMP;
    }
    return FAULT_STRING;
}

enum further_rule { NON_EMPTY, POSITIVE, TIMESTAMP, URI_REFERENCE };

/* cloudevents/extensions/: what each of them demands beyond its type. They
 * mostly arrive as Strings, so the rule looks at the text. */
static const struct {
    struct span name;
    enum further_rule rule;
} DOCUMENTED[] = {
    {SPAN_LITERAL("partitionkey"), NON_EMPTY},  {SPAN_LITERAL("sequence"), NON_EMPTY},
    {SPAN_LITERAL("traceparent"), NON_EMPTY},   {SPAN_LITERAL("correlationid"), NON_EMPTY},
    {SPAN_LITERAL("causationid"), NON_EMPTY},   {SPAN_LITERAL("sampledrate"), POSITIVE},
    {SPAN_LITERAL("expirytime"), TIMESTAMP},    {SPAN_LITERAL("recordedtime"), TIMESTAMP},
    {SPAN_LITERAL("dataref"), URI_REFERENCE},
};

static const char *rule_fault(enum further_rule rule, struct span value) {
    switch (rule) {
    case NON_EMPTY:
        return value.len > 0 ? NULL : FAULT_EMPTY;
    case POSITIVE:
        return integer_valid(value, 1) ? NULL : FAULT_POSITIVE;
    case TIMESTAMP:
        return timestamp_valid(value) ? NULL : FAULT_TIMESTAMP;
    case URI_REFERENCE:
        return uri_reference_valid(value) ? NULL : FAULT_URI_REFERENCE;
    }
    return NULL;
}

static const char *documented_fault(struct span name, struct span value) {
    for (size_t i = 0; i < ARRAY_LENGTH(DOCUMENTED); i++)
        if (span_equal(DOCUMENTED[i].name, name))
            return rule_fault(DOCUMENTED[i].rule, value);
    return NULL;
}

int attribute_check_core(enum event_core which, struct span value, struct error *reterr) {
    const char *fault = core_fault(which, value);
    return fault ? refuse(event_core_name(which), fault, reterr) : 0;
}

int attribute_check_extension(struct span name, enum attribute_type type, struct span value,
                              bool allow_control_characters, struct error *reterr) {
    if (!attribute_name_valid(name))
        return refuse(name, "is no name for an extension: only a-z and 0-9, and not 'data'", reterr);
    if (attribute_name_is_core(name))
        return refuse(name, "is a core attribute; an extension can't have its name", reterr);
    const char *fault = type_fault(type, value, allow_control_characters);
    if (!fault)
        fault = documented_fault(name, value);
    return fault ? refuse(name, fault, reterr) : 0;
}

static int check_value(struct span name, enum attribute_type type, struct span value, bool allow_control_characters,
                       struct error *reterr) {
    const char *fault = type_fault(type, value, allow_control_characters);
    return fault ? refuse(name, fault, reterr) : 0;
}

static int check_core_attributes(const struct event *e, struct error *reterr) {
    for (int i = 0; i < EVENT_CORE_COUNT; i++) {
        enum event_core which = (enum event_core)i;
        struct span value = event_core_value(e, which);
        bool required = which == EVENT_ID || which == EVENT_SOURCE || which == EVENT_TYPE;
        if (span_absent(value) && required)
            return refuse(event_core_name(which), "is missing (NULL); each event needs one", reterr);
        int r = span_absent(value) || e->core[i].sound ? 0 : attribute_check_core(which, value, reterr);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool among(const struct attribute_names *names, struct span name) {
    for (size_t i = 0; i < names->count; i++)
        if (span_equal(names->items[i], name))
            return true;
    return false;
}

int attribute_check_event(const struct event *e, const struct attribute_names *allow_control_characters,
                          struct error *reterr) {
    int r = check_core_attributes(e, reterr);
    for (uint32_t i = 0; i < e->extension_count && r == 0; i++) {
        struct span name;
        enum attribute_type type;
        if (e->extensions[i].sound)
            continue;
        struct span value = event_extension(e, i, &name, &type);
        bool allowed = among(allow_control_characters, name);
        r = e->extensions[i].name_sound ? check_value(name, type, value, allowed, reterr)
                                        : attribute_check_extension(name, type, value, allowed, reterr);
    }
    return r;
}
