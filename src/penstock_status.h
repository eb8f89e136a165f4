/* penstock_status: asks the daemon how its forwarders are, and shows it */
#ifndef PENSTOCK_PENSTOCK_STATUS_H
#define PENSTOCK_PENSTOCK_STATUS_H

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"
#include "penstock_command.h"

/* Where the daemon listens: as the command line or the configuration says, else the
 * standard place. The caller frees; NULL without memory. */
char *penstock_status_socket(const struct penstock_command_line *line);

/* GET /status, or /status/FORWARDER. *body gets the text, *ret_root the object (the
 * caller's), *ret_status 200 or the status of a problem. 0; negative errno with
 * *reterr: nobody there, or not penstockd. */
int penstock_status_ask(const char *socket_path, const char *forwarder, struct buf *body, json_t **ret_root,
                        int *ret_status, struct error *reterr) MUST_CHECK;

/* What a problem document (RFC 9457) says, for a message. Borrowed from root. */
const char *penstock_status_detail(const json_t *root);

#endif
