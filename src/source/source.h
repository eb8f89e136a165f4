/* source: the contract of everything that tails an event table */
#ifndef PENSTOCK_SOURCE_SOURCE_H
#define PENSTOCK_SOURCE_SOURCE_H

#include "base/buf.h"
#include "event/row.h"
#include "pg/pgconn.h"
#include "source/culprit.h"

enum source_start { SOURCE_START_BEGINNING, SOURCE_START_NOW, SOURCE_START_POSITION };

/* By default what the checkpoint says; a new forwarder takes snapshot if the table has the transaction-id column. */
enum source_mode { SOURCE_MODE_DEFAULT, SOURCE_MODE_SNAPSHOT, SOURCE_MODE_GAPS };

struct source_extension {
    char *attribute, *column;
};

/* Of forwarders: NAME: source: (without connection and filter). Owned texts. */
struct source_options {
    char *table; /* as written: part.part, "Quoted Part" allowed */
    /* By role; NULL: the default name, which need not exist unless needed. */
    char *columns[ROW_ROLE_COUNT];
    char *transaction_id, *constant_source, *constant_type;
    struct source_extension *extensions; /* a map instead of one jsonb column */
    size_t extension_count;
    enum source_start start;
    int64_t start_position; /* first position that is wanted */
    bool take_over; /* no key: an operator says that the cursor is of this table, whatever stands in it */
    int mode;               /* enum source_mode */
    int64_t gaps_retention_us; /* how long a gap that was proven dead is probed all the same */
    int64_t gaps_max;          /* gaps in memory */
    int64_t max_message_bytes; /* copied from the sink: larger data is not loaded */
    bool text_typed;           /* copied from the forwarder: there is a default_text_type */
};

void source_options_done(struct source_options *o);
/* The default column name of a role ("streamid"); NULL: none. */
const char *source_default_column(enum row_role role);
/* "schema.table" with SQL's quoting. 0; -EINVAL with *reterr; -ENOMEM. */
int source_check_table(struct span table, struct error *reterr) MUST_CHECK;

struct source;
/* Borrows all. The connection is the forwarder's: "tail". */
int source_new(const struct source_options *options, struct pgconn *tail, struct source **ret_source) MUST_CHECK;
void source_free(struct source *s);

/* A place: see flow.h (flow_mark); the source gives out the numbers. */
struct source_mark {
    int64_t position; /* INT64_MAX: all of the target */
    uint64_t target;
};

/* What stands beside the cursor in our table gap: ranges of positions that were
 * proven dead and are probed all the same, for so long. Each is an array of int8
 * as PostgreSQL writes it ("{5,7}"), absent: empty. */
#define SOURCE_GAPS_MAX 400000 /* of gaps_max */
/* Bytes of such an array of as many as gaps_max, and some that are about to leave; a number is 20 of them and a comma. */
#define SOURCE_ARRAY_MAX ((SOURCE_GAPS_MAX + 10000) * 21)
struct source_retained { struct span first, last, left_us; };

/* What has to change there together with a save. */
struct source_changes { struct source_retained more; struct span gone; /* firsts of ranges */ };

enum source_signal {
    SOURCE_NONE,      /* nothing yet: poll */
    SOURCE_INSPECTED, /* the table is fit: source_open may be called; source_note says what to warn of */
    SOURCE_REFUSED,   /* it isn't: *reterr; source_note has every finding with its mend */
    SOURCE_OPENED,    /* ready for source_want; source_opened_mark is the place it starts from */
    SOURCE_AHEAD,     /* the checkpoint lies beyond the server, or is of another table: *reterr */
    SOURCE_ROW,       /* source_row, source_row_mark */
    SOURCE_MARK,      /* the place moved without a row (end of page, empty page): source_row_mark, source_mark_counts */
    SOURCE_CANCEL,    /* cancel the backend source_cancel_pid through the other connection, then call source_cancelled */
    SOURCE_DONE,      /* the wanted read has ended; source_caught_up */
    SOURCE_LOOKED,    /* source_waiting */
    SOURCE_DROPPED,   /* target source_dropped was given up */
    SOURCE_FAILED,    /* a statement was refused: *reterr; inspect again later */
    SOURCE_LOST,      /* the connection is gone: *reterr */
};

/* Order of calls, after each connect: source_inspect … SOURCE_INSPECTED,
 * source_open … SOURCE_OPENED, then source_want … SOURCE_DONE again and again.
 * source_next until SOURCE_NONE after each poll. Serial; one want at a time. */
/* `cursor`: of the checkpoint, as far as it is known; it says in which mode to read. */
int source_inspect(struct source *s, struct span cursor, int64_t now_us) MUST_CHECK;

/* `cursor` absent: a new forwarder; the start of the options is turned into a
 * cursor first (source_opened_mark can be printed and must be stored before the
 * first publish). `retained` may be NULL. 0; SOURCE_E_CURSOR: can't be read, is
 * newer or of another mode than the options ask for: *reterr (config). */
#define SOURCE_E_CURSOR 1
int source_open(struct source *s, struct span cursor, const struct source_retained *retained, int64_t now_us,
                struct error *reterr) MUST_CHECK;

/* The demand: never more rows than `events`, nor bytes than `bytes` (but one row that alone is larger). */
int source_want(struct source *s, uint32_t events, uint64_t bytes, int64_t now_us) MUST_CHECK;

/* Is there a row behind the place, which stays? Serial with source_want; SOURCE_LOOKED follows. */
int source_look(struct source *s, int64_t now_us) MUST_CHECK;
bool source_is_free(const struct source *s); /* source_want and source_look may be called */
const struct source_waiting *source_waiting(const struct source *s); /* by the last look; NULL: not known */

enum source_signal source_next(struct source *s, int64_t now_us, struct error *reterr);
bool source_given_out_again(const struct source *s); /* why SOURCE_AHEAD: table or sequence were made anew */

const struct row *source_row(const struct source *s);
struct source_mark source_row_mark(const struct source *s);
struct source_mark source_opened_mark(const struct source *s);
bool source_mark_counts(const struct source *s); /* it is to be saved, whether rows come or not */
bool source_caught_up(const struct source *s);
int source_cancel_pid(const struct source *s);
void source_cancelled(struct source *s);
uint64_t source_dropped(const struct source *s);

/* The text of the cursor for that place. 0; SOURCE_E_GONE (its target was dropped); -ENOMEM. */
#define SOURCE_E_GONE 2
int source_print_cursor(const struct source *s, struct source_mark mark, struct buf *b) MUST_CHECK;
/* What its save changes in our table gap; borrowed until the next call. When it has been saved, source_saved. 0; -ENOMEM. */
int source_changes(struct source *s, struct source_mark mark, int64_t now_us, struct source_changes *ret_changes) MUST_CHECK;
void source_saved(struct source *s, struct source_mark mark);
void source_release(struct source *s, uint64_t oldest_target); /* targets below are needed no more */
void source_reset(struct source *s); /* the connection was closed: back to before source_inspect */

const char *source_note(const struct source *s); /* findings of the last inspection, one a line, with what mends it; "" */
bool source_note_refuses(const struct source *s, unsigned line); /* is that line (from 0) why? else it is a warning */
const char *source_mode(const struct source *s);   /* "snapshot", "gaps" */
const char *source_system_identifier(const struct source *s); /* "" before inspection */
const char *source_server(const struct source *s); /* as checkpoint_server spells it */

/* Mode gaps only, while open. Culprit: once a gap has waited for some seconds, and while a start waits. */
bool source_culprit(const struct source *s, int64_t now_us, struct source_culprit *ret_culprit);
bool source_gaps(const struct source *s, struct source_gaps *ret_gaps);

/* SQL that `penstock schema` prints, appended to *b; notify: a trigger, whose function goes into `schema`. */
int source_add_event_table_sql(struct span table, struct buf *b) MUST_CHECK;
int source_add_transaction_id_sql(struct span table, struct span position, struct buf *b) MUST_CHECK;
int source_add_notify_sql(struct span table, struct span schema, struct span channel, struct buf *b) MUST_CHECK;
int source_add_grants_sql(struct span table, struct span role, struct buf *b) MUST_CHECK;

#endif
