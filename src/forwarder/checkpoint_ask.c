/* checkpoint_ask: the statements on the checkpoint's row, each with the conditions that it must meet */
#include "base/instance.h"
#include "base/log.h"
#include "forwarder/checkpoint_state.h"

int checkpoint_ask(struct checkpoint *c, enum task task, const char *name, const char *sql, const struct pgconn_param *params,
                   size_t count, int64_t now_us) {
    struct error ignored; /* a lost connection says so again at the next work */
    ASSERT(c->task == TASK_NONE);
    c->task = task;
    c->any_row = false;
    return pgconn_send(c->keep, name, sql, params, count, false, now_us, &ignored);
}

int checkpoint_ask_load(struct checkpoint *c, enum task task, int64_t now_us) {
    struct pgconn_param params[] = {param_text(span_of(c->forwarder))};
    c->has_row = c->taken = false;
    c->row.cursor = SPAN_ABSENT;
    return checkpoint_ask(c, task, NULL, c->sql.load.data, params, ARRAY_LENGTH(params), now_us);
}

int checkpoint_load(struct checkpoint *c, int64_t now_us) {
    return checkpoint_ask_load(c, TASK_LOAD, now_us);
}

int checkpoint_create(struct checkpoint *c, struct span cursor, int64_t position, struct span system_identifier,
                      int64_t now_us) {
    char number[PARAM_NUMBER_SIZE], lease[PARAM_NUMBER_SIZE];
    struct pgconn_param params[] = {param_text(span_of(c->forwarder)), param_text(span_of(c->owner)), param_text(cursor),
                                    param_number(position, number), param_text(system_identifier),
                                    param_number(c->lease_us, lease)};
    ASSERT(!c->has_row);
    ASSERT(cursor.len > 0 && cursor.len <= CHECKPOINT_CURSOR_MAX);
    return checkpoint_ask(c, TASK_CREATE, NULL, c->sql.create.data, params, ARRAY_LENGTH(params), now_us);
}

int checkpoint_watch(struct checkpoint *c, int64_t now_us) {
    struct pgconn_param params[] = {param_text(span_of(c->forwarder))};
    ASSERT(c->has_row);
    return checkpoint_ask(c, TASK_WATCH, "watch", c->sql.watch.data, params, ARRAY_LENGTH(params), now_us);
}

bool checkpoint_is_free(const struct checkpoint *c) {
    ASSERT(c->has_row);
    return c->row.lease_left_us == 0 || span_is(c->row.owner, c->owner) || instance_is_gone(c->row.owner);
}

bool checkpoint_is_taken(const struct checkpoint *c) {
    return c->taken;
}

int checkpoint_take(struct checkpoint *c, int64_t now_us) {
    char lease[PARAM_NUMBER_SIZE], epoch[PARAM_NUMBER_SIZE];
    ASSERT(c->has_row);
    struct pgconn_param params[] = {
        param_text(span_of(c->forwarder)),
        param_text(span_of(c->owner)),
        param_number(c->lease_us, lease),
        param_text(c->row.owner),
        param_number(c->row.epoch, epoch),
        param_text(c->row.cursor),
        {instance_is_gone(c->row.owner) ? SPAN_LITERAL("true") : SPAN_LITERAL("false"), PARAM_BOOL},
    };
    return checkpoint_ask(c, TASK_TAKE, NULL, c->sql.take.data, params, ARRAY_LENGTH(params), now_us);
}

static int extend(struct checkpoint *c, enum task task, int64_t lease_us, int64_t now_us) {
    char lease[PARAM_NUMBER_SIZE], epoch[PARAM_NUMBER_SIZE];
    ASSERT(c->taken);
    struct pgconn_param params[] = {param_text(span_of(c->forwarder)), param_text(span_of(c->owner)),
                                    param_number(c->row.epoch, epoch), param_number(lease_us, lease)};
    return checkpoint_ask(c, task, NULL, c->sql.extend.data, params, ARRAY_LENGTH(params), now_us);
}

int checkpoint_extend(struct checkpoint *c, int64_t now_us) {
    return extend(c, TASK_EXTEND, c->lease_us, now_us);
}

int checkpoint_yield(struct checkpoint *c, int64_t now_us) {
    return extend(c, TASK_YIELD, 0, now_us);
}

static struct pgconn_param array_param(struct span array) {
    return (struct pgconn_param){array, PARAM_INT8_ARRAY};
}

int checkpoint_save(struct checkpoint *c, struct span cursor, const struct source_changes *changes, int64_t position,
                    int64_t now_us) {
    static const struct source_changes none;
    const struct source_changes *g = changes ? changes : &none;
    bool gaps = !span_absent(g->more.first) || !span_absent(g->gone);
    char new_position[PARAM_NUMBER_SIZE], epoch[PARAM_NUMBER_SIZE], lease[PARAM_NUMBER_SIZE];
    ASSERT(c->taken);
    ASSERT(cursor.len > 0 && cursor.len <= CHECKPOINT_CURSOR_MAX);
    c->saving_position = position;
    struct pgconn_param params[] = {param_text(span_of(c->forwarder)),
                                    param_text(span_of(c->owner)),
                                    param_number(c->row.epoch, epoch),
                                    param_text(c->row.cursor),
                                    param_text(cursor),
                                    param_number(position, new_position),
                                    param_number(c->lease_us, lease),
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
        return checkpoint_ask(c, TASK_SAVE, "save gaps", c->sql.save_gaps.data, params, count, now_us);
    return checkpoint_ask(c, TASK_SAVE, "save", c->sql.save.data, params, count - 4, now_us);
}

int checkpoint_cancel(struct checkpoint *c, int pid, int64_t now_us) {
    char text[PARAM_NUMBER_SIZE];
    struct pgconn_param params[] = {param_number_of(PARAM_INT4, pid, text)};
    return checkpoint_ask(c, TASK_CANCEL, "cancel", "SELECT pg_cancel_backend($1)", params, ARRAY_LENGTH(params), now_us);
}

int checkpoint_command(struct checkpoint *c, const struct checkpoint_command *command, int64_t now_us) {
    char epoch[PARAM_NUMBER_SIZE];
    ASSERT(c->taken);
    ASSERT(!(command->pauses && command->resumes));
    c->commanded_paused = command->pauses || (c->row.paused && !command->resumes);
    struct span paused = command->pauses ? SPAN_LITERAL("true") : command->resumes ? SPAN_LITERAL("false") : SPAN_ABSENT;
    struct pgconn_param params[] = {param_text(span_of(c->forwarder)),
                                    param_text(span_of(c->owner)),
                                    param_number(c->row.epoch, epoch),
                                    {paused, PARAM_BOOL},
                                    param_text(span_of(command->name)),
                                    param_text(span_of(command->who)),
                                    param_text(span_of(command->reason)),
                                    {span_of(command->before), PARAM_JSONB},
                                    {span_of(command->after), PARAM_JSONB}};
    return checkpoint_ask(c, TASK_COMMAND, NULL, c->sql.command.data, params, ARRAY_LENGTH(params), now_us);
}
