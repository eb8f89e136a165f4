/* tables: SQL of our own tables, their role and its grants */
#include <errno.h>

#include "forwarder/checkpoint.h"
#include "source/source.h"

/* The cursor is text, not jsonb: a save is conditional on its very bytes, and
 * what an operator reads is what was written. Each save leaves a dead row
 * behind; most of the page is kept free for them, and vacuum comes early. */
static const char table_sql[] =
    "CREATE TABLE IF NOT EXISTS %s.checkpoint (\n"
    "    forwarder text PRIMARY KEY,\n"
    "    cursor text NOT NULL,             -- everything before it is settled\n"
    "    position bigint NOT NULL,         -- for people only: a lower one can still commit, nothing may be deleted by it\n"
    "    system_identifier text NOT NULL,  -- of the server that the cursor belongs to\n"
    "    owner text NOT NULL,              -- the instance that may save\n"
    "    lease_until timestamptz,\n"
    "    epoch bigint NOT NULL DEFAULT 1,  -- grows with each owner\n"
    "    paused boolean NOT NULL DEFAULT false,\n"
    "    updated timestamptz NOT NULL DEFAULT now()\n"
    ") WITH (fillfactor = 10, autovacuum_vacuum_threshold = 20, autovacuum_vacuum_scale_factor = 0,\n"
    "        autovacuum_vacuum_cost_delay = 0);\n";

static const char journal_sql[] =
    "-- What operators did; nothing is ever deleted here.\n"
    "CREATE TABLE IF NOT EXISTS %s.journal (\n"
    "    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n"
    "    at timestamptz NOT NULL DEFAULT now(),\n"
    "    forwarder text NOT NULL,\n"
    "    command text NOT NULL,\n"
    "    who text NOT NULL,\n"
    "    reason text NOT NULL,\n"
    "    before jsonb,\n"
    "    after jsonb\n"
    ");\n";

/* Beside the cursor of mode gaps; its rows come and go. */
static const char gap_sql[] =
    "CREATE TABLE IF NOT EXISTS %s.gap (\n"
    "    forwarder text NOT NULL,\n"
    "    first bigint NOT NULL,            -- first to last: no transaction that held the table's lock can fill these positions\n"
    "    last bigint NOT NULL,\n"
    "    until timestamptz NOT NULL,       -- looked at all the same, for writers that drew them before they took the lock\n"
    "    proven timestamptz NOT NULL DEFAULT now(),\n"
    "    PRIMARY KEY (forwarder, first, last)\n"
    ") WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);\n";

static int quote(struct span name, struct buf *b) {
    int r = pgconn_quote_identifier(name, b);
    return r ? r : buf_terminate(b);
}

static int add_role(const char *schema, const char *role, struct buf *b) {
    return buf_addf(b,
                    "-- The role of the daemon (give it a password or a line in pg_hba.conf).\n"
                    "DO $penstock$ BEGIN CREATE ROLE %s LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $penstock$;\n"
                    "GRANT USAGE ON SCHEMA %s TO %s;\n"
                    "GRANT SELECT, INSERT, UPDATE, DELETE ON %s.checkpoint, %s.gap TO %s;\n"
                    "GRANT SELECT, INSERT ON %s.journal TO %s;\n",
                    role, schema, role, schema, schema, role, schema, role);
}

int checkpoint_add_schema_sql(struct span schema, struct buf *b) {
    CLEANUP(buf_done) struct buf quoted_schema = BUF_INIT(1024);
    int r = quote(schema, &quoted_schema);
    if (r == 0)
        r = buf_addf(b, "-- Penstock's own tables.\nCREATE SCHEMA IF NOT EXISTS %s;\n", quoted_schema.data);
    if (r == 0)
        r = buf_addf(b, table_sql, quoted_schema.data);
    if (r == 0)
        r = buf_addf(b, gap_sql, quoted_schema.data);
    return r ? r : buf_addf(b, journal_sql, quoted_schema.data);
}

int checkpoint_add_role_sql(struct span schema, struct span role, struct span event_table, struct buf *b) {
    CLEANUP(buf_done) struct buf quoted_schema = BUF_INIT(1024), quoted_role = BUF_INIT(1024);
    int r = quote(schema, &quoted_schema);
    if (r == 0)
        r = quote(role, &quoted_role);
    if (r == 0)
        r = add_role(quoted_schema.data, quoted_role.data, b);
    if (r || span_absent(event_table))
        return r;
    return source_add_grants_sql(event_table, role, b);
}
