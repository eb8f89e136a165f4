/* culprit: who keeps a gap open, how many gaps there are, and what waits unread; part of source.h */
#ifndef PENSTOCK_SOURCE_CULPRIT_H
#define PENSTOCK_SOURCE_CULPRIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As far as the database tells; nothing here is guessed. Plain data. */
struct source_culprit {
    int64_t first, last; /* the positions that have waited longest; first INT64_MIN: all up to last */
    size_t gaps;         /* how many ranges wait */
    int64_t since_us;    /* when that one was seen (monotonic) */
    bool full;           /* so many that nothing more is read */
    bool undrawn;        /* nobody: the sequence has not reached them */
    bool known;          /* who it is: of `holders` that may have drawn them the one that was seen first */
    size_t holders;
    int pid;             /* 0: a prepared transaction */
    char prepared[256];  /* its gid; "": not found */
    char application[64], user[64], state[32];
    int64_t began_wall_us; /* its transaction; 0: not shown */
    char grant[192];       /* the statement that shows us its state and beginning; "": nothing is hidden */
    bool starts;           /* no gap yet: a start waits for `holders`, because `gaps` are more than can be watched */
    char holder[32];       /* of them, by virtualtransaction of pg_locks; only then */
};

/* Positions that were not seen: as ranges. */
struct source_gaps {
    size_t open;      /* can still be filled */
    size_t dead;      /* proven that they can't, and looked at all the same for gaps.retention */
    uint64_t dropped; /* given up before, because there were too many */
};

/* The first row that can be seen behind the place that was read. */
struct source_waiting {
    bool any;
    int64_t position;
    bool recorded; /* when is known: */
    int64_t age_us; /* at the look, by the database's clock; never below 0 */
};

#endif
