/* reader: drives one source and its keep connection for the C tests against a real server */
#ifndef PENSTOCK_TESTS_READER_H
#define PENSTOCK_TESTS_READER_H

#include <libpq-fe.h>

#include "source/source.h"

/* The server is where libpq's environment variables point. */
struct reader {
    struct pgconn_options database;
    struct source_options options;
    struct guard *guard;
    struct pgconn *keep, *tail;
    struct source *source;
    struct error error;
    uint64_t cancels;
};

/* Defaults for `table`; change options before reader_open. */
void reader_init(struct reader *r, const char *table);
void reader_done(struct reader *r);
void reader_set(char **place, const char *text);

/* Connects and inspects: SOURCE_INSPECTED, SOURCE_REFUSED … */
enum source_signal reader_inspect(struct reader *r);
/* reader_inspect and opens at the cursor (NULL: the start of the options). */
enum source_signal reader_open(struct reader *r, const char *cursor);
/* The next signal other than SOURCE_NONE; cancels what is to be cancelled. */
enum source_signal reader_next(struct reader *r);
void reader_close(struct reader *r);

/* A direct connection; fails the test on any error. */
PGconn *direct_open(void);
void direct_run(PGconn *pg, const char *format, ...) PRINTF_LIKE(2, 3);
int64_t direct_number(PGconn *pg, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
