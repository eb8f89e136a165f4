/* rule: the ordered rules of a forwarder (its resolver): event -> destinations */
#include "rule/rule.h"

#include <errno.h>

#include "base/log.h"

struct rule_header {
    char *name;
    size_t name_len;
    struct template *value;
};

struct rule_destination {
    const void *options;
    struct template *fields[DESTINATION_FIELDS_MAX]; /* NULL: not given */
    struct rule_header *headers;
    size_t header_count;
};

struct rule {
    char *name;
    size_t name_len;
    struct filter *filter;
    bool skip, go_on;
    /* Its destinations stand together, those of the next rule behind them. */
    size_t first_destination, destination_count;
};

struct rule_set {
    struct rule *rules;
    size_t rule_count;
    struct rule_destination *destinations;
    size_t destination_count;
};
_Static_assert(RULE_SET_DESTINATIONS_MAX <= UINT16_MAX, "a destination's number fits in rule_result");

int rule_set_new(struct rule_set **ret_set) {
    struct rule_set *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    *ret_set = s;
    return 0;
}

static void destination_free(struct rule_destination *d) {
    for (size_t i = 0; i < DESTINATION_FIELDS_MAX; i++)
        template_free(d->fields[i]);
    for (size_t i = 0; i < d->header_count; i++) {
        free(d->headers[i].name);
        template_free(d->headers[i].value);
    }
    free(d->headers);
}

void rule_set_free(struct rule_set *s) {
    if (!s)
        return;
    for (size_t i = 0; i < s->rule_count; i++) {
        free(s->rules[i].name);
        filter_free(s->rules[i].filter);
    }
    for (size_t i = 0; i < s->destination_count; i++)
        destination_free(&s->destinations[i]);
    free(s->rules);
    free(s->destinations);
    free(s);
}

/* Room for one more item; sizes are those of a configuration file, so it grows
 * one by one. NULL: -ENOMEM, the old array stays. */
static void *grown(void *items, size_t count, size_t item_size) {
    return realloc(items, (count + 1) * item_size);
}

static char *copy(struct span s) {
    char *text = malloc(s.len + 1);
    if (!text)
        return NULL;
    if (s.len > 0)
        memcpy(text, s.data, s.len);
    text[s.len] = '\0';
    return text;
}

static int add_rule(struct rule_set *s, const struct rule *rule) {
    if (s->rule_count == RULE_SET_RULES_MAX)
        return -EMSGSIZE;
    struct rule *rules = grown(s->rules, s->rule_count, sizeof *rules);
    if (!rules)
        return -ENOMEM;
    s->rules = rules;
    s->rules[s->rule_count++] = *rule;
    return 0;
}

int rule_set_add_rule(struct rule_set *s, struct span name, struct filter *filter, bool skip, bool go_on) {
    struct rule rule = {
        .name = copy(name),
        .name_len = name.len,
        .filter = filter,
        .skip = skip,
        .go_on = go_on,
        .first_destination = s->destination_count,
    };
    int r = rule.name ? add_rule(s, &rule) : -ENOMEM;
    if (r < 0) {
        free(rule.name);
        filter_free(filter);
    }
    return r;
}

int rule_set_add_destination(struct rule_set *s, const void *options) {
    ASSERT(s->rule_count > 0);
    struct rule *rule = &s->rules[s->rule_count - 1];
    ASSERT(!rule->skip);
    if (s->destination_count == RULE_SET_DESTINATIONS_MAX || rule->destination_count == RULE_DESTINATIONS_MAX)
        return -EMSGSIZE;
    struct rule_destination *destinations = grown(s->destinations, s->destination_count, sizeof *destinations);
    if (!destinations)
        return -ENOMEM;
    s->destinations = destinations;
    s->destinations[s->destination_count++] = (struct rule_destination){.options = options};
    rule->destination_count++;
    return 0;
}

static struct rule_destination *last_destination(const struct rule_set *s) {
    ASSERT(s->destination_count > 0);
    return &s->destinations[s->destination_count - 1];
}

int rule_set_add_field(struct rule_set *s, size_t field, struct template *t) {
    ASSERT(field < DESTINATION_FIELDS_MAX);
    struct rule_destination *d = last_destination(s);
    ASSERT(!d->fields[field]);
    d->fields[field] = t;
    return 0;
}

static int add_header(struct rule_destination *d, const struct rule_header *header) {
    if (d->header_count == DESTINATION_HEADERS_MAX)
        return -EMSGSIZE;
    struct rule_header *headers = grown(d->headers, d->header_count, sizeof *headers);
    if (!headers)
        return -ENOMEM;
    d->headers = headers;
    d->headers[d->header_count++] = *header;
    return 0;
}

int rule_set_add_header(struct rule_set *s, struct span name, struct template *t) {
    ASSERT(t);
    struct rule_header header = {.name = copy(name), .name_len = name.len, .value = t};
    int r = header.name ? add_header(last_destination(s), &header) : -ENOMEM;
    if (r < 0) {
        free(header.name);
        template_free(t);
    }
    return r;
}

size_t rule_set_destinations(const struct rule_set *s) {
    return s->destination_count;
}

struct span rule_set_literal(const struct rule_set *s, size_t destination, size_t field) {
    ASSERT(destination < s->destination_count && field < DESTINATION_FIELDS_MAX);
    const struct template *t = s->destinations[destination].fields[field];
    return t ? template_literal(t) : SPAN_ABSENT;
}

size_t rule_set_count(const struct rule_set *s) {
    return s->rule_count;
}

struct span rule_name(const struct rule_set *s, size_t rule) {
    ASSERT(rule < s->rule_count);
    return (struct span){s->rules[rule].name, s->rules[rule].name_len};
}

static int check_destination(const struct rule_destination *d, const struct event *e, struct span *ret_name) {
    int r = 0;
    for (size_t i = 0; i < DESTINATION_FIELDS_MAX && r == 0; i++)
        if (d->fields[i])
            r = template_check(d->fields[i], e, ret_name);
    for (size_t i = 0; i < d->header_count && r == 0; i++)
        r = template_check(d->headers[i].value, e, ret_name);
    return r;
}

/* Adds the destinations of rule number i; false: rejected. */
static bool take_destinations(const struct rule_set *s, size_t i, const struct event *e, struct rule_result *result,
                              struct error *reterr) {
    const struct rule *rule = &s->rules[i];
    if (rule->destination_count > RULE_DESTINATIONS_MAX - result->count) {
        error_set(reterr, ERROR_PERMANENT, "rule '%s' makes it more than %d destinations for one event", rule->name,
                  RULE_DESTINATIONS_MAX);
        return false;
    }
    for (size_t d = rule->first_destination; d < rule->first_destination + rule->destination_count; d++) {
        struct span name;
        if (check_destination(&s->destinations[d], e, &name) != 0) {
            error_set(reterr, ERROR_PERMANENT,
                      "a template of rule '%s' needs attribute '%.*s', which this event lacks; "
                      "give it a default ({%.*s?text}) or filter for it",
                      rule->name, SPAN_ARGS(name), SPAN_ARGS(name));
            return false;
        }
        result->destinations[result->count++] = (uint16_t)d;
    }
    return true;
}

void rule_resolve(const struct rule_set *s, const struct event *e, struct rule_result *ret_result,
                  struct error *reterr) {
    ret_result->outcome = RULE_UNMATCHED;
    ret_result->rule = ret_result->count = 0;
    for (size_t i = 0; i < s->rule_count; i++) {
        const struct rule *rule = &s->rules[i];
        if (!filter_match(rule->filter, e))
            continue;
        ret_result->rule = i;
        if (!take_destinations(s, i, e, ret_result, reterr)) {
            ret_result->outcome = RULE_REJECTED;
            ret_result->count = 0;
            break;
        }
        if (ret_result->count > 0)
            ret_result->outcome = RULE_DESTINATIONS;
        else if (rule->skip)
            ret_result->outcome = RULE_SKIPPED;
        if (rule->skip || !rule->go_on)
            break;
    }
}

/* What was rendered: the storage may move until the last piece is written. */
struct piece {
    struct span *target;
    size_t at, len;
};

struct rendering {
    struct piece pieces[DESTINATION_FIELDS_MAX + DESTINATION_HEADERS_MAX];
    size_t count;
};

static int render(const struct template *t, const struct event *e, struct buf *b, struct span *target,
                  struct rendering *rendering) {
    *target = template_literal(t);
    if (!span_absent(*target))
        return 0;
    size_t at = b->len;
    int r = template_render(t, e, b);
    ASSERT(r != TEMPLATE_E_ABSENT); /* rule_resolve has looked */
    if (r == 0)
        rendering->pieces[rendering->count++] = (struct piece){target, at, b->len - at};
    return r;
}

int rule_render(const struct rule_set *s, uint16_t destination, const struct event *e, struct destination *d) {
    ASSERT(destination < s->destination_count);
    const struct rule_destination *from = &s->destinations[destination];
    struct rendering rendering;
    rendering.count = 0;
    int r = 0;
    buf_clear(&d->storage);
    d->options = from->options;
    d->literal = 0;
    for (size_t i = 0; i < DESTINATION_FIELDS_MAX && r == 0; i++) {
        d->fields[i] = SPAN_ABSENT;
        if (!from->fields[i])
            continue;
        r = render(from->fields[i], e, &d->storage, &d->fields[i], &rendering);
        if (!span_absent(template_literal(from->fields[i])))
            d->literal |= 1U << i;
    }
    d->header_count = from->header_count;
    for (size_t i = 0; i < from->header_count && r == 0; i++) {
        const struct rule_header *header = &from->headers[i];
        d->headers[i].name = (struct span){header->name, header->name_len};
        r = render(header->value, e, &d->storage, &d->headers[i].value, &rendering);
    }
    for (size_t i = 0; i < rendering.count && r == 0; i++) {
        const struct piece *piece = &rendering.pieces[i];
        const char *data = piece->len > 0 ? d->storage.data + piece->at : "";
        *piece->target = (struct span){data, piece->len};
    }
    return r;
}
