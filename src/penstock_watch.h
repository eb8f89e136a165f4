/* penstock_watch: the status on a terminal, again and again, until somebody has seen enough */
#ifndef PENSTOCK_PENSTOCK_WATCH_H
#define PENSTOCK_PENSTOCK_WATCH_H

#include <stdbool.h>

/* Is standard output a terminal that can be written over? */
bool penstock_watch_possible(void);

/* Shows /status, or with `forwarder` everything about that one, once a second on
 * the terminal's second screen, until q or a signal; a daemon that goes away is
 * said and waited for. The terminal is left as it was. Returns an exit status. */
int penstock_watch(const char *socket_path, const char *forwarder);

#endif
