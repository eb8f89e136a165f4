/* server: the status socket: HTTP by libmicrohttpd on the main thread's event loop */
#include "status/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>

#include "base/clock.h"
#include "base/log.h"
#include "status/socket.h"

#define TIMER_ACCURACY_US 1000

/* An open connection, from MHD's notification of its start to that of its end. */
struct client {
    int fd;              /* MHD's; -1: the place is free */
    int64_t deadline_us; /* CLOCK_NEVER: has been cut, MHD will close it */
};

struct server {
    struct server_options options;
    struct socket socket;
    struct MHD_Daemon *http;
    sd_event_source *readiness, *timer;
    struct client clients[SERVER_CLIENTS_MAX];
    bool place_freed;              /* a connection ended in this turn */
    struct forwarder_stats *stats; /* room for forwarders_max, filled per request */
};

/* Answers. ---------------------------------------------------------------- */

struct answer {
    unsigned status;
    bool problem;
    char *text; /* owned; NULL: no memory for it */
};

static struct answer problem(unsigned status, const char *title, const char *detail) {
    return (struct answer){status, true, document_problem((int)status, title, detail)};
}

static struct answer answer_status(struct server *s, size_t count) {
    return (struct answer){MHD_HTTP_OK, false,
                           document_status(&s->options.daemon, s->stats, count, clock_now_us(), clock_wall_us())};
}

static struct answer answer_forwarder(struct server *s, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(s->stats[i].name, name) == 0)
            return (struct answer){
                MHD_HTTP_OK, false,
                document_forwarder(&s->options.daemon, &s->stats[i], clock_now_us(), clock_wall_us())};
    char detail[FORWARDER_NAME_MAX + 128];
    snprintf(detail, sizeof detail, "There is no forwarder '%.*s'; GET /status lists those there are.",
             FORWARDER_NAME_MAX, name);
    return problem(MHD_HTTP_NOT_FOUND, "Not Found", detail);
}

static struct answer answer_health(struct server *s, size_t count) {
    bool healthy;
    char *text = document_health(&s->options.daemon, s->stats, count, clock_now_us(), clock_wall_us(), &healthy);
    return (struct answer){healthy ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, false, text};
}

static struct answer answer_ready(struct server *s, size_t count) {
    bool ready;
    char *text = document_ready(s->stats, count, &ready);
    return (struct answer){ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, false, text};
}

static struct answer answer_get(struct server *s, const char *path) {
    static const char under_status[] = "/status/";
    size_t count = s->options.collect(s->options.context, s->stats, s->options.forwarders_max);
    ASSERT(count <= s->options.forwarders_max);
    if (strcmp(path, "/status") == 0)
        return answer_status(s, count);
    if (strncmp(path, under_status, strlen(under_status)) == 0)
        return answer_forwarder(s, count, path + strlen(under_status));
    if (strcmp(path, "/health") == 0)
        return answer_health(s, count);
    if (strcmp(path, "/ready") == 0)
        return answer_ready(s, count);
    return problem(MHD_HTTP_NOT_FOUND, "Not Found", "There are /status, /status/NAME, /health and /ready.");
}

/* HTTP. ------------------------------------------------------------------- */

/* Takes the text. */
static struct MHD_Response *make_response(struct answer *answer) {
    static char no_memory[] = "{\"title\": \"Service Unavailable\", \"status\": 503, \"detail\": \"No memory for this "
                              "document now; ask again.\"}\n";
    if (!answer->text) {
        answer->status = MHD_HTTP_SERVICE_UNAVAILABLE;
        answer->problem = true;
        return MHD_create_response_from_buffer(strlen(no_memory), no_memory, MHD_RESPMEM_PERSISTENT);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(answer->text), answer->text, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(answer->text);
    return response;
}

static bool add_headers(struct MHD_Response *response, const struct answer *answer) {
    const char *type = answer->problem ? "application/problem+json" : "application/json";
    return MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
           MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES &&
           MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES &&
           (answer->status != MHD_HTTP_METHOD_NOT_ALLOWED ||
            MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD") == MHD_YES);
}

static enum MHD_Result reply(struct MHD_Connection *connection, struct answer answer) {
    struct MHD_Response *response = make_response(&answer);
    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_NO;
    if (add_headers(response, &answer))
        result = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return result;
}

/* Called once the header is there; nothing here waits for a body. MHD_NO makes MHD close the connection. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *body, size_t *body_bytes,
                                  void **ret_request) {
    (void)version, (void)body, (void)body_bytes, (void)ret_request;
    struct server *s = context;
    if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
        return reply(connection, answer_get(s, path));
    return reply(connection,
                 problem(MHD_HTTP_METHOD_NOT_ALLOWED, "Method Not Allowed", "This socket only answers GET and HEAD."));
}

/* Clients and their deadlines. -------------------------------------------- */

static struct client *free_client(struct server *s) {
    for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++)
        if (s->clients[i].fd < 0)
            return &s->clients[i];
    return NULL;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
    struct server *s = context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        struct client *client = *socket_context;
        client->fd = -1;
        s->place_freed = true;
        return;
    }
    struct client *client = free_client(s);
    ASSERT(client != NULL); /* MHD_OPTION_CONNECTION_LIMIT is the same number */
    client->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    client->deadline_us = clock_now_us() + SERVER_CLIENT_TIMEOUT_US;
    *socket_context = client;
}

/* MHD's own timeout counts silence only: one byte every few seconds would hold
 * a place for hours. shutdown(2) makes the connection readable, and MHD closes it. */
static void cut_late_clients(struct server *s, int64_t now_us) {
    for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        struct client *client = &s->clients[i];
        if (client->fd < 0 || client->deadline_us > now_us)
            continue;
        shutdown(client->fd, SHUT_RDWR);
        client->deadline_us = CLOCK_NEVER;
    }
}

/* When all places are taken MHD stops watching the listening socket, and looks
 * whether one is free only at the beginning of MHD_run, which then frees them
 * at its end: without one more turn nobody would ever be let in again. */
static int64_t next_deadline_us(struct server *s, int64_t now_us) {
    if (s->place_freed)
        return now_us;
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    int64_t deadline_us = CLOCK_NEVER;
    if (MHD_get_timeout(s->http, &timeout_ms) == MHD_YES && timeout_ms < INT32_MAX)
        deadline_us = now_us + (int64_t)timeout_ms * CLOCK_US_PER_MS;
    for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++)
        if (s->clients[i].fd >= 0 && s->clients[i].deadline_us < deadline_us)
            deadline_us = s->clients[i].deadline_us;
    return deadline_us;
}

/* The event loop. --------------------------------------------------------- */

static int arm_timer(struct server *s, int64_t now_us) {
    int64_t deadline_us = next_deadline_us(s, now_us);
    if (deadline_us == CLOCK_NEVER)
        return sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
    int r = sd_event_source_set_time(s->timer, (uint64_t)deadline_us);
    return r < 0 ? r : sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

static int run(struct server *s) {
    int64_t now_us = clock_now_us();
    s->place_freed = false;
    cut_late_clients(s, now_us);
    MHD_run(s->http); /* its only failure is "no epoll", which start excludes */
    return arm_timer(s, now_us);
}

static int on_ready(sd_event_source *source, int fd, uint32_t events, void *context) {
    (void)source, (void)fd, (void)events;
    return run(context);
}

static int on_time(sd_event_source *source, uint64_t time_us, void *context) {
    (void)source, (void)time_us;
    return run(context);
}

static int attach(struct server *s, struct sd_event *loop) {
    int epoll_fd = MHD_get_daemon_info(s->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    int r = sd_event_add_io(loop, &s->readiness, epoll_fd, EPOLLIN, on_ready, s);
    if (r >= 0)
        r = sd_event_add_time(loop, &s->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US, on_time, s);
    return r < 0 ? r : arm_timer(s, clock_now_us());
}

/* Start and stop. --------------------------------------------------------- */

/* MHD takes the listening fd; whether also when it fails depends on where it
 * failed, so it is not closed twice here: the program ends then anyway. */
static int start_http(struct server *s, int listen_fd) {
    const struct MHD_OptionItem items[] = {
        {MHD_OPTION_LISTEN_SOCKET, listen_fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, SERVER_CLIENTS_MAX, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, SERVER_CLIENT_BYTES, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_INCREMENT, 1024, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, 0, NULL}, /* none: see cut_late_clients */
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, s},
        {MHD_OPTION_END, 0, NULL},
    };
    /* MHD_USE_EPOLL alone: no thread of its own. */
    s->http = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, s, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
    return s->http ? 0 : -ENOMEM;
}

static void stop_server(struct server **s) {
    server_stop(*s);
}

int server_start(const struct server_options *options, struct sd_event *loop, struct server **ret_server,
                 struct error *reterr) {
    CLEANUP(stop_server) struct server *s = calloc(1, sizeof *s);
    if (s)
        s->stats = calloc(options->forwarders_max ? options->forwarders_max : 1, sizeof *s->stats);
    if (!s || !s->stats) {
        error_set(reterr, ERROR_RETRY, "status.socket %s: no memory", options->socket_path);
        return -ENOMEM;
    }
    s->options = *options;
    for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++)
        s->clients[i].fd = -1;

    int listen_fd;
    int r = socket_open(options->socket_path, &s->socket, &listen_fd, reterr);
    if (r < 0)
        return r;
    r = start_http(s, listen_fd);
    if (r == 0)
        r = attach(s, loop);
    if (r < 0) {
        error_set(reterr, ERROR_RETRY, "status.socket %s: can't start answering: %s", options->socket_path,
                  strerror(-r));
        return r;
    }
    *ret_server = TAKE(s);
    return 0;
}

void server_tell(struct server *s, const struct document_daemon *daemon) {
    s->options.daemon = *daemon;
}

void server_stop(struct server *s) {
    if (!s)
        return;
    socket_remove(&s->socket); /* while the socket is open: its inode can't be another's yet */
    sd_event_source_disable_unref(s->readiness);
    sd_event_source_disable_unref(s->timer);
    if (s->http)
        MHD_stop_daemon(s->http);
    free(s->stats);
    free(s);
}
