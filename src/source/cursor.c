/* cursor: a place in the stream of a table in mode snapshot, and its text */
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
    struct json_value v, mode, s, n, position, end;
};

static struct json_value *member_place(struct members *m, const struct json_value *name) {
    const struct {
        const char *name;
        struct json_value *place;
    } known[] = {{"v", &m->v}, {"mode", &m->mode},         {"s", &m->s},
                 {"n", &m->n}, {"position", &m->position}, {"end", &m->end}};
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

static const char *read_places(const struct members *m, struct cursor *ret_cursor) {
    struct cursor c = {.s = m->s.text};
    if (!is_snapshot(&m->s))
        return "its \"s\" is no snapshot";
    if (span_absent(m->n.text)) {
        if (!span_absent(m->position.text) || !span_absent(m->end.text))
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

static const char *read_cursor(struct span text, struct cursor *ret_cursor) {
    struct members m = {0};
    int64_t version;
    if (text.len > CURSOR_TEXT_MAX)
        return "it is longer than any cursor";
    /* The version comes first: a newer cursor may have other members. */
    const char *wrong = read_members(text, &m);
    if (is_integer(&m.v, &version) && version > CURSOR_VERSION)
        return "a newer version of Penstock wrote it; use that one";
    if (wrong)
        return wrong;
    if (!is_integer(&m.v, &version) || version != CURSOR_VERSION)
        return "its version (\"v\") is missing or unknown";
    if (m.mode.kind != JSON_STRING || !span_is(m.mode.text, "snapshot"))
        return "its \"mode\" is not \"snapshot\"";
    return read_places(&m, ret_cursor);
}

int cursor_parse(struct span text, struct cursor *ret_cursor, struct error *reterr) {
    struct span shown = {text.data, text.len < SHOWN_BYTES ? text.len : SHOWN_BYTES};
    const char *wrong = read_cursor(text, ret_cursor);
    if (!wrong)
        return 0;
    error_set(reterr, ERROR_CONFIG,
              "the cursor '%.*s%s' of the checkpoint can't be read: %s; put the right value back, or delete the "
              "checkpoint's row to begin anew from the configured start",
              SPAN_ARGS(shown), shown.len < text.len ? "..." : "", wrong);
    return -EINVAL;
}

bool cursor_equal(const struct cursor *a, const struct cursor *b) {
    if (!span_equal(a->s, b->s) || span_absent(a->n) != span_absent(b->n))
        return false;
    return span_absent(a->n) || (span_equal(a->n, b->n) && a->position == b->position && a->end == b->end);
}
