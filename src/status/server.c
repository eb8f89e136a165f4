/* server: what answers on the status socket and the metrics port, on the main thread's event loop */
#include "status/server.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <systemd/sd-event.h>

#include "base/clock.h"
#include "base/log.h"
#include "status/kept.h"
#include "status/port.h"
#include "status/request.h"

#define TIMER_ACCURACY_US 1000
/* How often a snapshot is asked for the answer to a command. */
#define ANSWER_INTERVAL_US (10 * CLOCK_US_PER_MS)
enum { COMMANDS_MAX = 16 };

/* A way in. */
struct door {
    struct server *server;
    struct listener *listener;
    sd_event_source *readiness;
    bool commands; /* may be given here */
};

/* A command that a forwarder has and has not answered. */
struct pending {
    bool waits;
    struct door *door;
    size_t client; /* of the door's listener */
    int64_t deadline_us;
    struct request request;
};

enum { DOOR_SOCKET, DOOR_METRICS, DOOR_COUNT };

struct server {
    struct server_options options;
    struct socket socket;
    struct door doors[DOOR_COUNT];
    size_t door_count;
    sd_event_source *timer;
    int64_t armed_us; /* for when; CLOCK_NEVER: it is off */
    struct pending pending[COMMANDS_MAX];
    uint64_t commands; /* so far: their numbers */
    uint64_t told; /* how often server_tell was called */
    struct kept kept;
    struct forwarder_stats *stats; /* room for forwarders_max, filled per request */
};

/* Requests. --------------------------------------------------------------- */

static size_t collect(struct server *s) {
    size_t count = s->options.collect(s->options.context, s->stats, s->options.forwarders_max);
    ASSERT(count <= s->options.forwarders_max);
    return count;
}

static bool is_read_only(const char *method) {
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* Commands. --------------------------------------------------------------- */

/* A free place; NULL with *ret_answer: none, or the forwarder has a command already. */
static struct pending *find_place(struct server *s, const char *forwarder, struct answer *ret_answer) {
    struct pending *place = NULL;
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        struct pending *p = &s->pending[i];
        if (!p->waits)
            place = p;
        else if (strcmp(p->request.forwarder, forwarder) == 0) {
            *ret_answer = answer_problem(503, "Another command to this forwarder is under way; try again.");
            return NULL;
        }
    }
    if (!place)
        *ret_answer = answer_problem(503, "Too many commands are under way; try again.");
    return place;
}

/* true: it is with the forwarder. false: *ret_answer. */
static bool hand_over(struct server *s, struct request *r, struct pending **ret_pending, struct answer *ret_answer) {
    struct pending *p = find_place(s, r->forwarder, ret_answer);
    if (!p)
        return false;
    r->mail.command.number = ++s->commands;
    int result = s->options.command(s->options.context, r->forwarder, &r->mail);
    if (result == FORWARDER_E_NOBODY)
        *ret_answer = answer_problem(404, "There is no forwarder of that name; GET /status lists those there are.");
    else if (result < 0)
        *ret_answer = answer_problem(503, "The forwarder takes no command now; try again.");
    if (result != 0)
        return false;
    *p = (struct pending){.waits = true, .deadline_us = clock_now_us() + SERVER_ANSWER_TIMEOUT_US, .request = *r};
    *ret_pending = p;
    return true;
}

static bool command(struct door *door, const struct listener_request *request, struct answer *ret_answer) {
    struct request r;
    struct error error;
    struct pending *p;
    struct span body = {request->body, request->body_len};
    if (request->has_query) {
        *ret_answer = answer_problem(400, "What belongs to a command stands in the body as JSON, not in the query.");
        return true;
    }
    int status = request_read(request->path, body, request->pid, request->uid, &r, &error);
    if (status != 0)
        *ret_answer = answer_problem((unsigned)status, error.text);
    else if (hand_over(door->server, &r, &p, ret_answer)) {
        p->door = door;
        p->client = request->client;
        return false;
    }
    return true;
}

static void answer_pending(struct pending *p, struct answer answer) {
    p->waits = false;
    listener_answer(p->door->listener, p->client, answer);
}

static const struct forwarder_answer *find_answer(struct server *s, size_t count, uint64_t number) {
    for (size_t i = 0; i < count; i++)
        if (s->stats[i].answer.number == number)
            return &s->stats[i].answer;
    return NULL;
}

/* Looks into the snapshots for answers. true: some are still to come. */
static bool look_for_answers(struct server *s, int64_t now_us) {
    bool any = false, more = false;
    for (size_t i = 0; i < COMMANDS_MAX; i++)
        any |= s->pending[i].waits;
    size_t count = any ? collect(s) : 0;
    for (size_t i = 0; any && i < COMMANDS_MAX; i++) {
        struct pending *p = &s->pending[i];
        if (!p->waits)
            continue;
        const struct forwarder_answer *answer = find_answer(s, count, p->request.mail.command.number);
        if (answer)
            answer_pending(p, request_answer(&p->request, answer));
        else if (now_us >= p->deadline_us)
            answer_pending(p, answer_problem(504, "The forwarder has not answered yet. Whether it was done, penstock status and "
                                                  "penstock.journal will tell; to repeat it does no harm."));
        else
            more = true;
    }
    return more;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * 1099511628211U; /* FNV-1a by words */
}

/* Another one with every change of a state and every answer to a command, of any forwarder. */
static uint64_t version_of(const struct server *s, size_t count) {
    uint64_t version = mix(14695981039346656037U, s->told);
    for (size_t i = 0; i < count; i++) {
        const struct forwarder_stats *f = &s->stats[i];
        version = mix(mix(mix(version, (uint64_t)f->state), (uint64_t)f->since_wall_us), f->answer.number);
    }
    return mix(version, count);
}

static struct answer document(struct server *s, const struct listener_request *request) {
    size_t count = collect(s);
    uint64_t version = version_of(s, count);
    int64_t now_us = clock_now_us();
    enum metrics_format format = metrics_format_of(request->accept);
    struct answer answer;
    if (kept_find(&s->kept, request->path, format, version, now_us, &answer))
        return answer;
    answer = answer_get(&s->options.daemon, s->stats, count, request->path, request->accept);
    kept_put(&s->kept, request->path, format, version, now_us, &answer);
    return answer;
}

/* What is asked of a path: true with *ret_answer, false if a forwarder has to answer. */
static bool ask(void *context, const struct listener_request *request, struct answer *ret_answer) {
    struct door *door = context;
    struct server *s = door->server;
    bool posts = strcmp(request->method, "POST") == 0;
    if (door->commands && request_is_command(request->path)) {
        if (posts)
            return command(door, request, ret_answer);
        *ret_answer = answer_not_allowed(REQUEST_ALLOWS);
    } else if (!is_read_only(request->method))
        *ret_answer = answer_not_allowed(ANSWER_GET_ALLOWS);
    else
        *ret_answer = document(s, request);
    return true;
}

/* The event loop. --------------------------------------------------------- */

/* One that is armed for earlier is left alone: to set it twice for each request costs more than to be woken once too often. */
static int arm_timer(struct server *s, int64_t now_us) {
    int64_t deadline_us = look_for_answers(s, now_us) ? now_us + ANSWER_INTERVAL_US : CLOCK_NEVER;
    for (size_t i = 0; i < s->door_count; i++) {
        int64_t door_us = listener_deadline_us(s->doors[i].listener, now_us);
        deadline_us = door_us < deadline_us ? door_us : deadline_us;
    }
    if (deadline_us >= s->armed_us)
        return 0;
    s->armed_us = deadline_us;
    int r = sd_event_source_set_time(s->timer, (uint64_t)deadline_us);
    return r < 0 ? r : sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

static int on_ready(sd_event_source *source, int fd, uint32_t events, void *context) {
    (void)source, (void)fd, (void)events;
    struct door *door = context;
    int64_t now_us = clock_now_us();
    listener_work(door->listener, now_us);
    return arm_timer(door->server, now_us);
}

static int on_time(sd_event_source *source, uint64_t time_us, void *context) {
    (void)source, (void)time_us;
    struct server *s = context;
    int64_t now_us = clock_now_us();
    s->armed_us = CLOCK_NEVER;
    for (size_t i = 0; i < s->door_count; i++)
        listener_work(s->doors[i].listener, now_us);
    return arm_timer(s, now_us);
}

/* Start and stop. --------------------------------------------------------- */

/* Takes the fd. */
static int open_door(struct server *s, int fd, bool commands, struct sd_event *loop) {
    struct door *door = &s->doors[s->door_count];
    struct listener_options options = {.fd = fd, .ask = ask, .context = door};
    door->server = s;
    door->commands = commands;
    int r = listener_new(&options, &door->listener);
    if (r < 0)
        return r;
    s->door_count++;
    r = sd_event_add_io(loop, &door->readiness, listener_fd(door->listener), EPOLLIN, on_ready, door);
    return r < 0 ? r : 0;
}

static int refuse(int r, const char *key, const char *place, struct error *reterr) {
    error_set(reterr, ERROR_RETRY, "%s %s: can't start answering: %s", key, place, strerror(-r));
    return r;
}

static int open_socket(struct server *s, struct sd_event *loop, struct error *reterr) {
    int fd;
    int r = socket_open(&s->options.socket, &s->socket, &fd, reterr);
    if (r < 0)
        return r;
    r = open_door(s, fd, true, loop);
    return r < 0 ? refuse(r, "status.socket", s->options.socket.path, reterr) : 0;
}

static int open_port(struct server *s, struct sd_event *loop, struct error *reterr) {
    int fd;
    int r = s->options.metrics ? port_open(s->options.metrics, &fd, reterr) : 0;
    if (r < 0 || !s->options.metrics)
        return r;
    r = open_door(s, fd, false, loop);
    return r < 0 ? refuse(r, "status.metrics", s->options.metrics, reterr) : 0;
}

static void stop_server(struct server **s) {
    server_stop(*s);
}

int server_start(const struct server_options *options, struct sd_event *loop, struct server **ret_server,
                 struct error *reterr) {
    CLEANUP(stop_server) struct server *s = calloc(1, sizeof *s);
    if (s)
        s->stats = calloc(options->forwarders_max ? options->forwarders_max : 1, sizeof *s->stats);
    if (!s || !s->stats)
        return refuse(-ENOMEM, "status.socket", options->socket.path, reterr);
    s->options = *options;
    s->armed_us = CLOCK_NEVER;
    int r = open_socket(s, loop, reterr);
    if (r == 0)
        r = open_port(s, loop, reterr);
    if (r < 0)
        return r;
    r = sd_event_add_time(loop, &s->timer, CLOCK_BOOTTIME, 0, TIMER_ACCURACY_US, on_time, s);
    if (r >= 0)
        r = sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
    if (r >= 0)
        r = arm_timer(s, clock_now_us());
    if (r < 0)
        return refuse(r, "status.socket", options->socket.path, reterr);
    *ret_server = TAKE(s);
    return 0;
}

void server_tell(struct server *s, const struct document_daemon *daemon) {
    s->options.daemon = *daemon;
    s->told++;
}

void server_stop(struct server *s) {
    if (!s)
        return;
    socket_remove(&s->socket); /* while the socket is open: its inode can't be another's yet */
    sd_event_source_disable_unref(s->timer);
    for (size_t i = 0; i < s->door_count; i++) {
        sd_event_source_disable_unref(s->doors[i].readiness);
        listener_free(s->doors[i].listener);
    }
    kept_done(&s->kept);
    free(s->stats);
    free(s);
}
