/* survey_database: what a start would find at the database: our tables, the event table, the checkpoint */
#include "forwarder/survey_database.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "forwarder/checkpoint.h"

#define CONNECTION "connection '%s'"
#define EVENT_TABLE "event table %s"
#define LINE_MAX_BYTES 4096

/* In this order; each waits for the answer that leads on. */
enum phase {
    PHASE_CLOSED,
    PHASE_DIAL,
    PHASE_TABLES,  /* ours */
    PHASE_ALLOWED, /* they are absent: may they be made? */
    PHASE_INSPECT, /* the event table */
    PHASE_LOAD,    /* the checkpoint's row */
    PHASE_OPEN,    /* can be read on from there? */
    PHASE_ENDED,
};

struct survey_database {
    const struct forwarder_options *options;
    struct survey_findings *findings;
    struct pgconn *conn;
    struct checkpoint *checkpoint;
    struct source *source;
    enum phase phase;
    bool tables_there;
};

int survey_database_new(const struct forwarder_options *o, struct guard *guard, struct survey_findings *findings,
                        struct survey_database **ret_database) {
    struct survey_database *d = calloc(1, sizeof *d);
    if (!d)
        return -ENOMEM;
    d->options = o;
    d->findings = findings;
    int r = pgconn_new(o->database, o->source_connection_name, o->name, "check", guard, &d->conn);
    if (r == 0) /* whatever is configured, nothing is made here */
        r = checkpoint_new(o->name, o->checkpoint_schema, false, o->owner, o->lease_us, d->conn, &d->checkpoint);
    if (r == 0)
        r = source_new(o->source, d->conn, &d->source);
    if (r < 0) {
        survey_database_free(d);
        return r;
    }
    *ret_database = d;
    return 0;
}

void survey_database_free(struct survey_database *d) {
    if (!d)
        return;
    source_free(d->source);
    checkpoint_free(d->checkpoint);
    pgconn_free(d->conn);
    free(d);
}

bool survey_database_ended(const struct survey_database *d) {
    return d->phase == PHASE_ENDED;
}

void survey_database_poll(const struct survey_database *d, struct pollfd *ret_fd) {
    pgconn_poll(d->conn, ret_fd);
}

int64_t survey_database_deadline_us(const struct survey_database *d) {
    if (d->phase == PHASE_CLOSED)
        return 0;
    return d->phase == PHASE_ENDED ? CLOCK_NEVER : pgconn_deadline_us(d->conn);
}

/* Findings. ----------------------------------------------------------------- */

static void find(struct survey_database *d, enum survey_level level, const char *text) {
    survey_findings_add(d->findings, level, CONNECTION, d->options->source_connection_name, text);
}

static void end(struct survey_database *d) {
    pgconn_close(d->conn);
    d->phase = PHASE_ENDED;
}

static void fail(struct survey_database *d, const char *text) {
    find(d, SURVEY_ERROR, text);
    end(d);
}

void survey_database_give_up(struct survey_database *d) {
    if (d->phase != PHASE_ENDED)
        fail(d, d->phase <= PHASE_DIAL ? "no connection within the time that there is for this"
                                       : "no answer within the time that there is for this");
}

/* Of the event table, each line with its own weight. */
static void find_lines(struct survey_database *d) {
    char line[LINE_MAX_BYTES];
    unsigned number = 0;
    for (const char *at = source_note(d->source); *at; number++) {
        size_t len = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)len, at);
        survey_findings_add(d->findings, source_note_refuses(d->source, number) ? SURVEY_ERROR : SURVEY_WARNING, EVENT_TABLE,
                            d->options->source->table, line);
        at += len + (at[len] == '\n');
    }
}

/* Our tables. --------------------------------------------------------------- */

static int step(struct survey_database *d, enum phase phase, int r) {
    if (r == 0)
        d->phase = phase;
    else
        fail(d, r < 0 ? strerrordesc_np(-r) : "the connection broke while sending");
    return r;
}

static void inspect(struct survey_database *d, int64_t now_us) {
    (void)step(d, PHASE_INSPECT, source_inspect(d->source, checkpoint_seen_cursor(d->checkpoint), now_us));
}

/* What CREATE SCHEMA IF NOT EXISTS and CREATE TABLE ask for. */
static const char allowed_sql[] =
    "SELECT has_database_privilege(current_database(), 'CREATE')"
    " AND coalesce((SELECT has_schema_privilege(n.oid, 'CREATE') FROM pg_namespace n WHERE n.nspname = $1), true)";

static void ask_whether_allowed(struct survey_database *d, int64_t now_us) {
    struct error ignored;
    struct pgconn_param schema = param_text(span_of(d->options->checkpoint_schema));
    (void)step(d, PHASE_ALLOWED, pgconn_send(d->conn, NULL, allowed_sql, &schema, 1, false, now_us, &ignored));
}

static void on_allowed(struct survey_database *d, bool allowed) {
    if (allowed)
        find(d, SURVEY_NOTE, "our own tables are not there yet: the start makes them (checkpoint: {create: true})");
    else
        find(d, SURVEY_ERROR, "our own tables are not there and can't be made (checkpoint: {create: true}): give the role "
             "CREATE on the database, or run what `penstock schema` prints as one that has it");
}

static bool next_allowed(struct survey_database *d, int64_t now_us) {
    struct error error;
    switch (pgconn_fetch(d->conn, &error)) {
    case 0:
        on_allowed(d, span_is(pgconn_value(d->conn, 0), "t"));
        return true;
    case PGCONN_E_AGAIN:
        return false;
    case PGCONN_E_DONE:
        inspect(d, now_us);
        return true;
    default:
        fail(d, error.text);
        return true;
    }
}

/* The checkpoint. ------------------------------------------------------------ */

static void on_row(struct survey_database *d, int64_t now_us) {
    const struct checkpoint_row *row = checkpoint_row(d->checkpoint);
    struct error error;
    char text[512], held[256] = "";
    if (row->lease_left_us > 0)
        snprintf(held, sizeof held, "; instance %.*s has the lease", SPAN_ARGS(row->owner));
    snprintf(text, sizeof text, "its checkpoint is at position %" PRId64 "%s%s", row->position,
             row->paused ? ", and it is paused by an operator" : "", held);
    find(d, SURVEY_NOTE, text);
    int r = source_open(d->source, row->cursor, &row->retained, now_us, &error);
    if (r == SOURCE_E_CURSOR)
        fail(d, error.text);
    else
        (void)step(d, PHASE_OPEN, r);
}

static void on_tables(struct survey_database *d, enum checkpoint_signal signal, const struct error *error, int64_t now_us) {
    d->tables_there = signal == CHECKPOINT_INSPECTED;
    if (d->tables_there)
        return inspect(d, now_us);
    if (d->options->checkpoint_create && checkpoint_tables_absent(d->checkpoint))
        return ask_whether_allowed(d, now_us);
    find(d, SURVEY_ERROR, error->text);
    inspect(d, now_us);
}

static bool next_checkpoint(struct survey_database *d, int64_t now_us) {
    struct error error;
    enum checkpoint_signal signal = checkpoint_next(d->checkpoint, now_us, &error);
    if (signal == CHECKPOINT_NONE)
        return false;
    if (signal == CHECKPOINT_INSPECTED || (signal == CHECKPOINT_MISSING && d->phase == PHASE_TABLES)) {
        on_tables(d, signal, &error, now_us);
    } else if (signal == CHECKPOINT_LOADED) {
        on_row(d, now_us);
    } else if (signal == CHECKPOINT_ABSENT) {
        find(d, SURVEY_NOTE, "it has no checkpoint yet: it begins at the configured start");
        end(d);
    } else {
        fail(d, error.text);
    }
    return true;
}

/* The event table. ----------------------------------------------------------- */

static bool next_source(struct survey_database *d, int64_t now_us) {
    struct error error;
    enum source_signal signal = source_next(d->source, now_us, &error);
    if (signal == SOURCE_NONE)
        return false;
    if (signal == SOURCE_INSPECTED || signal == SOURCE_REFUSED)
        find_lines(d);
    if (signal == SOURCE_INSPECTED && d->tables_there)
        (void)step(d, PHASE_LOAD, checkpoint_load(d->checkpoint, now_us));
    else if (signal == SOURCE_INSPECTED || signal == SOURCE_REFUSED || signal == SOURCE_OPENED)
        end(d);
    else
        fail(d, error.text);
    return true;
}

/* The loop. ------------------------------------------------------------------ */

/* true: there may be more. */
static bool next(struct survey_database *d, int64_t now_us) {
    switch (d->phase) {
    case PHASE_CLOSED:
        (void)step(d, PHASE_DIAL, pgconn_dial(d->conn, now_us));
        return true;
    case PHASE_DIAL:
        if (pgconn_state(d->conn) != PGCONN_IDLE)
            return false;
        (void)step(d, PHASE_TABLES, checkpoint_inspect(d->checkpoint, now_us));
        return true;
    case PHASE_TABLES:
    case PHASE_LOAD:
        return next_checkpoint(d, now_us);
    case PHASE_ALLOWED:
        return next_allowed(d, now_us);
    case PHASE_INSPECT:
    case PHASE_OPEN:
        return next_source(d, now_us);
    case PHASE_ENDED:
        break;
    }
    return false;
}

void survey_database_work(struct survey_database *d, int64_t now_us) {
    struct error error;
    while (next(d, now_us))
        continue;
    if (d->phase == PHASE_ENDED)
        return;
    if (pgconn_work(d->conn, now_us, &error) != 0)
        return fail(d, error.text);
    while (next(d, now_us))
        continue;
}
