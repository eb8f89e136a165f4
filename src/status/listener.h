/* listener: HTTP by libmicrohttpd on one listening socket: its clients, their limits, answers now or later */
#ifndef PENSTOCK_STATUS_LISTENER_H
#define PENSTOCK_STATUS_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "status/answer.h"

#define LISTENER_CLIENTS_MAX 64
#define LISTENER_HEADER_BYTES 8192 /* names and values of header fields and query; more is refused (431) */
#define LISTENER_PATH_BYTES 1024   /* more is refused (414) */
#define LISTENER_BODY_BYTES 4096   /* more is refused (413) */
/* From connecting to the end of the request, and from there to the last byte of the reply. */
#define LISTENER_CLIENT_TIMEOUT_US (5 * INT64_C(1000000))

/* A whole request; borrowed for the call. */
struct listener_request {
    const char *method, *path; /* decoded, without the query */
    bool has_query;
    const char *accept;        /* NULL: no such header */
    const char *body;
    size_t body_len;
    pid_t pid; /* of who opened a Unix socket, by the kernel's word; 0: unknown */
    uid_t uid;
    size_t client; /* for listener_answer */
};

struct listener_options {
    int fd; /* listening, non-blocking; the listener's from now on */
    /* true: *ret_answer, whose text is the listener's. false: it comes by
     * listener_answer. Called from listener_work. */
    bool (*ask)(void *context, const struct listener_request *request, struct answer *ret_answer);
    void *context;
};

/* One request per connection. GET and HEAD are asked about as soon as the header
 * is there, anything else once its body is. A client that is slow holds up no
 * other: it is cut at its timeout, and past LISTENER_CLIENTS_MAX the next ones
 * wait at most that long. What libmicrohttpd refuses by itself (no HTTP, a header
 * over 32 KiB, an impossible length) gets a page of the library's, everything
 * else the answer's document. Belongs to one thread; never waits. */
struct listener;

/* 0; -ENOMEM: the fd may be closed or not, the program ends then anyway. */
int listener_new(const struct listener_options *options, struct listener **ret_listener) MUST_CHECK;
/* Closes every connection; whoever waits for an answer is told that we are stopping. NULL is fine. */
void listener_free(struct listener *l);

/* Readable when there is work. */
int listener_fd(const struct listener *l);
void listener_work(struct listener *l, int64_t now_us);
/* When there is work without the fd; CLOCK_NEVER. */
int64_t listener_deadline_us(const struct listener *l, int64_t now_us);

/* The answer of a client for which ask returned false; once. Takes the text. */
void listener_answer(struct listener *l, size_t client, struct answer answer);

#endif
