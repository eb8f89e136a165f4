/* base64: bytes to text and its check (RFC 4648 section 4: standard alphabet, padded) */
#include "event/base64.h"

#include <errno.h>

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* One to three bytes become four characters. */
static void encode_group(const unsigned char *bytes, size_t count, char text[4]) {
    uint32_t group = (uint32_t)bytes[0] << 16;
    if (count > 1)
        group |= (uint32_t)bytes[1] << 8;
    if (count > 2)
        group |= bytes[2];
    text[0] = ALPHABET[group >> 18];
    text[1] = ALPHABET[group >> 12 & 63];
    text[2] = count > 1 ? ALPHABET[group >> 6 & 63] : '=';
    text[3] = count > 2 ? ALPHABET[group & 63] : '=';
}

int base64_add(struct buf *b, struct span bytes) {
    size_t groups = bytes.len / 3 + (bytes.len % 3 != 0);
    if (groups > SIZE_MAX / 4)
        return -EMSGSIZE;
    int r = buf_reserve(b, groups * 4);
    if (r < 0)
        return r;
    const unsigned char *from = (const unsigned char *)bytes.data;
    for (size_t left = bytes.len; left > 0;) {
        size_t count = left < 3 ? left : 3;
        encode_group(from, count, b->data + b->len);
        b->len += 4;
        from += count;
        left -= count;
    }
    return 0;
}

static bool in_alphabet(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

bool base64_valid(struct span text) {
    if (text.len % 4 != 0)
        return false;
    size_t len = text.len;
    for (int padding = 0; padding < 2 && len > 0 && text.data[len - 1] == '='; padding++)
        len--;
    for (size_t i = 0; i < len; i++)
        if (!in_alphabet(text.data[i]))
            return false;
    return true;
}
