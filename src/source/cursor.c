/* cursor: a place in the stream of a table, and its text */
#include "source/cursor.h"

#include <errno.h>
#include <inttypes.h>

#include "base/json.h"
#include "base/log.h"

#define CURSOR_VERSION 1
#define SHOWN_BYTES 200 /* of a value that can't be read, in the message */

int cursor_print(const struct cursor *cursor, struct buf *b) {
    ASSERT(cursor_check_snapshot(cursor->s));
    ASSERT(span_absent(cursor->n) || cursor_check_snapshot(cursor->n));
    int r = buf_addf(b, "{\"v\": %d, \"mode\": \"snapshot\", \"s\": \"%.*s\"", CURSOR_VERSION, SPAN_ARGS(cursor->s));
    if (r == 0 && !span_absent(cursor->n))
        r = buf_addf(b, ", \"n\": \"%.*s\", \"position\": %" PRId64 ", \"end\": %" PRId64, SPAN_ARGS(cursor->n),
                     cursor->position, cursor->end);
    return r ? r : buf_add_char(b, '}');
}

/* Reads one decimal number at *at, not zero; PostgreSQL bounds them by 63 bits. */
static bool read_xid(const char **at, const char *end, int64_t *ret_xid) {
    int64_t xid = 0;
    const char *p = *at;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(xid, 10, &xid) || __builtin_add_overflow(xid, *p - '0', &xid))
            return false;
    }
    if (p == *at || xid == 0)
        return false;
    *at = p;
    *ret_xid = xid;
    return true;
}

static bool read_char(const char **at, const char *end, char c) {
    if (*at == end || **at != c)
        return false;
    ++*at;
    return true;
}

bool cursor_check_snapshot(struct span snapshot) {
    if (span_absent(snapshot) || snapshot.len > CURSOR_SNAPSHOT_MAX)
        return false;
    const char *at = snapshot.data, *end = at + snapshot.len;
    int64_t xmin, xmax, xid;
    if (!read_xid(&at, end, &xmin) || !read_char(&at, end, ':') || !read_xid(&at, end, &xmax) ||
        !read_char(&at, end, ':') || xmin > xmax)
        return false;
    for (int64_t above = xmin; at < end; above = xid + 1) {
        if (!read_xid(&at, end, &xid) || xid < above || xid >= xmax)
            return false;
        if (at < end && (!read_char(&at, end, ',') || at == end))
            return false;
    }
    return true;
}

/* The members as they were written; kind is looked at when all are there. */
struct members {
    struct json_value v, mode, s, n, position, end, open, changes, table;
};

static struct json_value *member_place(struct members *m, const struct json_value *name) {
    const struct {
        const char *name;
        struct json_value *place;
    } known[] = {{"v", &m->v},     {"mode", &m->mode}, {"s", &m->s},   {"n", &m->n},
                 {"position", &m->position}, {"end", &m->end},   {"open", &m->open}, {"changes", &m->changes},
                 {"table", &m->table}};
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        if (span_is(name->text, known[i].name))
            return known[i].place;
    }
    return NULL;
}

/* NULL, or what is wrong with the text as an object. */
static const char *read_members(struct span text, struct members *ret_members) {
    struct json_walk walk;
    if (json_walk_object(&walk, text) != 0)
        return "it is no JSON object";
    for (;;) {
        struct json_value name, value;
        int r = json_walk_next(&walk, &name, &value);
        if (r == JSON_E_END)
            return NULL;
        if (r != 0)
            return "it is no JSON object";
        struct json_value *place = member_place(ret_members, &name);
        if (!place)
            return "it has a member that no cursor has";
        if (!span_absent(place->text))
            return "a member stands in it twice";
        *place = value;
    }
}

static bool is_snapshot(const struct json_value *v) {
    return v->kind == JSON_STRING && !span_absent(v->text) && !v->escaped && cursor_check_snapshot(v->text);
}

static bool is_integer(const struct json_value *v, int64_t *ret_value) {
    return v->kind == JSON_NUMBER && !span_absent(v->text) && json_read_integer(v, ret_value) == 0;
}

static bool has(const struct json_value *v) {
    return !span_absent(v->text);
}

static const char *read_places(const struct members *m, struct cursor *ret_cursor) {
    struct cursor c = {.s = m->s.text};
    if (has(&m->open) || has(&m->changes) || has(&m->table))
        return "it has members of mode gaps";
    if (!is_snapshot(&m->s))
        return "its \"s\" is no snapshot";
    if (!has(&m->n)) {
        if (has(&m->position) || has(&m->end))
            return "it has \"position\" or \"end\", but no \"n\"";
        *ret_cursor = c;
        return NULL;
    }
    c.n = m->n.text;
    if (!is_snapshot(&m->n))
        return "its \"n\" is no snapshot";
    if (!is_integer(&m->position, &c.position) || !is_integer(&m->end, &c.end))
        return "its \"position\" or \"end\" is no integer";
    if (c.position > c.end)
        return "its \"position\" lies behind its \"end\"";
    *ret_cursor = c;
    return NULL;
}

/* What all cursors have. */
static const char *read_start(struct span text, struct members *ret_members, enum source_mode *ret_mode) {
    int64_t version;
    if (text.len > CURSOR_GAPS_TEXT_MAX)
        return "it is longer than any cursor";
    /* The version comes first: a newer cursor may have other members. */
    const char *wrong = read_members(text, ret_members);
    if (is_integer(&ret_members->v, &version) && version > CURSOR_VERSION)
        return "a newer version of Penstock wrote it; use that one";
    if (wrong)
        return wrong;
    if (!is_integer(&ret_members->v, &version) || version != CURSOR_VERSION)
        return "its version (\"v\") is missing or unknown";
    if (ret_members->mode.kind == JSON_STRING && span_is(ret_members->mode.text, "snapshot"))
        *ret_mode = SOURCE_MODE_SNAPSHOT;
    else if (ret_members->mode.kind == JSON_STRING && span_is(ret_members->mode.text, "gaps"))
        *ret_mode = SOURCE_MODE_GAPS;
    else
        return "its \"mode\" is neither \"snapshot\" nor \"gaps\"";
    return NULL;
}

static int refuse(struct span text, const char *wrong, struct error *reterr) {
    struct span shown = {text.data, text.len < SHOWN_BYTES ? text.len : SHOWN_BYTES};
    error_set(reterr, ERROR_CONFIG,
              "the cursor '%.*s%s' of the checkpoint can't be read: %s; put the right value back, or say by penstock "
              "rebase where to go on",
              SPAN_ARGS(shown), shown.len < text.len ? "..." : "", wrong);
    return -EINVAL;
}

int cursor_mode(struct span text, enum source_mode *ret_mode, struct error *reterr) {
    struct members m = {0};
    const char *wrong = read_start(text, &m, ret_mode);
    return wrong ? refuse(text, wrong, reterr) : 0;
}

int cursor_parse(struct span text, struct cursor *ret_cursor, struct error *reterr) {
    struct members m = {0};
    enum source_mode mode;
    const char *wrong = read_start(text, &m, &mode);
    if (!wrong && mode != SOURCE_MODE_SNAPSHOT)
        wrong = "its \"mode\" is not \"snapshot\"";
    if (!wrong)
        wrong = read_places(&m, ret_cursor);
    return wrong ? refuse(text, wrong, reterr) : 0;
}

bool cursor_equal(const struct cursor *a, const struct cursor *b) {
    if (!span_equal(a->s, b->s) || span_absent(a->n) != span_absent(b->n))
        return false;
    return span_absent(a->n) || (span_equal(a->n, b->n) && a->position == b->position && a->end == b->end);
}

/* Mode gaps. ---------------------------------------------------------------- */

void cursor_gaps_done(struct cursor_gaps *cursor) {
    ranges_done(&cursor->open);
}

static int print_origin(struct cursor_origin origin, struct buf *b) {
    if (origin.sequence == 0)
        return buf_addf(b, ", \"table\": \"%" PRIu32 "\"", origin.table);
    return buf_addf(b, ", \"table\": \"%" PRIu32 "/%" PRIu32 "\"", origin.table, origin.sequence);
}

int cursor_print_gaps(const struct cursor_gaps *c, struct buf *b) {
    ASSERT(c->open.count <= CURSOR_OPEN_MAX);
    ASSERT(c->position != INT64_MIN || c->open.count == 0);
    int r = buf_addf(b, "{\"v\": %d, \"mode\": \"gaps\", \"position\": ", CURSOR_VERSION);
    if (r == 0)
        r = c->position == INT64_MIN ? buf_addf(b, "null") : buf_addf(b, "%" PRId64, c->position);
    if (r == 0)
        r = buf_addf(b, ", \"open\": [");
    for (size_t i = 0; r == 0 && i < c->open.count; i++) {
        ASSERT(c->open.items[i].last < c->position);
        ASSERT(i == 0 || c->open.items[i].first > c->open.items[i - 1].last + 1);
        r = buf_addf(b, "%s\"", i > 0 ? ", " : "");
        if (r == 0)
            r = range_print(c->open.items[i], b);
        if (r == 0)
            r = buf_add_char(b, '"');
    }
    if (r == 0)
        r = buf_add_char(b, ']');
    if (r == 0 && c->changes > 0)
        r = buf_addf(b, ", \"changes\": %" PRId64, c->changes);
    if (r == 0 && c->origin.table != 0)
        r = print_origin(c->origin, b);
    return r ? r : buf_add_char(b, '}');
}

/* 0; -ENOMEM; else *ret_wrong. */
static int read_open(const struct json_value *open, struct cursor_gaps *c, const char **ret_wrong) {
    struct json_walk walk;
    struct json_value item;
    *ret_wrong = "its \"open\" is no list of ranges below its \"position\", like [\"5\", \"7-9\"]";
    if (!has(open) || json_walk_array(&walk, open->text) != 0)
        return -EINVAL;
    for (;;) {
        int64_t end = c->open.count ? c->open.items[c->open.count - 1].last + 1 : INT64_MIN;
        struct range range;
        int r = json_walk_next(&walk, NULL, &item);
        if (r == JSON_E_END)
            return 0;
        if (r != 0 || item.kind != JSON_STRING || item.escaped || c->open.count == CURSOR_OPEN_MAX ||
            range_parse(item.text, &range) != 0 || range.last >= c->position || (end != INT64_MIN && range.first <= end))
            return -EINVAL;
        r = ranges_add(&c->open, range);
        if (r)
            return r;
    }
}

/* As an oid is printed; 0 is none. */
static bool read_oid(const char **at, const char *end, uint32_t *ret_oid) {
    uint32_t oid = 0;
    const char *p = *at;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(oid, 10, &oid) || __builtin_add_overflow(oid, (uint32_t)(*p - '0'), &oid) || oid == 0)
            return false;
    }
    *at = p;
    *ret_oid = oid;
    return oid != 0;
}

static bool read_origin(const struct json_value *table, struct cursor_origin *ret_origin) {
    if (!has(table))
        return true;
    const char *at = table->text.data, *end = at + table->text.len;
    if (table->kind != JSON_STRING || table->escaped || !read_oid(&at, end, &ret_origin->table))
        return false;
    return at == end || (read_char(&at, end, '/') && read_oid(&at, end, &ret_origin->sequence) && at == end);
}

static int read_gaps(const struct members *m, struct cursor_gaps *c, const char **ret_wrong) {
    bool nothing = has(&m->position) && m->position.kind == JSON_NULL;
    *ret_wrong = "it has members of mode snapshot";
    if (has(&m->s) || has(&m->n) || has(&m->end))
        return -EINVAL;
    *ret_wrong = "its \"changes\" is no count";
    if (has(&m->changes) && (!is_integer(&m->changes, &c->changes) || c->changes <= 0 || c->changes == INT64_MAX))
        return -EINVAL;
    *ret_wrong = "its \"table\" is none, like \"16402/16401\"";
    if (!read_origin(&m->table, &c->origin))
        return -EINVAL;
    *ret_wrong = "its \"position\" is no integer";
    c->position = INT64_MIN;
    if (!nothing && (!is_integer(&m->position, &c->position) || c->position == INT64_MIN || c->position == INT64_MAX))
        return -EINVAL;
    return read_open(&m->open, c, ret_wrong);
}

int cursor_parse_gaps(struct span text, struct cursor_gaps *ret_cursor, struct error *reterr) {
    struct members m = {0};
    enum source_mode mode;
    struct cursor_gaps c = {0};
    const char *wrong = read_start(text, &m, &mode);
    int r = -EINVAL;
    if (!wrong && mode != SOURCE_MODE_GAPS)
        wrong = "its \"mode\" is not \"gaps\"";
    else if (!wrong)
        r = read_gaps(&m, &c, &wrong);
    if (r == 0)
        *ret_cursor = c;
    else
        cursor_gaps_done(&c);
    return r == -EINVAL ? refuse(text, wrong, reterr) : r;
}

bool cursor_equal_gaps(const struct cursor_gaps *a, const struct cursor_gaps *b) {
    return a->position == b->position && a->changes == b->changes && a->origin.table == b->origin.table &&
           a->origin.sequence == b->origin.sequence && a->open.count == b->open.count &&
           (a->open.count == 0 || memcmp(a->open.items, b->open.items, a->open.count * sizeof *a->open.items) == 0);
}
