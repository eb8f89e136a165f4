/* server: the status socket: HTTP by libmicrohttpd on the main thread's event loop */
#ifndef PENSTOCK_STATUS_SERVER_H
#define PENSTOCK_STATUS_SERVER_H

#include "base/error.h"
#include "status/document.h"

struct server;
struct sd_event;

/* How the server gets at the snapshots: main fills at most `max` and returns how many. */
typedef size_t (*server_collect)(void *context, struct forwarder_stats *stats, size_t max);

struct server_options {
    const char *socket_path; /* mode 0660; a stale file is replaced, a live one refused */
    struct document_daemon daemon; /* borrowed */
    server_collect collect;
    void *context;
    size_t forwarders_max;
};

/* Listens and attaches itself to the loop: one thread, bounded connections,
 * request and header sizes, 5 s for a request. 0; negative errno with *reterr. */
int server_start(const struct server_options *options, struct sd_event *loop, struct server **ret_server,
                 struct error *reterr) MUST_CHECK;
/* Closes, removes the socket file. */
void server_stop(struct server *s);

#endif
