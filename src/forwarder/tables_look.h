/* tables_look: what the server says of our own tables: are they there, ours, and open to us? */
#ifndef PENSTOCK_FORWARDER_TABLES_LOOK_H
#define PENSTOCK_FORWARDER_TABLES_LOOK_H

#include "base/buf.h"
#include "pg/pgconn.h"

/* Embedded. */
struct tables_look {
    bool absent;  /* a table is not there */
    bool missing; /* something only an operator can mend; then: */
    struct error error;
    struct buf note; /* the same, terminated */
    char server[PGCONN_SERVER_MAX], server_identifier[24];
};

void tables_look_init(struct tables_look *l);
void tables_look_done(struct tables_look *l);
/* Nothing is missing that is known of. */
void tables_look_clear(struct tables_look *l);
/* Reads the row that checkpoint_sql_look has returned; schema is quoted. */
void tables_look_read(struct tables_look *l, const struct pgconn *keep, const char *schema);
/* What is missing, with its mend. */
void tables_look_miss(struct tables_look *l, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
