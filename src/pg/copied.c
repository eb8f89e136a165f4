/* copied: pure: a message of COPY … TO STDOUT in binary form -> the values of a row; private to pg/ */
#include "pg/copied.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

/* PostgreSQL's manual, COPY, "Binary Format": behind the signature stand flags and the length of an extension, which no
 * version has. */
static const char HEADER[19] = {'P', 'G', 'C', 'O', 'P', 'Y', '\n', (char)0xff, '\r', '\n', '\0'};
#define TRAILER (-1)
#define NULL_LENGTH (-1)

static int32_t read_int4(const char *at) {
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    return (int32_t)be32toh(bits);
}

static int16_t read_int2(const char *at) {
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return (int16_t)be16toh(bits);
}

/* One value at *at, which moves behind it. false: the message ends before. */
static inline bool read_value(const char **at, const char *end, struct span *ret_value) {
    if (end - *at < 4)
        return false;
    int32_t len = read_int4(*at);
    *at += 4;
    *ret_value = SPAN_ABSENT;
    if (len == NULL_LENGTH)
        return true;
    if (len < 0 || len > end - *at)
        return false;
    *ret_value = (struct span){*at, (size_t)len};
    *at += len;
    return true;
}

int copied_read(struct span message, bool first, struct span ret_values[PGCONN_COLUMNS_MAX]) {
    const char *at = message.data, *end = message.data + message.len;
    if (first) {
        if (message.len < sizeof HEADER || memcmp(at, HEADER, sizeof HEADER) != 0)
            return -EINVAL;
        at += sizeof HEADER;
        if (at == end)
            return 0;
    }
    if (end - at < 2)
        return -EINVAL;
    int16_t columns = read_int2(at);
    at += 2;
    if (columns == TRAILER)
        return 0;
    if (columns < 0 || columns > PGCONN_COLUMNS_MAX)
        return -EINVAL;
    for (int i = 0; i < columns; i++) {
        if (!read_value(&at, end, &ret_values[i]))
            return -EINVAL;
    }
    return at == end ? columns : -EINVAL;
}
