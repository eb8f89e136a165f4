/* row: a row as it came from the table -> an event */
#include "event/row.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "event/attribute.h"
#include "event/canonical.h"
#include "event/media.h"

/* As the configuration calls them. */
static const char *const ROLE_KEYS[] = {
    [ROW_POSITION] = "position",
    [ROW_ID] = "id",
    [ROW_SOURCE] = "source",
    [ROW_TYPE] = "type",
    [ROW_DATA] = "data",
    [ROW_DATA_BYTES] = "data",
    [ROW_SUBJECT] = "subject",
    [ROW_TIME] = "time",
    [ROW_DATACONTENTTYPE] = "datacontenttype",
    [ROW_DATASCHEMA] = "dataschema",
    [ROW_STREAM_ID] = "stream_id",
    [ROW_STREAM_VERSION] = "stream_version",
    [ROW_RECORDED] = "recorded",
    [ROW_EXTENSIONS] = "extensions",
    [ROW_EXTENSION] = "extensions",
};
_Static_assert(ARRAY_LENGTH(ROLE_KEYS) == ROW_ROLE_COUNT, "a key for each role");

const char *row_role_key(enum row_role role) {
    return ROLE_KEYS[role];
}

static const struct span STREAMID = SPAN_LITERAL("streamid");
static const struct span STREAMVERSION = SPAN_LITERAL("streamversion");
static const struct span POSITION = SPAN_LITERAL("position");

enum { NAME_SHOWN_MAX = 63 }; /* a longer one is cut in messages */

/* One row on its way. A fault doesn't end it: what can still be read is taken,
 * so that the event can be held by its position, id and stream. */
struct passage {
    const struct row_options *options;
    struct event *event;
    struct error *reterr; /* of the first fault */
    bool rejected;
    bool has_stream_id, has_stream_version; /* columns of that role */
    bool has_extensions; /* a column of such a role has a value */
    const struct row_column *data_column; /* NULL: none */
    struct span data;
    int64_t data_bytes;
};

static int reject(struct passage *p, const char *format, ...) PRINTF_LIKE(2, 3);

/* Returns 0: the next column, please. */
static int reject(struct passage *p, const char *format, ...) {
    if (p->rejected)
        return 0;
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_set(p->reterr, ERROR_PERMANENT, "%s", text);
    p->rejected = true;
    return 0;
}

/* What doesn't fit is left out; what follows may fit, and may be the key that the row is held by. */
static int unless_too_large(struct passage *p, int r) {
    if (r != -EMSGSIZE)
        return r;
    return reject(p, "the row is larger than %zu bytes or has more than %d extensions", p->event->storage.max,
                  EVENT_EXTENSIONS_MAX);
}

static int reject_column(struct passage *p, enum row_role role, const char *fault) {
    return reject(p, "column %s %s", ROLE_KEYS[role], fault);
}

static int reject_extension(struct passage *p, struct span name, const char *fault) {
    if (name.len > NAME_SHOWN_MAX)
        name.len = NAME_SHOWN_MAX;
    return reject(p, "extension '%.*s' %s", SPAN_ARGS(name), fault);
}

static int take_position(struct passage *p, const struct row_column *column, struct span value) {
    const char *fault;
    int64_t position;
    if (span_absent(value))
        return reject_column(p, ROW_POSITION, "is NULL; each row needs its place");
    if (canonical_integer(column->form, value, &position, &fault) != 0)
        return reject_column(p, ROW_POSITION, fault);
    p->event->position = position;
    size_t at = p->event->storage.len;
    int r = canonical_add_integer(position, &p->event->storage);
    /* A String: it outgrows the 32 bits of an Integer (spec.md "Type System"). */
    if (r == 0)
        r = event_place_extension(p->event, POSITION, ATTRIBUTE_STRING, at);
    if (r == 0)
        event_vouch_extension(p->event, POSITION);
    if (r == 0 && !p->options->emit_position)
        event_make_internal(p->event, POSITION);
    return r;
}

static bool is_time(enum row_form form) {
    return form == ROW_FORM_TIMESTAMPTZ || form == ROW_FORM_TIMESTAMP || form == ROW_FORM_DATE;
}

static bool is_integer(enum row_form form) {
    return form == ROW_FORM_INT2 || form == ROW_FORM_INT4 || form == ROW_FORM_INT8;
}

static int take_core(struct passage *p, enum event_core which, const struct row_column *column, struct span value) {
    struct buf *storage = &p->event->storage;
    size_t at = storage->len;
    const char *fault;
    if (span_absent(value))
        return 0;
    int r = which == EVENT_TIME ? canonical_add_time(column->form, value, storage, &fault)
                                : canonical_add(column->form, value, storage, &fault);
    if (r == CANONICAL_E_FAULT)
        return reject_column(p, column->role, fault);
    if (r == 0)
        event_place_core(p->event, which, at);
    if (r == 0 && which == EVENT_TIME && is_time(column->form))
        event_vouch_core(p->event, which);
    return r;
}

/* An Integer while 32 bits hold it, else a String (spec.md "Type System"). */
static enum attribute_type integer_type(int64_t value) {
    return value >= INT32_MIN && value <= INT32_MAX ? ATTRIBUTE_INTEGER : ATTRIBUTE_STRING;
}

static enum attribute_type type_of_form(enum row_form form, struct span value) {
    const char *fault;
    int64_t integer;
    switch (form) {
    case ROW_FORM_BOOL:
        return ATTRIBUTE_BOOLEAN;
    case ROW_FORM_INT2:
    case ROW_FORM_INT4:
    case ROW_FORM_INT8:
        return canonical_integer(form, value, &integer, &fault) == 0 ? integer_type(integer) : ATTRIBUTE_STRING;
    case ROW_FORM_BYTEA:
        return ATTRIBUTE_BINARY;
    case ROW_FORM_TIMESTAMPTZ:
    case ROW_FORM_TIMESTAMP:
        return ATTRIBUTE_TIMESTAMP;
    case ROW_FORM_TEXT:
    case ROW_FORM_JSON:
    case ROW_FORM_JSONB:
    case ROW_FORM_UUID:
    case ROW_FORM_DATE:
        return ATTRIBUTE_STRING;
    }
    return ATTRIBUTE_STRING;
}

/* A column's value as an extension; NULL: none. */
static int take_as_extension(struct passage *p, struct span name, enum attribute_type type,
                             const struct row_column *column, struct span value) {
    struct buf *storage = &p->event->storage;
    size_t at = storage->len;
    const char *fault;
    int r = canonical_add(column->form, value, storage, &fault);
    if (r == CANONICAL_E_FAULT)
        return column->role == ROW_EXTENSION ? reject_extension(p, name, fault) : reject_column(p, column->role, fault);
    if (r == 0)
        r = event_place_extension(p->event, name, type, at);
    if (r != 0 || column->role == ROW_EXTENSION)
        return r;
    if (column->role == ROW_STREAM_VERSION && is_integer(column->form))
        event_vouch_extension(p->event, name);
    else
        event_vouch_name(p->event, name);
    return 0;
}

static int take_stream(struct passage *p, const struct row_column *column, struct span value) {
    bool id = column->role == ROW_STREAM_ID;
    struct span name = id ? STREAMID : STREAMVERSION;
    if (span_absent(value))
        return 0;
    enum attribute_type type = id ? ATTRIBUTE_STRING : type_of_form(column->form, value);
    int r = take_as_extension(p, name, type, column, value);
    bool emit = id ? p->options->emit_streamid : p->options->emit_streamversion;
    if (r == 0 && !emit && !span_absent(event_get(p->event, name)))
        event_make_internal(p->event, name);
    return r;
}

/* Only lag is counted from it: what can't be read is unknown, not a fault. */
static void take_recorded(struct passage *p, const struct row_column *column, struct span value) {
    const char *fault;
    int64_t us;
    if (!span_absent(value) && canonical_wall_us(column->form, value, &us, &fault) == 0)
        p->event->recorded_us = us;
}

static int take_data_bytes(struct passage *p, const struct row_column *column, struct span value) {
    const char *fault;
    if (!span_absent(value) && canonical_integer(column->form, value, &p->data_bytes, &fault) != 0)
        return reject_column(p, ROW_DATA_BYTES, fault);
    return 0;
}

/* Everything but extensions, whose names must not meet these, and data, whose rules need the content type. */
static int take_column(struct passage *p, const struct row_column *column, struct span value) {
    switch (column->role) {
    case ROW_POSITION:
        return take_position(p, column, value);
    case ROW_ID:
        return take_core(p, EVENT_ID, column, value);
    case ROW_SOURCE:
        return take_core(p, EVENT_SOURCE, column, value);
    case ROW_TYPE:
        return take_core(p, EVENT_TYPE, column, value);
    case ROW_SUBJECT:
        return take_core(p, EVENT_SUBJECT, column, value);
    case ROW_TIME:
        return take_core(p, EVENT_TIME, column, value);
    case ROW_DATACONTENTTYPE:
        return take_core(p, EVENT_DATACONTENTTYPE, column, value);
    case ROW_DATASCHEMA:
        return take_core(p, EVENT_DATASCHEMA, column, value);
    case ROW_STREAM_ID:
        p->has_stream_id = true;
        return take_stream(p, column, value);
    case ROW_STREAM_VERSION:
        p->has_stream_version = true;
        return take_stream(p, column, value);
    case ROW_RECORDED:
        take_recorded(p, column, value);
        return 0;
    case ROW_DATA:
        p->data_column = column;
        p->data = value;
        return 0;
    case ROW_DATA_BYTES:
        return take_data_bytes(p, column, value);
    case ROW_EXTENSIONS:
    case ROW_EXTENSION:
        p->has_extensions |= !span_absent(value);
        return 0;
    case ROW_ROLE_COUNT:
        return 0;
    }
    return 0;
}

static int take_constants(struct passage *p) {
    int r = 0;
    if (!span_absent(p->options->constant_source))
        r = event_set_core(p->event, EVENT_SOURCE, p->options->constant_source);
    if (r == 0 && !span_absent(p->options->constant_type))
        r = event_set_core(p->event, EVENT_TYPE, p->options->constant_type);
    return r;
}

/* An attribute appears at most once (spec.md "Context Attributes"), and what a
 * column of ours says can't be replaced by what a writer put into a map. */
static bool name_is_free(struct passage *p, struct span name) {
    bool ours = span_equal(name, POSITION) || (p->has_stream_id && span_equal(name, STREAMID)) ||
                (p->has_stream_version && span_equal(name, STREAMVERSION));
    if (ours)
        reject_extension(p, name, "has the name of what a column of the table gives; call it otherwise");
    else if (!span_absent(event_get(p->event, name)))
        reject_extension(p, name, "is given twice, or is a core attribute");
    else if (name.len == 0)
        reject_extension(p, name, "has an empty name");
    else
        return true;
    return false;
}

static int add_json_string(struct passage *p, struct span name, const struct json_value *value) {
    size_t at = p->event->storage.len;
    int r = json_unescape(value, &p->event->storage);
    if (r == JSON_E_INVALID)
        return reject_extension(p, name, "holds an escaped NUL or lone surrogate, which no text may have");
    return r != 0 ? r : event_place_extension(p->event, name, ATTRIBUTE_STRING, at);
}

static int add_json_number(struct passage *p, struct span name, const struct json_value *value) {
    int64_t integer;
    for (size_t i = 0; i < value->text.len; i++)
        if (memchr(".eE", value->text.data[i], 3))
            return reject_extension(p, name, "is a decimal number, which has no type in CloudEvents; make it a string");
    if (json_read_integer(value, &integer) != 0 || integer_type(integer) != ATTRIBUTE_INTEGER)
        return event_set_extension(p->event, name, ATTRIBUTE_STRING, value->text);
    size_t at = p->event->storage.len;
    int r = canonical_add_integer(integer, &p->event->storage);
    return r != 0 ? r : event_place_extension(p->event, name, ATTRIBUTE_INTEGER, at);
}

static int add_json_extension(struct passage *p, struct span name, const struct json_value *value) {
    switch (value->kind) {
    case JSON_NULL:
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        return event_set_extension(p->event, name, ATTRIBUTE_BOOLEAN, value->text);
    case JSON_NUMBER:
        return add_json_number(p, name, value);
    case JSON_STRING:
        return add_json_string(p, name, value);
    case JSON_ARRAY:
    case JSON_OBJECT:
        return reject_extension(p, name, "is an array or object, which has no type in CloudEvents; make it a string");
    }
    return 0;
}

/* The text of a json or jsonb value. */
static int json_text(enum row_form form, struct span value, struct span *ret_text) {
    if (form == ROW_FORM_JSON || form == ROW_FORM_TEXT) {
        *ret_text = value;
        return 0;
    }
    /* jsonb_send: a version byte, always 1 so far */
    if (form != ROW_FORM_JSONB || value.len == 0 || value.data[0] != 1)
        return CANONICAL_E_FAULT;
    *ret_text = (struct span){value.data + 1, value.len - 1};
    return 0;
}

static int take_extension_map(struct passage *p, const struct row_column *column, struct span value) {
    struct json_walk walk;
    struct json_value name, member;
    struct span text;
    if (json_text(column->form, value, &text) != 0)
        return reject_column(p, ROW_EXTENSIONS, "is neither json nor jsonb of a version that is known");
    int r = json_walk_object(&walk, text);
    if (r != 0 && json_read(text, &member) == 0 && member.kind == JSON_NULL)
        return 0;
    while (r == 0) {
        r = json_walk_next(&walk, &name, &member);
        if (r == 0 && name_is_free(p, name.text))
            r = unless_too_large(p, add_json_extension(p, name.text, &member));
    }
    if (r == JSON_E_INVALID)
        return reject_column(p, ROW_EXTENSIONS, "is no JSON object of attribute names and values");
    return r == JSON_E_END ? 0 : r;
}

static int take_mapped_extension(struct passage *p, const struct row_column *column, struct span value) {
    struct json_value json;
    struct span text;
    if (!name_is_free(p, column->name))
        return 0;
    if (column->form != ROW_FORM_JSON && column->form != ROW_FORM_JSONB)
        return take_as_extension(p, column->name, type_of_form(column->form, value), column, value);
    if (json_text(column->form, value, &text) != 0 || json_read(text, &json) != 0)
        return reject_extension(p, column->name, "is no JSON, or jsonb of an unknown version");
    return add_json_extension(p, column->name, &json);
}

static int take_extensions(struct passage *p, const struct row *row) {
    int r = 0;
    for (size_t i = 0; i < row->count && r == 0; i++) {
        const struct row_column *column = &row->columns[i];
        if (span_absent(row->values[i]))
            continue;
        if (column->role == ROW_EXTENSIONS)
            r = take_extension_map(p, column, row->values[i]);
        else if (column->role == ROW_EXTENSION)
            r = unless_too_large(p, take_mapped_extension(p, column, row->values[i]));
    }
    return r;
}

static bool equal_any_case(struct span s, const char *text) {
    return s.len == strlen(text) && strncasecmp(s.data, text, s.len) == 0;
}

static bool is_ascii(struct span s) {
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.data[i] >= 0x80)
            return false;
    return true;
}

/* We send UTF-8: a type that says otherwise would lie. */
static bool charset_fits(struct span content_type, struct span text) {
    struct span charset = media_type_charset(content_type);
    if (span_absent(charset) || equal_any_case(charset, "utf-8") || equal_any_case(charset, "utf8"))
        return true;
    return equal_any_case(charset, "us-ascii") && is_ascii(text);
}

static int set_text_data(struct passage *p, enum event_data_kind kind, struct span content_type, struct span text) {
    if (!utf8_valid(text))
        return reject_column(p, ROW_DATA, "is no UTF-8; keep it as bytea");
    if (!span_absent(content_type) && !charset_fits(content_type, text))
        return reject_column(p, ROW_DATA, "is sent as UTF-8, but datacontenttype names another charset");
    return event_set_data(p->event, kind, text);
}

static int take_json_data(struct passage *p, struct span content_type) {
    struct span text;
    if (json_text(p->data_column->form, p->data, &text) != 0)
        return reject_column(p, ROW_DATA, "is jsonb of a version that is not known");
    if (!span_absent(content_type) && !media_type_is_json(content_type))
        return reject_column(p, ROW_DATA, "is JSON, but datacontenttype is none of JSON's; mend one of them");
    int r = set_text_data(p, EVENT_DATA_JSON, content_type, text);
    if (r == 0 && span_absent(content_type))
        r = event_set_core(p->event, EVENT_DATACONTENTTYPE, SPAN_LITERAL("application/json"));
    return r;
}

static int take_text_data(struct passage *p, struct span content_type) {
    struct span type = span_absent(content_type) ? p->options->default_text_type : content_type;
    if (span_absent(type))
        return reject_column(p, ROW_DATA, "is text without datacontenttype; give it one or set a default");
    int r = set_text_data(p, EVENT_DATA_TEXT, type, p->data);
    if (r == 0 && span_absent(content_type))
        r = event_set_core(p->event, EVENT_DATACONTENTTYPE, type);
    p->event->invalid_json_as_base64 = p->options->invalid_json_as_base64;
    return r;
}

/* What a payload column and its content type become. */
static int take_data(struct passage *p) {
    int64_t max = p->options->max_message_bytes;
    int64_t bytes = span_absent(p->data) ? p->data_bytes : (int64_t)p->data.len;
    if (max > 0 && bytes > max)
        return reject(p, "data of %lld bytes is larger than max_message_bytes (%lld)", (long long)bytes,
                      (long long)max);
    if (span_absent(p->data))
        return 0;
    struct span content_type = event_core_value(p->event, EVENT_DATACONTENTTYPE);
    enum row_form form = p->data_column->form;
    if (form == ROW_FORM_JSON || form == ROW_FORM_JSONB)
        return take_json_data(p, content_type);
    if (form == ROW_FORM_TEXT)
        return take_text_data(p, content_type);
    if (form == ROW_FORM_BYTEA)
        return event_set_data(p->event, EVENT_DATA_BINARY, p->data);
    return reject_column(p, ROW_DATA, "must be json, jsonb, text or bytea");
}

static int check(struct passage *p) {
    struct attribute_names allow = {p->options->allow_control_characters, p->options->allow_control_characters_count};
    if (!p->rejected && attribute_check_event(p->event, &allow, p->reterr) < 0)
        p->rejected = true;
    return 0;
}

int row_to_event(const struct row *row, const struct row_options *options, struct event *e, struct error *reterr) {
    ASSERT(e->storage.len == 0);
    ASSERT(e->extension_count == 0);
    struct passage p = {.options = options, .event = e, .reterr = reterr};
    int r = 0;
    for (size_t i = 0; i < row->count && r == 0; i++)
        r = unless_too_large(&p, take_column(&p, &row->columns[i], row->values[i]));
    if (r == 0)
        r = unless_too_large(&p, take_constants(&p));
    if (r == 0 && p.has_extensions)
        r = take_extensions(&p, row);
    if (r == 0)
        r = check(&p);
    if (r == 0 && !p.rejected)
        r = unless_too_large(&p, take_data(&p));
    if (r == 0 && p.rejected)
        return ROW_E_REJECTED;
    return r;
}
