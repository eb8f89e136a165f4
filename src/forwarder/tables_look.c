/* tables_look: what the server says of our own tables: are they there, ours, and open to us? */
#include "forwarder/tables_look.h"

#include <stdarg.h>
#include <stdio.h>

#define NOTE_MAX_BYTES 16384

void tables_look_init(struct tables_look *l) {
    *l = (struct tables_look){.note = BUF_INIT(NOTE_MAX_BYTES)};
}

void tables_look_done(struct tables_look *l) {
    buf_done(&l->note);
}

void tables_look_clear(struct tables_look *l) {
    l->missing = false;
    buf_clear(&l->note);
}

void tables_look_miss(struct tables_look *l, const char *format, ...) {
    char text[NOTE_MAX_BYTES]; /* a mend is no use when it is cut */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    l->missing = true;
    error_set(&l->error, ERROR_CONFIG, "%s", text);
    if (buf_addf(&l->note, "%s", text) != 0 || buf_terminate(&l->note) != 0)
        buf_clear(&l->note);
}

static void miss_rights(struct tables_look *l, const char *schema, struct span role) {
    CLEANUP(buf_done) struct buf quoted = BUF_INIT(1024);
    if (pgconn_quote_identifier(role, &quoted) != 0 || buf_terminate(&quoted) != 0)
        quoted.data = NULL;
    const char *name = quoted.data ? quoted.data : "ROLE";
    tables_look_miss(l,
                     "role %s may not read and write the tables of schema %s: GRANT USAGE ON SCHEMA %s TO %s; GRANT SELECT, "
                     "INSERT, UPDATE, DELETE ON %s.checkpoint, %s.gap TO %s; GRANT SELECT, INSERT ON %s.journal TO %s;",
                     name, schema, schema, name, schema, schema, name, schema, name);
}

void tables_look_read(struct tables_look *l, const struct pgconn *keep, const char *schema) {
    struct span server = pgconn_value(keep, 1), role = pgconn_value(keep, 2), lacking = pgconn_value(keep, 5);
    snprintf(l->server, sizeof l->server, "%.*s", SPAN_ARGS(server));
    snprintf(l->server_identifier, sizeof l->server_identifier, "%.*s", SPAN_ARGS(pgconn_value(keep, 6)));
    bool no_row = span_absent(pgconn_value(keep, 3)), no_gaps = span_absent(pgconn_value(keep, 7));
    l->absent = no_row || no_gaps || span_absent(pgconn_value(keep, 8));
    if (span_is(pgconn_value(keep, 0), "t"))
        tables_look_miss(l, "the server is in recovery (a standby): connect to the primary");
    else if (l->absent)
        tables_look_miss(l,
                         "there is no table %s.%s: run what `penstock schema --role %.*s` prints, or set checkpoint: "
                         "{create: true}",
                         schema, no_row ? "checkpoint" : no_gaps ? "gap" : "journal", SPAN_ARGS(role));
    else if (!span_absent(lacking))
        tables_look_miss(l,
                         "table %s.checkpoint is not Penstock's or of another version: it lacks %.*s; name another schema",
                         schema, SPAN_ARGS(lacking));
    else if (!span_is(pgconn_value(keep, 4), "t"))
        miss_rights(l, schema, role);
}
