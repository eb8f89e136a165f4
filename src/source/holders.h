/* holders: pure: who holds a writer's lock on the table, and since which list of them */
#ifndef PENSTOCK_SOURCE_HOLDERS_H
#define PENSTOCK_SOURCE_HOLDERS_H

#include <stdint.h>

#include "base/cleanup.h"
#include "base/span.h"

/* Transactions by pg_locks.virtualtransaction, as list after list shows them. A
 * gap is named by the first list made after it was seen; it can be filled as long
 * as a transaction of that list is there. So of each transaction it is enough to
 * know the first list that it stood in, and of all of them the lowest: no gap has
 * to remember who it waits for. (An epoch scheme, as memory is reclaimed by in
 * Fraser, "Practical lock-freedom", 2004.) Embedded; zero is valid. */

#define HOLDERS_ID_MAX 32
#define HOLDERS_MAX 100000
#define HOLDERS_NOBODY UINT64_MAX

struct holder {
    char id[HOLDERS_ID_MAX]; /* "3/157"; of a prepared transaction after a restart "-1/721" */
    uint64_t since;          /* number of the first list it stood in */
};

struct holder_list {
    struct holder *items;
    size_t count, capacity;
};

struct holders {
    uint64_t list; /* number of the last complete one; the first is 1 */
    struct holder_list known, coming;
};

void holders_done(struct holders *h);
/* Nothing is known any more (another connection, another server); numbers go on growing. */
void holders_forget(struct holders *h);

/* One list: begin, add for each row, end. */
void holders_begin(struct holders *h);
#define HOLDERS_E_TOO_MANY 1
/* 0; -ENOMEM; HOLDERS_E_TOO_MANY. */
int holders_add(struct holders *h, struct span id) MUST_CHECK;
void holders_end(struct holders *h);

/* The lowest first list of those who are there; HOLDERS_NOBODY. */
uint64_t holders_oldest(const struct holders *h);
/* Who stood in that list already and is still there: the one who came first; NULL. */
const struct holder *holders_first(const struct holders *h, uint64_t list);
/* How many of them there are. */
size_t holders_count(const struct holders *h, uint64_t list);

#endif
