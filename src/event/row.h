/* row: a row as it came from the table -> an event */
#ifndef PENSTOCK_EVENT_ROW_H
#define PENSTOCK_EVENT_ROW_H

#include "base/error.h"
#include "event/event.h"

/* What a column is used for. */
enum row_role {
    ROW_POSITION,
    ROW_ID,
    ROW_SOURCE,
    ROW_TYPE,
    ROW_DATA,
    ROW_DATA_BYTES, /* octet_length of the data, so that too large a one needs no loading */
    ROW_SUBJECT,
    ROW_TIME,
    ROW_DATACONTENTTYPE,
    ROW_DATASCHEMA,
    ROW_STREAM_ID,
    ROW_STREAM_VERSION,
    ROW_RECORDED,
    ROW_EXTENSIONS, /* one jsonb object */
    ROW_EXTENSION,  /* one mapped column; the name stands in the column */
    ROW_ROLE_COUNT
};
/* Its key below columns: in the configuration. */
const char *row_role_key(enum row_role role);

/* The binary forms that the source asks PostgreSQL for; what is none of these is cast to text in SQL. */
enum row_form {
    ROW_FORM_TEXT,        /* text, varchar, json, xml, numeric::text … */
    ROW_FORM_JSON,        /* json: text */
    ROW_FORM_JSONB,       /* byte 01, then text */
    ROW_FORM_BYTEA,
    ROW_FORM_UUID,        /* 16 bytes */
    ROW_FORM_INT2, ROW_FORM_INT4, ROW_FORM_INT8, /* big-endian */
    ROW_FORM_BOOL,        /* one byte */
    ROW_FORM_TIMESTAMPTZ, /* int64 µs since 2000-01-01 UTC, ±infinity at the ends */
    ROW_FORM_TIMESTAMP,   /* the same without zone: read as UTC */
    ROW_FORM_DATE,        /* int32 days since 2000-01-01 */
};

struct row_column {
    enum row_role role;
    enum row_form form;
    struct span name; /* ROW_EXTENSION: the attribute's name. Borrowed from the source. */
};

/* A view: values are borrowed until the source moves on. An absent span is SQL NULL. */
struct row {
    const struct row_column *columns;
    const struct span *values;
    size_t count;
};

/* What is not in the columns. Texts are borrowed and outlive the rows. */
struct row_options {
    struct span constant_source; /* source: {value: …}; absent: from the column */
    struct span constant_type;
    struct span default_text_type; /* datacontenttype of a text payload without one; absent: rejected */
    /* Text under a JSON type that is no JSON. Only the structured form minds,
     * so the binding looks when it writes one: data_base64 instead of rejected.
     * Binary mode sends the bytes as they are. */
    bool invalid_json_as_base64;
    /* Not emitted: rules, templates and order still see it. */
    bool emit_streamid, emit_streamversion, emit_position;
    const struct span *allow_control_characters; /* extension names */
    size_t allow_control_characters_count;
    int64_t max_message_bytes; /* data above it: rejected by name without having been loaded; 0: no limit */
};

/* The row can't become an event; the event holds position, id and stream id as
 * far as they could be read, *reterr (permanent) says why. */
#define ROW_E_REJECTED 1

/* Overwrites *e (which was event_clear'ed). 0; ROW_E_REJECTED; -ENOMEM. A row
 * over the event's max_bytes or EVENT_EXTENSIONS_MAX is rejected. */
int row_to_event(const struct row *row, const struct row_options *options, struct event *e,
                 struct error *reterr) MUST_CHECK;

#endif
