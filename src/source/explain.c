/* explain: pure: does a plan find the rows of its tables by index conditions, in the index's order? */
#include "source/explain.h"

#include <stdio.h>

#include "base/log.h"

static bool begins(struct span text, const char *with) {
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.data, with, len) == 0;
}

static struct span skip(struct span text, size_t bytes) {
    return (struct span){text.data + bytes, text.len - bytes};
}

static void blame(struct explain *e, const char *node) {
    if (!e->bad[0])
        snprintf(e->bad, sizeof e->bad, "%s", node);
}

/* No condition of its own has come: it walks the whole index. */
static void end_scan(struct explain *e) {
    if (e->scan[0])
        blame(e, e->scan);
    e->scan[0] = '\0';
}

/* Is all that this node finds sorted before a limit cuts it? */
static bool is_sorted_whole(const struct explain *e) {
    for (size_t i = e->depth; i-- > 0 && !e->path[i].limits;) {
        if (e->path[i].sorts)
            return true;
    }
    return false;
}

static void enter(struct explain *e, size_t column, struct span node) {
    while (e->depth > 0 && e->path[e->depth - 1].column >= column)
        e->depth--;
    if (e->depth == EXPLAIN_DEPTH_MAX) /* none of ours is so deep */
        return;
    e->path[e->depth].column = column;
    e->path[e->depth].sorts = begins(node, "Sort") || begins(node, "Incremental Sort");
    e->path[e->depth].limits = begins(node, "Limit");
    e->depth++;
    ASSERT(e->depth <= EXPLAIN_DEPTH_MAX);
}

static void look_at_node(struct explain *e, size_t column, struct span node) {
    char text[EXPLAIN_LINE_MAX];
    snprintf(text, sizeof text, "%.*s", SPAN_ARGS(node));
    end_scan(e);
    enter(e, column, node);
    /* max() takes one row from the end. Before PostgreSQL 17 that had a condition, IS NOT NULL. */
    if (begins(node, "Index Only Scan Backward "))
        return;
    bool by_index = begins(node, "Index ");
    if (begins(node, "Seq Scan on ") || (by_index && is_sorted_whole(e)))
        blame(e, text);
    else if (by_index)
        memcpy(e->scan, text, sizeof text);
}

void explain_line(struct explain *e, struct span line) {
    size_t indent = 0;
    while (indent < line.len && line.data[indent] == ' ')
        indent++;
    struct span text = skip(line, indent);
    if (indent == 0)
        look_at_node(e, 0, text);
    else if (begins(text, "->  "))
        look_at_node(e, indent, skip(text, strlen("->  ")));
    else if (begins(text, "Index Cond: "))
        e->scan[0] = '\0';
}

const char *explain_bad(struct explain *e) {
    end_scan(e);
    ASSERT(!e->scan[0]);
    return e->bad[0] ? e->bad : NULL;
}
