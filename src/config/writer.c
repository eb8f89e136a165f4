/* writer: prints YAML that yaml_parse reads back to the same tree */
#include "config/writer.h"

#include <inttypes.h>
#include <strings.h>

#include "base/log.h"
#include "config/mask.h"
#include "config/quantity.h"
#include "config/scalar.h"

#define WRITER_SCALAR_MAX (2 * YAML_BYTES_MAX)
#define WRITER_GROUP_MAX 32

static void add(struct writer *w, struct span s) {
    if (w->result == 0)
        w->result = buf_add_span(w->out, s);
}

static void add_literal(struct writer *w, const char *text) {
    add(w, span_of(text));
}

static void begin_line(struct writer *w) {
    ASSERT(w->level <= YAML_DEPTH_MAX);
    if (w->opened)
        add_literal(w, "\n");
    w->opened = false;
    for (unsigned i = w->dash ? 1 : 0; i < w->level; i++)
        add_literal(w, "  ");
    if (w->dash)
        add_literal(w, "- ");
    w->dash = false;
}

/* Text ------------------------------------------------------------------- */

/* Would another YAML reader see anything but a text? */
static bool is_plain_text(struct span text) {
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
        if (text.len == strlen(words[i]) && strncasecmp(text.data, words[i], text.len) == 0)
            return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
        if (!letter && (i == 0 || !((c >= '0' && c <= '9') || c == '.' || c == '-')))
            return false;
    }
    return text.len > 0;
}

/* The text is UTF-8: yaml_parse took nothing else. */
static uint32_t take_character(struct span *rest) {
    const unsigned char *c = (const unsigned char *)rest->data;
    size_t len = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    ASSERT(len <= rest->len);
    uint32_t value = len == 1 ? c[0] : c[0] & (0x7fU >> len);
    for (size_t i = 1; i < len; i++)
        value = value << 6 | (c[i] & 0x3fU);
    *rest = (struct span){rest->data + len, rest->len - len};
    return value;
}

/* YAML 1.1 "5.1. Character Set", less what breaks lines. */
static bool is_printable(uint32_t c) {
    return (c >= 0x20 && c < 0x7f) || (c >= 0xa0 && c <= 0xd7ff && c != 0x2028 && c != 0x2029) ||
           (c >= 0xe000 && c <= 0xfffd && c != 0xfeff) || (c >= 0x10000 && c <= 0x10ffff);
}

static void add_quoted(struct writer *w, struct span text) {
    add_literal(w, "\"");
    while (text.len > 0 && w->result == 0) {
        struct span before = text;
        uint32_t c = take_character(&text);
        if (c == '"' || c == '\\')
            w->result = buf_addf(w->out, "\\%c", (char)c);
        else if (c == '\n')
            add_literal(w, "\\n");
        else if (is_printable(c))
            add(w, (struct span){before.data, before.len - text.len});
        else
            w->result = buf_addf(w->out, c > 0xffff ? "\\U%08X" : "\\u%04X", c);
    }
    add_literal(w, "\"");
}

static void add_text(struct writer *w, struct span text) {
    if (is_plain_text(text))
        add(w, text);
    else
        add_quoted(w, text);
}

/* Lines ------------------------------------------------------------------ */

/* "key:" or, in a list (key NULL), the dash alone. */
static void begin_value(struct writer *w, const char *key) {
    if (!key)
        w->dash = true;
    begin_line(w);
    if (!key)
        return;
    add_text(w, span_of(key));
    add_literal(w, ": ");
}

void writer_text(struct writer *w, const char *key, struct span text) {
    begin_value(w, key);
    add_text(w, text);
    add_literal(w, "\n");
}

void writer_plain(struct writer *w, const char *key, struct span value) {
    begin_value(w, key);
    add(w, value);
    add_literal(w, "\n");
}

static void open_collection(struct writer *w, const char *key) {
    begin_line(w);
    add_text(w, span_of(key));
    add_literal(w, ":");
    w->level++;
    w->opened = true;
}

static void close_collection(struct writer *w, const char *if_empty) {
    ASSERT(w->level > 0);
    if (w->opened)
        add_literal(w, if_empty);
    w->opened = false;
    w->level--;
}

void writer_open_mapping(struct writer *w, const char *key) {
    open_collection(w, key);
}

void writer_close_mapping(struct writer *w) {
    close_collection(w, " {}\n");
}

/* Items stand one level deeper than their key. */
void writer_open_list(struct writer *w, const char *key) {
    open_collection(w, key);
    w->level++;
}

void writer_close_list(struct writer *w) {
    w->level--;
    close_collection(w, " []\n");
}

void writer_open_item(struct writer *w) {
    w->dash = true;
}

void writer_close_item(struct writer *w) {
    if (!w->dash)
        return;
    begin_line(w);
    add_literal(w, "{}\n");
}

/* Nodes ------------------------------------------------------------------ */

static void write_mapping_body(struct writer *w, const struct yaml_node *mapping) {
    for (size_t i = 0; i < yaml_pairs(mapping); i++)
        writer_node(w, yaml_key(mapping, i)->text, yaml_value(mapping, i));
}

static void write_item(struct writer *w, const struct yaml_node *item) {
    if (item->kind != YAML_MAPPING) {
        writer_node(w, NULL, item);
        return;
    }
    writer_open_item(w);
    write_mapping_body(w, item);
    writer_close_item(w);
}

static void write_scalar(struct writer *w, const char *key, const struct yaml_node *node) {
    struct span text = yaml_text(node);
    if (yaml_empty(node))
        writer_plain(w, key, SPAN_LITERAL("{}")); /* the places that take nothing take a mapping */
    else if (node->plain && (span_is(text, "true") || span_is(text, "false")))
        writer_plain(w, key, text);
    else
        writer_text(w, key, text);
}

/* As deep as the tree: YAML_DEPTH_MAX. */
void writer_node(struct writer *w, const char *key, const struct yaml_node *node) {
    switch (node->kind) {
    case YAML_SCALAR:
        write_scalar(w, key, node);
        return;
    case YAML_MAPPING:
        writer_open_mapping(w, key);
        write_mapping_body(w, node);
        writer_close_mapping(w);
        return;
    case YAML_SEQUENCE:
        writer_open_list(w, key);
        for (size_t i = 0; i < node->count; i++)
            write_item(w, node->children[i]);
        writer_close_list(w);
        return;
    case YAML_REFUSED:
        return;
    }
}

/* Tables ----------------------------------------------------------------- */

/* MASK_TEXT, or what mask_add left of a text: two that differ in a secret look the same. */
static void write_masked(struct writer *w, const char *key, struct span masked, struct span secret) {
    if (!w->fingerprints) {
        writer_text(w, key, masked);
        return;
    }
    CLEANUP(buf_done) struct buf b = BUF_INIT(WRITER_SCALAR_MAX);
    if (w->result == 0)
        w->result = buf_addf(&b, "%.*s %016" PRIx64, SPAN_ARGS(masked), hash_bytes(w->fingerprints, secret));
    if (w->result == 0)
        writer_text(w, key, buf_span(&b));
}

static void write_secret(struct writer *w, const char *key, const struct secret *secret) {
    static const char *const places[] = {
        [SECRET_CREDENTIAL] = "credential", [SECRET_FILE] = "file", [SECRET_ENV] = "env"};
    switch (secret->kind) {
    case SECRET_NONE:
        return;
    case SECRET_INLINE:
        write_masked(w, key, SPAN_LITERAL(MASK_TEXT), span_of(secret->value));
        return;
    case SECRET_CREDENTIAL:
    case SECRET_FILE:
    case SECRET_ENV:
        writer_open_mapping(w, key);
        writer_text(w, places[secret->kind], span_of(secret->value));
        writer_close_mapping(w);
        return;
    }
}

static void write_texts(struct writer *w, const char *key, const struct option_texts *texts) {
    writer_open_list(w, key);
    for (size_t i = 0; i < texts->count; i++)
        writer_text(w, NULL, span_of(texts->items[i]));
    writer_close_list(w);
}

static void write_masked_text(struct writer *w, const char *key, struct span text) {
    CLEANUP(buf_done) struct buf masked = BUF_INIT(WRITER_SCALAR_MAX);
    bool was_masked;
    if (w->result == 0)
        w->result = mask_add(text, &masked, &was_masked);
    if (w->result == 0 && was_masked)
        write_masked(w, key, buf_span(&masked), text);
    else if (w->result == 0)
        writer_text(w, key, text);
}

/* Of what kind it is knows only the library. */
static void write_property_text(struct writer *w, const char *name, struct span text, bool mask_texts) {
    double number;
    if (span_is(text, "true") || span_is(text, "false") || quantity_read_decimal(text, &number) == 0)
        writer_plain(w, name, text);
    else if (mask_texts)
        write_masked_text(w, name, text);
    else
        writer_text(w, name, text);
}

/* By the file's order; a name with dots is one key. */
static void write_properties(struct writer *w, const struct option *o, const struct option_properties *properties,
                             bool mask_texts) {
    for (size_t i = 0; i < properties->count; i++) {
        const struct option_property *p = &properties->items[i];
        if (p->value.kind != SECRET_INLINE || o->properties->secret(span_of(p->name)))
            write_secret(w, p->name, &p->value);
        else
            write_property_text(w, p->name, span_of(p->value.value), mask_texts);
    }
}

static void write_value(struct writer *w, const struct option *o, const char *key, const void *options) {
    CLEANUP(buf_done) struct buf value = BUF_INIT(WRITER_SCALAR_MAX);
    if (w->result == 0)
        w->result = scalar_add(o, options, &value);
    if (w->result != 0)
        return;
    if (o->kind == OPTION_CHOICE)
        writer_text(w, key, buf_span(&value));
    else
        writer_plain(w, key, buf_span(&value));
}

static bool has_value(const struct option *o, const void *options) {
    const void *member = (const char *)options + o->offset;
    if (o->kind == OPTION_TEXT)
        return *(char *const *)member != NULL;
    return o->kind != OPTION_SECRET || ((const struct secret *)member)->kind != SECRET_NONE;
}

static void write_option(struct writer *w, const struct option *o, const char *key, const void *options,
                         bool mask_texts) {
    const void *member = (const char *)options + o->offset;
    struct span text;
    switch (o->kind) {
    case OPTION_SECRET:
        write_secret(w, key, member);
        return;
    case OPTION_TEXTS:
        write_texts(w, key, member);
        return;
    case OPTION_PROPERTIES:
        write_properties(w, o, member, mask_texts);
        return;
    case OPTION_TEXT:
        text = span_of(*(char *const *)member);
        if (mask_texts)
            write_masked_text(w, key, text);
        else
            writer_text(w, key, text);
        return;
    case OPTION_BOOLEAN:
    case OPTION_INTEGER:
    case OPTION_DURATION:
    case OPTION_SIZE:
    case OPTION_DECIMAL:
    case OPTION_CHOICE:
        write_value(w, o, key, options);
        return;
    }
}

/* Opens and closes the mapping that a dot in a key stands for; its options follow each other. */
static void enter_group(struct writer *w, const char *key, char *current) {
    const char *dot = strchr(key, '.');
    size_t len = dot ? (size_t)(dot - key) : 0;
    ASSERT(len < WRITER_GROUP_MAX);
    if (strlen(current) == len && strncmp(current, key, len) == 0)
        return;
    if (current[0] != '\0')
        writer_close_mapping(w);
    memcpy(current, key, len);
    current[len] = '\0';
    if (len > 0)
        writer_open_mapping(w, current);
}

void writer_table(struct writer *w, const struct option *table, const void *options, bool mask_texts) {
    char group[WRITER_GROUP_MAX] = "";
    for (const struct option *o = table; o->key && w->result == 0; o++) {
        if (!has_value(o, options))
            continue;
        enter_group(w, o->key, group);
        write_option(w, o, o->key + (group[0] != '\0' ? strlen(group) + 1 : 0), options, mask_texts);
    }
    if (group[0] != '\0')
        writer_close_mapping(w);
}
