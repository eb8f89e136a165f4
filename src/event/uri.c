/* uri: is a text a URI or a URI-reference by the grammar of RFC 3986? */
#include "event/uri.h"

#include <arpa/inet.h>
#include <stdint.h>

/* Character classes of RFC 3986 section 2 and where they are allowed. */
enum uri_class {
    URI_ALPHA = 1 << 0,
    URI_DIGIT = 1 << 1,
    URI_MARK = 1 << 2,      /* - . _ ~ */
    URI_SUB_DELIM = 1 << 3, /* ! $ & ' ( ) * + , ; = */
    URI_COLON = 1 << 4,
    URI_AT = 1 << 5,
    URI_SLASH = 1 << 6,
    URI_QUESTION = 1 << 7,
    URI_PERCENT = 1 << 8, /* with two hex digits */
    URI_HASH = 1 << 9,    /* only before a fragment */

    URI_UNRESERVED = URI_ALPHA | URI_DIGIT | URI_MARK,
    URI_REG_NAME = URI_UNRESERVED | URI_PERCENT | URI_SUB_DELIM,
    URI_USERINFO = URI_REG_NAME | URI_COLON,
    URI_PATH = URI_USERINFO | URI_AT | URI_SLASH,
    URI_QUERY = URI_PATH | URI_QUESTION,
};

static const uint16_t CLASSES[256] = {
    ['A' ... 'Z'] = URI_ALPHA, ['a' ... 'z'] = URI_ALPHA, ['0' ... '9'] = URI_DIGIT,
    ['-'] = URI_MARK,      ['.'] = URI_MARK,      ['_'] = URI_MARK,      ['~'] = URI_MARK,
    ['!'] = URI_SUB_DELIM, ['$'] = URI_SUB_DELIM, ['&'] = URI_SUB_DELIM, ['\''] = URI_SUB_DELIM,
    ['('] = URI_SUB_DELIM, [')'] = URI_SUB_DELIM, ['*'] = URI_SUB_DELIM, ['+'] = URI_SUB_DELIM,
    [','] = URI_SUB_DELIM, [';'] = URI_SUB_DELIM, ['='] = URI_SUB_DELIM, [':'] = URI_COLON,
    ['@'] = URI_AT,        ['/'] = URI_SLASH,     ['?'] = URI_QUESTION,  ['%'] = URI_PERCENT,
    ['#'] = URI_HASH,
};

static int class_of(char c) {
    return CLASSES[(unsigned char)c];
}

static bool is_hex(char c) {
    return (class_of(c) & URI_DIGIT) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static struct span from(struct span s, size_t at) {
    return (struct span){s.data + at, s.len - at};
}

/* Takes the longest run of those classes from the front. */
static struct span take(struct span *s, int classes) {
    int plain = classes & ~URI_PERCENT;
    size_t len = 0;
    for (;;) {
        while (len < s->len && (class_of(s->data[len]) & plain))
            len++;
        bool escape = (classes & URI_PERCENT) && s->len - len >= 3 && s->data[len] == '%';
        if (!escape || !is_hex(s->data[len + 1]) || !is_hex(s->data[len + 2]))
            break;
        len += 3;
    }
    struct span taken = {s->data, len};
    *s = from(*s, len);
    return taken;
}

static bool take_one(struct span *s, char c) {
    if (s->len == 0 || s->data[0] != c)
        return false;
    *s = from(*s, 1);
    return true;
}

static bool only(struct span s, int classes) {
    take(&s, classes);
    return s.len == 0;
}

/* IPvFuture = "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" ) */
static bool ip_future_valid(struct span s) {
    size_t at = 1;
    while (at < s.len && is_hex(s.data[at]))
        at++;
    if (at == 1 || at == s.len || s.data[at] != '.' || at + 1 == s.len)
        return false;
    return only(from(s, at + 1), URI_UNRESERVED | URI_SUB_DELIM | URI_COLON);
}

/* Between the brackets of section 3.2.2. */
static bool ip_literal_valid(struct span s) {
    if (s.len > 0 && (s.data[0] == 'v' || s.data[0] == 'V'))
        return ip_future_valid(s);
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (s.len >= sizeof text || memchr(s.data, '\0', s.len))
        return false;
    memcpy(text, s.data, s.len);
    text[s.len] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1;
}

/* IP-literal = "[" ( IPv6address / IPvFuture  ) "]" */
static bool take_ip_literal(struct span *s) {
    const char *end = memchr(s->data, ']', s->len);
    if (!end || !ip_literal_valid((struct span){s->data, (size_t)(end - s->data)}))
        return false;
    *s = from(*s, (size_t)(end - s->data) + 1);
    return true;
}

/* authority = [ userinfo "@" ] host [ ":" port ]; ends where a path, query or fragment may begin. */
static bool take_authority(struct span *s) {
    struct span rest = *s;
    take(&rest, URI_USERINFO);
    if (take_one(&rest, '@'))
        *s = rest;
    if (!take_one(s, '['))
        take(s, URI_REG_NAME);
    else if (!take_ip_literal(s))
        return false;
    if (take_one(s, ':'))
        take(s, URI_DIGIT);
    return s->len == 0 || (class_of(s->data[0]) & (URI_SLASH | URI_QUESTION | URI_HASH));
}

/* scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." ), then ":"; its length with the colon, 0: none. */
static size_t scheme_length(struct span s) {
    if (s.len == 0 || !(class_of(s.data[0]) & URI_ALPHA))
        return 0;
    for (size_t i = 1; i < s.len; i++) {
        char c = s.data[i];
        if (c == ':')
            return i + 1;
        if (!(class_of(c) & (URI_ALPHA | URI_DIGIT)) && c != '+' && c != '-' && c != '.')
            return 0;
    }
    return 0;
}

/* path-noscheme: what is before a colon in the first segment would have been a scheme. */
static bool colon_in_first_segment(struct span path) {
    take(&path, URI_REG_NAME | URI_AT);
    return path.len > 0 && path.data[0] == ':';
}

/* hier-part or relative-part, then query and fragment. */
static bool rest_valid(struct span s, bool has_scheme) {
    bool has_authority = s.len >= 2 && s.data[0] == '/' && s.data[1] == '/';
    if (has_authority) {
        s = from(s, 2);
        if (!take_authority(&s))
            return false;
    }
    struct span path = take(&s, URI_PATH);
    if (!has_scheme && !has_authority && colon_in_first_segment(path))
        return false;
    if (take_one(&s, '?'))
        take(&s, URI_QUERY);
    if (take_one(&s, '#'))
        take(&s, URI_QUERY);
    return s.len == 0;
}

bool uri_reference_valid(struct span text) {
    size_t scheme = scheme_length(text);
    return text.len == 0 || rest_valid(from(text, scheme), scheme > 0);
}

bool uri_valid(struct span text) {
    size_t scheme = scheme_length(text);
    return scheme > 0 && rest_valid(from(text, scheme), true);
}
