/* columns: the wanted columns of an event table: as SQL, and in which form each comes back */
#ifndef PENSTOCK_SOURCE_COLUMNS_H
#define PENSTOCK_SOURCE_COLUMNS_H

#include "source/table.h"

#define COLUMNS_SQL_MAX (256 * 1024) /* bytes of one statement */

/* A page of so many rows of a table without partitions is copied (pgconn_copy): below that, or of many partitions, to
 * plan it anew costs more than the results of rows. */
#define COLUMNS_COPY_LEAST 2000

/* Pieces of SQL that the statements of all modes share. The table is `e`; what
 * they call c0, c1 … are the columns as they are stored: large ones travel as
 * pointers through sorts and materialized parts, and are loaded behind the
 * limit. Embedded. */
struct columns {
    struct buf pid;      /* the backend's; 0: the table is another one, or a column is gone or of another type */
    struct buf from;     /* "s"."t" AS e */
    struct buf position; /* e."position" */
    struct buf stored;   /* e."position" AS p, e."id" AS c0, … */
    struct buf names;    /* p, c0, … */
    struct buf recorded; /* e."position" AS p, e."recorded_at" AS t (NULL: no such column): for a look */
    struct buf nulls;    /* , NULL, NULL … */
    struct buf texts;    /* , q.c4::text AS t: data, converted once */
    struct buf walked;   /* `stored` with its texts: for rows that no sort and no second branch drops again */
    struct buf out;      /* , q.p::int8, q.c1 …, q.t: of q with its texts */
    struct row_column list[TABLE_COLUMNS_MAX]; /* what `out` returns */
    size_t count;
    size_t position_at; /* index into list; always int8 */
};

/* For a table that is fit. Data over max_data_bytes is not loaded (NULL; its
 * size is in ROW_DATA_BYTES). 0; -ENOMEM; -EMSGSIZE. */
int columns_init(struct columns *c, const struct table *table, int64_t max_data_bytes) MUST_CHECK;
void columns_done(struct columns *c);

/* Appends a look (mode.h) of which `first` is the FROM: the first row as `recorded` has it. */
int columns_add_look(const struct columns *c, struct span first, struct buf *b) MUST_CHECK;

/* Appends before and the quoted name of a column. */
int columns_add_name(struct buf *b, const char *before, const struct table_column *column) MUST_CHECK;

#endif
