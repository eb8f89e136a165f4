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
    URI_BRACKET = 1 << 10, /* ], only behind an IP literal */

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
    ['#'] = URI_HASH,      [']'] = URI_BRACKET,
};

static int class_of(char c) {
    return CLASSES[(unsigned char)c];
}

static bool is_hex(char c) {
    return (class_of(c) & URI_DIGIT) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool only(struct span s, int classes) {
    for (size_t i = 0; i < s.len; i++) {
        if (!(class_of(s.data[i]) & classes))
            return false;
        if (s.data[i] == '%' && (s.len - i < 3 || !is_hex(s.data[i + 1]) || !is_hex(s.data[i + 2])))
            return false;
    }
    return true;
}

static struct span from(struct span s, size_t at) {
    return (struct span){s.data + at, s.len - at};
}

/* Cuts s before the first character of those classes; returns what stands before it. */
static struct span take_until(struct span *s, int stops) {
    size_t len = 0;
    while (len < s->len && !(class_of(s->data[len]) & stops))
        len++;
    struct span taken = {s->data, len};
    *s = from(*s, len);
    return taken;
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

/* authority = [ userinfo "@" ] host [ ":" port ] */
static bool authority_valid(struct span s) {
    const char *at = s.len > 0 ? memchr(s.data, '@', s.len) : NULL;
    if (at) {
        if (!only((struct span){s.data, (size_t)(at - s.data)}, URI_USERINFO))
            return false;
        s = from(s, (size_t)(at - s.data) + 1);
    }
    if (s.len > 0 && s.data[0] == '[') {
        s = from(s, 1);
        struct span literal = take_until(&s, URI_BRACKET);
        if (s.len == 0 || !ip_literal_valid(literal))
            return false;
        s = from(s, 1);
        if (s.len > 0 && s.data[0] != ':')
            return false;
    } else if (!only(take_until(&s, URI_COLON), URI_REG_NAME)) {
        return false;
    }
    return s.len == 0 || only(from(s, 1), URI_DIGIT);
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

/* hier-part or relative-part, then query and fragment. */
static bool rest_valid(struct span s, bool has_scheme) {
    bool has_authority = s.len >= 2 && s.data[0] == '/' && s.data[1] == '/';
    if (has_authority) {
        s = from(s, 2);
        if (!authority_valid(take_until(&s, URI_SLASH | URI_QUESTION | URI_HASH)))
            return false;
    }
    struct span path = take_until(&s, URI_QUESTION | URI_HASH);
    struct span first_segment = path;
    first_segment = take_until(&first_segment, URI_SLASH);
    /* path-noscheme: a colon in the first segment would have been a scheme's */
    if (!has_scheme && !has_authority && first_segment.len > 0 && memchr(first_segment.data, ':', first_segment.len))
        return false;
    if (!only(path, URI_PATH))
        return false;
    if (s.len > 0 && s.data[0] == '?') {
        s = from(s, 1);
        if (!only(take_until(&s, URI_HASH), URI_QUERY))
            return false;
    }
    return s.len == 0 || only(from(s, 1), URI_QUERY);
}

bool uri_reference_valid(struct span text) {
    size_t scheme = scheme_length(text);
    return text.len == 0 || rest_valid(from(text, scheme), scheme > 0);
}

bool uri_valid(struct span text) {
    size_t scheme = scheme_length(text);
    return scheme > 0 && rest_valid(from(text, scheme), true);
}
