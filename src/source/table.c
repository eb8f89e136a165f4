/* table: the event table: its name, the columns that are wanted of it and what was found */
#include "source/table.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"

/* Names. -------------------------------------------------------------------- */

#define NAME_MAX_BYTES 1000

/* Behind the opening quote: up to the closing one, doubled quotes stand for one. */
static bool read_quoted(const char **at, const char *end, char *to) {
    for (const char *p = *at; p < end; p++) {
        if (*p == '"' && (p + 1 == end || p[1] != '"')) {
            bool any = p > *at;
            *at = p + 1;
            *to = '\0';
            return any;
        }
        if (*p == '"')
            p++;
        if (*p == '\0')
            return false;
        *to++ = *p;
    }
    return false;
}

static bool is_name_byte(unsigned char c, bool first) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
    return letter || (!first && ((c >= '0' && c <= '9') || c == '$'));
}

/* SQL folds what is not quoted to lower case. */
static bool read_plain(const char **at, const char *end, char *to) {
    const char *p = *at;
    for (; p < end && is_name_byte((unsigned char)*p, p == *at); p++)
        *to++ = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    *to = '\0';
    bool any = p > *at;
    *at = p;
    return any;
}

/* 0; -EINVAL; -ENOMEM. */
static int read_part(const char **at, const char *end, char **ret_part) {
    CLEANUP(cleanup_free) char *part = malloc((size_t)(end - *at) + 1);
    bool quoted = *at < end && **at == '"';
    if (!part)
        return -ENOMEM;
    *at += quoted;
    if (!(quoted ? read_quoted(at, end, part) : read_plain(at, end, part)))
        return -EINVAL;
    *ret_part = TAKE(part);
    return 0;
}

static int read_name(struct span text, struct table_name *name) {
    const char *at = text.data, *end = at + text.len;
    if (text.len > NAME_MAX_BYTES)
        return -EINVAL;
    int r = read_part(&at, end, &name->table);
    if (r == 0 && at < end && *at == '.') {
        at++;
        name->schema = TAKE(name->table);
        r = read_part(&at, end, &name->table);
    }
    return r == 0 && at != end ? -EINVAL : r;
}

int table_name_parse(struct span text, struct table_name *ret_name, struct error *reterr) {
    struct table_name name = {0};
    int r = read_name(text, &name);
    if (r == 0) {
        *ret_name = name;
        return 0;
    }
    table_name_done(&name);
    error_set(reterr, ERROR_CONFIG, "'%.*s' is no table's name; allowed is table or schema.table, each part in double quotes "
              "if it has upper case or other characters than letters, digits and _", SPAN_ARGS(text));
    return r;
}

void table_name_done(struct table_name *name) {
    free(name->schema);
    free(name->table);
    *name = (struct table_name){0};
}

int table_name_quote(const struct table_name *name, struct buf *b) {
    int r = 0;
    if (name->schema) {
        r = pgconn_quote_identifier(span_of(name->schema), b);
        if (r == 0)
            r = buf_add_char(b, '.');
    }
    return r ? r : pgconn_quote_identifier(span_of(name->table), b);
}

int source_check_table(struct span table, struct error *reterr) {
    struct table_name name;
    int r = table_name_parse(table, &name, reterr);
    if (r == 0)
        table_name_done(&name);
    return r;
}

/* Options. ------------------------------------------------------------------ */

void source_options_done(struct source_options *o) {
    free(o->table);
    for (size_t i = 0; i < ROW_ROLE_COUNT; i++)
        free(o->columns[i]);
    free(o->transaction_id);
    free(o->constant_source);
    free(o->constant_type);
    for (size_t i = 0; i < o->extension_count; i++) {
        free(o->extensions[i].attribute);
        free(o->extensions[i].column);
    }
    free(o->extensions);
    *o = (struct source_options){0};
}

/* Columns. ------------------------------------------------------------------ */

#define DEFAULT_TRANSACTION_ID "xid"

const char *source_default_column(enum row_role role) {
    switch (role) {
    case ROW_POSITION:
        return "position";
    case ROW_ID:
        return "id";
    case ROW_SOURCE:
        return "source";
    case ROW_TYPE:
        return "type";
    case ROW_DATA:
        return "data";
    case ROW_SUBJECT:
        return "subject";
    case ROW_TIME:
        return "time";
    case ROW_DATACONTENTTYPE:
        return "datacontenttype";
    case ROW_DATASCHEMA:
        return "dataschema";
    case ROW_STREAM_ID:
        return "streamid";
    case ROW_STREAM_VERSION:
        return "streamversion";
    case ROW_RECORDED:
        return "recorded_at";
    case ROW_EXTENSIONS:
        return "extensions";
    case ROW_DATA_BYTES:
    case ROW_EXTENSION:
    case ROW_ROLE_COUNT:
        return NULL;
    }
    return NULL;
}

/* A constant takes the column's place. */
static bool is_constant(const struct source_options *o, enum row_role role) {
    return (role == ROW_SOURCE && o->constant_source) || (role == ROW_TYPE && o->constant_type);
}

static bool must_exist(enum row_role role) {
    return role == ROW_POSITION || role == ROW_ID || role == ROW_SOURCE || role == ROW_TYPE;
}

static void add_column(struct table *t, int role, const char *column, struct span attribute, bool needed) {
    ASSERT(t->count < TABLE_COLUMNS_MAX);
    t->columns[t->count++] =
        (struct table_column){.role = role, .column = column, .attribute = attribute, .needed = needed};
}

int table_init(struct table *t, const struct source_options *o) {
    struct error ignored;
    *t = (struct table){0};
    if (o->extension_count > TABLE_EXTENSIONS_MAX)
        return -EINVAL;
    int r = table_name_parse(span_of(o->table), &t->name, &ignored);
    if (r)
        return r;
    for (int i = 0; i < ROW_ROLE_COUNT; i++) {
        enum row_role role = (enum row_role)i;
        const char *given = o->columns[i], *column = given ? given : source_default_column(role);
        if (column && !is_constant(o, role))
            add_column(t, i, column, SPAN_ABSENT, given || must_exist(role));
    }
    t->mode = (enum source_mode)o->mode;
    t->text_typed = o->text_typed;
    add_column(t, TABLE_TRANSACTION_ID, o->transaction_id ? o->transaction_id : DEFAULT_TRANSACTION_ID, SPAN_ABSENT,
               o->transaction_id || t->mode == SOURCE_MODE_SNAPSHOT);
    for (size_t i = 0; i < o->extension_count; i++)
        add_column(t, ROW_EXTENSION, o->extensions[i].column, span_of(o->extensions[i].attribute), true);
    return 0;
}

void table_done(struct table *t) {
    table_name_done(&t->name);
}

void table_forget(struct table *t) {
    t->oid = 0;
    t->partitioned = false;
    for (size_t i = 0; i < t->count; i++)
        t->columns[i].found = false;
}

void table_found(struct table *t, const struct table_fact *fact) {
    for (size_t i = 0; i < t->count; i++) {
        struct table_column *c = &t->columns[i];
        if (!span_is(fact->name, c->column))
            continue;
        c->found = true;
        c->oid = fact->oid;
        c->declared = fact->declared;
        snprintf(c->type, sizeof c->type, "%.*s", SPAN_ARGS(fact->type));
        c->not_null = fact->not_null;
        c->readable = fact->readable;
        c->from_sequence = fact->from_sequence;
        c->from_transaction = fact->from_transaction;
    }
}

const struct table_column *table_column(const struct table *t, int role) {
    for (size_t i = 0; i < t->count; i++) {
        if (t->columns[i].role == role)
            return &t->columns[i];
    }
    return NULL;
}

/* Types. -------------------------------------------------------------------- */

enum row_form table_form(uint32_t oid, bool *ret_cast) {
    static const struct {
        uint32_t oid;
        enum row_form form;
    } known[] = {
        {TABLE_OID_TEXT, ROW_FORM_TEXT},
        {TABLE_OID_VARCHAR, ROW_FORM_TEXT},
        {TABLE_OID_BPCHAR, ROW_FORM_TEXT},
        {TABLE_OID_NAME, ROW_FORM_TEXT},
        {TABLE_OID_JSON, ROW_FORM_JSON},
        {TABLE_OID_JSONB, ROW_FORM_JSONB},
        {TABLE_OID_BYTEA, ROW_FORM_BYTEA},
        {TABLE_OID_UUID, ROW_FORM_UUID},
        {TABLE_OID_INT2, ROW_FORM_INT2},
        {TABLE_OID_INT4, ROW_FORM_INT4},
        {TABLE_OID_INT8, ROW_FORM_INT8},
        {TABLE_OID_BOOL, ROW_FORM_BOOL},
        {TABLE_OID_TIMESTAMPTZ, ROW_FORM_TIMESTAMPTZ},
        {TABLE_OID_TIMESTAMP, ROW_FORM_TIMESTAMP},
        {TABLE_OID_DATE, ROW_FORM_DATE},
    };
    *ret_cast = false;
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        if (known[i].oid == oid)
            return known[i].form;
    }
    *ret_cast = true;
    return ROW_FORM_TEXT;
}

static bool is_integer(uint32_t oid) {
    return oid == TABLE_OID_INT2 || oid == TABLE_OID_INT4 || oid == TABLE_OID_INT8;
}

static bool is_text(uint32_t oid) {
    return oid == TABLE_OID_TEXT || oid == TABLE_OID_VARCHAR || oid == TABLE_OID_BPCHAR;
}

const char *table_unfit(int role, uint32_t oid) {
    switch (role) {
    case ROW_POSITION:
        return is_integer(oid) ? NULL : "bigint, integer or smallint";
    case TABLE_TRANSACTION_ID:
        return oid == TABLE_OID_XID8 || oid == TABLE_OID_INT8 ? NULL : "xid8 or bigint";
    case ROW_EXTENSIONS:
        return oid == TABLE_OID_JSONB || oid == TABLE_OID_JSON ? NULL : "jsonb or json";
    case ROW_DATA:
        return is_text(oid) || oid == TABLE_OID_JSON || oid == TABLE_OID_JSONB || oid == TABLE_OID_BYTEA || oid == TABLE_OID_XML
                   ? NULL
                   : "json, jsonb, text, varchar, char, xml or bytea";
    default:
        return NULL;
    }
}
