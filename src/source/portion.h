/* portion: how much of what a read was asked for may still come */
#ifndef PENSTOCK_SOURCE_PORTION_H
#define PENSTOCK_SOURCE_PORTION_H

#include <stdbool.h>
#include <stdint.h>

#define PORTION_LIMIT_MAX 5000 /* rows of one statement; of 60 partitions each page opens all */

/* Pure; embedded. Its first row is taken however large it is. */
struct portion {
    uint32_t events;
    uint64_t bytes;
    bool any_kept;
    uint64_t average; /* bytes of a row; outlives the read */
};

void portion_init(struct portion *p);
/* A read begins: at most `events` rows (> 0) of `bytes` together. */
void portion_want(struct portion *p, uint32_t events, uint64_t bytes);
/* How many rows the next statement should ask for; 1 at least. */
uint32_t portion_limit(const struct portion *p);
bool portion_has_room(const struct portion *p, uint64_t bytes);
/* A row of that size has come; `kept`: it is part of the read. */
void portion_row(struct portion *p, uint64_t bytes, bool kept);

#endif
