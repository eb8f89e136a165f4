/* port: a listening TCP socket, for whoever may read and nothing else */
#ifndef PENSTOCK_STATUS_PORT_H
#define PENSTOCK_STATUS_PORT_H

#include "base/cleanup.h"
#include "base/error.h"

/* `address` as base/address.h reads it. Non-blocking, closed on exec, never
 * waits. 0 and *ret_fd is the caller's; negative errno with *reterr. */
int port_open(const char *address, int *ret_fd, struct error *reterr) MUST_CHECK;

#endif
