/* mode: what source.c asks of a mode of tailing; private to source/ */
#ifndef PENSTOCK_SOURCE_MODE_H
#define PENSTOCK_SOURCE_MODE_H

#include "source/columns.h"
#include "source/source.h"

/* First columns of an answer: all of them, or the pid alone. Its first row is the
 * head: there the backend's pid is not NULL, and the row's columns are; in all
 * others it is the reverse. */
enum { MODE_PID, MODE_TEXT, MODE_FLAG, MODE_NUMBER, MODE_HEAD_COLUMNS };

/* What has become of a row of an answer, or of its end. */
enum mode_answer {
    MODE_GO_ON, /* nothing to tell */
    MODE_ROW,   /* deliver mode.row */
    MODE_CUT,   /* the row no longer fits: the statement is to be ended */
    MODE_AGAIN, /* of started: another statement was sent, start is called for its rows */
    MODE_AHEAD, /* the checkpoint lies beyond the server, or is of another table: *reterr */
    MODE_FAILED, /* *reterr */
    MODE_LOST,   /* the connection can't be gone on with: *reterr */
};

/* Embedded first in what a mode allocates. */
struct mode {
    const struct mode_kind *kind;
    const struct source_options *options; /* borrowed, as is tail */
    struct pgconn *tail;
    bool rewrite;    /* the cursor has to be saved: it said nothing, or another thing, of where its positions came from */
    bool given_out_again; /* why MODE_AHEAD: positions below the checkpoint may be, or will be */
    int backend_pid; /* that answered the start; another one means a pooler between us */
    bool answered;   /* the head of the statement under way has come */
    struct row row;
};

/* Order of calls: make; prepare for a table that is fit; open, start for each
 * row of its answer, started; then want, next … as source.h has it. */
struct mode_kind {
    const char *name;
    int (*make)(struct mode **ret_mode);
    void (*free)(struct mode *m);
    int (*prepare)(struct mode *m, const struct table *table);

    /* Sends the start statement for that cursor (absent: a new forwarder). 0; SOURCE_E_CURSOR; PGCONN_E_LOST; -ENOMEM. */
    int (*open)(struct mode *m, struct span cursor, const struct source_retained *retained, int64_t now_us,
                struct error *reterr);
    enum mode_answer (*start)(struct mode *m, struct error *reterr);
    /* Its answer has ended: mode is at its place, or asks more (MODE_AGAIN). */
    enum mode_answer (*started)(struct mode *m, int64_t now_us, struct error *reterr);

    void (*want)(struct mode *m, uint32_t events, uint64_t bytes);
    /* Sends the next statement of the read. 0; MODE_E_END: there is none; PGCONN_E_LOST; -ENOMEM. */
    int (*next)(struct mode *m, int64_t now_us, struct error *reterr);
    enum mode_answer (*head)(struct mode *m, struct error *reterr);
    enum mode_answer (*data)(struct mode *m, struct error *reterr);
    /* The statement has ended, well or cancelled after a row that was cut. */
    enum mode_answer (*end)(struct mode *m, int64_t now_us, struct error *reterr);
    bool (*dropped)(struct mode *m, uint64_t *ret_target);
    bool (*caught_up)(const struct mode *m);

    /* Sends the look at what lies behind the mode's place. Its answer is one row: pid; position as text (NULL: there
     * is no row); -; its age in microseconds (NULL: unknown). 0; PGCONN_E_LOST; -ENOMEM. */
    int (*look)(struct mode *m, int64_t now_us, struct error *reterr);

    struct source_mark (*mark)(const struct mode *m);
    int (*print)(struct mode *m, struct source_mark mark, struct buf *b);
    int (*changes)(struct mode *m, struct source_mark mark, int64_t now_us, struct source_changes *ret_changes);
    void (*saved)(struct mode *m, struct source_mark mark);
    void (*release)(struct mode *m, uint64_t oldest_target);
    bool (*culprit)(const struct mode *m, int64_t now_us, struct source_culprit *ret_culprit);
    bool (*gaps)(const struct mode *m, struct source_gaps *ret_gaps);
};

#define MODE_E_END 5 /* beside pgconn's */

extern const struct mode_kind mode_snapshot, mode_gaps;

/* Binary values of PostgreSQL. */
int64_t mode_int8(struct span value);
int mode_int4(struct span value);
bool mode_bool(struct span value);

/* A row as data, behind so many columns of the head: its values into mode.row.
 * *ret_bytes: their size together. MODE_FAILED: it has no position. */
enum mode_answer mode_take_row(struct mode *m, const struct columns *columns, int head_columns, int64_t *ret_position,
                               uint64_t *ret_bytes, struct error *reterr);

enum mode_answer mode_failed(int r, struct error *reterr);
/* The answer isn't what was asked for. */
enum mode_answer mode_misfit(struct error *reterr);

#endif
