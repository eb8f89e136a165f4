/* json: write strings, check text, walk objects; never builds a tree, never changes a number (RFC 8259) */
#include "base/json.h"

#include "base/utf8.h"

/* The scan_… functions read one thing at p (p <= end) and return the place
 * behind it, or NULL if it isn't there. */

static const char *skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

static bool is_digit(const char *p, const char *end) {
    return p < end && *p >= '0' && *p <= '9';
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static const char *scan_hex4(const char *p, const char *end, uint32_t *ret_code) {
    if (end - p < 4)
        return NULL;
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return NULL;
        code = code << 4 | (uint32_t)digit;
    }
    *ret_code = code;
    return p + 4;
}

/* Behind the backslash. */
static const char *scan_escape(const char *p, const char *end) {
    uint32_t code;
    if (p == end)
        return NULL;
    if (*p == 'u')
        return scan_hex4(p + 1, end, &code);
    return strchr("\"\\/bfnrt", *p) && *p != '\0' ? p + 1 : NULL;
}

/* From behind the opening quote to behind the closing one. */
static const char *scan_string(const char *p, const char *end, bool *ret_escaped) {
    bool escaped = false;
    while (p && p < end) {
        unsigned char c = (unsigned char)*p;
        if (c == '"') {
            *ret_escaped = escaped;
            return p + 1;
        }
        if (c < 0x20)
            return NULL;
        if (c == '\\') {
            escaped = true;
            p = scan_escape(p + 1, end);
        } else if (c < 0x80) {
            p++;
        } else {
            uint32_t code;
            size_t length = utf8_next(p, end, &code);
            p = length ? p + length : NULL;
        }
    }
    return NULL;
}

static const char *scan_digits(const char *p, const char *end) {
    if (!is_digit(p, end))
        return NULL;
    while (is_digit(p, end))
        p++;
    return p;
}

/* RFC 8259 section 6. */
static const char *scan_number(const char *p, const char *end) {
    if (p < end && *p == '-')
        p++;
    p = p < end && *p == '0' ? p + 1 : scan_digits(p, end);
    if (p && p < end && *p == '.')
        p = scan_digits(p + 1, end);
    if (p && p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        p = scan_digits(p, end);
    }
    return p;
}

static const char *scan_word(const char *p, const char *end, struct span word) {
    return (size_t)(end - p) >= word.len && memcmp(p, word.data, word.len) == 0 ? p + word.len : NULL;
}

static const char *scan_scalar(const char *p, const char *end) {
    bool escaped;
    if (p == end)
        return NULL;
    switch (*p) {
    case '"':
        return scan_string(p + 1, end, &escaped);
    case 't':
        return scan_word(p, end, SPAN_LITERAL("true"));
    case 'f':
        return scan_word(p, end, SPAN_LITERAL("false"));
    case 'n':
        return scan_word(p, end, SPAN_LITERAL("null"));
    default:
        return scan_number(p, end);
    }
}

/* A member's name and its colon; *ret_name without the quotes. */
static const char *scan_name(const char *p, const char *end, struct json_value *ret_name) {
    p = skip_space(p, end);
    if (p == end || *p != '"')
        return NULL;
    const char *start = p + 1;
    *ret_name = (struct json_value){.kind = JSON_STRING};
    p = scan_string(start, end, &ret_name->escaped);
    if (!p)
        return NULL;
    ret_name->text = (struct span){start, (size_t)(p - 1 - start)};
    p = skip_space(p, end);
    return p < end && *p == ':' ? p + 1 : NULL;
}

/* The open brackets around a place: one bit a level, set for an object. */
struct nesting {
    uint64_t objects[JSON_DEPTH_MAX / 64];
    size_t depth;
};

static bool nesting_open(struct nesting *n, bool object) {
    if (n->depth == JSON_DEPTH_MAX)
        return false;
    uint64_t bit = UINT64_C(1) << n->depth % 64;
    uint64_t *word = &n->objects[n->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    n->depth++;
    return true;
}

static bool nesting_in_object(const struct nesting *n) {
    size_t level = n->depth - 1;
    return n->objects[level / 64] >> level % 64 & 1;
}

/* Before a value: takes opening brackets, each with its first member's name,
 * up to a scalar or an empty bracket pair, and that too. */
static const char *scan_down(const char *p, const char *end, struct nesting *n) {
    struct json_value name;
    while (p) {
        p = skip_space(p, end);
        if (p == end || (*p != '{' && *p != '['))
            return scan_scalar(p, end);
        bool object = *p == '{';
        if (!nesting_open(n, object))
            return NULL;
        p = skip_space(p + 1, end);
        if (p < end && *p == (object ? '}' : ']')) {
            n->depth--;
            return p + 1;
        }
        if (object)
            p = scan_name(p, end, &name);
    }
    return NULL;
}

/* Behind a value: takes closing brackets; *ret_more if a comma (and a name)
 * was taken, so that another value must follow. */
static const char *scan_up(const char *p, const char *end, struct nesting *n, bool *ret_more) {
    struct json_value name;
    *ret_more = false;
    while (p && n->depth > 0) {
        bool object = nesting_in_object(n);
        p = skip_space(p, end);
        if (p == end)
            return NULL;
        if (*p == ',') {
            *ret_more = true;
            return object ? scan_name(p + 1, end, &name) : p + 1;
        }
        if (*p != (object ? '}' : ']'))
            return NULL;
        n->depth--;
        p++;
    }
    return p;
}

/* One whole value; without recursion, so a hostile text costs no stack. */
static const char *scan_value(const char *p, const char *end) {
    struct nesting nesting;
    nesting.depth = 0;
    bool more = true;
    while (p && more) {
        p = scan_down(p, end, &nesting);
        if (p)
            p = scan_up(p, end, &nesting, &more);
    }
    return p;
}

static enum json_kind kind_of(char first) {
    switch (first) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

/* scan_value, which also says what it was. */
static const char *take_value(const char *p, const char *end, struct json_value *ret_value) {
    p = skip_space(p, end);
    const char *behind = scan_value(p, end);
    if (!behind)
        return NULL;
    struct json_value value = {.kind = kind_of(*p), .text = {p, (size_t)(behind - p)}};
    if (value.kind == JSON_STRING) {
        value.text = (struct span){p + 1, value.text.len - 2};
        value.escaped = value.text.len > 0 && memchr(value.text.data, '\\', value.text.len);
    }
    *ret_value = value;
    return behind;
}

int json_read(struct span text, struct json_value *ret_value) {
    struct json_value value;
    if (span_absent(text))
        return JSON_E_INVALID;
    const char *end = text.data + text.len;
    const char *p = take_value(text.data, end, &value);
    if (!p || skip_space(p, end) != end)
        return JSON_E_INVALID;
    *ret_value = value;
    return 0;
}

bool json_valid(struct span text) {
    struct json_value value;
    return json_read(text, &value) == 0;
}

static int walk_into(struct json_walk *w, struct span text, char bracket) {
    if (span_absent(text))
        return JSON_E_INVALID;
    const char *end = text.data + text.len;
    const char *p = skip_space(text.data, end);
    if (p == end || *p != bracket)
        return JSON_E_INVALID;
    *w = (struct json_walk){.at = p + 1, .end = end, .object = bracket == '{', .first = true};
    return 0;
}

int json_walk_object(struct json_walk *w, struct span text) {
    return walk_into(w, text, '{');
}

int json_walk_array(struct json_walk *w, struct span text) {
    return walk_into(w, text, '[');
}


int json_walk_next(struct json_walk *w, struct json_value *ret_name, struct json_value *ret_value) {
    struct json_value name = {0};
    const char *p = skip_space(w->at, w->end);
    if (p == w->end)
        return JSON_E_INVALID;
    if (*p == (w->object ? '}' : ']'))
        return skip_space(p + 1, w->end) == w->end ? JSON_E_END : JSON_E_INVALID;
    if (!w->first && *p++ != ',')
        return JSON_E_INVALID;
    if (w->object && !(p = scan_name(p, w->end, &name)))
        return JSON_E_INVALID;
    p = take_value(p, w->end, ret_value);
    if (!p)
        return JSON_E_INVALID;
    w->at = p;
    w->first = false;
    if (ret_name)
        *ret_name = name;
    return 0;
}

int json_add_string(struct buf *b, struct span s) {
    static const char hex[] = "0123456789abcdef";
    size_t start = b->len;
    int r = buf_add_char(b, '"');
    size_t from = 0;
    for (size_t i = 0; i < s.len && r == 0; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        char escape[6] = {'\\', (char)c};
        size_t length = 2;
        if (c < 0x20) {
            memcpy(escape, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
            length = 6;
        }
        r = buf_add(b, s.data + from, i - from);
        if (r == 0)
            r = buf_add(b, escape, length);
        from = i + 1;
    }
    if (r == 0)
        r = buf_add(b, s.data + from, s.len - from);
    if (r == 0)
        r = buf_add_char(b, '"');
    if (r < 0)
        b->len = start;
    return r;
}

static int add_utf8(struct buf *b, uint32_t code) {
    char bytes[4];
    size_t length;
    if (code < 0x80) {
        bytes[0] = (char)code;
        length = 1;
    } else if (code < 0x800) {
        bytes[0] = (char)(0xc0 | code >> 6);
        length = 2;
    } else if (code < 0x10000) {
        bytes[0] = (char)(0xe0 | code >> 12);
        length = 3;
    } else {
        bytes[0] = (char)(0xf0 | code >> 18);
        length = 4;
    }
    for (size_t i = 1; i < length; i++)
        bytes[i] = (char)(0x80 | (code >> 6 * (length - 1 - i) & 0x3f));
    return buf_add(b, bytes, length);
}

/* \uXXXX, or two of them for one character beyond U+FFFF; p behind the u. */
static int add_unicode_escape(struct buf *b, const char **p, const char *end) {
    uint32_t code, low;
    const char *behind = scan_hex4(*p, end, &code);
    if (!behind || code == 0 || (code >= 0xdc00 && code <= 0xdfff))
        return JSON_E_INVALID;
    if (code >= 0xd800 && code <= 0xdbff) {
        behind = scan_word(behind, end, SPAN_LITERAL("\\u"));
        behind = behind ? scan_hex4(behind, end, &low) : NULL;
        if (!behind || low < 0xdc00 || low > 0xdfff)
            return JSON_E_INVALID;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *p = behind;
    return add_utf8(b, code);
}

static int add_escape(struct buf *b, const char **p, const char *end) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (*p == end || **p == '\0')
        return JSON_E_INVALID;
    char c = *(*p)++;
    if (c == 'u')
        return add_unicode_escape(b, p, end);
    const char *at = strchr(from, c);
    return at ? buf_add_char(b, to[at - from]) : JSON_E_INVALID;
}

int json_unescape(const struct json_value *string, struct buf *b) {
    size_t start = b->len;
    const char *p = string->text.data, *end = p + string->text.len;
    int r = string->kind == JSON_STRING ? 0 : JSON_E_INVALID;
    while (r == 0 && p < end) {
        const char *backslash = string->escaped ? memchr(p, '\\', (size_t)(end - p)) : NULL;
        const char *plain_end = backslash ? backslash : end;
        r = buf_add(b, p, (size_t)(plain_end - p));
        p = backslash ? backslash + 1 : end;
        if (r == 0 && backslash)
            r = add_escape(b, &p, end);
    }
    if (r != 0)
        b->len = start;
    return r;
}

int json_read_integer(const struct json_value *number, int64_t *ret_value) {
    if (number->kind != JSON_NUMBER && number->kind != JSON_STRING)
        return JSON_E_INVALID;
    const char *p = number->text.data, *end = p + number->text.len;
    bool negative = p < end && *p == '-';
    p += negative;
    if (p == end || (*p == '0' && p + 1 < end))
        return JSON_E_INVALID;
    /* Counted downwards: the lowest integer has no positive twin. */
    int64_t value = 0;
    for (; p < end; p++) {
        if (!is_digit(p, end) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, *p - '0', &value))
            return JSON_E_INVALID;
    }
    if (!negative && value == INT64_MIN)
        return JSON_E_INVALID;
    *ret_value = negative ? value : -value;
    return 0;
}
