/* judge: what was found of server, table and columns -> findings, each with the statement that mends it */
#ifndef PENSTOCK_SOURCE_JUDGE_H
#define PENSTOCK_SOURCE_JUDGE_H

#include "source/findings.h"
#include "source/table.h"

/* Embedded; borrows table and findings. No I/O: source/inspect asks the server
 * and hands in what it said, in the order of these functions. */
struct judge {
    const struct table *table;
    struct findings *findings;
    char role[64];       /* who asks */
    bool is_table;       /* neither view nor foreign table: nothing else is to be said of those */
    bool by_gaps;        /* the mode that the table will be read by */
    bool readable;       /* nothing was found that would make a statement on the table fail */
    bool subscribed;     /* rows come by logical replication, as the publisher made them */
    bool unlogged;       /* a crash of the server empties it */
    bool no_xid_index, no_position_index; /* by the catalog alone */
};

struct judge_relation {
    bool found;
    bool in_recovery;
    char kind;              /* pg_class.relkind */
    bool schema_usable;
    bool hides_rows;        /* row-level security */
    bool fed_by_subscription, unlogged;
    struct span look_alikes;        /* tables that may have been meant */
    struct span foreign_partitions; /* absent: none */
    struct span behind;             /* tables that a view reads; absent: none */
};

void judge_relation(struct judge *j, const struct judge_relation *r);
/* Of j->table, which knows them all by now; by_gaps is, too. */
void judge_columns(struct judge *j);

struct judge_indexes {
    bool xid_position; /* one begins with these two */
    bool position;     /* one begins with it */
    bool unique;       /* the position alone is */
};

void judge_indexes(struct judge *j, const struct judge_indexes *found);
/* `bad`: the node of a plan that is as slow as the table is large; NULL: there is none. Without a
 * plan (the table is not readable) the catalog decides: judge_without_plans. */
void judge_plans(struct judge *j, const char *bad);
void judge_without_plans(struct judge *j);

struct judge_sequence {
    struct span name; /* quoted for SQL */
    int64_t cache, increment;
    bool cycles, readable;
    struct span other_partitions, other_mend; /* those that default to another one; absent: none */
};

/* Mode gaps alone draws conclusions from positions. NULL: the position's default is no sequence's. */
void judge_sequence(struct judge *j, const struct judge_sequence *found);
/* `future`: rows carry transaction ids that the server has not reached. */
void judge_rows(struct judge *j, bool future);

#endif
