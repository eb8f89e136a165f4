/* scalar: one text of the configuration <-> the value that its option asks for */
#ifndef PENSTOCK_CONFIG_SCALAR_H
#define PENSTOCK_CONFIG_SCALAR_H

#include "base/buf.h"
#include "base/option.h"

/* Reads text into the option's member of *options, for every kind but
 * OPTION_SECRET, OPTION_TEXTS and OPTION_PROPERTIES. The member owns nothing before. 0; -ENOMEM;
 * -EINVAL with *reterr: what is wrong and what is allowed. */
int scalar_read(const struct option *o, struct span text, void *options, struct error *reterr) MUST_CHECK;

/* Appends it as scalar_read takes it (a text: as it is, unquoted). */
int scalar_add(const struct option *o, const void *options, struct buf *b) MUST_CHECK;

#endif
