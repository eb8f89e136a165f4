/* config_source: forwarders: NAME: source: {…} -> the source's part of a forwarder */
#include "config/config_source.h"

#include <errno.h>

#include "config/config_filter.h"
#include "config/config_keys.h"
#include "config/quantity.h"
#include "event/attribute.h"

static int copy_text(const struct yaml_node *node, char **ret_text) {
    *ret_text = strdup(node->text);
    return *ret_text ? 0 : -ENOMEM;
}

/* Columns ---------------------------------------------------------------- */

static bool is_column(const struct yaml_node *node, const char *key, struct diag *diag) {
    struct error error;
    if (!schema_is_text(node, key, diag))
        return false;
    if (config_keys_check_column(yaml_text(node), &error) == 0)
        return true;
    diag_add(diag, DIAG_ERROR, node->place, "%s: %s", key, error.text);
    return false;
}

/* source, type: a column, or {value: constant}. */
static int read_column_or_constant(const struct yaml_node *columns, const char *key, enum event_core attribute,
                                   struct diag *diag, char **ret_column, char **ret_constant) {
    const struct yaml_node *node = yaml_find(columns, key, NULL);
    if (!node)
        return 0;
    if (node->kind != YAML_MAPPING)
        return is_column(node, key, diag) ? copy_text(node, ret_column) : 0;
    int r = config_keys_read(&config_keys_constant, node, NULL, diag);
    const struct yaml_node *value = yaml_find(node, "value", NULL);
    if (r != 0)
        return r;
    if (!value) {
        diag_add(diag, DIAG_ERROR, node->place, "%s: a column's name or {value: TEXT} is expected", key);
        return 0;
    }
    struct error error;
    if (!schema_is_text(value, key, diag))
        return 0;
    if (attribute_check_core(attribute, yaml_text(value), &error) == 0)
        return copy_text(value, ret_constant);
    diag_add(diag, DIAG_ERROR, value->place, "%s: %s", key, error.text);
    return 0;
}

/* An extension that the source itself makes can't be made a second time. */
static bool is_extension_name(const struct yaml_node *name, struct diag *diag) {
    if (name->kind != YAML_SCALAR)
        return false;
    struct span text = yaml_text(name);
    const char *wrong = NULL;
    if (!attribute_name_valid(text))
        wrong = "is not an attribute's name; a-z and 0-9 are allowed";
    else if (attribute_name_is_core(text))
        wrong = "is no extension; it has a key of its own under columns";
    else if (span_is(text, "streamid") || span_is(text, "streamversion") || span_is(text, "position"))
        wrong = "comes from stream_id, stream_version or position under columns";
    if (wrong)
        diag_add(diag, DIAG_ERROR, name->place, "extensions: \"%.100s\" %s", name->text, wrong);
    return !wrong;
}

static int read_extension(const struct yaml_node *name, const struct yaml_node *column, struct diag *diag,
                          struct source_options *source) {
    if (!is_extension_name(name, diag) || !is_column(column, name->text, diag))
        return 0;
    if (strchr(column->text, '{')) {
        diag_add(diag, DIAG_ERROR, column->place, "extensions: a template does not exist here yet; name a column");
        return 0;
    }
    struct source_extension *e = &source->extensions[source->extension_count++];
    int r = copy_text(name, &e->attribute);
    return r != 0 ? r : copy_text(column, &e->column);
}

/* One jsonb column, or attribute: column. */
static int read_extensions(const struct yaml_node *columns, struct diag *diag, struct source_options *source) {
    const struct yaml_node *node = yaml_find(columns, "extensions", NULL);
    if (!node)
        return 0;
    if (node->kind != YAML_MAPPING)
        return is_column(node, "extensions", diag) ? copy_text(node, &source->columns[ROW_EXTENSIONS]) : 0;
    if (yaml_pairs(node) == 0 || yaml_pairs(node) > EVENT_EXTENSIONS_MAX - 3) {
        diag_add(diag, DIAG_ERROR, node->place,
                 "extensions: %zu of them; 1 to %d are allowed, or the name of a jsonb column",
                 yaml_pairs(node), EVENT_EXTENSIONS_MAX - 3);
        return 0;
    }
    source->extensions = calloc(yaml_pairs(node), sizeof(*source->extensions));
    if (!source->extensions)
        return -ENOMEM;
    int r = 0;
    for (size_t i = 0; r == 0 && i < yaml_pairs(node); i++)
        r = read_extension(yaml_key(node, i), yaml_value(node, i), diag, source);
    return r;
}

static int read_columns(const struct yaml_node *node, struct diag *diag, struct config_forwarder *f) {
    int r = config_keys_read(&config_keys_columns, node, f, diag);
    if (r != 0 || !node || node->kind != YAML_MAPPING)
        return r;
    struct source_options *source = &f->source;
    r = read_column_or_constant(node, "source", EVENT_SOURCE, diag, &source->columns[ROW_SOURCE],
                                &source->constant_source);
    if (r == 0)
        r = read_column_or_constant(node, "type", EVENT_TYPE, diag, &source->columns[ROW_TYPE],
                                    &source->constant_type);
    return r != 0 ? r : read_extensions(node, diag, source);
}

/* Where it starts, what is sent ------------------------------------------ */

static int read_start_position(const struct yaml_node *node, struct diag *diag, struct source_options *source) {
    int r = config_keys_read(&config_keys_start, node, NULL, diag);
    const struct yaml_node *position = yaml_find(node, "position", NULL);
    if (r != 0 || (position && position->kind == YAML_REFUSED))
        return r;
    source->start = SOURCE_START_POSITION;
    if (!position || position->kind != YAML_SCALAR ||
        quantity_read_integer(yaml_text(position), &source->start_position) != 0 || source->start_position < 0)
        diag_add(diag, DIAG_ERROR, position ? position->place : node->place,
                 "start: {position: N} is expected, N a whole number, the first position that is wanted");
    return 0;
}

static int read_start(const struct yaml_node *node, struct diag *diag, struct source_options *source) {
    source->start = SOURCE_START_BEGINNING;
    if (!node || node->kind == YAML_REFUSED)
        return 0;
    if (node->kind == YAML_MAPPING)
        return read_start_position(node, diag, source);
    if (node->kind == YAML_SCALAR && strcmp(node->text, "now") == 0)
        source->start = SOURCE_START_NOW;
    else if (node->kind != YAML_SCALAR || strcmp(node->text, "beginning") != 0)
        diag_add(diag, DIAG_ERROR, node->place, "start: beginning, now or {position: N} is expected");
    return 0;
}

static bool *find_emit(struct config_forwarder *f, const char *attribute) {
    if (strcmp(attribute, "streamid") == 0)
        return &f->emit_streamid;
    if (strcmp(attribute, "streamversion") == 0)
        return &f->emit_streamversion;
    return strcmp(attribute, "position") == 0 ? &f->emit_position : NULL;
}

static void read_emit(const struct yaml_node *node, struct diag *diag, struct config_forwarder *f) {
    f->emit_streamid = f->emit_streamversion = f->emit_position = !node;
    if (!node || !schema_is_list(node, "emit", diag))
        return;
    for (size_t i = 0; i < node->count; i++) {
        const struct yaml_node *item = node->children[i];
        bool *emit = item->kind == YAML_SCALAR ? find_emit(f, item->text) : NULL;
        if (emit)
            *emit = true;
        else if (item->kind != YAML_REFUSED)
            diag_add(diag, DIAG_ERROR, item->place, "emit: streamid, streamversion and position are allowed");
    }
}

static int read_poll(const struct yaml_node *node, struct diag *diag, struct config_forwarder *f) {
    int r = config_keys_read(&config_keys_poll, node, f, diag);
    if (r == 0 && node && f->poll_min_us > f->poll_max_us)
        diag_add(diag, DIAG_ERROR, node->place, "poll: min is longer than max; min may be at most max");
    return r;
}

static int borrow_control_characters(struct config_forwarder *f) {
    f->allow_control_characters = calloc(f->control_characters.count + 1, sizeof(*f->allow_control_characters));
    if (!f->allow_control_characters)
        return -ENOMEM;
    f->allow_control_characters_count = f->control_characters.count;
    for (size_t i = 0; i < f->control_characters.count; i++)
        f->allow_control_characters[i] = span_of(f->control_characters.items[i]);
    return 0;
}

int config_source_read(const struct yaml_node *node, struct diag *diag, struct config_forwarder *f) {
    struct yaml_node nothing = {.kind = YAML_MAPPING};
    int r = config_keys_read(&config_keys_source, node, f, diag);
    if (r == 0)
        r = borrow_control_characters(f);
    if (r != 0)
        return r;
    if (node->kind != YAML_MAPPING)
        node = &nothing;
    r = read_columns(yaml_find(node, "columns", NULL), diag, f);
    if (r == 0)
        r = read_start(yaml_find(node, "start", NULL), diag, &f->source);
    if (r == 0)
        r = read_poll(yaml_find(node, "poll", NULL), diag, f);
    if (r == 0)
        r = config_keys_read(&config_keys_gaps, yaml_find(node, "gaps", NULL), f, diag);
    read_emit(yaml_find(node, "emit", NULL), diag, f);
    const struct yaml_node *filter = yaml_find(node, "filter", NULL);
    return r != 0 || !filter ? r : config_filter_read(filter, diag, &f->filter);
}

void config_source_done(struct config_forwarder *f) {
    source_options_done(&f->source);
    filter_free(f->filter);
    free(f->allow_control_characters);
    option_release(config_keys_source.table, f); /* what source_options_done did not know */
}
