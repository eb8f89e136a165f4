/* utf8: read one character, check a whole text (RFC 3629) */
#include "base/utf8.h"

/* Sequence length by lead byte, with the bits the lead carries and the least
 * code that may take that length; length 0: no lead byte. */
static size_t lead_length(unsigned char lead, uint32_t *ret_bits, uint32_t *ret_least) {
    if ((lead & 0xe0) == 0xc0) {
        *ret_bits = lead & 0x1f;
        *ret_least = 0x80;
        return 2;
    }
    if ((lead & 0xf0) == 0xe0) {
        *ret_bits = lead & 0x0f;
        *ret_least = 0x800;
        return 3;
    }
    if ((lead & 0xf8) == 0xf0) {
        *ret_bits = lead & 0x07;
        *ret_least = 0x10000;
        return 4;
    }
    return 0;
}

size_t utf8_next(const char *at, const char *end, uint32_t *ret_code) {
    unsigned char lead = (unsigned char)*at;
    if (lead < 0x80) {
        *ret_code = lead;
        return 1;
    }
    uint32_t code = 0, least = 0;
    size_t length = lead_length(lead, &code, &least);
    if (length == 0 || (size_t)(end - at) < length)
        return 0;
    for (size_t i = 1; i < length; i++) {
        unsigned char c = (unsigned char)at[i];
        if ((c & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (c & 0x3f);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *ret_code = code;
    return length;
}

/* In blocks: most text is ASCII, and all data passes here. */
static const char *skip_ascii(const char *at, const char *end) {
    uint64_t block[4];
    while ((size_t)(end - at) >= sizeof block) {
        memcpy(block, at, sizeof block);
        if ((block[0] | block[1] | block[2] | block[3]) & UINT64_C(0x8080808080808080))
            break;
        at += sizeof block;
    }
    while (at < end && (unsigned char)*at < 0x80)
        at++;
    return at;
}

bool utf8_valid(struct span s) {
    if (s.len == 0)
        return true;
    const char *at = s.data, *end = s.data + s.len;
    while (at < end) {
        at = skip_ascii(at, end);
        if (at == end)
            break;
        uint32_t code;
        size_t length = utf8_next(at, end, &code);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}
