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
    const char *socket_path;       /* see status/socket.h for its mode and what happens to a file that is there */
    struct document_daemon daemon; /* its texts are borrowed */
    server_collect collect;
    void *context;
    size_t forwarders_max;
};

#define SERVER_CLIENTS_MAX 64
#define SERVER_CLIENT_BYTES 16384 /* request line, header and our reply's header together; more is refused (431) */
#define SERVER_CLIENT_TIMEOUT_US (5 * INT64_C(1000000)) /* from connecting to the last byte of the reply */

/* Listens and attaches itself to the loop, in whose thread all of it runs; the
 * loop must outlive it. One request per connection: GET or HEAD of /status,
 * /status/NAME, /health, /ready; everything else is answered with
 * application/problem+json. A client that is slow holds up no other, and past
 * SERVER_CLIENTS_MAX the next ones wait for at most that timeout.
 * 0; negative errno with *reterr. */
int server_start(const struct server_options *options, struct sd_event *loop, struct server **ret_server,
                 struct error *reterr) MUST_CHECK;
/* What is said of the daemon from now on; its texts are borrowed. Before the first request: of that nothing is known. */
void server_tell(struct server *s, const struct document_daemon *daemon);
/* Removes the socket file if it is still ours, closes every connection, frees. NULL is fine. */
void server_stop(struct server *s);

#endif
