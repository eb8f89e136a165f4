/* media: media types as datacontenttype has them (RFC 2046; grammar in RFC 2045 section 5.1) */
#include "event/media.h"

#include <strings.h>

/* token: no space, control or tspecial, ASCII only. */
static bool is_token(char c) {
    return c > 0x20 && c < 0x7f && !strchr("()<>@,;:\\\"/[]?=", c);
}

static size_t token_length(struct span s) {
    size_t len = 0;
    while (len < s.len && is_token(s.data[len]))
        len++;
    return len;
}

static struct span skip(struct span s, size_t count) {
    return (struct span){s.data + count, s.len - count};
}

static struct span skip_space(struct span s) {
    while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t'))
        s = skip(s, 1);
    return s;
}

/* With its quotes (RFC 822); 0: it isn't one. */
static size_t quoted_length(struct span s) {
    for (size_t i = 1; i < s.len; i++) {
        if (s.data[i] == '"')
            return i + 1;
        if (s.data[i] == '\\' && i + 1 < s.len)
            i++;
    }
    return 0;
}

struct parameter {
    struct span name, value; /* value without quotes */
};

/* Takes "; name=value" from the front. */
static bool take_parameter(struct span *s, struct parameter *ret) {
    struct span rest = skip_space(*s);
    if (rest.len == 0 || rest.data[0] != ';')
        return false;
    rest = skip_space(skip(rest, 1));
    size_t name = token_length(rest);
    if (name == 0 || name == rest.len || rest.data[name] != '=')
        return false;
    ret->name = (struct span){rest.data, name};
    rest = skip(rest, name + 1);
    bool quoted = rest.len > 0 && rest.data[0] == '"';
    size_t value = quoted ? quoted_length(rest) : token_length(rest);
    if (value == 0)
        return false;
    ret->value = quoted ? (struct span){rest.data + 1, value - 2} : (struct span){rest.data, value};
    *s = skip(rest, value);
    return true;
}

/* Takes "type/subtype" from the front. */
static bool take_type(struct span *s, struct span *ret_subtype) {
    size_t type = token_length(*s);
    if (type == 0 || type == s->len || s->data[type] != '/')
        return false;
    *s = skip(*s, type + 1);
    size_t subtype = token_length(*s);
    *ret_subtype = (struct span){s->data, subtype};
    *s = skip(*s, subtype);
    return subtype > 0;
}

static bool equal_any_case(struct span s, const char *text) {
    return s.len == strlen(text) && strncasecmp(s.data, text, s.len) == 0;
}

bool media_type_valid(struct span text) {
    struct span subtype;
    struct parameter parameter;
    if (text.len == 0 || !take_type(&text, &subtype))
        return false;
    while (text.len > 0)
        if (!take_parameter(&text, &parameter))
            return false;
    return true;
}

bool media_type_is_json(struct span text) {
    struct span subtype;
    const size_t suffix = sizeof "+json" - 1;
    if (text.len == 0 || !take_type(&text, &subtype))
        return false;
    return equal_any_case(subtype, "json") ||
           (subtype.len > suffix && equal_any_case(skip(subtype, subtype.len - suffix), "+json"));
}

struct span media_type_charset(struct span text) {
    struct span subtype;
    struct parameter parameter;
    if (text.len == 0 || !take_type(&text, &subtype))
        return SPAN_ABSENT;
    while (text.len > 0 && take_parameter(&text, &parameter))
        if (equal_any_case(parameter.name, "charset"))
            return parameter.value;
    return SPAN_ABSENT;
}
