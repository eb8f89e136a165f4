/* instance: the name of a running process, which no other process ever has, and whether such a one is gone */
#ifndef PENSTOCK_BASE_INSTANCE_H
#define PENSTOCK_BASE_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

/* host:pid:place:birth. The place is this boot of this machine's kernel and the pid
 * namespace in it, the birth when the process was started there (proc(5): boot_id, ns/pid,
 * stat's field 22). So no two containers have the same name that both are pid 1, and
 * no later process has the one of an earlier. */
#define INSTANCE_NAME_MAX 128
void instance_name(char name[INSTANCE_NAME_MAX]);

/* Surely? true only of a process of this very place that has ended; never of one that
 * can't be seen from here. */
bool instance_is_gone(struct span name);

/* host:pid, as people know it; another text as it is. Borrows. */
struct span instance_brief(struct span name);
/* The place alone, which tells two of the same host:pid apart; absent: the text has none. Borrows. */
struct span instance_place(struct span name);

#endif
