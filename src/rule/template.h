/* template: text with {attribute}, {attribute|filter}, {attribute?default}; compiled at load */
#ifndef PENSTOCK_RULE_TEMPLATE_H
#define PENSTOCK_RULE_TEMPLATE_H

#include "base/buf.h"
#include "base/error.h"
#include "event/event.h"

/* Immutable, shared between threads. `{{` and `}}` are literal braces. Filters:
 * first, last (part of a dotted name), lower, upper, replace:FROM:TO; several
 * in a row; the default comes last: {subject|lower?none}. */
struct template;

/* 0; -ENOMEM; -EINVAL with *reterr and *ret_column (0-based byte of the fault). */
int template_compile(struct span text, struct template **ret_template, struct error *reterr, size_t *ret_column) MUST_CHECK;
void template_free(struct template *t);

/* The whole text, if nothing of it comes from an event; else absent. */
struct span template_literal(const struct template *t);

#define TEMPLATE_E_ABSENT 1 /* an attribute without default is absent; *ret_name says which */

/* 0; TEMPLATE_E_ABSENT. Cheap: nothing is rendered. */
int template_check(const struct template *t, const struct event *e, struct span *ret_name) MUST_CHECK;
/* Appends to *b. 0; TEMPLATE_E_ABSENT; -ENOMEM; -EMSGSIZE. */
int template_render(const struct template *t, const struct event *e, struct buf *b) MUST_CHECK;

#endif
