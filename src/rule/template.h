/* template: text with {attribute}, {attribute|filter}, {attribute?default}; compiled at load */
#ifndef PENSTOCK_RULE_TEMPLATE_H
#define PENSTOCK_RULE_TEMPLATE_H

#include "base/buf.h"
#include "base/error.h"
#include "event/event.h"

/* Immutable, shared between threads. `{{` and `}}` are literal braces. Filters:
 * first, last (part of a dotted name), lower, upper (ASCII letters),
 * replace:FROM:TO (each occurrence); several in a row, applied from left to
 * right; the default comes last and is taken as it stands: {subject|lower?none}.
 * In FROM, TO and the default a backslash takes the next character literally. */
struct template;

#define TEMPLATE_BYTES_MAX 65536
#define TEMPLATE_FILTERS_MAX 8 /* in one pair of braces */

/* 0; -ENOMEM; -EINVAL with *reterr and *ret_column (0-based byte of the fault; set only then). */
int template_compile(struct span text, struct template **ret_template, struct error *reterr,
                     size_t *ret_column) MUST_CHECK;
void template_free(struct template *t);

/* The whole text, if nothing of it comes from an event; else absent. */
struct span template_literal(const struct template *t);

#define TEMPLATE_E_ABSENT 1 /* an attribute without default is absent; *ret_name says which */

/* 0; TEMPLATE_E_ABSENT. Cheap: nothing is rendered. */
int template_check(const struct template *t, const struct event *e, struct span *ret_name) MUST_CHECK;
/* Appends to *b, all or nothing. 0; TEMPLATE_E_ABSENT; -ENOMEM; -EMSGSIZE. */
int template_render(const struct template *t, const struct event *e, struct buf *b) MUST_CHECK;

#endif
