/* rule: the ordered rules of a forwarder (its resolver): event -> destinations */
#ifndef PENSTOCK_RULE_RULE_H
#define PENSTOCK_RULE_RULE_H

#include "event/destination.h"
#include "rule/filter.h"
#include "rule/template.h"

#define RULE_DESTINATIONS_MAX 16 /* of one event */
#define RULE_SET_DESTINATIONS_MAX 4096
#define RULE_SET_RULES_MAX 4096

/* Immutable after load, shared between threads. Owns filters and templates given to it. */
struct rule_set;

int rule_set_new(struct rule_set **ret_set) MUST_CHECK;
void rule_set_free(struct rule_set *s);

/* Building, in file order; all give 0, -ENOMEM, or -EMSGSIZE past one of the
 * maxima here and in destination.h. `filter` may be NULL (matches all); owned by the set in every case. */
int rule_set_add_rule(struct rule_set *s, struct span name, struct filter *filter, bool skip, bool go_on) MUST_CHECK;
/* A destination of the rule added last; options is borrowed by reference and outlives the set (NULL: the sink's). */
int rule_set_add_destination(struct rule_set *s, const void *options) MUST_CHECK;
/* Of the destination added last; the template is owned in every case. field: the sink kind's index. */
int rule_set_add_field(struct rule_set *s, size_t field, struct template *t) MUST_CHECK;
int rule_set_add_header(struct rule_set *s, struct span name, struct template *t) MUST_CHECK;

/* Of all rules. */
size_t rule_set_destinations(const struct rule_set *s);
/* The field's text, if nothing of it comes from an event; else (or not given) absent. */
struct span rule_set_literal(const struct rule_set *s, size_t destination, size_t field);

size_t rule_set_count(const struct rule_set *s);
struct span rule_name(const struct rule_set *s, size_t rule);

enum rule_outcome {
    RULE_DESTINATIONS, /* count >= 1 */
    RULE_SKIPPED,      /* by rule `rule` */
    RULE_UNMATCHED,
    RULE_REJECTED, /* a template of rule `rule` needs an absent attribute, or too many destinations */
};

/* Plain data. */
struct rule_result {
    enum rule_outcome outcome;
    size_t rule;
    size_t count;
    uint16_t destinations[RULE_DESTINATIONS_MAX]; /* numbers for rule_render */
};

/* First match wins; `continue: true` adds its destinations and goes on; a skip
 * ends there (what came before it stays). Every template of the destinations is checked, none rendered.
 * *reterr is set for RULE_REJECTED. */
void rule_resolve(const struct rule_set *s, const struct event *e, struct rule_result *ret_result,
                  struct error *reterr);

/* Fills *d (storage reused). 0; -ENOMEM; -EMSGSIZE. Only for numbers that rule_resolve gave for this event. */
int rule_render(const struct rule_set *s, uint16_t destination, const struct event *e,
                struct destination *d) MUST_CHECK;

#endif
