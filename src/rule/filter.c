/* filter: CloudEvents Subscriptions dialects (exact, prefix, suffix, all, any, not) on one event */
#include "rule/filter.h"

#include <errno.h>

#include "base/log.h"
#include "event/attribute.h"

struct filter_entry {
    struct span attribute, value; /* owned */
};

/* Either entries or children, by dialect. */
struct filter {
    enum filter_dialect dialect;
    struct filter_entry *entries;
    struct filter **children; /* owned, as are they */
    size_t count, capacity;
    size_t depth; /* of the deepest child, plus one */
};

static const char *const DIALECTS[] = {
    [FILTER_EXACT] = "exact", [FILTER_PREFIX] = "prefix", [FILTER_SUFFIX] = "suffix",
    [FILTER_ALL] = "all",     [FILTER_ANY] = "any",       [FILTER_NOT] = "not",
};

static bool has_children(const struct filter *f) {
    return f->dialect == FILTER_ALL || f->dialect == FILTER_ANY || f->dialect == FILTER_NOT;
}

int filter_dialect_by_name(struct span name) {
    for (size_t i = 0; i < ARRAY_LENGTH(DIALECTS); i++)
        if (span_is(name, DIALECTS[i]))
            return (int)i;
    return -1;
}

int filter_new(enum filter_dialect dialect, struct filter **ret_filter) {
    struct filter *f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    f->dialect = dialect;
    f->depth = 1;
    *ret_filter = f;
    return 0;
}

static void entry_done(struct filter_entry *entry) {
    free((char *)entry->attribute.data);
    free((char *)entry->value.data);
}

void filter_free(struct filter *f) {
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++) {
        if (has_children(f))
            filter_free(f->children[i]);
        else
            entry_done(&f->entries[i]);
    }
    free(f->entries);
    free(f->children);
    free(f);
}

static int refuse(struct error *reterr, const char *what) {
    error_set(reterr, ERROR_CONFIG, "%s", what);
    return -EINVAL;
}

/* Room for one more of whatever the dialect has. */
static int grow(struct filter *f, struct error *reterr) {
    if (f->count == FILTER_ENTRIES_MAX)
        return refuse(reterr, "a filter can't have more than 1024 entries; put some into a filter of their own");
    if (f->count < f->capacity)
        return 0;
    size_t capacity = f->capacity ? f->capacity * 2 : 4;
    if (has_children(f)) {
        struct filter **children = realloc(f->children, capacity * sizeof(struct filter *));
        f->children = children ? children : f->children;
        f->capacity = children ? capacity : f->capacity;
        return children ? 0 : -ENOMEM;
    }
    struct filter_entry *entries = realloc(f->entries, capacity * sizeof *entries);
    f->entries = entries ? entries : f->entries;
    f->capacity = entries ? capacity : f->capacity;
    return entries ? 0 : -ENOMEM;
}
_Static_assert(FILTER_ENTRIES_MAX == 1024, "the sentence above says so");

static int copy(struct span from, struct span *ret_copy) {
    char *data = malloc(from.len + 1);
    if (!data)
        return -ENOMEM;
    memcpy(data, from.data, from.len);
    data[from.len] = '\0';
    *ret_copy = (struct span){data, from.len};
    return 0;
}

int filter_add_match(struct filter *f, struct span attribute, struct span value, struct error *reterr) {
    ASSERT(!has_children(f));
    if (!attribute_name_valid(attribute)) {
        error_set(reterr, ERROR_CONFIG, "'%.*s' is no attribute name; names have only a-z and 0-9, and data is none",
                  SPAN_ARGS(attribute));
        return -EINVAL;
    }
    if (value.len == 0) {
        error_set(reterr, ERROR_CONFIG, "the value for '%.*s' is empty; no attribute is compared with nothing",
                  SPAN_ARGS(attribute));
        return -EINVAL;
    }
    int r = grow(f, reterr);
    if (r < 0)
        return r;
    struct filter_entry entry = {0};
    r = copy(attribute, &entry.attribute);
    if (r == 0)
        r = copy(value, &entry.value);
    if (r < 0) {
        entry_done(&entry);
        return r;
    }
    f->entries[f->count++] = entry;
    return 0;
}

int filter_add_child(struct filter *f, struct filter *child, struct error *reterr) {
    ASSERT(has_children(f));
    ASSERT(child != f);
    int r = 0;
    if (f->dialect == FILTER_NOT && f->count > 0)
        r = refuse(reterr, "'not' takes exactly one filter; put several into 'all' or 'any' inside it");
    else if (child->depth >= FILTER_DEPTH_MAX)
        r = refuse(reterr, "filters are nested deeper than 16 levels");
    if (r == 0)
        r = grow(f, reterr);
    if (r < 0) {
        filter_free(child);
        return r;
    }
    f->children[f->count++] = child;
    if (child->depth + 1 > f->depth)
        f->depth = child->depth + 1;
    return 0;
}
_Static_assert(FILTER_DEPTH_MAX == 16, "the sentence above says so");

int filter_finish(const struct filter *f, struct error *reterr) {
    if (f->count > 0)
        return 0;
    error_set(reterr, ERROR_CONFIG, "'%s' is empty; it needs at least one %s", DIALECTS[f->dialect],
              has_children(f) ? "filter" : "attribute and value");
    return -EINVAL;
}

static bool match_text(enum filter_dialect dialect, struct span text, struct span value) {
    if (text.len < value.len)
        return false;
    struct span head = {text.data, value.len};
    struct span tail = {text.data + (text.len - value.len), value.len};
    switch (dialect) {
    case FILTER_EXACT:
        return span_equal(text, value);
    case FILTER_PREFIX:
        return span_equal(head, value);
    case FILTER_SUFFIX:
        return span_equal(tail, value);
    case FILTER_ALL:
    case FILTER_ANY:
    case FILTER_NOT:
        break;
    }
    return false;
}

/* All entries must match; an attribute that is missing doesn't. */
static bool match_entries(const struct filter *f, const struct event *e) {
    for (size_t i = 0; i < f->count; i++) {
        struct span text = event_get(e, f->entries[i].attribute);
        if (span_absent(text) || !match_text(f->dialect, text, f->entries[i].value))
            return false;
    }
    return true;
}

/* Is there a child that gives `wanted`? Recursion ends at FILTER_DEPTH_MAX. */
static bool any_child_is(const struct filter *f, const struct event *e, bool wanted) {
    for (size_t i = 0; i < f->count; i++)
        if (filter_match(f->children[i], e) == wanted)
            return true;
    return false;
}

bool filter_match(const struct filter *f, const struct event *e) {
    if (!f)
        return true;
    switch (f->dialect) {
    case FILTER_EXACT:
    case FILTER_PREFIX:
    case FILTER_SUFFIX:
        return match_entries(f, e);
    case FILTER_ALL:
    case FILTER_NOT: {
        bool all = !any_child_is(f, e, false);
        return f->dialect == FILTER_NOT ? !all : all;
    }
    case FILTER_ANY:
        return any_child_is(f, e, true);
    }
    return false;
}
