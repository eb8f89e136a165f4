/* filter: CloudEvents Subscriptions dialects (exact, prefix, suffix, all, any, not) on one event */
#ifndef PENSTOCK_RULE_FILTER_H
#define PENSTOCK_RULE_FILTER_H

#include "base/error.h"
#include "event/event.h"

/* Immutable once built, shared between threads. cloudevents/subscriptions/spec.md 3.2.4. */
struct filter;

enum filter_dialect { FILTER_EXACT, FILTER_PREFIX, FILTER_SUFFIX, FILTER_ALL, FILTER_ANY, FILTER_NOT };

#define FILTER_DEPTH_MAX 16
#define FILTER_ENTRIES_MAX 1024 /* of one filter */

/* 0 to FILTER_NOT; -1: unknown ("sql" too, until CloudEvents SQL exists). */
int filter_dialect_by_name(struct span name);

/* exact, prefix, suffix: then filter_add_match for each entry. all, any, not: then filter_add_child. */
int filter_new(enum filter_dialect dialect, struct filter **ret_filter) MUST_CHECK;
void filter_free(struct filter *f);

/* 0; -ENOMEM; -EINVAL with *reterr (not an attribute name, an empty value, too many). Copies. */
int filter_add_match(struct filter *f, struct span attribute, struct span value, struct error *reterr) MUST_CHECK;
/* Takes ownership of child in every case. 0; -ENOMEM; -EINVAL (not takes one; depth; too many). */
int filter_add_child(struct filter *f, struct filter *child, struct error *reterr) MUST_CHECK;
/* At least one entry or child? 0; -EINVAL. */
int filter_finish(const struct filter *f, struct error *reterr) MUST_CHECK;

/* A missing attribute does not match; NULL matches everything. */
bool filter_match(const struct filter *f, const struct event *e);

#endif
