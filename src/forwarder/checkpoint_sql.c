/* checkpoint_sql: the statements on the checkpoint's row and on the gaps beside it */
#include "forwarder/checkpoint_sql.h"

#include "pg/pgconn.h"

const char checkpoint_sql_columns[] = "{forwarder,cursor,position,system_identifier,owner,lease_until,epoch,paused,updated}";

const char checkpoint_sql_look[] =
    "SELECT pg_is_in_recovery(), " PGCONN_SERVER_SQL ", current_user, c.oid,"
    " has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
    " AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE')"
    " AND has_table_privilege(g.oid, 'SELECT') AND has_table_privilege(g.oid, 'INSERT') AND has_table_privilege(g.oid, 'DELETE')"
    " AND has_table_privilege(j.oid, 'INSERT'),"
    " (SELECT string_agg(w, ', ' ORDER BY i) FROM unnest($2::text[]) WITH ORDINALITY AS wanted (w, i)"
    " WHERE NOT EXISTS (SELECT FROM pg_attribute a"
    " WHERE a.attrelid = c.oid AND a.attname = w AND a.attnum > 0 AND NOT a.attisdropped)),"
    " (SELECT system_identifier FROM pg_control_system()), g.oid, j.oid"
    " FROM (SELECT) AS one LEFT JOIN pg_namespace n ON n.nspname = $1"
    " LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'checkpoint' AND c.relkind = 'r'"
    " LEFT JOIN pg_class g ON g.relnamespace = n.oid AND g.relname = 'gap' AND g.relkind = 'r'"
    " LEFT JOIN pg_class j ON j.relnamespace = n.oid AND j.relname = 'journal' AND j.relkind = 'r'";

/* Of another database clock than ours, so as a duration. */
#define LEASE_LEFT "greatest(0, (extract(epoch FROM lease_until - now()) * 1000000)::int8)"
#define LEASE(parameter) "lease_until = now() + " parameter " * interval '1 microsecond'"
#define ROW_COLUMNS "cursor, position, system_identifier, owner, epoch, paused, " LEASE_LEFT

/* The row is not taken by the load: what is refused leaves it as it was. From the take on
 * owner and epoch are ours, and what an instance writes that loaded before is refused by
 * the database itself. An UPDATE that has to wait for another's looks at its conditions
 * anew (READ COMMITTED), and now() is from before the wait: the lease is never longer than asked for. */
static const char take_format[] =
    "UPDATE %s.checkpoint SET owner = $2, epoch = epoch + 1, " LEASE("$3")
    " WHERE forwarder = $1 AND owner = $4 AND epoch = $5 AND cursor = $6"
    " AND ($7 OR owner = $2 OR lease_until IS NULL OR lease_until <= now()) RETURNING true";
static const char extend_format[] =
    "UPDATE %s.checkpoint SET " LEASE("$4") " WHERE forwarder = $1 AND owner = $2 AND epoch = $3 RETURNING true";
static const char save_format[] =
    "UPDATE %s.checkpoint SET cursor = $5, position = $6, updated = now(), " LEASE("$7")
    " WHERE forwarder = $1 AND owner = $2 AND epoch = $3 AND cursor = $4 RETURNING true";

static const char retained_format[] =
    ", (SELECT array_agg(g.%s ORDER BY g.first)::text FROM %s.gap g WHERE g.forwarder = $1)";

static int write_load(struct buf *b, const char *schema) {
    int r = buf_addf(b, "SELECT " ROW_COLUMNS);
    if (r == 0)
        r = buf_addf(b, retained_format, "first", schema);
    if (r == 0)
        r = buf_addf(b, retained_format, "last", schema);
    if (r == 0)
        r = buf_addf(b, ", (SELECT array_agg((extract(epoch FROM g.until - now()) * 1000000)::int8 ORDER BY g.first)::text"
                     " FROM %s.gap g WHERE g.forwarder = $1)", schema);
    return r ? r : buf_addf(b, " FROM %s.checkpoint WHERE forwarder = $1", schema);
}

/* $8 to $11 as struct source_changes has them. */
static int write_save_gaps(struct buf *b, const char *schema) {
    int r = buf_addf(b, "WITH saved AS (");
    if (r == 0)
        r = buf_addf(b, save_format, schema);
    return r ? r : buf_addf(b, "), more AS (INSERT INTO %s.gap (forwarder, first, last, until)"
                            " SELECT $1, m.first, m.last, now() + m.left_us * interval '1 microsecond'"
                            " FROM saved, unnest($8, $9, $10) AS m (first, last, left_us) ON CONFLICT DO NOTHING),"
                            " gone AS (DELETE FROM %s.gap g USING saved WHERE g.forwarder = $1 AND g.first = ANY($11))"
                            " SELECT true FROM saved", schema, schema);
}

static int write_command(struct buf *b, const char *schema) {
    return buf_addf(b,
                    "WITH done AS (UPDATE %s.checkpoint SET paused = coalesce($4, paused)"
                    " WHERE forwarder = $1 AND owner = $2 AND epoch = $3 RETURNING true),"
                    " noted AS (INSERT INTO %s.journal (forwarder, command, who, reason, before, after)"
                    " SELECT $1, $5, $6, $7, $8, $9 FROM done) SELECT true FROM done",
                    schema, schema);
}

int checkpoint_sql_init(struct checkpoint_sql *s, const char *schema) {
    s->load = s->watch = s->create = s->take = s->extend = s->save = s->save_gaps = s->command = BUF_INIT(8192);
    int r = write_load(&s->load, schema);
    if (r == 0)
        r = buf_addf(&s->watch, "SELECT owner, " LEASE_LEFT ", position, epoch, (extract(epoch FROM updated) * 1000000)::int8"
                     " FROM %s.checkpoint WHERE forwarder = $1", schema);
    if (r == 0) /* a row that was deleted may have left some of its gaps behind */
        r = buf_addf(&s->create,
                     "WITH old AS (DELETE FROM %s.gap WHERE forwarder = $1"
                     " AND NOT EXISTS (SELECT FROM %s.checkpoint WHERE forwarder = $1))"
                     " INSERT INTO %s.checkpoint (forwarder, owner, cursor, position, system_identifier, lease_until)"
                     " VALUES ($1, $2, $3, $4, $5, now() + $6 * interval '1 microsecond')"
                     " ON CONFLICT (forwarder) DO NOTHING RETURNING " ROW_COLUMNS,
                     schema, schema, schema);
    if (r == 0)
        r = buf_addf(&s->take, take_format, schema);
    if (r == 0)
        r = buf_addf(&s->extend, extend_format, schema);
    if (r == 0)
        r = buf_addf(&s->save, save_format, schema);
    if (r == 0)
        r = write_save_gaps(&s->save_gaps, schema);
    if (r == 0)
        r = write_command(&s->command, schema);
    struct buf *all[] = {&s->load, &s->watch, &s->create, &s->take, &s->extend, &s->save, &s->save_gaps, &s->command};
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(all); i++)
        r = buf_terminate(all[i]);
    return r;
}

void checkpoint_sql_done(struct checkpoint_sql *s) {
    buf_done(&s->load);
    buf_done(&s->watch);
    buf_done(&s->create);
    buf_done(&s->take);
    buf_done(&s->extend);
    buf_done(&s->save);
    buf_done(&s->save_gaps);
    buf_done(&s->command);
}
