/* quantity: whole numbers, decimals, durations and sizes: text <-> value */
#include "config/quantity.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"

struct unit {
    const char *name;
    int64_t factor;
};

/* Largest first: printing takes the first that divides. */
static const struct unit duration_units[] = {
    {"h", INT64_C(3600000000)}, {"min", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1},
};
static const struct unit size_units[] = {
    {"GiB", INT64_C(1) << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1000000000}, {"MB", 1000000}, {"kB", 1000},
    {"", 1},         {"B", 1},
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* How many digits the text begins with; 0 for a leading zero that others would read as octal. */
static size_t count_digits(struct span text) {
    size_t count = 0;
    while (count < text.len && is_digit(text.data[count]))
        count++;
    return count > 1 && text.data[0] == '0' ? 0 : count;
}

static int read_digits(struct span digits, bool negative, int64_t *ret_value) {
    int64_t value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        int64_t digit = digits.data[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return QUANTITY_E_RANGE;
    }
    *ret_value = value;
    return 0;
}

int quantity_read_integer(struct span text, int64_t *ret_value) {
    bool negative = text.len > 0 && text.data[0] == '-';
    if (negative)
        text = (struct span){text.data + 1, text.len - 1};
    size_t digits = count_digits(text);
    if (digits == 0 || digits != text.len)
        return QUANTITY_E_FORM;
    return read_digits(text, negative, ret_value);
}

static int read_with_unit(struct span text, const struct unit *units, size_t count, int64_t *ret_value) {
    size_t digits = count_digits(text);
    if (digits == 0)
        return QUANTITY_E_FORM;
    struct span unit = {text.data + digits, text.len - digits};
    if (unit.len > 0 && unit.data[0] == ' ')
        unit = (struct span){unit.data + 1, unit.len - 1};
    for (size_t i = 0; i < count; i++) {
        if (!span_is(unit, units[i].name))
            continue;
        int64_t value;
        int r = read_digits((struct span){text.data, digits}, false, &value);
        if (r != 0)
            return r;
        if (__builtin_mul_overflow(value, units[i].factor, &value))
            return QUANTITY_E_RANGE;
        *ret_value = value;
        return 0;
    }
    return QUANTITY_E_UNIT;
}

int quantity_read_duration(struct span text, int64_t *ret_us) {
    if (span_is(text, "0")) {
        *ret_us = 0;
        return 0;
    }
    return read_with_unit(text, duration_units, ARRAY_LENGTH(duration_units), ret_us);
}

int quantity_read_size(struct span text, int64_t *ret_bytes) {
    return read_with_unit(text, size_units, ARRAY_LENGTH(size_units), ret_bytes);
}

#define DECIMAL_MAX_BYTES 32

int quantity_read_decimal(struct span text, double *ret_value) {
    size_t whole = count_digits(text), end = whole;
    if (whole == 0 || text.len > DECIMAL_MAX_BYTES)
        return QUANTITY_E_FORM;
    if (end < text.len && text.data[end] == '.') {
        end++;
        while (end < text.len && is_digit(text.data[end]))
            end++;
    }
    if (end != text.len || text.data[end - 1] == '.')
        return QUANTITY_E_FORM;
    char digits[DECIMAL_MAX_BYTES + 1] = {0};
    memcpy(digits, text.data, text.len);
    *ret_value = strtod(digits, NULL); /* the programs never call setlocale: the point is '.' */
    return 0;
}

static int add_with_unit(struct buf *b, int64_t value, const struct unit *units, size_t count) {
    ASSERT(value >= 0);
    if (value == 0)
        return buf_add_char(b, '0');
    for (size_t i = 0; i < count; i++)
        if (value % units[i].factor == 0)
            return buf_addf(b, "%" PRId64 "%s", value / units[i].factor, units[i].name);
    log_bug(__FILE__, __LINE__, "the smallest unit divides everything");
}

int quantity_add_duration(struct buf *b, int64_t us) {
    return add_with_unit(b, us, duration_units, ARRAY_LENGTH(duration_units));
}

int quantity_add_size(struct buf *b, int64_t bytes) {
    return add_with_unit(b, bytes, size_units, ARRAY_LENGTH(size_units));
}

int quantity_add_decimal(struct buf *b, double value) {
    ASSERT(value >= 0);
    ASSERT(value < 1e15);
    char text[64];
    for (int digits = 1; digits <= DECIMAL_MAX_BYTES; digits++) { /* what was read had no more */
        snprintf(text, sizeof(text), "%.*f", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return buf_addf(b, "%s", text);
}
