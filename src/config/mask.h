/* mask: takes the password out of a connection string before it is shown */
#ifndef PENSTOCK_CONFIG_MASK_H
#define PENSTOCK_CONFIG_MASK_H

#include "base/buf.h"

/* What stands in place of a secret that was written inline (G14). It is a text
 * like any other: where a secret is expected it loads, with a warning. */
#define MASK_TEXT "(masked)"

/* Appends the text with MASK_TEXT for each password in it: of
 * scheme://user:PASSWORD@host, and of every key=VALUE whose key ends in
 * "password", "passwd" or "secret". 0; -ENOMEM; -EMSGSIZE. */
int mask_add(struct span text, struct buf *b, bool *ret_masked) MUST_CHECK;

#endif
