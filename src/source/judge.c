/* judge: what was found of server, table and columns -> findings, each with the statement that mends it */
#include "source/judge.h"

#include <errno.h>
#include <inttypes.h>

#include "base/log.h"

#define WORD_MAX_BYTES 4096 /* a name of 1,000 bytes, all of them quotes */

/* The pieces that the statements of a mend are made of, quoted and terminated. */
struct words {
    struct buf table, schema, role, position, xid;
};

static void words_done(struct words *w) {
    buf_done(&w->table);
    buf_done(&w->schema);
    buf_done(&w->role);
    buf_done(&w->position);
    buf_done(&w->xid);
}

static int find_words(struct judge *j, struct words *w) {
    const struct {
        struct buf *to;
        struct span name;
    } names[] = {
        {&w->schema, span_of(j->table->name.schema ? j->table->name.schema : "public")},
        {&w->role, span_of(j->role)},
        {&w->position, span_of(table_column(j->table, ROW_POSITION)->column)},
        {&w->xid, span_of(table_column(j->table, TABLE_TRANSACTION_ID)->column)},
    };
    w->table = BUF_INIT(WORD_MAX_BYTES);
    int r = table_name_quote(&j->table->name, &w->table);
    if (r == 0)
        r = buf_terminate(&w->table);
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(names); i++) {
        *names[i].to = BUF_INIT(WORD_MAX_BYTES);
        r = pgconn_quote_identifier(names[i].name, names[i].to);
        if (r == 0)
            r = buf_terminate(names[i].to);
    }
    if (r)
        j->findings->failure = r;
    return r;
}

#define WARN(j, ...) findings_add((j)->findings, FINDINGS_WARN, __VA_ARGS__)
#define REFUSE(j, ...) findings_add((j)->findings, FINDINGS_REFUSE, __VA_ARGS__)

/* The table. ---------------------------------------------------------------- */

static void judge_absent_table(struct judge *j, const struct judge_relation *r, const struct words *w) {
    bool hint = r->look_alikes.len > 0;
    j->readable = false;
    REFUSE(j, "there is no table %s%s%.*s%s; make it (penstock schema --event-table prints one) or name another",
           w->table.data, hint ? " (but there is " : "", SPAN_ARGS(r->look_alikes),
           hint ? ": names with upper case need double quotes, other schemas their name)" : "");
}

void judge_relation(struct judge *j, const struct judge_relation *r) {
    CLEANUP(words_done) struct words w = {0};
    if (find_words(j, &w) != 0)
        return;
    j->readable = r->is_table && r->schema_usable && !r->hides_rows && span_absent(r->foreign_partitions);
    if (r->in_recovery)
        REFUSE(j, "the server is in recovery (a standby): its snapshots do not list running transactions, so rows would be "
               "lost; connect to the primary");
    if (!r->found) {
        judge_absent_table(j, r, &w);
        return;
    }
    if (!r->is_table)
        REFUSE(j, "%s is no table but a view or a foreign table; name the table itself", w.table.data);
    if (!span_absent(r->foreign_partitions))
        REFUSE(j, "partitions of %s are foreign tables (%.*s), whose rows carry another server's transaction ids and would be "
               "passed over; detach them, or tail them where they are", w.table.data, SPAN_ARGS(r->foreign_partitions));
    if (!r->schema_usable)
        REFUSE(j, "role %s may not use the schema: GRANT USAGE ON SCHEMA %s TO %s;", w.role.data, w.schema.data, w.role.data);
    if (r->hides_rows)
        REFUSE(j, "row-level security of %s would hide rows from role %s: ALTER ROLE %s BYPASSRLS;", w.table.data, w.role.data,
               w.role.data);
    j->subscribed = r->fed_by_subscription;
}

/* Its columns. -------------------------------------------------------------- */

static const char *key_of(const struct table_column *c) {
    return c->role == TABLE_TRANSACTION_ID ? "transaction_id" : row_role_key((enum row_role)c->role);
}

/* An index on a partitioned table can't be made concurrently. */
static const char *create_index(const struct judge *j) {
    return j->table->partitioned ? "CREATE INDEX ON" : "CREATE INDEX CONCURRENTLY ON";
}

static void judge_transaction_id(struct judge *j, const struct table_column *c, const struct words *w) {
    if (!c->not_null)
        REFUSE(j, "column %s may be NULL, and rows without it would be passed over: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;",
               w->xid.data, w->table.data, w->xid.data);
    if (!c->from_transaction)
        WARN(j, "column %s does not default to the transaction's id; that is only right if each writer sets it to "
             "pg_current_xact_id(): ALTER TABLE %s ALTER COLUMN %s SET DEFAULT pg_current_xact_id()%s;", w->xid.data,
             w->table.data, w->xid.data, c->oid == TABLE_OID_INT8 ? "::text::bigint" : "");
}

static void judge_absent(struct judge *j, const struct table_column *c, const struct words *w) {
    if (c->role == TABLE_TRANSACTION_ID && c->needed)
        REFUSE(j, "%s has no transaction-id column %s, which mode snapshot needs (mode gaps does not): "
               "ALTER TABLE %s ADD COLUMN %s xid8 NOT NULL DEFAULT pg_current_xact_id(); %s %s (%s, %s);",
               w->table.data, w->xid.data, w->table.data, w->xid.data, create_index(j), w->table.data, w->xid.data,
               w->position.data);
    else if (c->needed)
        REFUSE(j, "%s has no column \"%s\"; set columns: {%s: NAME} to the one it has%s", w->table.data, c->column, key_of(c),
               c->role == ROW_SOURCE || c->role == ROW_TYPE ? ", or to {value: …}" : "");
}

static void judge_column(struct judge *j, const struct table_column *c, const struct words *w) {
    if (c->role == TABLE_TRANSACTION_ID && j->by_gaps) {
        if (c->needed && !c->found) /* by its name: mode gaps, which does without it, is not what was meant */
            REFUSE(j, "%s has no column \"%s\", which transaction_id names; name the one it has, or leave the key out for mode "
                   "gaps", w->table.data, c->column);
        return;
    }
    bool asked = c->role == ROW_POSITION || c->role == TABLE_TRANSACTION_ID; /* by each statement */
    if (!c->found) {
        j->readable &= !asked;
        judge_absent(j, c, w);
        return;
    }
    const char *allowed = table_unfit(c->role, c->oid);
    j->readable &= c->readable && !(asked && allowed);
    if (allowed)
        REFUSE(j, "column \"%s\" of %s is of type %s; as %s it must be %s", c->column, w->table.data, c->type, key_of(c),
               allowed);
    else if (c->role == TABLE_TRANSACTION_ID)
        judge_transaction_id(j, c, w);
    else if (c->role == ROW_POSITION && !c->not_null)
        REFUSE(j, "column %s may be NULL, and rows without it would be passed over: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;",
               w->position.data, w->table.data, w->position.data);
}

void judge_columns(struct judge *j) {
    CLEANUP(words_done) struct words w = {0};
    if (find_words(j, &w) != 0)
        return;
    bool readable = true;
    for (size_t i = 0; i < j->table->count; i++) {
        const struct table_column *c = &j->table->columns[i];
        judge_column(j, c, &w);
        readable &= !c->found || c->readable;
    }
    if (j->subscribed && !j->by_gaps)
        REFUSE(j, "%s is filled by a subscription (logical replication), so its rows carry the publisher's transaction ids and "
               "would be passed over: set %s to pg_current_xact_id() in a BEFORE INSERT trigger and ALTER TABLE %s ENABLE "
               "ALWAYS TRIGGER it", w.table.data, w.xid.data, w.table.data);
    if (!readable)
        REFUSE(j, "role %s may not read %s: GRANT SELECT ON %s TO %s;", w.role.data, w.table.data, w.table.data, w.role.data);
}

/* How it is found. ---------------------------------------------------------- */

void judge_indexes(struct judge *j, const struct judge_indexes *found) {
    CLEANUP(words_done) struct words w = {0};
    const struct table_column *position = table_column(j->table, ROW_POSITION);
    const struct table_column *xid = table_column(j->table, TABLE_TRANSACTION_ID);
    if (find_words(j, &w) != 0)
        return;
    j->no_xid_index = !j->by_gaps && xid->found && position->found && !found->xid_position;
    j->no_position_index = position->found && !found->position;
    if (position->found && !found->unique && !position->from_sequence)
        REFUSE(j, "column %s is neither unique nor from a sequence, and of two rows with one position the second can be passed "
               "over: ALTER TABLE %s ADD UNIQUE (%s);", w.position.data, w.table.data, w.position.data);
}

void judge_without_plans(struct judge *j) {
    CLEANUP(words_done) struct words w = {0};
    if (find_words(j, &w) != 0)
        return;
    if (j->no_xid_index)
        WARN(j, "%s has no index on (%s, %s), so each read looks at all rows: %s %s (%s, %s);", w.table.data, w.xid.data,
             w.position.data, create_index(j), w.table.data, w.xid.data, w.position.data);
    if (j->no_position_index)
        WARN(j, "%s has no index on %s, so reading a backlog looks at all rows for each page: %s %s (%s);", w.table.data,
             w.position.data, create_index(j), w.table.data, w.position.data);
}

void judge_plans(struct judge *j, const char *bad) {
    CLEANUP(words_done) struct words w = {0};
    if (!bad || find_words(j, &w) != 0)
        return;
    if (j->no_xid_index || j->no_position_index) {
        judge_without_plans(j);
        return;
    }
    const char *make = create_index(j), *table = w.table.data, *position = w.position.data;
    if (j->by_gaps)
        WARN(j, "no index of %s serves the reading, which looks at all rows (EXPLAIN shows \"%s\"): %s %s (%s);", table, bad, make,
             table, position);
    else
        WARN(j, "no index of %s serves the reading, which looks at all rows (EXPLAIN shows \"%s\"): %s %s (%s, %s); %s %s (%s);",
             table, bad, make, table, w.xid.data, position, make, table, position);
}

/* What it holds. ------------------------------------------------------------ */

static void judge_drawing(struct judge *j, const struct judge_sequence *s, const struct words *w) {
    int len = (int)s->name.len;
    const char *name = s->name.data;
    if (!s->readable)
        REFUSE(j, "role %s may not read the sequence %.*s, by which it is seen that a table was wound back: GRANT SELECT ON "
               "SEQUENCE %.*s TO %s;", w->role.data, len, name, len, name, w->role.data);
    if (s->increment < 0)
        REFUSE(j, "sequence %.*s counts downward, so what is new stands below what was read: give %s a transaction-id column "
               "(penstock schema --event-table %s --existing), or ALTER SEQUENCE %.*s INCREMENT 1;", len, name, w->table.data,
               w->table.data, len, name);
    if (s->cycles)
        REFUSE(j, "sequence %.*s begins anew when it has come to its end, below what was read: ALTER SEQUENCE %.*s NO CYCLE;",
               len, name, len, name);
    if (s->cache > 1)
        WARN(j, "sequence %.*s hands out %" PRId64 " positions at once (CACHE), before their rows lock the table: that none of "
             "them is still to come can't be proven, only gaps.retention waits for it: ALTER SEQUENCE %.*s CACHE 1;", len, name,
             s->cache, len, name);
}

void judge_sequence(struct judge *j, const struct judge_sequence *found) {
    CLEANUP(words_done) struct words w = {0};
    if (!j->by_gaps || find_words(j, &w) != 0)
        return;
    if (found)
        judge_drawing(j, found, &w);
    else
        WARN(j, "column %s of %s does not default to the next value of a sequence: writers that draw a position before their "
             "insert locks the table can't be told from none, only gaps.retention waits for them, and positions that are given out "
             "again are not noticed; a transaction-id column is the cure: ALTER TABLE %s ADD COLUMN %s xid8 NOT NULL DEFAULT "
             "pg_current_xact_id(); %s %s (%s, %s);", w.position.data, w.table.data, w.table.data, w.xid.data, create_index(j),
             w.table.data, w.xid.data, w.position.data);
}

void judge_rows(struct judge *j, bool future) {
    CLEANUP(words_done) struct words w = {0};
    if (!future || find_words(j, &w) != 0)
        return;
    /* 3 is the first ordinary id (FirstNormalTransactionId): older than any snapshot. */
    REFUSE(j, "%s holds rows with transaction ids that this server has not reached (restored or replicated from another "
           "server): make them old: UPDATE %s SET %s = '3' WHERE %s::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot()); "
           "then say by penstock rebase which of them count as sent",
           w.table.data, w.table.data, w.xid.data, w.xid.data);
}
