/* utf8: read one character, check a whole text (RFC 3629) */
#ifndef PENSTOCK_BASE_UTF8_H
#define PENSTOCK_BASE_UTF8_H

#include <stdint.h>

#include "base/span.h"

/* Bytes of the character that begins at `at` (at < end): 1 to 4 and *ret_code;
 * 0 for what is no UTF-8: cut short, overlong, a surrogate, beyond U+10FFFF. */
size_t utf8_next(const char *at, const char *end, uint32_t *ret_code);

bool utf8_valid(struct span s);

#endif
