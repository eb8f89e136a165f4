/* config_change: what a new configuration changes in the one that is in force */
#include "config/config_change.h"

#include "config/yaml.h"

#define PRINTED_MAX (32 * YAML_BYTES_MAX) /* longer than it was written, by indentation and escapes */

struct kept {
    const char *key, *old, *new; /* texts may be NULL: not given */
    const char *way;
};

#define IF_RENAMED \
    "if it is the same under a new name in the database, restart penstockd, then it goes on from its checkpoint"
#define IF_REBASED "say by penstock rebase which events count as sent, and restart penstockd"

static bool same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static const char *shown(const char *text) {
    return text ? text : "not given";
}

/* NULL: what the checkpoint says. */
static const char *mode_of(const struct config_forwarder *f) {
    switch ((enum source_mode)f->source.mode) {
    case SOURCE_MODE_DEFAULT:
        return NULL;
    case SOURCE_MODE_SNAPSHOT:
        return "snapshot";
    case SOURCE_MODE_GAPS:
        return "gaps";
    }
    return NULL;
}

/* Its checkpoint counts by these: by others it would mean another place. */
static void check_place(const struct config_forwarder *old, const struct config_forwarder *new, struct diag_place place,
                        struct diag *diag) {
    const struct kept kept[] = {
        {"table", old->source.table, new->source.table, IF_RENAMED},
        {"columns.position", old->source.columns[ROW_POSITION], new->source.columns[ROW_POSITION], IF_RENAMED},
        {"columns.transaction_id", old->source.transaction_id, new->source.transaction_id, IF_RENAMED},
        {"mode", mode_of(old), mode_of(old) && mode_of(new) ? mode_of(new) : mode_of(old), IF_REBASED},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(kept); i++)
        if (!same_text(kept[i].old, kept[i].new))
            diag_add(diag, DIAG_ERROR, place,
                     "forwarder %s: source.%s was %s and is %s now, which a reload can't change without losing its place; give "
                     "the forwarder another name, then it begins at its start; or %s",
                     new->name, kept[i].key, shown(kept[i].old), shown(kept[i].new), kept[i].way);
}

static const char *socket_mode_of(const struct config *c) {
    return c->status_socket_owner_only ? "0600" : "0660";
}

static void check_daemon(const struct config *old, const struct config *new, struct diag_place place, struct diag *diag) {
    const struct kept kept[] = {
        {.key = "status.socket", .old = old->status_socket, .new = new->status_socket},
        {.key = "status.mode", .old = socket_mode_of(old), .new = socket_mode_of(new)},
        {.key = "status.group", .old = old->status_group, .new = new->status_group},
        {.key = "status.metrics", .old = old->status_metrics, .new = new->status_metrics},
        {.key = "checkpoint.schema", .old = old->checkpoint_schema, .new = new->checkpoint_schema},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(kept); i++)
        if (!same_text(kept[i].old, kept[i].new))
            diag_add(diag, DIAG_ERROR, place, "%s was %s and is %s now, which a reload can't change; restart penstockd",
                     kept[i].key, shown(kept[i].old), shown(kept[i].new));
}

void config_change_check(const struct config *old, const struct config *new, const char *path, struct diag *diag) {
    struct diag_place place = {path, 0, 0};
    check_daemon(old, new, place, diag);
    for (size_t i = 0; i < new->forwarder_count; i++) {
        const struct config_forwarder *before = config_find_forwarder(old, new->forwarders[i].name);
        if (before)
            check_place(before, &new->forwarders[i], place, diag);
    }
}

int config_change_of(const struct config *old, const struct config *new, const struct config_forwarder *forwarder,
                     bool *ret_changed) {
    const struct config_forwarder *before = config_find_forwarder(old, forwarder->name);
    *ret_changed = true;
    if (!before)
        return 0;
    CLEANUP(buf_done) struct buf was = BUF_INIT(PRINTED_MAX), is = BUF_INIT(PRINTED_MAX);
    struct hash_key key = hash_key_random();
    int r = config_print_forwarder(old, before, &key, &was);
    if (r == 0)
        r = config_print_forwarder(new, forwarder, &key, &is);
    if (r == 0)
        *ret_changed = was.len != is.len || memcmp(was.data, is.data, is.len) != 0;
    return r;
}
