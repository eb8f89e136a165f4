/* mask: takes the password out of a connection string before it is shown */
#include "config/mask.h"

#include <strings.h>

#include "base/log.h"

/* Where to go on, and the value that stands there. */
struct secret_place {
    size_t start, end;
};

static bool is_key_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool ends_with(struct span word, const char *end) {
    size_t len = strlen(end);
    return word.len >= len && strncasecmp(word.data + word.len - len, end, len) == 0;
}

/* The key that ends before `at`, spaces around "=" allowed as libpq does. */
static bool follows_secret_key(struct span text, size_t at) {
    while (at > 0 && text.data[at - 1] == ' ')
        at--;
    size_t end = at;
    while (at > 0 && is_key_character(text.data[at - 1]))
        at--;
    struct span key = {text.data + at, end - at};
    return ends_with(key, "password") || ends_with(key, "passwd") || ends_with(key, "secret");
}

/* libpq's conninfo: 'quoted with \' escapes', or up to a space; of a URI's query, up to '&' as well. */
static struct secret_place value_after(struct span text, size_t equals) {
    size_t start = equals + 1;
    while (start < text.len && text.data[start] == ' ')
        start++;
    bool quoted = start < text.len && text.data[start] == '\'';
    size_t end = start + quoted;
    while (end < text.len && (quoted ? text.data[end] != '\'' : !strchr(" \t\r\n&#", text.data[end])))
        end += text.data[end] == '\\' && end + 1 < text.len ? 2 : 1;
    return (struct secret_place){start, end + (quoted && end < text.len)};
}

/* Behind "://" (RFC 3986 3.2.1): user:PASSWORD@, the last @ before the path. */
static bool find_userinfo(struct span text, size_t at, struct secret_place *ret_place) {
    size_t colon = 0, last_at = 0;
    for (size_t i = at; i < text.len && !strchr("/?#", text.data[i]); i++) {
        if (text.data[i] == ':' && colon == 0)
            colon = i;
        if (text.data[i] == '@')
            last_at = i;
    }
    if (colon == 0 || last_at < colon)
        return false;
    *ret_place = (struct secret_place){colon + 1, last_at};
    return true;
}

static bool find_secret(struct span text, size_t at, struct secret_place *ret_place) {
    if (at >= 3 && memcmp(text.data + at - 3, "://", 3) == 0)
        return find_userinfo(text, at, ret_place);
    if (at >= 1 && text.data[at - 1] == '=' && follows_secret_key(text, at - 1)) {
        *ret_place = value_after(text, at - 1);
        return true;
    }
    return false;
}

int mask_add(struct span text, struct buf *b, bool *ret_masked) {
    size_t copied = 0;
    int r = 0;
    *ret_masked = false;
    for (size_t at = 1; r == 0 && at <= text.len; at++) {
        struct secret_place place;
        if (!find_secret(text, at, &place) || place.start == place.end)
            continue;
        ASSERT(copied <= place.start);
        ASSERT(place.end <= text.len);
        r = buf_add(b, text.data + copied, place.start - copied);
        if (r == 0)
            r = buf_add_span(b, SPAN_LITERAL(MASK_TEXT));
        copied = place.end;
        at = place.end;
        *ret_masked = true;
    }
    return r != 0 ? r : buf_add(b, text.data + copied, text.len - copied);
}
