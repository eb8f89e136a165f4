/* json: write strings, check text, walk objects; never builds a tree, never changes a number (RFC 8259) */
#ifndef PENSTOCK_BASE_JSON_H
#define PENSTOCK_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

/* Why not the JSON library: numbers and text must go through byte for byte
 * (G3), and nothing may be allocated per event. */

#define JSON_DEPTH_MAX 512

/* Appends a quoted string; escapes only what RFC 8259 section 7 demands. s must be valid UTF-8. */
int json_add_string(struct buf *b, struct span s) MUST_CHECK;

/* Is the text one JSON value (with white space around)? Depth over JSON_DEPTH_MAX: no. */
bool json_valid(struct span text);

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
    enum json_kind kind;
    struct span text; /* as written; of a string what stands between the quotes, still escaped */
    bool escaped;     /* the string holds a backslash */
};

#define JSON_E_END 1     /* no more members, and nothing but white space behind */
#define JSON_E_INVALID 2 /* not JSON, or not what was asked for */

/* The whole text as one value (without the white space around). 0; JSON_E_INVALID. */
int json_read(struct span text, struct json_value *ret_value) MUST_CHECK;

/* Walks the members of one object or the elements of one array, borrowed. Embedded. */
struct json_walk {
    const char *at, *end;
    bool object;
    bool first;
};

int json_walk_object(struct json_walk *w, struct span text) MUST_CHECK;
int json_walk_array(struct json_walk *w, struct span text) MUST_CHECK;
/* 0; JSON_E_END; JSON_E_INVALID. ret_name (raw, between the quotes) only for objects; may be NULL. */
int json_walk_next(struct json_walk *w, struct json_value *ret_name, struct json_value *ret_value) MUST_CHECK;

/* Appends the string with its escapes resolved. 0; -ENOMEM; -EMSGSIZE;
 * JSON_E_INVALID for an escaped lone surrogate or NUL. */
int json_unescape(const struct json_value *string, struct buf *b) MUST_CHECK;

/* A JSON number or digit string that is an integer of 64 bits. 0; JSON_E_INVALID. */
int json_read_integer(const struct json_value *number, int64_t *ret_value) MUST_CHECK;

#endif
