/* yaml: a YAML file as a tree in which every node knows its place; the only place that knows libyaml */
#include "config/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/log.h"

struct builder {
    yaml_parser_t parser;
    struct diag *diag;
    const char *file;
    struct span text;
    size_t nodes;
};

#define BUILD_E_END 2 /* the collection has ended */

/* Places ----------------------------------------------------------------- */

static bool starts_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80; /* RFC 3629: 10xxxxxx goes on with one */
}

static uint32_t count_characters(struct span text) {
    uint32_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += starts_character(text.data[i]);
    return count;
}

static struct diag_place place_of_mark(const struct builder *b, yaml_mark_t mark) {
    return (struct diag_place){b->file, (uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

static struct diag_place place_of_byte(const struct builder *b, size_t byte) {
    struct diag_place place = {b->file, 1, 1};
    for (size_t i = 0; i < byte && i < b->text.len; i++) {
        if (b->text.data[i] == '\n') {
            place.line++;
            place.column = 1;
        } else {
            place.column += starts_character(b->text.data[i]);
        }
    }
    return place;
}

/* The character that stands there; 0 behind the end. */
static char char_at_mark(const struct builder *b, yaml_mark_t mark) {
    size_t at = 0, character = 0;
    while (at < b->text.len && character < mark.index) {
        at++;
        while (at < b->text.len && !starts_character(b->text.data[at]))
            at++;
        character++;
    }
    return at < b->text.len ? b->text.data[at] : 0;
}

/* Errors of libyaml ------------------------------------------------------ */

/* libyaml's words are right but terse: what usually was meant. */
static const char *hint_for(const struct builder *b) {
    const char *problem = b->parser.problem;
    if (strstr(problem, "cannot start any token") != NULL)
        return char_at_mark(b, b->parser.problem_mark) == '\t' ? "; indent with spaces, not with tabs"
                                                               : "; text that begins with this character needs quotes";
    if (strstr(problem, "mapping values are not allowed") != NULL)
        return "; text that holds \": \" needs quotes, and keys of one mapping the same indentation";
    if (strstr(problem, "did not find expected key") != NULL || strstr(problem, "could not find expected ':'") != NULL)
        return "; is the indentation the same, is there a quote or a colon missing?";
    return "";
}

static void report_reader_error(const struct builder *b) {
    /* The mark of a reader error always says 1:1; only its byte offset is right. */
    diag_add(b->diag, DIAG_ERROR, place_of_byte(b, b->parser.problem_offset),
             "not readable as UTF-8 text: %s (byte %02X)", b->parser.problem, (unsigned)b->parser.problem_value & 0xff);
}

static void report_parse_error(const struct builder *b) {
    const yaml_parser_t *parser = &b->parser;
    struct diag_place place = place_of_mark(b, parser->problem_mark);
    if (!parser->context || parser->context_mark.line == parser->problem_mark.line)
        diag_add(b->diag, DIAG_ERROR, place, "not YAML: %s%s", parser->problem, hint_for(b));
    else
        diag_add(b->diag, DIAG_ERROR, place, "not YAML: %s, %s that begins in line %zu%s", parser->problem,
                 parser->context, parser->context_mark.line + 1, hint_for(b));
}

static int next_event(struct builder *b, yaml_event_t *ret_event) {
    if (yaml_parser_parse(&b->parser, ret_event))
        return 0;
    *ret_event = (yaml_event_t){0};
    if (b->parser.error == YAML_MEMORY_ERROR)
        return -ENOMEM;
    if (b->parser.error == YAML_READER_ERROR)
        report_reader_error(b);
    else
        report_parse_error(b);
    return YAML_E_REFUSED;
}

/* Nodes ------------------------------------------------------------------ */

static void node_free(struct yaml_node *n) {
    if (!n)
        return;
    for (size_t i = 0; i < n->count; i++)
        node_free(n->children[i]); /* as deep as YAML_DEPTH_MAX */
    free(n->children);
    free(n->text);
    free(n);
}

static void node_cleanup(struct yaml_node **n) {
    node_free(*n);
}

static int node_new(struct builder *b, yaml_mark_t mark, enum yaml_kind kind, struct yaml_node **ret_node) {
    if (++b->nodes > YAML_NODES_MAX) {
        diag_add(b->diag, DIAG_ERROR, place_of_mark(b, mark), "too many keys and values; %d are allowed",
                 YAML_NODES_MAX);
        return YAML_E_REFUSED;
    }
    struct yaml_node *n = calloc(1, sizeof(*n));
    if (!n)
        return -ENOMEM;
    n->kind = kind;
    n->place = place_of_mark(b, mark);
    *ret_node = n;
    return 0;
}

/* Takes ownership of child in every case. */
static int node_add_child(struct yaml_node *n, struct yaml_node *child) {
    if ((n->count & (n->count - 1)) == 0) { /* full at each power of two */
        size_t capacity = n->count == 0 ? 1 : n->count * 2;
        struct yaml_node **more = reallocarray(n->children, capacity, sizeof(*more));
        if (!more) {
            node_free(child);
            return -ENOMEM;
        }
        n->children = more;
    }
    n->children[n->count++] = child;
    return 0;
}

static void refuse(struct builder *b, struct yaml_node *n, const char *what) {
    diag_add(b->diag, DIAG_ERROR, n->place, "%s not part of this language; write the value out where it is needed",
             what);
    n->kind = YAML_REFUSED;
}

/* Does every character of the text stand in the line just as it is? Then its column is known. */
static uint32_t find_text_column(const yaml_event_t *event, struct span text) {
    uint32_t quotes = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? 0 : 2;
    if (event->start_mark.line != event->end_mark.line)
        return 0;
    if (event->end_mark.column - event->start_mark.column != count_characters(text) + quotes)
        return 0;
    return (uint32_t)event->start_mark.column + 1 + quotes / 2;
}

static int build_scalar(struct builder *b, const yaml_event_t *event, struct yaml_node **ret_node) {
    CLEANUP(node_cleanup) struct yaml_node *n = NULL;
    int r = node_new(b, event->start_mark, YAML_SCALAR, &n);
    if (r != 0)
        return r;
    struct span text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    n->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    n->text_column = find_text_column(event, text);
    n->text = strndup(text.data, text.len);
    if (!n->text)
        return -ENOMEM;
    if (strlen(n->text) != text.len) {
        diag_add(b->diag, DIAG_ERROR, n->place, "the text holds a NUL character; no place takes one");
        n->kind = YAML_REFUSED;
    }
    if (event->data.scalar.anchor)
        refuse(b, n, "an anchor (&) is");
    else if (event->data.scalar.tag)
        refuse(b, n, "a tag (!) is");
    *ret_node = TAKE(n);
    return 0;
}

static int build_alias(struct builder *b, const yaml_event_t *event, struct yaml_node **ret_node) {
    int r = node_new(b, event->start_mark, YAML_SCALAR, ret_node);
    if (r == 0)
        refuse(b, *ret_node, "an alias (*) is");
    return r;
}

/* Mappings --------------------------------------------------------------- */

static int compare_keys(const void *left, const void *right) {
    const struct yaml_node *a = *(struct yaml_node *const *)left, *b = *(struct yaml_node *const *)right;
    int order = strcmp(a->text, b->text);
    if (order != 0)
        return order;
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line ? -1 : 1;
    return a->place.column < b->place.column ? -1 : a->place.column > b->place.column;
}

/* By sorting, so that a file full of keys can't make it quadratic. */
static int find_duplicates(struct builder *b, const struct yaml_node *mapping) {
    CLEANUP(cleanup_free) struct yaml_node **keys = calloc(mapping->count / 2 + 1, sizeof(*keys));
    if (!keys)
        return -ENOMEM;
    size_t count = 0;
    for (size_t i = 0; i < mapping->count; i += 2)
        if (mapping->children[i]->kind == YAML_SCALAR)
            keys[count++] = mapping->children[i];
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t i = 1; i < count; i++)
        if (strcmp(keys[i - 1]->text, keys[i]->text) == 0)
            diag_add(b->diag, DIAG_ERROR, keys[i]->place, "key \"%s\" stands twice; first at %s:%u:%u", keys[i]->text,
                     b->file, keys[i - 1]->place.line, keys[i - 1]->place.column);
    return 0;
}

static void check_key(struct builder *b, struct yaml_node *key) {
    if (key->kind == YAML_REFUSED)
        return;
    if (key->kind != YAML_SCALAR) {
        diag_add(b->diag, DIAG_ERROR, key->place, "%s can't be a key; a key is a text", yaml_kind_name(key));
        key->kind = YAML_REFUSED;
    } else if (key->plain && strcmp(key->text, "<<") == 0) {
        refuse(b, key, "a merge key (<<) is");
    }
}

static int build(struct builder *b, unsigned depth, struct yaml_node **ret_node);

static int build_children(struct builder *b, unsigned depth, struct yaml_node *n) {
    for (;;) {
        struct yaml_node *child;
        int r = build(b, depth, &child);
        if (r == BUILD_E_END)
            return 0;
        if (r != 0)
            return r;
        if (n->kind == YAML_MAPPING && n->count % 2 == 0)
            check_key(b, child);
        r = node_add_child(n, child);
        if (r != 0)
            return r;
    }
}

static int build_collection(struct builder *b, const yaml_event_t *event, unsigned depth, struct yaml_node **ret_node) {
    bool mapping = event->type == YAML_MAPPING_START_EVENT;
    if (depth == YAML_DEPTH_MAX) {
        diag_add(b->diag, DIAG_ERROR, place_of_mark(b, event->start_mark), "nested too deep; %d levels are allowed",
                 YAML_DEPTH_MAX);
        return YAML_E_REFUSED;
    }
    CLEANUP(node_cleanup) struct yaml_node *n = NULL;
    int r = node_new(b, event->start_mark, mapping ? YAML_MAPPING : YAML_SEQUENCE, &n);
    if (r == 0)
        r = build_children(b, depth + 1, n);
    if (r == 0 && mapping)
        r = find_duplicates(b, n);
    if (r != 0)
        return r;
    if (mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor)
        refuse(b, n, "an anchor (&) is");
    else if (mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag)
        refuse(b, n, "a tag (!) is");
    *ret_node = TAKE(n);
    return 0;
}

/* One node and what is below it; BUILD_E_END if the collection ends instead. */
static int build(struct builder *b, unsigned depth, struct yaml_node **ret_node) {
    CLEANUP(yaml_event_delete) yaml_event_t event = {0};
    int r = next_event(b, &event);
    if (r != 0)
        return r;
    if (event.type == YAML_SCALAR_EVENT)
        return build_scalar(b, &event, ret_node);
    if (event.type == YAML_ALIAS_EVENT)
        return build_alias(b, &event, ret_node);
    if (event.type == YAML_MAPPING_START_EVENT || event.type == YAML_SEQUENCE_START_EVENT)
        return build_collection(b, &event, depth, ret_node);
    return BUILD_E_END;
}

/* Document --------------------------------------------------------------- */

/* The next event: its type, its place, and whether directives came with it. */
static int take_event(struct builder *b, yaml_event_type_t *ret_type, struct diag_place *ret_place,
                      bool *ret_directives) {
    CLEANUP(yaml_event_delete) yaml_event_t event = {0};
    int r = next_event(b, &event);
    if (r != 0)
        return r;
    *ret_type = event.type;
    *ret_place = place_of_mark(b, event.start_mark);
    *ret_directives = event.type == YAML_DOCUMENT_START_EVENT &&
                      (event.data.document_start.version_directive ||
                       event.data.document_start.tag_directives.start != event.data.document_start.tag_directives.end);
    return 0;
}

static int begin_document(struct builder *b) {
    yaml_event_type_t type;
    struct diag_place place;
    bool directives;
    int r = take_event(b, &type, &place, &directives); /* start of the stream */
    if (r == 0)
        r = take_event(b, &type, &place, &directives);
    if (r != 0)
        return r;
    if (type != YAML_DOCUMENT_START_EVENT) {
        diag_add(b->diag, DIAG_ERROR, (struct diag_place){b->file, 0, 0},
                 "empty; a mapping with connections and forwarders is expected");
        return YAML_E_REFUSED;
    }
    if (directives)
        diag_add(b->diag, DIAG_ERROR, place, "directives (%%YAML, %%TAG) are not part of this language");
    return 0;
}

static int end_document(struct builder *b) {
    yaml_event_type_t type;
    struct diag_place place;
    bool directives;
    int r = take_event(b, &type, &place, &directives); /* end of the document */
    if (r == 0)
        r = take_event(b, &type, &place, &directives);
    if (r == 0 && type != YAML_STREAM_END_EVENT)
        diag_add(b->diag, DIAG_ERROR, place, "a second document (---) begins; a file holds exactly one");
    return r;
}

static int build_document(struct builder *b, struct yaml *ret_yaml) {
    CLEANUP(node_cleanup) struct yaml_node *root = NULL;
    int r = begin_document(b);
    if (r == 0)
        r = build(b, 0, &root);
    if (r == 0)
        r = end_document(b);
    if (r != 0)
        return r;
    ret_yaml->root = TAKE(root);
    return 0;
}

static struct span without_byte_order_mark(struct span text) {
    if (text.len >= 3 && memcmp(text.data, "\xEF\xBB\xBF", 3) == 0)
        return (struct span){text.data + 3, text.len - 3};
    return text;
}

int yaml_parse(struct span text, const char *file, struct diag *diag, struct yaml *ret_yaml) {
    if (text.len > YAML_BYTES_MAX) {
        diag_add(diag, DIAG_ERROR, (struct diag_place){file, 0, 0}, "too large; 1 MiB is allowed");
        return YAML_E_REFUSED;
    }
    struct yaml y = {.file = strdup(file)};
    if (!y.file)
        return -ENOMEM;
    struct builder b = {.diag = diag, .file = y.file, .text = without_byte_order_mark(text)};
    int r = yaml_parser_initialize(&b.parser) ? 0 : -ENOMEM;
    if (r == 0) {
        yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&b.parser, (const unsigned char *)b.text.data, b.text.len);
        r = build_document(&b, &y);
        yaml_parser_delete(&b.parser);
    }
    if (r != 0) {
        yaml_done(&y);
        return r;
    }
    *ret_yaml = y;
    return 0;
}

/* One byte more than allowed is asked for, so that yaml_parse sees the excess. */
static int read_file(int fd, struct buf *b) {
    for (;;) {
        size_t room = YAML_BYTES_MAX + 1 - b->len;
        int r = buf_reserve(b, room < 16384 ? room : 16384);
        if (r != 0)
            return r;
        ssize_t got = read(fd, b->data + b->len, room < 16384 ? room : 16384);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        b->len += (size_t)got;
        if (got == 0 || b->len > YAML_BYTES_MAX)
            return 0;
    }
}

int yaml_read(const char *path, struct diag *diag, struct yaml *ret_yaml) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(YAML_BYTES_MAX + 1);
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : read_file(fd, &text);
    if (r == -ENOMEM)
        return r;
    if (r != 0) {
        diag_add(diag, DIAG_ERROR, (struct diag_place){path, 0, 0}, "can't be read: %s", strerror(-r));
        return YAML_E_REFUSED;
    }
    return yaml_parse(buf_span(&text), path, diag, ret_yaml);
}

void yaml_done(struct yaml *y) {
    node_free(y->root);
    free(y->file);
    *y = (struct yaml){0};
}

/* Looking ---------------------------------------------------------------- */

size_t yaml_pairs(const struct yaml_node *mapping) {
    ASSERT(mapping->kind == YAML_MAPPING);
    return mapping->count / 2;
}

const struct yaml_node *yaml_key(const struct yaml_node *mapping, size_t i) {
    ASSERT(i < yaml_pairs(mapping));
    return mapping->children[2 * i];
}

const struct yaml_node *yaml_value(const struct yaml_node *mapping, size_t i) {
    ASSERT(i < yaml_pairs(mapping));
    return mapping->children[2 * i + 1];
}

const struct yaml_node *yaml_find(const struct yaml_node *mapping, const char *key, const struct yaml_node **ret_key) {
    for (size_t i = 0; i < yaml_pairs(mapping); i++) {
        const struct yaml_node *candidate = yaml_key(mapping, i);
        if (candidate->kind != YAML_SCALAR || strcmp(candidate->text, key) != 0)
            continue;
        if (ret_key)
            *ret_key = candidate;
        return yaml_value(mapping, i);
    }
    return NULL;
}

bool yaml_empty(const struct yaml_node *node) {
    return node->kind == YAML_SCALAR && node->plain && node->text[0] == '\0';
}

struct span yaml_text(const struct yaml_node *scalar) {
    ASSERT(scalar->kind == YAML_SCALAR);
    return span_of(scalar->text);
}

struct diag_place yaml_place_at(const struct yaml_node *scalar, size_t at) {
    ASSERT(scalar->kind == YAML_SCALAR);
    struct diag_place place = scalar->place;
    struct span text = yaml_text(scalar);
    if (scalar->text_column != 0 && at <= text.len)
        place.column = scalar->text_column + count_characters((struct span){text.data, at});
    return place;
}

const char *yaml_kind_name(const struct yaml_node *node) {
    if (yaml_empty(node))
        return "nothing";
    switch (node->kind) {
    case YAML_SCALAR:
        return "a text";
    case YAML_MAPPING:
        return "a mapping";
    case YAML_SEQUENCE:
        return "a list";
    case YAML_REFUSED:
        return "something refused";
    }
    log_bug(__FILE__, __LINE__, "unknown kind");
}
