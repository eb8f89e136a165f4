/* canonical: a column's bytes -> the text of an attribute (spec.md "Type System") */
#include "event/canonical.h"

#include <endian.h>
#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "event/base64.h"

/* The wire forms are what PostgreSQL's …send functions write
 * (src/backend/utils/adt/{int,uuid,bool,timestamp,date}.c). */

/* 2000-01-01, PostgreSQL's day 0. */
#define EPOCH_US (INT64_C(946684800) * CLOCK_US_PER_S)
#define DAY_US (INT64_C(86400) * CLOCK_US_PER_S)

enum { UUID_BYTES = 16, UUID_TEXT = 36, INTEGER_TEXT_MAX = 20, DATE_TEXT = 10 };

static const char FAULT_LENGTH[] = "has a length that its type can't have";
static const char FAULT_NO_INTEGER[] = "is no integer of 64 bits";
static const char FAULT_INFINITY[] = "is infinity, which has no RFC 3339 form";
static const char FAULT_YEAR[] = "is outside the years 1 to 9999, which RFC 3339 is limited to";
static const char FAULT_NO_TIME[] = "is no time; use timestamptz";

static int fault(const char *what, const char **ret_fault) {
    *ret_fault = what;
    return CANONICAL_E_FAULT;
}

/* Big-endian, two's complement; of 2, 4 or 8 bytes. */
static int64_t read_integer(struct span bytes) {
    uint64_t eight;
    uint32_t four;
    uint16_t two;
    switch (bytes.len) {
    case sizeof eight:
        memcpy(&eight, bytes.data, sizeof eight);
        return (int64_t)be64toh(eight);
    case sizeof four:
        memcpy(&four, bytes.data, sizeof four);
        return (int32_t)be32toh(four);
    default:
        ASSERT(bytes.len == sizeof two);
        memcpy(&two, bytes.data, sizeof two);
        return (int16_t)be16toh(two);
    }
}

int canonical_integer(enum row_form form, struct span bytes, int64_t *ret_value, const char **ret_fault) {
    size_t len = form == ROW_FORM_INT2 ? 2 : form == ROW_FORM_INT4 ? 4 : form == ROW_FORM_INT8 ? 8 : 0;
    if (len > 0) {
        if (bytes.len != len)
            return fault(FAULT_LENGTH, ret_fault);
        *ret_value = read_integer(bytes);
        return 0;
    }
    struct json_value text = {.kind = JSON_STRING, .text = bytes};
    if (form != ROW_FORM_TEXT || json_read_integer(&text, ret_value) != 0)
        return fault(FAULT_NO_INTEGER, ret_fault);
    return 0;
}

int canonical_add_integer(int64_t value, struct buf *b) {
    char text[INTEGER_TEXT_MAX];
    size_t at = sizeof text;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    for (; rest >= 100; rest /= 100) { /* two digits for one division of the whole */
        unsigned two = (unsigned)(rest % 100);
        text[--at] = (char)('0' + two % 10);
        text[--at] = (char)('0' + two / 10);
    }
    text[--at] = (char)('0' + rest % 10);
    if (rest >= 10)
        text[--at] = (char)('0' + rest / 10);
    if (value < 0)
        text[--at] = '-';
    return buf_add(b, text + at, sizeof text - at);
}

int canonical_wall_us(enum row_form form, struct span bytes, int64_t *ret_us, const char **ret_fault) {
    bool date = form == ROW_FORM_DATE;
    if (!date && form != ROW_FORM_TIMESTAMPTZ && form != ROW_FORM_TIMESTAMP)
        return fault(FAULT_NO_TIME, ret_fault);
    if (bytes.len != (date ? 4 : 8))
        return fault(FAULT_LENGTH, ret_fault);
    int64_t value = read_integer(bytes);
    int64_t lowest = date ? INT32_MIN : INT64_MIN, highest = date ? INT32_MAX : INT64_MAX;
    if (value == lowest || value == highest)
        return fault(FAULT_INFINITY, ret_fault);
    int64_t us;
    if (__builtin_mul_overflow(value, date ? DAY_US : 1, &us) || __builtin_add_overflow(us, EPOCH_US, &us))
        return fault(FAULT_YEAR, ret_fault);
    *ret_us = us;
    return 0;
}

static int add_wall(enum row_form form, struct span bytes, size_t text_max, struct buf *b, const char **ret_fault) {
    char text[CLOCK_RFC3339_SIZE];
    int64_t us;
    int r = canonical_wall_us(form, bytes, &us, ret_fault);
    if (r != 0)
        return r;
    if (clock_format_rfc3339(us, text) < 0)
        return fault(FAULT_YEAR, ret_fault);
    size_t len = strlen(text);
    return buf_add(b, text, len < text_max ? len : text_max);
}

static int add_uuid(struct span bytes, struct buf *b, const char **ret_fault) {
    static const char hex[] = "0123456789abcdef";
    if (bytes.len != UUID_BYTES)
        return fault(FAULT_LENGTH, ret_fault);
    char text[UUID_TEXT];
    size_t at = 0;
    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[at++] = '-';
        unsigned char c = (unsigned char)bytes.data[i];
        text[at++] = hex[c >> 4];
        text[at++] = hex[c & 15];
    }
    return buf_add(b, text, sizeof text);
}

static int add_boolean(struct span bytes, struct buf *b, const char **ret_fault) {
    if (bytes.len != 1)
        return fault(FAULT_LENGTH, ret_fault);
    return buf_add_span(b, bytes.data[0] ? SPAN_LITERAL("true") : SPAN_LITERAL("false"));
}

static int add_form_integer(enum row_form form, struct span bytes, struct buf *b, const char **ret_fault) {
    int64_t value;
    int r = canonical_integer(form, bytes, &value, ret_fault);
    return r != 0 ? r : canonical_add_integer(value, b);
}

int canonical_add(enum row_form form, struct span bytes, struct buf *b, const char **ret_fault) {
    switch (form) {
    case ROW_FORM_TEXT:
    case ROW_FORM_JSON:
        return buf_add_span(b, bytes);
    case ROW_FORM_JSONB:
        return bytes.len == 0 ? fault(FAULT_LENGTH, ret_fault) : buf_add(b, bytes.data + 1, bytes.len - 1);
    case ROW_FORM_BYTEA:
        return base64_add(b, bytes);
    case ROW_FORM_UUID:
        return add_uuid(bytes, b, ret_fault);
    case ROW_FORM_INT2:
    case ROW_FORM_INT4:
    case ROW_FORM_INT8:
        return add_form_integer(form, bytes, b, ret_fault);
    case ROW_FORM_BOOL:
        return add_boolean(bytes, b, ret_fault);
    case ROW_FORM_TIMESTAMPTZ:
    case ROW_FORM_TIMESTAMP:
        return add_wall(form, bytes, CLOCK_RFC3339_SIZE, b, ret_fault);
    case ROW_FORM_DATE:
        return add_wall(form, bytes, DATE_TEXT, b, ret_fault);
    }
    return fault(FAULT_LENGTH, ret_fault);
}

int canonical_add_time(enum row_form form, struct span bytes, struct buf *b, const char **ret_fault) {
    if (form == ROW_FORM_DATE)
        return add_wall(form, bytes, CLOCK_RFC3339_SIZE, b, ret_fault);
    return canonical_add(form, bytes, b, ret_fault);
}
