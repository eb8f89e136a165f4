/* template: text with {attribute}, {attribute|filter}, {attribute?default}; compiled at load */
#include "rule/template.h"

#include <errno.h>

#include "base/log.h"
#include "event/attribute.h"

enum template_filter_kind { FILTER_FIRST, FILTER_LAST, FILTER_LOWER, FILTER_UPPER, FILTER_REPLACE };

static const char *const FILTER_NAMES[] = {
    [FILTER_FIRST] = "first", [FILTER_LAST] = "last",       [FILTER_LOWER] = "lower",
    [FILTER_UPPER] = "upper", [FILTER_REPLACE] = "replace",
};

struct template_filter {
    enum template_filter_kind kind;
    struct span from, to; /* of replace; into the template's text */
};

/* A literal, or an attribute with what is done to it. */
struct template_part {
    struct span literal;   /* absent: an attribute */
    struct span attribute;
    struct span fallback;  /* absent: none */
    struct template_filter filters[TEMPLATE_FILTERS_MAX];
    size_t filter_count;
};

struct template {
    struct buf text; /* what the spans of the parts point into; never grows once reserved */
    struct template_part *parts;
    size_t part_count, part_capacity;
};

/* The place while compiling. */
struct reader {
    const char *start, *at, *end;
    struct template *template;
    struct error *reterr;
    size_t *ret_column;
};

static int fault(struct reader *r, const char *at, const char *what) {
    error_set(r->reterr, ERROR_CONFIG, "%s", what);
    *r->ret_column = (size_t)(at - r->start);
    return -EINVAL;
}

static bool next_is(const struct reader *r, char c) {
    return r->at < r->end && *r->at == c;
}

/* The text never outgrows its source, for which room was made: spans stay valid. */
static void keep_char(struct template *t, char c) {
    ASSERT(t->text.len < t->text.capacity);
    t->text.data[t->text.len++] = c;
}

static struct span kept_since(const struct template *t, size_t start) {
    return (struct span){t->text.data + start, t->text.len - start};
}

static int add_part(struct template *t, struct template_part **ret_part) {
    if (t->part_count == t->part_capacity) {
        size_t capacity = t->part_capacity ? t->part_capacity * 2 : 2;
        struct template_part *parts = realloc(t->parts, capacity * sizeof *parts);
        if (!parts)
            return -ENOMEM;
        t->parts = parts;
        t->part_capacity = capacity;
    }
    t->parts[t->part_count] = (struct template_part){.literal = SPAN_ABSENT};
    *ret_part = &t->parts[t->part_count++];
    return 0;
}

static int read_literal(struct reader *r) {
    size_t start = r->template->text.len;
    while (r->at < r->end) {
        char c = *r->at;
        bool brace = c == '{' || c == '}';
        bool doubled = brace && r->at + 1 < r->end && r->at[1] == c;
        if (brace && !doubled) {
            if (c == '}')
                return fault(r, r->at, "a '}' without '{'; a literal brace is written '}}'");
            break;
        }
        keep_char(r->template, c);
        r->at += doubled ? 2 : 1;
    }
    struct template_part *part;
    int result = add_part(r->template, &part);
    if (result == 0)
        part->literal = kept_since(r->template, start);
    return result;
}

/* Inside braces, up to one of the stops. */
static struct span read_name(struct reader *r, const char *stops) {
    size_t start = r->template->text.len;
    while (r->at < r->end && (*r->at == '\0' || !strchr(stops, *r->at)))
        keep_char(r->template, *r->at++);
    return kept_since(r->template, start);
}

/* The same where any character may stand: a backslash takes the next one literally. */
static int read_text(struct reader *r, const char *stops, struct span *ret_text) {
    size_t start = r->template->text.len;
    while (r->at < r->end && (*r->at == '\0' || !strchr(stops, *r->at))) {
        if (*r->at == '{')
            return fault(r, r->at, "a '{' inside braces; write it '\\{'");
        if (*r->at == '\\' && ++r->at == r->end)
            return fault(r, r->at - 1, "a backslash at the end");
        keep_char(r->template, *r->at++);
    }
    *ret_text = kept_since(r->template, start);
    return 0;
}

static int filter_by_name(struct span name) {
    for (size_t i = 0; i < ARRAY_LENGTH(FILTER_NAMES); i++)
        if (span_is(name, FILTER_NAMES[i]))
            return (int)i;
    return -1;
}

/* Behind "replace". */
static int read_replace(struct reader *r, struct template_filter *filter) {
    static const char usage[] = "replace is written replace:FROM:TO, with at least one character as FROM";
    if (!next_is(r, ':'))
        return fault(r, r->at, usage);
    const char *from = ++r->at;
    int result = read_text(r, ":|?}", &filter->from);
    if (result < 0)
        return result;
    if (filter->from.len == 0 || !next_is(r, ':'))
        return fault(r, from, usage);
    r->at++;
    return read_text(r, ":|?}", &filter->to);
}

static int read_filter(struct reader *r, struct template_part *part) {
    const char *name_at = r->at;
    int kind = filter_by_name(read_name(r, ":|?}"));
    if (kind < 0)
        return fault(r, name_at, "no such filter; there are first, last, lower, upper, replace:FROM:TO");
    if (part->filter_count == TEMPLATE_FILTERS_MAX)
        return fault(r, name_at, "more than 8 filters in one pair of braces");
    struct template_filter *filter = &part->filters[part->filter_count++];
    *filter = (struct template_filter){.kind = (enum template_filter_kind)kind};
    int result = filter->kind == FILTER_REPLACE ? read_replace(r, filter) : 0;
    if (result == 0 && next_is(r, ':'))
        return fault(r, r->at, "this filter takes nothing more; a literal ':' is written '\\:'");
    return result;
}
_Static_assert(TEMPLATE_FILTERS_MAX == 8, "the sentence above says so");

/* Behind the opening brace, to behind the closing one. */
static int read_attribute(struct reader *r) {
    const char *brace = r->at - 1;
    struct template_part *part;
    int result = add_part(r->template, &part);
    if (result < 0)
        return result;
    part->attribute = read_name(r, "|?}");
    if (!attribute_name_valid(part->attribute))
        return fault(r, brace + 1, "no attribute name; names have only a-z and 0-9, and data is none");
    while (result == 0 && next_is(r, '|')) {
        r->at++;
        result = read_filter(r, part);
    }
    if (result == 0 && next_is(r, '?')) {
        r->at++;
        result = read_text(r, "}", &part->fallback);
    }
    if (result < 0)
        return result;
    if (!next_is(r, '}'))
        return fault(r, brace, "this '{' is never closed; a literal brace is written '{{'");
    r->at++;
    return 0;
}

static int read_parts(struct reader *r) {
    int result = 0;
    while (result == 0 && r->at < r->end) {
        bool literal = *r->at != '{' || (r->at + 1 < r->end && r->at[1] == '{');
        if (literal) {
            result = read_literal(r);
        } else {
            r->at++;
            result = read_attribute(r);
        }
    }
    return result;
}

static void cleanup_template(struct template **t) {
    template_free(*t);
}

int template_compile(struct span text, struct template **ret_template, struct error *reterr, size_t *ret_column) {
    CLEANUP(cleanup_template) struct template *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    struct reader reader = {text.data, text.data, text.data, t, reterr, ret_column};
    if (text.len > TEMPLATE_BYTES_MAX)
        return fault(&reader, text.data, "a template can't be longer than 64 KiB");
    t->text = BUF_INIT(TEMPLATE_BYTES_MAX);
    int r = buf_reserve(&t->text, text.len);
    if (text.len > 0)
        reader.end = text.data + text.len;
    if (r == 0)
        r = read_parts(&reader);
    if (r == 0)
        *ret_template = TAKE(t);
    return r;
}

void template_free(struct template *t) {
    if (!t)
        return;
    buf_done(&t->text);
    free(t->parts);
    free(t);
}

struct span template_literal(const struct template *t) {
    if (t->part_count == 0)
        return SPAN_LITERAL("");
    return t->part_count == 1 ? t->parts[0].literal : SPAN_ABSENT;
}

int template_check(const struct template *t, const struct event *e, struct span *ret_name) {
    for (size_t i = 0; i < t->part_count; i++) {
        const struct template_part *part = &t->parts[i];
        bool needed = span_absent(part->literal) && span_absent(part->fallback);
        if (needed && span_absent(event_get(e, part->attribute))) {
            *ret_name = part->attribute;
            return TEMPLATE_E_ABSENT;
        }
    }
    return 0;
}

/* The filters work on the end of the buffer, from `start` on. */

static void keep_only(struct buf *b, size_t start, const char *from, size_t len) {
    if (len > 0)
        memmove(b->data + start, from, len);
    b->len = start + len;
}

static void cut_dotted(struct buf *b, size_t start, bool first) {
    size_t len = b->len - start;
    const char *text = b->data + start;
    const char *dot = first ? memchr(text, '.', len) : memrchr(text, '.', len);
    if (dot && first)
        keep_only(b, start, text, (size_t)(dot - text));
    else if (dot)
        keep_only(b, start, dot + 1, len - (size_t)(dot + 1 - text));
}

/* ASCII only, whatever the locale says. */
static void change_case(struct buf *b, size_t start, char from, char to) {
    for (size_t i = start; i < b->len; i++) {
        char *c = &b->data[i];
        if (*c >= from && *c <= from + ('z' - 'a'))
            *c = (char)(*c - from + to);
    }
}

/* The result is written behind the text, then moved to its place. */
static int replace(struct buf *b, size_t start, const struct template_filter *filter) {
    size_t end = b->len, at = start;
    int r = 0;
    while (at < end && r == 0) {
        const char *found = memmem(b->data + at, end - at, filter->from.data, filter->from.len);
        size_t plain = (found ? (size_t)(found - b->data) : end) - at;
        r = buf_reserve(b, plain + filter->to.len);
        if (r < 0)
            break;
        r = buf_add(b, b->data + at, plain);
        at += plain;
        if (r == 0 && found) {
            r = buf_add_span(b, filter->to);
            at += filter->from.len;
        }
    }
    if (r == 0)
        keep_only(b, start, b->data + end, b->len - end);
    return r;
}

static int apply(struct buf *b, size_t start, const struct template_filter *filter) {
    if (b->len == start)
        return 0;
    switch (filter->kind) {
    case FILTER_FIRST:
        cut_dotted(b, start, true);
        return 0;
    case FILTER_LAST:
        cut_dotted(b, start, false);
        return 0;
    case FILTER_LOWER:
        change_case(b, start, 'A', 'a');
        return 0;
    case FILTER_UPPER:
        change_case(b, start, 'a', 'A');
        return 0;
    case FILTER_REPLACE:
        return replace(b, start, filter);
    }
    return 0;
}

static int render_part(const struct template_part *part, const struct event *e, struct buf *b) {
    if (!span_absent(part->literal))
        return buf_add_span(b, part->literal);
    struct span value = event_get(e, part->attribute);
    if (span_absent(value))
        return span_absent(part->fallback) ? TEMPLATE_E_ABSENT : buf_add_span(b, part->fallback);
    size_t start = b->len;
    int r = buf_add_span(b, value);
    for (size_t i = 0; i < part->filter_count && r == 0; i++)
        r = apply(b, start, &part->filters[i]);
    return r;
}

int template_render(const struct template *t, const struct event *e, struct buf *b) {
    size_t start = b->len;
    int r = 0;
    for (size_t i = 0; i < t->part_count && r == 0; i++)
        r = render_part(&t->parts[i], e, b);
    if (r != 0)
        b->len = start;
    return r;
}
