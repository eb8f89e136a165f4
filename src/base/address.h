/* address: HOST:PORT to listen on, as text -> a socket address */
#ifndef PENSTOCK_BASE_ADDRESS_H
#define PENSTOCK_BASE_ADDRESS_H

#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/span.h"

/* 127.0.0.1:9464, [::1]:9464 or localhost:9464 (the first of these); other names
 * are refused: nothing here asks a name server. 0; -EINVAL with *reterr. */
int address_parse(struct span text, struct sockaddr_storage *ret_address, socklen_t *ret_len, struct error *reterr)
    MUST_CHECK;

#endif
