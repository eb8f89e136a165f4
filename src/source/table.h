/* table: the event table: its name, the columns that are wanted of it and what was found */
#ifndef PENSTOCK_SOURCE_TABLE_H
#define PENSTOCK_SOURCE_TABLE_H

#include "source/source.h"

#define TABLE_EXTENSIONS_MAX 64
#define TABLE_COLUMNS_MAX (ROW_ROLE_COUNT + TABLE_EXTENSIONS_MAX)
/* Beside the roles of a row: needed to read it, not part of it. */
#define TABLE_TRANSACTION_ID ROW_ROLE_COUNT

/* Types by their oids in pg_type.dat, which never change. */
enum {
    TABLE_OID_BOOL = 16,
    TABLE_OID_BYTEA = 17,
    TABLE_OID_NAME = 19,
    TABLE_OID_INT8 = 20,
    TABLE_OID_INT2 = 21,
    TABLE_OID_INT4 = 23,
    TABLE_OID_TEXT = 25,
    TABLE_OID_JSON = 114,
    TABLE_OID_XML = 142,
    TABLE_OID_FLOAT4 = 700,
    TABLE_OID_FLOAT8 = 701,
    TABLE_OID_BPCHAR = 1042,
    TABLE_OID_VARCHAR = 1043,
    TABLE_OID_DATE = 1082,
    TABLE_OID_TIME = 1083,
    TABLE_OID_TIMESTAMP = 1114,
    TABLE_OID_TIMESTAMPTZ = 1184,
    TABLE_OID_INTERVAL = 1186,
    TABLE_OID_TIMETZ = 1266,
    TABLE_OID_NUMERIC = 1700,
    TABLE_OID_UUID = 2950,
    TABLE_OID_JSONB = 3802,
    TABLE_OID_XID8 = 5069,
};

/* Parts without their quotes, folded as SQL folds; owned. */
struct table_name {
    char *schema; /* NULL: by search_path */
    char *table;
};

/* 0; -EINVAL with *reterr; -ENOMEM. */
int table_name_parse(struct span text, struct table_name *ret_name, struct error *reterr) MUST_CHECK;
void table_name_done(struct table_name *name);
/* Appends "schema"."table". */
int table_name_quote(const struct table_name *name, struct buf *b) MUST_CHECK;

/* What pg_attribute says about a column. */
struct table_fact {
    struct span name;
    uint32_t oid;      /* of the type; of a domain, of its base type */
    uint32_t declared; /* of the type itself */
    struct span type; /* as SQL writes it */
    bool not_null, readable;
    bool from_sequence, from_transaction; /* its default */
};

struct table_column {
    int role;              /* enum row_role or TABLE_TRANSACTION_ID */
    const char *column;    /* borrowed from the options or a constant */
    struct span attribute; /* ROW_EXTENSION */
    bool needed;           /* the table must have it */
    bool found;
    uint32_t oid, declared;
    char type[64]; /* cut */
    bool not_null, readable, from_sequence, from_transaction;
};

/* Embedded. */
struct table {
    struct table_name name;
    enum source_mode mode; /* as the options want it */
    uint32_t oid;          /* as it was found; 0: it wasn't */
    bool partitioned;
    bool text_typed; /* text data without a datacontenttype has one */
    struct table_column columns[TABLE_COLUMNS_MAX];
    size_t count;
};

/* What the options ask for. 0; -ENOMEM; -EINVAL (a table's name that source_check_table refuses). */
int table_init(struct table *t, const struct source_options *options) MUST_CHECK;
void table_done(struct table *t);
/* Forgets what was found. */
void table_forget(struct table *t);
void table_found(struct table *t, const struct table_fact *fact);
/* NULL: not wanted. */
const struct table_column *table_column(const struct table *t, int role);

/* The binary form that is asked for; *ret_cast: only as ::text. */
enum row_form table_form(uint32_t oid, bool *ret_cast);
/* NULL; or which types a role allows, when this one isn't among them. */
const char *table_unfit(int role, uint32_t oid);

#endif
