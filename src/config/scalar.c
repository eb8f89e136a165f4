/* scalar: one text of the configuration <-> the value that its option asks for */
#include "config/scalar.h"

#include <errno.h>
#include <inttypes.h>
#include <strings.h>

#include "base/log.h"
#include "config/nearest.h"
#include "config/quantity.h"

#define SHOWN_MAX 80 /* bytes of a wrong value that a message repeats */

static int fail(struct error *reterr, struct span text, const char *wrong, const char *allowed) {
    bool long_text = text.len > SHOWN_MAX;
    error_set(reterr, ERROR_CONFIG, "\"%.*s%s\" %s; %s", long_text ? SHOWN_MAX : (int)text.len, text.data,
              long_text ? "..." : "", wrong, allowed);
    return -EINVAL;
}

static int read_boolean(struct span text, bool *ret_value, struct error *reterr) {
    static const char *const traps[] = {"yes", "no", "on", "off", "y", "n", "true", "false"};
    if (span_is(text, "true") || span_is(text, "false")) {
        *ret_value = span_is(text, "true");
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(traps); i++)
        if (text.len == strlen(traps[i]) && strncasecmp(text.data, traps[i], text.len) == 0)
            return fail(reterr, text, "is a boolean to some YAML readers and a text to others, so to none here",
                        "write true or false");
    return fail(reterr, text, "is no boolean", "true or false is allowed");
}

/* The number kinds ------------------------------------------------------- */
static int read_number(enum option_kind kind, struct span text, int64_t *ret_value) {
    if (kind == OPTION_DURATION)
        return quantity_read_duration(text, ret_value);
    if (kind == OPTION_SIZE)
        return quantity_read_size(text, ret_value);
    return quantity_read_integer(text, ret_value);
}

static int add_number(enum option_kind kind, int64_t value, struct buf *b) {
    if (kind == OPTION_DURATION)
        return quantity_add_duration(b, value);
    if (kind == OPTION_SIZE)
        return quantity_add_size(b, value);
    return buf_addf(b, "%" PRId64, value);
}

static const char *number_form(enum option_kind kind) {
    if (kind == OPTION_DURATION)
        return "a duration is a whole number with one of us, ms, s, min, h";
    if (kind == OPTION_SIZE)
        return "a size is a whole number of bytes, or one with KiB, MiB, GiB, kB, MB or GB";
    if (kind == OPTION_DECIMAL)
        return "a number like 2 or 1.5 is allowed";
    return "a whole number is allowed, written in decimal without leading zeros";
}

static bool bounded(const struct option *o) {
    return o->min != 0 || o->max != 0;
}

static int refuse_range(const struct option *o, struct span text, struct error *reterr) {
    CLEANUP(buf_done) struct buf allowed = BUF_INIT(256);
    enum option_kind kind = o->kind == OPTION_DECIMAL ? OPTION_INTEGER : o->kind;
    int r = add_number(kind, o->min, &allowed);
    if (r == 0)
        r = buf_add_span(&allowed, o->max == 0 ? SPAN_LITERAL(" or more is allowed") : SPAN_LITERAL(" to "));
    if (r == 0 && o->max != 0)
        r = add_number(kind, o->max, &allowed);
    if (r == 0 && o->max != 0)
        r = buf_add_span(&allowed, SPAN_LITERAL(" is allowed"));
    if (r == 0)
        r = buf_terminate(&allowed);
    return r != 0 ? r : fail(reterr, text, "is out of range", allowed.data);
}

static int read_integer(const struct option *o, struct span text, int64_t *ret_value, struct error *reterr) {
    int64_t value = 0;
    int r = read_number(o->kind, text, &value);
    if (r == QUANTITY_E_FORM)
        return fail(reterr, text, "is not understood", number_form(o->kind));
    if (r == QUANTITY_E_UNIT)
        return fail(reterr, text, "has no unit that is known here", number_form(o->kind));
    if (r == QUANTITY_E_RANGE && !bounded(o))
        return fail(reterr, text, "is too large", "it must fit in 64 bits");
    if (r == QUANTITY_E_RANGE || (bounded(o) && (value < o->min || (o->max != 0 && value > o->max))))
        return refuse_range(o, text, reterr);
    *ret_value = value;
    return 0;
}

static int read_decimal(const struct option *o, struct span text, double *ret_value, struct error *reterr) {
    double value = 0;
    if (quantity_read_decimal(text, &value) != 0)
        return fail(reterr, text, "is not understood", number_form(o->kind));
    if (bounded(o) && (value < (double)o->min || (o->max != 0 && value > (double)o->max)))
        return refuse_range(o, text, reterr);
    *ret_value = value;
    return 0;
}

static int refuse_choice(const struct option *o, struct span text, struct error *reterr) {
    CLEANUP(buf_done) struct buf allowed = BUF_INIT(1024);
    struct nearest nearest = {.word = text};
    int r = 0;
    for (int i = 0; r == 0 && o->choices[i]; i++) {
        nearest_try(&nearest, span_of(o->choices[i]));
        r = buf_addf(&allowed, "%s%s", i == 0 ? "" : o->choices[i + 1] ? ", " : " or ", o->choices[i]);
    }
    if (r == 0)
        r = span_absent(nearest.found)
                ? buf_addf(&allowed, " is allowed")
                : buf_addf(&allowed, " is allowed: did you mean \"%.*s\"?", SPAN_ARGS(nearest.found));
    if (r == 0)
        r = buf_terminate(&allowed);
    return r != 0 ? r : fail(reterr, text, "is none of the choices", allowed.data);
}

static int read_choice(const struct option *o, struct span text, int *ret_value, struct error *reterr) {
    for (int i = 0; o->choices[i]; i++)
        if (span_is(text, o->choices[i])) {
            *ret_value = i;
            return 0;
        }
    return refuse_choice(o, text, reterr);
}

static int read_text(struct span text, char **ret_value) {
    *ret_value = strndup(text.data, text.len);
    return *ret_value ? 0 : -ENOMEM;
}

static int read_member(const struct option *o, struct span text, void *member, struct error *reterr) {
    switch (o->kind) {
    case OPTION_BOOLEAN:
        return read_boolean(text, member, reterr);
    case OPTION_INTEGER:
    case OPTION_DURATION:
    case OPTION_SIZE:
        return read_integer(o, text, member, reterr);
    case OPTION_DECIMAL:
        return read_decimal(o, text, member, reterr);
    case OPTION_CHOICE:
        return read_choice(o, text, member, reterr);
    case OPTION_TEXT:
        return read_text(text, member);
    case OPTION_SECRET:
    case OPTION_TEXTS:
    case OPTION_PROPERTIES:
        break;
    }
    log_bug(__FILE__, __LINE__, "not a scalar");
}

int scalar_read(const struct option *o, struct span text, void *options, struct error *reterr) {
    ASSERT(!span_absent(text));
    ASSERT(memchr(text.data, '\0', text.len) == NULL);
    if (o->check) {
        int r = o->check(text, reterr);
        if (r != 0)
            return r;
    }
    return read_member(o, text, (char *)options + o->offset, reterr);
}

int scalar_add(const struct option *o, const void *options, struct buf *b) {
    const void *member = (const char *)options + o->offset;
    switch (o->kind) {
    case OPTION_BOOLEAN:
        return buf_addf(b, "%s", *(const bool *)member ? "true" : "false");
    case OPTION_INTEGER:
    case OPTION_DURATION:
    case OPTION_SIZE:
        return add_number(o->kind, *(const int64_t *)member, b);
    case OPTION_DECIMAL:
        return quantity_add_decimal(b, *(const double *)member);
    case OPTION_CHOICE:
        return buf_addf(b, "%s", o->choices[*(const int *)member]);
    case OPTION_TEXT:
        return buf_add_span(b, span_of(*(char *const *)member));
    case OPTION_SECRET:
    case OPTION_TEXTS:
    case OPTION_PROPERTIES:
        break;
    }
    log_bug(__FILE__, __LINE__, "not a scalar");
}
