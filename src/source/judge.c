/* judge: what was found of server, table and columns -> findings, each with the statement that mends it */
#include "source/judge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "source/fit.h"

#define WORD_MAX_BYTES 4096 /* a name of 1,000 bytes, all of them quotes */

/* The pieces that the statements of a mend are made of, quoted and terminated. */
struct words {
    struct buf table, schema, role, position, xid;
    struct buf shell; /* the table, for a command line */
    struct buf sequence, sequence_text; /* of a mend, as an identifier and as a literal */
};

static void words_done(struct words *w) {
    buf_done(&w->table);
    buf_done(&w->schema);
    buf_done(&w->role);
    buf_done(&w->position);
    buf_done(&w->xid);
    buf_done(&w->shell);
    buf_done(&w->sequence);
    buf_done(&w->sequence_text);
}

/* In single quotes; one inside ends them, is escaped, and begins them again. */
static int add_shell_word(struct span word, struct buf *b) {
    int r = buf_add_char(b, '\'');
    for (size_t i = 0; r == 0 && i < word.len; i++)
        r = word.data[i] == '\'' ? buf_addf(b, "'\\''") : buf_add_char(b, word.data[i]);
    if (r == 0)
        r = buf_add_char(b, '\'');
    return r ? r : buf_terminate(b);
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
    w->table = w->shell = BUF_INIT(4 * WORD_MAX_BYTES);
    int r = table_name_quote(&j->table->name, &w->table);
    if (r == 0)
        r = add_shell_word(buf_span(&w->table), &w->shell);
    if (r == 0)
        r = buf_terminate(&w->table);
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(names); i++) {
        *names[i].to = BUF_INIT(WORD_MAX_BYTES);
        r = pgconn_quote_identifier(names[i].name, names[i].to);
        if (r == 0)
            r = buf_terminate(names[i].to);
    }
    w->sequence = w->sequence_text = BUF_INIT(2 * WORD_MAX_BYTES);
    if (r == 0)
        r = buf_addf(&w->sequence, "%s.penstock_position", w->schema.data);
    if (r == 0)
        r = pgconn_quote_literal(buf_span(&w->sequence), &w->sequence_text);
    if (r == 0)
        r = buf_terminate(&w->sequence_text);
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
    REFUSE(j, "there is no table %s%s%.*s%s; make it (penstock schema --event-table %s prints one) or name another",
           w->table.data, hint ? " (but there is " : "", SPAN_ARGS(r->look_alikes),
           hint ? ": names with upper case need double quotes, other schemas their name)" : "", w->shell.data);
}

static void judge_no_table(struct judge *j, const struct judge_relation *r, const struct words *w) {
    bool behind = !span_absent(r->behind);
    if (r->kind == 'f')
        REFUSE(j, "%s is a foreign table, whose rows carry another server's transaction ids; tail the table where it is: name that "
               "server as the connection", w->table.data);
    else
        REFUSE(j, "%s is a %sview, by which late commits can't be found; name the table itself%s%.*s%s, and say by columns, filter "
               "and rules what the view says", w->table.data, r->kind == 'm' ? "materialized " : "",
               behind ? " (it reads " : "", SPAN_ARGS(r->behind), behind ? ")" : "");
}

void judge_relation(struct judge *j, const struct judge_relation *r) {
    CLEANUP(words_done) struct words w = {0};
    if (find_words(j, &w) != 0)
        return;
    j->is_table = r->kind == 'r' || r->kind == 'p';
    j->readable = j->is_table && r->schema_usable && !r->hides_rows && span_absent(r->foreign_partitions);
    if (r->in_recovery)
        REFUSE(j, "the server is in recovery (a standby): its snapshots do not list running transactions, so rows would be "
               "lost; connect to the primary");
    if (!r->found) {
        judge_absent_table(j, r, &w);
        return;
    }
    if (!j->is_table)
        judge_no_table(j, r, &w);
    if (!span_absent(r->foreign_partitions))
        REFUSE(j, "partitions of %s are foreign tables (%.*s), whose rows carry another server's transaction ids and would be "
               "passed over; detach them, or tail them where they are", w.table.data, SPAN_ARGS(r->foreign_partitions));
    if (!r->schema_usable)
        REFUSE(j, "role %s may not use the schema: GRANT USAGE ON SCHEMA %s TO %s;", w.role.data, w.schema.data, w.role.data);
    if (r->hides_rows && j->is_table)
        REFUSE(j, "row-level security of %s would hide rows from role %s: ALTER ROLE %s BYPASSRLS;", w.table.data, w.role.data,
               w.role.data);
    j->subscribed = r->fed_by_subscription;
    j->unlogged = r->unlogged;
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

/* A statement that gives a column the type it needs, where one does without knowing what the values mean; else "". */
static void mend_type(const struct table_column *c, const struct words *w, const char *name, char *to, size_t size) {
    const char *table = w->table.data;
    to[0] = '\0';
    if (c->role == ROW_POSITION)
        snprintf(to, size, ": ALTER TABLE %s ALTER COLUMN %s TYPE bigint USING %s::text::bigint;", table, name, name);
    else if (c->role == ROW_EXTENSIONS)
        snprintf(to, size, ": ALTER TABLE %s ALTER COLUMN %s TYPE jsonb USING %s::text::jsonb;", table, name, name);
    else if (c->role == ROW_DATA)
        snprintf(to, size, ": ALTER TABLE %s ALTER COLUMN %s TYPE jsonb USING to_jsonb(%s);", table, name, name);
    else if (c->role == TABLE_TRANSACTION_ID) /* 3: see judge_rows; whoever may alter it waits for all others */
        snprintf(to, size, ": ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT, ALTER COLUMN %s TYPE xid8 USING '3'::xid8, "
                 "ALTER COLUMN %s SET DEFAULT pg_current_xact_id(), ALTER COLUMN %s SET NOT NULL;", table, name, name, name, name);
}

static void judge_type(struct judge *j, const struct table_column *c, const char *name, const struct words *w) {
    char mend[FINDINGS_LINE_MAX];
    struct error error;
    const char *allowed = table_unfit(c->role, c->oid), *key = key_of(c);
    bool extension = c->role == ROW_EXTENSION;
    if (allowed) {
        mend_type(c, w, name, mend, sizeof mend);
        REFUSE(j, "column %s of %s is of type %s; as %s it must be %s%s", name, w->table.data, c->type, key, allowed, mend);
        return;
    }
    int r = fit_try(c, &error);
    if (r < 0)
        j->findings->failure = r;
    if (r == FIT_E_NEVER)
        REFUSE(j, "column %s of %s is of type %s, of which no event can be made (%s); set columns: {%s: %s%.*s%sNAME%s} to a "
               "column of another type", name, w->table.data, c->type, error.text, key, extension ? "{" : "",
               SPAN_ARGS(c->attribute), extension ? ": " : "", extension ? "}" : "");
    if (c->role == ROW_RECORDED && !fit_is_wall(c->oid))
        WARN(j, "column %s of %s is of type %s, by which lag is not counted: set columns: {recorded: NAME} to one of type "
             "timestamptz, timestamp or date", name, w->table.data, c->type);
}

static void judge_nulls(struct judge *j, const struct table_column *c, const char *name, const struct words *w) {
    if (c->not_null)
        return;
    if (c->role == ROW_POSITION)
        REFUSE(j, "column %s may be NULL, and rows without it would be passed over: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;",
               name, w->table.data, name);
    else if (fit_is_needed(c->role))
        WARN(j, "column %s may be NULL, and an event without %s is held: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;", name,
             key_of(c), w->table.data, name);
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
    CLEANUP(buf_done) struct buf name = BUF_INIT(WORD_MAX_BYTES);
    int r = pgconn_quote_identifier(span_of(c->column), &name);
    if (r == 0)
        r = buf_terminate(&name);
    if (r) {
        j->findings->failure = r;
        return;
    }
    bool unfit = table_unfit(c->role, c->oid);
    j->readable &= c->readable && !(asked && unfit);
    judge_type(j, c, name.data, w);
    if (unfit)
        return;
    if (c->role == TABLE_TRANSACTION_ID)
        judge_transaction_id(j, c, w);
    else
        judge_nulls(j, c, name.data, w);
}

/* Text has no type that could be guessed: neither does each event have one, nor all together. */
static void judge_text(struct judge *j, const struct words *w) {
    bool cast;
    const struct table_column *data = table_column(j->table, ROW_DATA), *type = table_column(j->table, ROW_DATACONTENTTYPE);
    if (j->table->text_typed || !data->found || table_unfit(ROW_DATA, data->oid) || table_form(data->oid, &cast) != ROW_FORM_TEXT)
        return;
    if (!type->found)
        REFUSE(j, "column \"%s\" of %s is text, and without a datacontenttype such an event is held: set default_text_type: "
               "TYPE, or ALTER TABLE %s ADD COLUMN datacontenttype text NOT NULL DEFAULT 'text/plain';", data->column,
               w->table.data, w->table.data);
    else if (!type->not_null)
        WARN(j, "column \"%s\" of %s is text, and column \"%s\" may be NULL, without which such an event is held: set "
             "default_text_type: TYPE, or have it NOT NULL", data->column, w->table.data, type->column);
}

static void judge_subscribed(struct judge *j, const struct words *w) {
    const struct table_column *xid = table_column(j->table, TABLE_TRANSACTION_ID);
    const char *table = w->table.data, *schema = w->schema.data;
    REFUSE(j, "%s is filled by a subscription (logical replication), so its rows carry the publisher's transaction ids and would "
           "be passed over; have each get one of this server: CREATE FUNCTION %s.penstock_xid() RETURNS trigger LANGUAGE plpgsql "
           "AS $penstock$ BEGIN NEW.%s := pg_current_xact_id()%s; RETURN NEW; END $penstock$; CREATE TRIGGER penstock_xid BEFORE "
           "INSERT ON %s FOR EACH ROW EXECUTE FUNCTION %s.penstock_xid(); ALTER TABLE %s ENABLE ALWAYS TRIGGER penstock_xid;",
           table, schema, w->xid.data, xid->oid == TABLE_OID_INT8 ? "::text::bigint" : "", table, schema, table);
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
    judge_text(j, &w);
    if (j->subscribed && !j->by_gaps)
        judge_subscribed(j, &w);
    if (j->unlogged && j->by_gaps)
        REFUSE(j, "%s is unlogged: a crash of the server empties it and its sequence begins anew, so that what comes then would "
               "pass for read: ALTER TABLE %s SET LOGGED;", w.table.data, w.table.data);
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
    if (!position->found || found->unique || position->from_sequence)
        return;
    if (j->table->partitioned) /* unique there only together with what it is partitioned by */
        REFUSE(j, "column %s is not from a sequence, and of two rows with one position the second can be passed over: CREATE "
               "SEQUENCE %s OWNED BY %s.%s; SELECT setval(%s, coalesce(max(%s), 0) + 1, false) FROM %s; ALTER TABLE %s "
               "ALTER COLUMN %s SET DEFAULT nextval(%s);", w.position.data, w.sequence.data, w.table.data, w.position.data,
               w.sequence_text.data, w.position.data, w.table.data, w.table.data, w.position.data, w.sequence_text.data);
    else
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
               w->shell.data, len, name);
    if (s->cycles)
        REFUSE(j, "sequence %.*s begins anew when it has come to its end, below what was read: ALTER SEQUENCE %.*s NO CYCLE;",
               len, name, len, name);
    if (s->cache > 1)
        WARN(j, "sequence %.*s hands out %" PRId64 " positions at once (CACHE), before their rows lock the table: that none of "
             "them is still to come can't be proven, only gaps.retention waits for it (a forwarder that has read already is ahead "
             "after this, until penstock rebase FORWARDER --upgraded): ALTER SEQUENCE %.*s CACHE 1;",
             len, name, s->cache, len, name);
    if (!span_absent(s->other_partitions))
        WARN(j, "of %s, %.*s takes positions of a sequence of its own: what is inserted into it by its own name may stand below "
             "what was read, and is then passed over: %.*s", w->table.data, (int)s->other_partitions.len, s->other_partitions.data,
             (int)s->other_mend.len, s->other_mend.data);
}

void judge_sequence(struct judge *j, const struct judge_sequence *found) {
    CLEANUP(words_done) struct words w = {0};
    if (!j->by_gaps || find_words(j, &w) != 0)
        return;
    const struct table_column *xid = table_column(j->table, TABLE_TRANSACTION_ID);
    if (found)
        judge_drawing(j, found, &w);
    else if (xid->found)
        WARN(j, "column %s of %s does not default to the next value of a sequence: writers that draw a position before their "
             "insert locks the table can't be told from none, only gaps.retention waits for them, and a table that was wound back "
             "is not noticed; mode snapshot, by its column %s, is the cure", w.position.data, w.table.data, w.xid.data);
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
