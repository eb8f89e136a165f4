/* checkpoint_state: what a checkpoint knows; private to checkpoint.c and checkpoint_ask.c */
#ifndef PENSTOCK_FORWARDER_CHECKPOINT_STATE_H
#define PENSTOCK_FORWARDER_CHECKPOINT_STATE_H

#include "forwarder/checkpoint.h"
#include "forwarder/checkpoint_sql.h"
#include "forwarder/tables_look.h"

/* Of the statement that is outstanding. */
enum task {
    TASK_NONE,
    TASK_LOOK,   /* which server, our tables, rights */
    TASK_MAKE,   /* our tables, then TASK_LOOK again */
    TASK_PEEK,   /* is the row, if there is one, of this cluster? */
    TASK_LOAD,
    TASK_CREATE,
    TASK_WATCH,
    TASK_TAKE,
    TASK_EXTEND,
    TASK_YIELD,
    TASK_SAVE,
    TASK_CANCEL,
    TASK_COMMAND,
};

struct checkpoint {
    char *forwarder, *owner;
    struct buf schema; /* quoted, terminated */
    char *schema_name;
    bool may_create;
    int64_t lease_us;
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
    int64_t saving_position;
    bool commanded_paused;
};

/* Starts a statement. `name` NULL: once per connection, not worth preparing. Asserts that none is outstanding. */
int checkpoint_ask(struct checkpoint *c, enum task task, const char *name, const char *sql, const struct pgconn_param *params,
                   size_t count, int64_t now_us) MUST_CHECK;
/* TASK_LOAD or TASK_PEEK. */
int checkpoint_ask_load(struct checkpoint *c, enum task task, int64_t now_us) MUST_CHECK;

#endif
