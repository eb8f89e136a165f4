/* config: the whole configuration as one immutable value, read from YAML */
#include "config/config.h"

#include <dirent.h>
#include <errno.h>

#include "base/log.h"
#include "config/config_connection.h"
#include "config/config_forwarder.h"
#include "config/config_keys.h"
#include "config/schema.h"

#define CONFIG_FILES_MAX 256 /* with the main file */

struct reading {
    struct diag *diag;
    size_t errors_before; /* in diag, not ours */
    struct yaml files[CONFIG_FILES_MAX]; /* the main file first */
    size_t file_count;
    bool incomplete; /* a file has no tree: what it would have defined is unknown */
    bool *kind_known; /* of each connection */
};

/* Files ------------------------------------------------------------------ */

static int read_one(struct reading *r, const char *path) {
    int result = yaml_read(path, r->diag, &r->files[r->file_count]);
    if (result == YAML_E_REFUSED) {
        r->incomplete = true;
        return 0;
    }
    r->file_count += result == 0;
    return result;
}

static int is_added_file(const struct dirent *entry) {
    size_t len = strlen(entry->d_name), end = strlen(".yaml");
    return len > end && entry->d_name[0] != '.' && strcmp(entry->d_name + len - end, ".yaml") == 0;
}

static int compare_names(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_entries(struct reading *r, const char *directory, struct dirent **entries, size_t count) {
    struct diag_place place = {directory, 0, 0};
    if (count >= CONFIG_FILES_MAX) {
        diag_add(r->diag, DIAG_ERROR, place, "%zu files; %d are allowed", count, CONFIG_FILES_MAX - 1);
        return 0;
    }
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
        CLEANUP(cleanup_free) char *path = NULL;
        if (asprintf(&path, "%s/%s", directory, entries[i]->d_name) < 0)
            return -ENOMEM;
        result = read_one(r, path);
    }
    return result;
}

/* conf.d beside the main file; it need not be there. */
static int read_directory(struct reading *r, const char *path) {
    const char *slash = strrchr(path, '/');
    CLEANUP(cleanup_free) char *directory = NULL;
    CLEANUP(cleanup_free) struct dirent **entries = NULL;
    if (asprintf(&directory, "%.*sconf.d", slash ? (int)(slash - path) + 1 : 0, path) < 0)
        return -ENOMEM;
    int count = scandir(directory, &entries, is_added_file, compare_names);
    if (count < 0 && errno == ENOMEM)
        return -ENOMEM;
    if (count < 0 && errno != ENOENT && errno != ENOTDIR)
        diag_add(r->diag, DIAG_ERROR, (struct diag_place){directory, 0, 0}, "can't be read: %s", strerror(errno));
    if (count < 0)
        return 0;
    int result = read_entries(r, directory, entries, (size_t)count);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    return result;
}

static void reading_cleanup(struct reading **r) {
    if (!*r)
        return;
    for (size_t i = 0; i < (*r)->file_count; i++)
        yaml_done(&(*r)->files[i]);
    free((*r)->kind_known);
    free(*r);
}

/* Names over all files --------------------------------------------------- */

struct named {
    const struct yaml_node *key, *value;
};

static bool is_first(const struct named *named, size_t count, const struct yaml_node *key, const char *what,
                     struct diag *diag) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(named[i].key->text, key->text) != 0)
            continue;
        struct diag_place first = named[i].key->place;
        if (first.file != key->place.file) /* within one file it is a duplicate key, found already */
            diag_add(diag, DIAG_ERROR, key->place, "%s \"%s\" is defined twice; first at %s:%u:%u", what, key->text,
                     first.file, first.line, first.column);
        return false;
    }
    return true;
}

static void collect_file(const struct reading *r, const struct yaml_node *root, const char *section, const char *what,
                         struct named *named, size_t max, size_t *count) {
    const struct yaml_node *mapping = root->kind == YAML_MAPPING ? yaml_find(root, section, NULL) : NULL;
    if (!mapping || !schema_is_mapping(mapping, section, r->diag) || yaml_empty(mapping))
        return;
    for (size_t i = 0; i < yaml_pairs(mapping); i++) {
        const struct yaml_node *key = yaml_key(mapping, i);
        if (key->kind != YAML_SCALAR || !schema_is_name(key, what, r->diag) ||
            !is_first(named, *count, key, what, r->diag))
            continue;
        if (*count == max) {
            diag_add(r->diag, DIAG_ERROR, key->place, "more than %zu %s; that many are allowed", max, section);
            return;
        }
        named[(*count)++] = (struct named){key, yaml_value(mapping, i)};
    }
}

static size_t collect(const struct reading *r, const char *section, const char *what, struct named *named, size_t max) {
    size_t count = 0;
    for (size_t i = 0; i < r->file_count; i++)
        collect_file(r, r->files[i].root, section, what, named, max, &count);
    return count;
}

/* Sections --------------------------------------------------------------- */

static int read_section(const struct reading *r, const struct config_keys *keys, struct config *c) {
    const struct yaml_node *root = r->files[0].root;
    return config_keys_read(keys, root->kind == YAML_MAPPING ? yaml_find(root, keys->name, NULL) : NULL, c, r->diag);
}

static int read_main(const struct reading *r, struct config *c) {
    int result = config_keys_read(&config_keys_file, r->files[0].root, c, r->diag);
    if (result == 0)
        result = read_section(r, &config_keys_status, c);
    if (result == 0)
        result = read_section(r, &config_keys_health, c);
    if (result == 0)
        result = read_section(r, &config_keys_checkpoint, c);
    for (size_t i = 1; result == 0 && i < r->file_count; i++)
        result = config_keys_read(&config_keys_added_file, r->files[i].root, NULL, r->diag);
    return result;
}

static int read_connections(struct reading *r, struct config *c) {
    struct named named[CONFIG_CONNECTIONS_MAX];
    size_t count = collect(r, "connections", "connection", named, CONFIG_CONNECTIONS_MAX);
    c->connections = calloc(count + 1, sizeof(*c->connections));
    r->kind_known = calloc(count + 1, sizeof(*r->kind_known));
    if (!c->connections || !r->kind_known)
        return -ENOMEM;
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++)
        result = config_connection_read(named[i].key, named[i].value, r->diag, &c->connections[c->connection_count++],
                                        &r->kind_known[i]);
    return result;
}

static int read_forwarders(const struct reading *r, struct config *c) {
    struct named named[CONFIG_FORWARDERS_MAX];
    size_t count = collect(r, "forwarders", "forwarder", named, CONFIG_FORWARDERS_MAX);
    if (count == 0 && diag_count(r->diag, DIAG_ERROR) == r->errors_before)
        diag_add(r->diag, DIAG_ERROR, (struct diag_place){r->files[0].file, 0, 0},
                 "there is no forwarder; at least one is needed under forwarders");
    c->forwarders = calloc(count + 1, sizeof(*c->forwarders));
    if (!c->forwarders)
        return -ENOMEM;
    struct config_forwarder_peers peers = {c->connections, r->kind_known, c->connection_count, c->forwarders, 0};
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
        peers.forwarder_count = c->forwarder_count;
        result = config_forwarder_read(named[i].key, named[i].value, &peers, r->diag,
                                       &c->forwarders[c->forwarder_count++]);
    }
    return result;
}

static int read_files(struct reading *r, const char *path) {
    int result = read_one(r, path);
    return result != 0 ? result : read_directory(r, path);
}

static int read_config(struct reading *r, struct config *c) {
    int result = read_main(r, c);
    if (result == 0)
        result = read_connections(r, c);
    return result != 0 ? result : read_forwarders(r, c);
}

static struct config *config_new(void) {
    struct config *c = calloc(1, sizeof(*c));
    if (c)
        c->owners = 1;
    return c;
}

static void config_cleanup(struct config **c) {
    config_free(*c);
}

int config_load(const char *path, struct diag *diag, struct config **ret_config) {
    CLEANUP(reading_cleanup) struct reading *r = calloc(1, sizeof(*r));
    CLEANUP(config_cleanup) struct config *c = config_new();
    if (!r || !c)
        return -ENOMEM;
    r->diag = diag;
    r->errors_before = diag_count(diag, DIAG_ERROR);
    int result = read_files(r, path);
    if (result == 0 && !r->incomplete)
        result = read_config(r, c);
    if (result != 0)
        return result;
    if (diag_count(diag, DIAG_ERROR) > r->errors_before)
        return CONFIG_E_REFUSED;
    ASSERT(c->forwarder_count > 0);
    *ret_config = TAKE(c);
    return 0;
}

const struct config_forwarder *config_find_forwarder(const struct config *c, const char *name) {
    for (size_t i = 0; i < c->forwarder_count; i++)
        if (strcmp(c->forwarders[i].name, name) == 0)
            return &c->forwarders[i];
    return NULL;
}

struct config *config_share(struct config *c) {
    ASSERT(c->owners > 0);
    c->owners++;
    return c;
}

void config_free(struct config *c) {
    if (!c)
        return;
    ASSERT(c->owners > 0);
    if (--c->owners > 0)
        return;
    for (size_t i = 0; i < c->forwarder_count; i++)
        config_forwarder_done(&c->forwarders[i]); /* before the connections whose kinds they ask */
    for (size_t i = 0; i < c->connection_count; i++)
        config_connection_done(&c->connections[i]);
    free(c->forwarders);
    free(c->connections);
    option_release(config_keys_status.table, c);
    option_release(config_keys_checkpoint.table, c);
    free(c);
}
