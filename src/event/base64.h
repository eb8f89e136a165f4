/* base64: bytes to text and its check (RFC 4648 section 4: standard alphabet, padded) */
#ifndef PENSTOCK_EVENT_BASE64_H
#define PENSTOCK_EVENT_BASE64_H

#include "base/buf.h"
#include "base/span.h"

/* Appends. 0; -ENOMEM; -EMSGSIZE. */
int base64_add(struct buf *b, struct span bytes) MUST_CHECK;

bool base64_valid(struct span text);

#endif
