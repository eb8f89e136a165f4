/* checkpoint: the row that holds a forwarder's cursor, lease and epoch, in SQL */
#include "forwarder/checkpoint.h"

#include <errno.h>

#include "base/log.h"
#include "forwarder/checkpoint_state.h"

#define SCHEMA_SQL_MAX_BYTES 16384
#define TEXT_MAX_BYTES 1024 /* of owner and system identifier */

/* Making. ------------------------------------------------------------------- */

static int init(struct checkpoint *c, const char *forwarder, const char *schema, const char *owner) {
    c->schema = BUF_INIT(4096);
    tables_look_init(&c->look);
    c->cursor = c->saving = BUF_INIT(CHECKPOINT_CURSOR_MAX);
    c->retained[0] = c->retained[1] = c->retained[2] = BUF_INIT(SOURCE_ARRAY_MAX);
    c->system_identifier = c->row_owner = BUF_INIT(TEXT_MAX_BYTES);
    c->forwarder = strdup(forwarder);
    c->owner = strdup(owner);
    c->schema_name = strdup(schema);
    if (!c->forwarder || !c->owner || !c->schema_name)
        return -ENOMEM;
    int r = pgconn_quote_identifier(span_of(schema), &c->schema);
    if (r == 0)
        r = buf_terminate(&c->schema);
    return r ? r : checkpoint_sql_init(&c->sql, c->schema.data);
}

int checkpoint_new(const char *forwarder, const char *schema, bool create, const char *owner, int64_t lease_us,
                   struct pgconn *keep, struct checkpoint **ret_checkpoint) {
    struct checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->may_create = create;
    c->lease_us = lease_us;
    c->keep = keep;
    int r = init(c, forwarder, schema, owner);
    if (r < 0) {
        checkpoint_free(c);
        return r;
    }
    *ret_checkpoint = c;
    return 0;
}

void checkpoint_free(struct checkpoint *c) {
    if (!c)
        return;
    struct buf *all[] = {&c->schema, &c->cursor,      &c->system_identifier, &c->row_owner,
                         &c->saving, &c->retained[0], &c->retained[1], &c->retained[2]};
    checkpoint_sql_done(&c->sql);
    tables_look_done(&c->look);
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        buf_done(all[i]);
    free(c->forwarder);
    free(c->owner);
    free(c->schema_name);
    free(c);
}

void checkpoint_reset(struct checkpoint *c) {
    c->task = TASK_NONE;
    c->has_row = c->taken = false;
}

bool checkpoint_busy(const struct checkpoint *c) {
    return c->task != TASK_NONE;
}

bool checkpoint_has_row(const struct checkpoint *c) {
    return c->has_row;
}

struct span checkpoint_seen_cursor(const struct checkpoint *c) {
    return c->row.cursor;
}

const struct checkpoint_row *checkpoint_row(const struct checkpoint *c) {
    ASSERT(c->has_row);
    return &c->row;
}

const char *checkpoint_server(const struct checkpoint *c) {
    return c->look.server;
}

bool checkpoint_tables_absent(const struct checkpoint *c) {
    return c->look.absent;
}

const char *checkpoint_note(const struct checkpoint *c) {
    return c->look.note.len ? c->look.note.data : "";
}

/* Inspecting. --------------------------------------------------------------- */

static int look(struct checkpoint *c, int64_t now_us) {
    struct pgconn_param params[] = {param_text(span_of(c->schema_name)), param_text(span_of(checkpoint_sql_columns))};
    tables_look_clear(&c->look);
    return checkpoint_ask(c, TASK_LOOK, NULL, checkpoint_sql_look, params, ARRAY_LENGTH(params), now_us);
}

int checkpoint_inspect(struct checkpoint *c, int64_t now_us) {
    c->made = false;
    c->row.cursor = SPAN_ABSENT;
    return look(c, now_us);
}

static int make(struct checkpoint *c, int64_t now_us) {
    CLEANUP(buf_done) struct buf sql = BUF_INIT(SCHEMA_SQL_MAX_BYTES);
    int r = checkpoint_add_schema_sql(span_of(c->schema_name), &sql);
    if (r == 0)
        r = buf_terminate(&sql);
    c->made = true;
    return r ? r : checkpoint_ask(c, TASK_MAKE, NULL, sql.data, NULL, 0, now_us);
}

/* What came of it. ---------------------------------------------------------- */

static int keep_text(struct buf *b, struct span text, struct span *ret_text) {
    buf_clear(b);
    int r = buf_add_span(b, text);
    if (r == 0)
        *ret_text = buf_span(b);
    return r;
}

/* Our table has NOT NULL, but it lies in somebody's database. */
static int64_t read_number(struct span text) {
    return span_absent(text) ? 0 : strtoll(text.data, NULL, 10);
}

/* Columns as ROW_COLUMNS names them. */
static int read_row(struct checkpoint *c) {
    struct span v[7];
    for (int i = 0; i < 7; i++)
        v[i] = pgconn_value(c->keep, i);
    int r = keep_text(&c->cursor, v[0], &c->row.cursor);
    if (r == 0)
        r = keep_text(&c->system_identifier, v[2], &c->row.system_identifier);
    if (r == 0)
        r = keep_text(&c->row_owner, v[3], &c->row.owner);
    if (r)
        return r;
    struct span *retained[] = {&c->row.retained.first, &c->row.retained.last, &c->row.retained.left_us};
    for (int i = 0; r == 0 && i < 3; i++) {
        struct span array = c->task == TASK_LOAD ? pgconn_value(c->keep, 7 + i) : SPAN_ABSENT;
        *retained[i] = SPAN_ABSENT;
        if (!span_absent(array))
            r = keep_text(&c->retained[i], array, retained[i]);
    }
    if (r)
        return r;
    c->row.position = read_number(v[1]);
    c->row.epoch = read_number(v[4]);
    c->row.paused = span_is(v[5], "t");
    c->row.lease_left_us = read_number(v[6]);
    c->row.updated_wall_us = 0;
    c->has_row = true;
    c->taken = c->task == TASK_CREATE;
    return 0;
}

static int read_watched(struct checkpoint *c) {
    c->row.lease_left_us = read_number(pgconn_value(c->keep, 1));
    c->row.position = read_number(pgconn_value(c->keep, 2));
    c->row.epoch = read_number(pgconn_value(c->keep, 3));
    c->row.updated_wall_us = read_number(pgconn_value(c->keep, 4));
    return keep_text(&c->row_owner, pgconn_value(c->keep, 0), &c->row.owner);
}

static int read_answer(struct checkpoint *c) {
    c->any_row = true;
    switch (c->task) {
    case TASK_LOOK:
        tables_look_read(&c->look, c->keep, c->schema.data);
        return 0;
    case TASK_PEEK:
    case TASK_LOAD:
    case TASK_CREATE:
        return read_row(c);
    case TASK_WATCH:
        return read_watched(c);
    case TASK_TAKE:
    case TASK_EXTEND:
    case TASK_YIELD:
    case TASK_SAVE:
    case TASK_CANCEL:
    case TASK_COMMAND:
    case TASK_MAKE:
    case TASK_NONE:
        break;
    }
    return 0;
}

static enum checkpoint_signal fail(int r, struct error *reterr) {
    error_set(reterr, ERROR_RETRY, "the checkpoint row can't be held: %s", strerrordesc_np(-r));
    return CHECKPOINT_FAILED;
}

static enum checkpoint_signal lose(struct error *reterr) {
    error_set(reterr, ERROR_RETRY, "the connection broke while sending");
    return CHECKPOINT_LOST;
}

static enum checkpoint_signal end_look(struct checkpoint *c, int64_t now_us, struct error *reterr) {
    if (c->look.missing && c->look.absent && c->may_create && !c->made) {
        int r = make(c, now_us);
        return r == 0 ? CHECKPOINT_NONE : r < 0 ? fail(r, reterr) : lose(reterr);
    }
    if (!c->look.missing) {
        int r = checkpoint_ask_load(c, TASK_PEEK, now_us);
        return r == 0 ? CHECKPOINT_NONE : lose(reterr);
    }
    *reterr = c->look.error;
    return CHECKPOINT_MISSING;
}

/* Positions and transaction ids mean nothing in another cluster. */
static bool is_foreign(struct checkpoint *c) {
    if (!c->has_row || span_is(c->row.system_identifier, c->look.server_identifier))
        return false;
    tables_look_miss(&c->look,
                     "the checkpoint row of forwarder '%s' belongs to another cluster (its system identifier is %.*s, this "
                     "server's %s); after pg_upgrade, which carries transaction ids over: penstock rebase %s --upgraded --reason "
                     "TEXT; after a dump and restore: penstock rebase %s --position N --reason TEXT, N the last position that "
                     "counts as sent",
                     c->forwarder, SPAN_ARGS(c->row.system_identifier), c->look.server_identifier, c->forwarder, c->forwarder);
    c->has_row = false;
    return true;
}

static enum checkpoint_signal end_peek(struct checkpoint *c, struct error *reterr) {
    bool foreign = is_foreign(c);
    c->has_row = false; /* what counts is what is loaded later */
    if (!foreign)
        return CHECKPOINT_INSPECTED;
    *reterr = c->look.error;
    return CHECKPOINT_MISSING;
}

static enum checkpoint_signal end_load(struct checkpoint *c, struct error *reterr) {
    if (is_foreign(c)) {
        *reterr = c->look.error;
        return CHECKPOINT_MISSING;
    }
    return c->has_row ? CHECKPOINT_LOADED : CHECKPOINT_ABSENT;
}

static enum checkpoint_signal end_create(struct checkpoint *c, int64_t now_us, struct error *reterr) {
    if (c->any_row)
        return CHECKPOINT_LOADED;
    int r = checkpoint_ask_load(c, TASK_LOAD, now_us);
    return r == 0 ? CHECKPOINT_NONE : lose(reterr);
}

static enum checkpoint_signal refuse(struct checkpoint *c, struct error *reterr) {
    c->has_row = c->taken = false;
    error_set(reterr, ERROR_RETRY, "the checkpoint row of forwarder '%s' is no longer as it was loaded: another instance "
              "or an operator has changed it; nothing was saved, loading it again", c->forwarder);
    return CHECKPOINT_REFUSED;
}

static enum checkpoint_signal end_command(struct checkpoint *c, struct error *reterr) {
    if (!c->any_row)
        return refuse(c, reterr);
    c->row.paused = c->commanded_paused;
    return CHECKPOINT_COMMANDED;
}

static enum checkpoint_signal end_take(struct checkpoint *c, struct error *reterr) {
    if (!c->any_row)
        return refuse(c, reterr);
    c->row.epoch++;
    c->row.owner = span_of(c->owner);
    c->taken = true;
    return CHECKPOINT_TAKEN;
}

static enum checkpoint_signal end_save(struct checkpoint *c, struct error *reterr) {
    if (!c->any_row)
        return refuse(c, reterr);
    struct buf older = c->cursor;
    c->cursor = c->saving;
    c->saving = older;
    c->row.cursor = buf_span(&c->cursor);
    c->row.position = c->saving_position;
    return CHECKPOINT_SAVED;
}

static enum checkpoint_signal on_done(struct checkpoint *c, enum task task, int64_t now_us, struct error *reterr) {
    switch (task) {
    case TASK_LOOK:
        return end_look(c, now_us, reterr);
    case TASK_MAKE:
        return look(c, now_us) == 0 ? CHECKPOINT_NONE : lose(reterr);
    case TASK_PEEK:
        return end_peek(c, reterr);
    case TASK_LOAD:
        return end_load(c, reterr);
    case TASK_CREATE:
        return end_create(c, now_us, reterr);
    case TASK_WATCH:
        return c->any_row ? CHECKPOINT_WATCHED : refuse(c, reterr);
    case TASK_TAKE:
        return end_take(c, reterr);
    case TASK_EXTEND:
        return c->any_row ? CHECKPOINT_EXTENDED : refuse(c, reterr);
    case TASK_YIELD:
        return c->any_row ? CHECKPOINT_YIELDED : refuse(c, reterr);
    case TASK_SAVE:
        return end_save(c, reterr);
    case TASK_CANCEL:
        return CHECKPOINT_CANCELLED;
    case TASK_COMMAND:
        return end_command(c, reterr);
    case TASK_NONE:
        break;
    }
    return CHECKPOINT_NONE;
}

/* Of forwarders that make the tables at the same moment all but one fail, IF NOT EXISTS or not. */
static bool made_by_another(const struct checkpoint *c) {
    static const char *const states[] = {"23505" /* unique_violation in a catalog */, "42P06" /* duplicate_schema */,
                                         "42P07" /* duplicate_table */, "42710" /* duplicate_object */};
    for (size_t i = 0; i < ARRAY_LENGTH(states); i++)
        if (strcmp(pgconn_sqlstate(c->keep), states[i]) == 0)
            return true;
    return false;
}

static enum checkpoint_signal on_failed(struct checkpoint *c, enum task task, int64_t now_us, struct error *reterr) {
    if (task == TASK_CANCEL)
        return CHECKPOINT_CANCELLED; /* the backend is gone, or not ours to cancel: the read just ends later */
    if (task == TASK_COMMAND)
        return CHECKPOINT_COMMAND_FAILED;
    if (task != TASK_MAKE)
        return CHECKPOINT_FAILED;
    if (made_by_another(c))
        return look(c, now_us) == 0 ? CHECKPOINT_NONE : lose(reterr);
    error_prefix(reterr, "%s.checkpoint is not there and can't be made (create: true)", c->schema.data);
    buf_clear(&c->look.note);
    if (buf_addf(&c->look.note, "%s: give the role CREATE on the database, or run what `penstock schema` prints as one that has it",
                 reterr->text) != 0 || buf_terminate(&c->look.note) != 0)
        buf_clear(&c->look.note);
    return CHECKPOINT_MISSING;
}

enum checkpoint_signal checkpoint_next(struct checkpoint *c, int64_t now_us, struct error *reterr) {
    while (c->task != TASK_NONE) {
        int r = pgconn_fetch(c->keep, reterr);
        if (r == PGCONN_E_AGAIN)
            return CHECKPOINT_NONE;
        if (r == 0) {
            r = read_answer(c);
            if (r < 0)
                return fail(r, reterr);
            continue;
        }
        enum task task = c->task;
        c->task = TASK_NONE;
        if (r == PGCONN_E_LOST)
            return CHECKPOINT_LOST;
        enum checkpoint_signal signal = r == PGCONN_E_DONE ? on_done(c, task, now_us, reterr)
                                                          : on_failed(c, task, now_us, reterr);
        if (signal != CHECKPOINT_NONE)
            return signal;
    }
    return CHECKPOINT_NONE;
}
