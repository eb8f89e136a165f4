/* checkpoint: the row that holds a forwarder's cursor, lease and epoch, in SQL */
#include "forwarder/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "forwarder/checkpoint_sql.h"
#include "forwarder/tables_look.h"

#define SCHEMA_SQL_MAX_BYTES 16384
#define TEXT_MAX_BYTES 1024 /* of owner and system identifier */

enum task {
    TASK_NONE,
    TASK_LOOK,   /* which server, our tables, rights */
    TASK_MAKE,   /* our tables, then TASK_LOOK again */
    TASK_PEEK,   /* is the row, if there is one, of this cluster? */
    TASK_LOAD,
    TASK_CREATE,
    TASK_SAVE,
    TASK_CANCEL,
    TASK_COMMAND,
};

struct checkpoint {
    char *forwarder, *owner;
    struct buf schema; /* quoted, terminated */
    char *schema_name;
    bool may_create;
    struct pgconn *keep;
    struct checkpoint_sql sql;

    enum task task;
    bool any_row; /* the statement has returned one */
    struct tables_look look;
    bool made; /* it was tried to make the tables, in this inspection */

    bool has_row;
    bool taken; /* owner and epoch of the row are ours */
    struct checkpoint_row row;
    struct buf cursor, system_identifier, row_owner, retained[3];
    struct buf saving; /* the cursor that becomes the row's when the save succeeds */
    int64_t saving_position, saving_epoch;
    bool commanded_paused;
};

/* Making. ------------------------------------------------------------------- */

static int init(struct checkpoint *c, const char *forwarder, const char *schema, const char *owner) {
    c->schema = BUF_INIT(4096);
    tables_look_init(&c->look);
    c->cursor = c->saving = c->retained[0] = c->retained[1] = c->retained[2] = BUF_INIT(CHECKPOINT_CURSOR_MAX);
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

int checkpoint_new(const char *forwarder, const char *schema, bool create, const char *owner, struct pgconn *keep,
                   struct checkpoint **ret_checkpoint) {
    struct checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->may_create = create;
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
    c->has_row = false;
}

bool checkpoint_busy(const struct checkpoint *c) {
    return c->task != TASK_NONE;
}

bool checkpoint_has_row(const struct checkpoint *c) {
    return c->has_row;
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

/* Statements. --------------------------------------------------------------- */

enum { OID_BOOL = 16, OID_INT8 = 20, OID_INT4 = 23, OID_TEXT = 25, OID_INT8_ARRAY = 1016, OID_JSONB = 3802 };

#define NUMBER_SIZE 24

static struct pgconn_param text_param(struct span text) {
    return (struct pgconn_param){text, OID_TEXT};
}

static struct pgconn_param number_param(int64_t number, char text[NUMBER_SIZE]) {
    int len = snprintf(text, NUMBER_SIZE, "%" PRId64, number);
    return (struct pgconn_param){{text, (size_t)len}, OID_INT8};
}

/* `name` NULL: once per connection, not worth preparing. */
static int start(struct checkpoint *c, enum task task, const char *name, const char *sql, const struct pgconn_param *params,
                 size_t count, int64_t now_us) {
    struct error ignored; /* a lost connection says so again at the next work */
    ASSERT(c->task == TASK_NONE);
    c->task = task;
    c->any_row = false;
    return pgconn_send(c->keep, name, sql, params, count, false, now_us, &ignored);
}

static int load(struct checkpoint *c, enum task task, int64_t now_us) {
    struct pgconn_param params[] = {text_param(span_of(c->forwarder))};
    c->has_row = false;
    return start(c, task, NULL, c->sql.load.data, params, ARRAY_LENGTH(params), now_us);
}

int checkpoint_load(struct checkpoint *c, int64_t now_us) {
    return load(c, TASK_LOAD, now_us);
}

int checkpoint_create(struct checkpoint *c, struct span cursor, int64_t position, struct span system_identifier,
                      int64_t now_us) {
    char number[NUMBER_SIZE];
    struct pgconn_param params[] = {text_param(span_of(c->forwarder)), text_param(span_of(c->owner)), text_param(cursor),
                                    number_param(position, number), text_param(system_identifier)};
    ASSERT(!c->has_row);
    ASSERT(cursor.len > 0 && cursor.len <= CHECKPOINT_CURSOR_MAX);
    return start(c, TASK_CREATE, NULL, c->sql.create.data, params, ARRAY_LENGTH(params), now_us);
}

static struct pgconn_param array_param(struct span array) {
    return (struct pgconn_param){array, OID_INT8_ARRAY};
}

int checkpoint_save(struct checkpoint *c, struct span cursor, const struct source_changes *changes, int64_t position,
                    int64_t now_us) {
    static const struct source_changes none;
    const struct source_changes *g = changes ? changes : &none;
    bool gaps = !span_absent(g->more.first) || !span_absent(g->gone);
    char new_epoch[NUMBER_SIZE], new_position[NUMBER_SIZE], epoch[NUMBER_SIZE];
    ASSERT(c->has_row);
    ASSERT(cursor.len > 0 && cursor.len <= CHECKPOINT_CURSOR_MAX);
    c->saving_position = position;
    c->saving_epoch = c->taken ? c->row.epoch : c->row.epoch + 1;
    struct pgconn_param params[] = {text_param(span_of(c->forwarder)),
                                    text_param(span_of(c->owner)),
                                    number_param(c->saving_epoch, new_epoch),
                                    text_param(cursor),
                                    number_param(position, new_position),
                                    text_param(c->row.owner),
                                    number_param(c->row.epoch, epoch),
                                    text_param(c->row.cursor),
                                    array_param(g->more.first),
                                    array_param(g->more.last),
                                    array_param(g->more.left_us),
                                    array_param(g->gone)};
    size_t count = ARRAY_LENGTH(params);
    buf_clear(&c->saving);
    int r = buf_add_span(&c->saving, cursor);
    if (r)
        return r;
    if (gaps)
        return start(c, TASK_SAVE, "save gaps", c->sql.save_gaps.data, params, count, now_us);
    return start(c, TASK_SAVE, "save", c->sql.save.data, params, count - 4, now_us);
}

int checkpoint_cancel(struct checkpoint *c, int pid, int64_t now_us) {
    char text[NUMBER_SIZE];
    struct pgconn_param params[] = {number_param(pid, text)};
    params[0].oid = OID_INT4;
    return start(c, TASK_CANCEL, "cancel", "SELECT pg_cancel_backend($1)", params, ARRAY_LENGTH(params), now_us);
}

int checkpoint_command(struct checkpoint *c, const struct checkpoint_command *command, int64_t now_us) {
    char epoch[NUMBER_SIZE];
    ASSERT(c->has_row);
    ASSERT(!(command->pauses && command->resumes));
    c->commanded_paused = command->pauses || (c->row.paused && !command->resumes);
    struct span paused = command->pauses ? SPAN_LITERAL("true") : command->resumes ? SPAN_LITERAL("false") : SPAN_ABSENT;
    struct pgconn_param params[] = {text_param(span_of(c->forwarder)),
                                    text_param(c->row.owner),
                                    number_param(c->row.epoch, epoch),
                                    {paused, OID_BOOL},
                                    text_param(span_of(command->name)),
                                    text_param(span_of(command->who)),
                                    text_param(span_of(command->reason)),
                                    {span_of(command->before), OID_JSONB},
                                    {span_of(command->after), OID_JSONB}};
    return start(c, TASK_COMMAND, NULL, c->sql.command.data, params, ARRAY_LENGTH(params), now_us);
}

/* Inspecting. --------------------------------------------------------------- */

static int look(struct checkpoint *c, int64_t now_us) {
    struct pgconn_param params[] = {text_param(span_of(c->schema_name)), text_param(span_of(checkpoint_sql_columns))};
    tables_look_clear(&c->look);
    return start(c, TASK_LOOK, NULL, checkpoint_sql_look, params, ARRAY_LENGTH(params), now_us);
}

int checkpoint_inspect(struct checkpoint *c, int64_t now_us) {
    c->made = false;
    return look(c, now_us);
}

static int make(struct checkpoint *c, int64_t now_us) {
    CLEANUP(buf_done) struct buf sql = BUF_INIT(SCHEMA_SQL_MAX_BYTES);
    int r = checkpoint_add_schema_sql(span_of(c->schema_name), SPAN_ABSENT, SPAN_ABSENT, &sql);
    if (r == 0)
        r = buf_terminate(&sql);
    c->made = true;
    return r ? r : start(c, TASK_MAKE, NULL, sql.data, NULL, 0, now_us);
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
    struct span v[6];
    for (int i = 0; i < 6; i++)
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
        struct span array = c->task == TASK_LOAD ? pgconn_value(c->keep, 6 + i) : SPAN_ABSENT;
        *retained[i] = SPAN_ABSENT;
        if (!span_absent(array))
            r = keep_text(&c->retained[i], array, retained[i]);
    }
    if (r)
        return r;
    c->row.position = read_number(v[1]);
    c->row.epoch = read_number(v[4]);
    c->row.paused = span_is(v[5], "t");
    c->has_row = true;
    c->taken = c->task == TASK_CREATE;
    return 0;
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
        int r = load(c, TASK_PEEK, now_us);
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
    int r = load(c, TASK_LOAD, now_us);
    return r == 0 ? CHECKPOINT_NONE : lose(reterr);
}

static enum checkpoint_signal refuse(struct checkpoint *c, struct error *reterr) {
    c->has_row = false;
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

static enum checkpoint_signal end_save(struct checkpoint *c, struct error *reterr) {
    if (!c->any_row)
        return refuse(c, reterr);
    struct buf older = c->cursor;
    c->cursor = c->saving;
    c->saving = older;
    c->row.cursor = buf_span(&c->cursor);
    c->row.position = c->saving_position;
    c->row.epoch = c->saving_epoch;
    c->row.owner = span_of(c->owner);
    c->taken = true;
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
