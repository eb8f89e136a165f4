/* listener: HTTP by libmicrohttpd on one listening socket: its clients, their limits, answers now or later */
#include "status/listener.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"

/* Of one connection in libmicrohttpd. Well above our own limits: what is over
 * those gets a problem document, what is over this an HTML page of the library's. */
#define CONNECTION_BYTES 32768
#define TURNS_AT_ONCE 2

/* An open connection, from MHD's notification of its start to that of its end. */
struct client {
    int fd;              /* MHD's; -1: the place is free */
    int64_t deadline_us; /* CLOCK_NEVER: has been cut, MHD will close it */
    struct MHD_Connection *connection;
    size_t body_len; /* what came of it, kept or not */
    char body[LISTENER_BODY_BYTES];
    enum { CLIENT_ASKS, CLIENT_WAITS, CLIENT_ANSWERED } phase;
    struct answer answer; /* CLIENT_ANSWERED */
};

struct listener {
    struct listener_options options;
    struct MHD_Daemon *http;
    struct client clients[LISTENER_CLIENTS_MAX];
    bool turn_due; /* a connection ended, or goes on with its answer: MHD has to be run once more */
};

/* Replies. ---------------------------------------------------------------- */

/* Takes the text. */
static struct MHD_Response *make_response(struct answer *answer) {
    static char no_memory[] = "{\"title\": \"Service Unavailable\", \"status\": 503, \"detail\": \"No memory for this "
                              "document now; ask again.\"}\n";
    if (!answer->text) {
        answer->status = MHD_HTTP_SERVICE_UNAVAILABLE;
        answer->type = "application/problem+json";
        return MHD_create_response_from_buffer(strlen(no_memory), no_memory, MHD_RESPMEM_PERSISTENT);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(answer->text), answer->text, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(answer->text);
    return response;
}

static bool add_headers(struct MHD_Response *response, const struct answer *answer) {
    return MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type) == MHD_YES &&
           MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES &&
           MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES &&
           (!answer->allow || MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow) == MHD_YES);
}

/* MHD_NO makes MHD close the connection. */
static enum MHD_Result reply(struct client *client, struct answer answer) {
    struct MHD_Response *response = make_response(&answer);
    if (!response)
        return MHD_NO;
    client->deadline_us = clock_now_us() + LISTENER_CLIENT_TIMEOUT_US;
    enum MHD_Result result = MHD_NO;
    if (add_headers(response, &answer))
        result = MHD_queue_response(client->connection, answer.status, response);
    MHD_destroy_response(response);
    return result;
}

/* Requests. --------------------------------------------------------------- */

static enum MHD_Result add_bytes(void *sum, enum MHD_ValueKind kind, const char *name, const char *value) {
    (void)kind;
    *(size_t *)sum += strlen(name) + (value ? strlen(value) : 0);
    return MHD_YES;
}

static bool body_is_announced_too_long(struct MHD_Connection *connection) {
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtoull(length, NULL, 10) > LISTENER_BODY_BYTES;
}

/* Which of our limits it is over, or 0. */
static unsigned is_over_a_limit(struct MHD_Connection *connection, const char *path) {
    size_t bytes = 0;
    MHD_get_connection_values(connection, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND, add_bytes, &bytes);
    if (strlen(path) > LISTENER_PATH_BYTES)
        return MHD_HTTP_URI_TOO_LONG;
    if (bytes > LISTENER_HEADER_BYTES)
        return MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
    return body_is_announced_too_long(connection) ? MHD_HTTP_CONTENT_TOO_LARGE : 0;
}

static struct answer over_the_limit(unsigned status) {
    return answer_problem(status, "At most 1024 bytes of path, 8192 of header and query and 4096 of body are taken.");
}

static void note_peer(const struct client *client, struct listener_request *request) {
    struct ucred peer;
    socklen_t len = sizeof peer;
    bool known = getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0;
    request->pid = known ? peer.pid : 0;
    request->uid = known ? peer.uid : (uid_t)-1;
}

static enum MHD_Result ask(struct listener *l, struct client *client, const char *path, const char *method) {
    struct listener_request request = {
        .method = method,
        .path = path,
        .has_query = MHD_get_connection_values(client->connection, MHD_GET_ARGUMENT_KIND, NULL, NULL) > 0,
        .accept = MHD_lookup_connection_value(client->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT),
        .body = client->body,
        .body_len = client->body_len,
        .client = (size_t)(client - l->clients),
    };
    note_peer(client, &request);
    struct answer answer;
    if (l->options.ask(l->options.context, &request, &answer))
        return reply(client, answer);
    client->phase = CLIENT_WAITS;
    client->deadline_us = clock_now_us() + LISTENER_CLIENT_TIMEOUT_US;
    MHD_suspend_connection(client->connection);
    return MHD_YES;
}

static void take_body(struct client *client, const char *bytes, size_t *len) {
    if (client->body_len + *len <= sizeof client->body)
        memcpy(client->body + client->body_len, bytes, *len);
    client->body_len += *len;
    *len = 0; /* taken */
}

/* With the header, with each piece of the body, at its end, and once more when the answer has come. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *body, size_t *body_bytes,
                                  void **ret_request) {
    (void)version;
    struct listener *l = context;
    struct client *client =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    bool gets = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (client->phase == CLIENT_ANSWERED) {
        client->phase = CLIENT_ASKS;
        return reply(client, client->answer);
    }
    if (!*ret_request) {
        *ret_request = client;
        unsigned refusal = is_over_a_limit(connection, path);
        if (refusal)
            return reply(client, over_the_limit(refusal));
        return gets ? ask(l, client, path, method) : MHD_YES;
    }
    if (*body_bytes > 0) {
        take_body(client, body, body_bytes);
        return MHD_YES;
    }
    if (client->body_len > sizeof client->body)
        return reply(client, over_the_limit(MHD_HTTP_CONTENT_TOO_LARGE));
    return ask(l, client, path, method);
}

void listener_answer(struct listener *l, size_t number, struct answer answer) {
    ASSERT(number < LISTENER_CLIENTS_MAX);
    struct client *client = &l->clients[number];
    ASSERT(client->phase == CLIENT_WAITS);
    client->phase = CLIENT_ANSWERED;
    client->answer = answer;
    l->turn_due = true; /* MHD_resume_connection(3) wants it with a loop that is not the library's */
    MHD_resume_connection(client->connection);
}

/* Clients and their deadlines. -------------------------------------------- */

static struct client *free_client(struct listener *l) {
    for (size_t i = 0; i < LISTENER_CLIENTS_MAX; i++)
        if (l->clients[i].fd < 0)
            return &l->clients[i];
    return NULL;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
    struct listener *l = context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        struct client *client = *socket_context;
        if (client->phase == CLIENT_ANSWERED) /* gone before it could be told */
            free(client->answer.text);
        client->fd = -1;
        l->turn_due = true;
        return;
    }
    struct client *client = free_client(l);
    ASSERT(client != NULL); /* MHD_OPTION_CONNECTION_LIMIT is the same number */
    client->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    client->deadline_us = clock_now_us() + LISTENER_CLIENT_TIMEOUT_US;
    client->connection = connection;
    client->phase = CLIENT_ASKS;
    client->body_len = 0;
    *socket_context = client;
}

/* MHD's own timeout counts silence only: one byte every few seconds would hold
 * a place for hours. shutdown(2) makes the connection readable, and MHD closes it. */
static void cut_late_clients(struct listener *l, int64_t now_us) {
    for (size_t i = 0; i < LISTENER_CLIENTS_MAX; i++) {
        struct client *client = &l->clients[i];
        if (client->fd < 0 || client->deadline_us > now_us)
            continue;
        shutdown(client->fd, SHUT_RDWR);
        client->deadline_us = CLOCK_NEVER;
    }
}

/* When all places are taken MHD stops watching the listening socket, and looks
 * whether one is free only at the beginning of MHD_run, which then frees them
 * at its end: without one more turn nobody would ever be let in again. */
int64_t listener_deadline_us(const struct listener *l, int64_t now_us) {
    if (l->turn_due)
        return now_us;
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    int64_t deadline_us = CLOCK_NEVER;
    if (MHD_get_timeout(l->http, &timeout_ms) == MHD_YES && timeout_ms < INT32_MAX)
        deadline_us = now_us + (int64_t)timeout_ms * CLOCK_US_PER_MS;
    for (size_t i = 0; i < LISTENER_CLIENTS_MAX; i++)
        if (l->clients[i].fd >= 0 && l->clients[i].deadline_us < deadline_us)
            deadline_us = l->clients[i].deadline_us;
    return deadline_us;
}

int listener_fd(const struct listener *l) {
    return MHD_get_daemon_info(l->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

void listener_work(struct listener *l, int64_t now_us) {
    cut_late_clients(l, now_us);
    /* A second one right away is cheaper than a timer for it; a third one waits for its turn in the loop. */
    for (int turns = 0; turns == 0 || (l->turn_due && turns < TURNS_AT_ONCE); turns++) {
        l->turn_due = false;
        MHD_run(l->http); /* its only failure is "no epoll", which MHD_start_daemon excludes */
    }
}

/* Start and end. ---------------------------------------------------------- */

static int start_http(struct listener *l) {
    const struct MHD_OptionItem items[] = {
        {MHD_OPTION_LISTEN_SOCKET, l->options.fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, LISTENER_CLIENTS_MAX, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_INCREMENT, 1024, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, 0, NULL}, /* none: see cut_late_clients */
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, l},
        {MHD_OPTION_END, 0, NULL},
    };
    /* No thread of its own. */
    l->http = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, l, MHD_OPTION_ARRAY,
                               items, MHD_OPTION_END);
    return l->http ? 0 : -ENOMEM;
}

int listener_new(const struct listener_options *options, struct listener **ret_listener) {
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return -ENOMEM;
    l->options = *options;
    for (size_t i = 0; i < LISTENER_CLIENTS_MAX; i++)
        l->clients[i].fd = -1;
    int r = start_http(l);
    if (r < 0) {
        free(l);
        return r;
    }
    *ret_listener = l;
    return 0;
}

void listener_free(struct listener *l) {
    if (!l)
        return;
    for (size_t i = 0; i < LISTENER_CLIENTS_MAX; i++)
        if (l->clients[i].fd >= 0 && l->clients[i].phase == CLIENT_WAITS)
            listener_answer(l, i, answer_problem(MHD_HTTP_SERVICE_UNAVAILABLE,
                                                 "penstockd is stopping; penstock status will tell whether it was done."));
    MHD_run(l->http);
    MHD_stop_daemon(l->http);
    free(l);
}
