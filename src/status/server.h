/* server: what answers on the status socket and the metrics port, on the main thread's event loop */
#ifndef PENSTOCK_STATUS_SERVER_H
#define PENSTOCK_STATUS_SERVER_H

#include "base/error.h"
#include "base/mailbox.h"
#include "status/document.h"
#include "status/listener.h"
#include "status/socket.h"

struct server;
struct sd_event;

/* How the server gets at the snapshots: main fills at most `max` and returns how many. */
typedef size_t (*server_collect)(void *context, struct forwarder_stats *stats, size_t max);

/* Hands a command over to the forwarder of that name. 0; FORWARDER_E_NOBODY: there
 * is none; negative errno: it takes no command now. */
typedef int (*server_command)(void *context, const char *forwarder, const struct mail *mail);

struct server_options {
    struct socket_options socket;
    const char *metrics;           /* address of a TCP port that answers GET and HEAD too; NULL: none */
    struct document_daemon daemon; /* its texts are borrowed */
    server_collect collect;
    server_command command;
    void *context;
    size_t forwarders_max;
};

#define SERVER_ANSWER_TIMEOUT_US (4 * INT64_C(1000000)) /* below LISTENER_CLIENT_TIMEOUT_US: the answer still goes out */

/* Listens and attaches itself to the loop, in whose thread all of it runs; the
 * loop must outlive it. GET or HEAD of /status, /status/NAME, /health, /ready,
 * /metrics; on the socket POST /forwarders/NAME/pause, resume, skip, answered when
 * the forwarder has answered (its snapshot tells), at most SERVER_ANSWER_TIMEOUT_US
 * later; everything else is answered with application/problem+json. Clients of the
 * port and of the socket take no places from each other.
 * 0; negative errno with *reterr. */
int server_start(const struct server_options *options, struct sd_event *loop, struct server **ret_server,
                 struct error *reterr) MUST_CHECK;
/* What is said of the daemon from now on; its texts are borrowed. Before the first request: of that nothing is known. */
void server_tell(struct server *s, const struct document_daemon *daemon);
/* Removes the socket file if it is still ours, closes every connection, frees. NULL is fine. */
void server_stop(struct server *s);

#endif
