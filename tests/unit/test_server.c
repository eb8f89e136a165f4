/* test_server: the status socket on a real event loop, with raw clients in the same thread */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-event.h>

#include "base/buf.h"
#include "base/clock.h"
#include "status/server.h"

enum { FORWARDERS = 3, REPLY_MAX_BYTES = 1 << 20 };

static sd_event *loop;
static struct server *server;
static char directory[64], path[96];
static struct forwarder_stats told[FORWARDERS];
static size_t told_count;
static mode_t mode;
static const char *group, *metrics_address;

static size_t collect(void *context, struct forwarder_stats *stats, size_t max) {
    ck_assert_ptr_eq(context, told);
    ck_assert_uint_eq(max, FORWARDERS);
    memcpy(stats, told, told_count * sizeof *stats);
    return told_count;
}

/* A forwarder that answers by its snapshot, at once or never. */
static struct mail commanded;
static size_t commands;
static bool answers;
static enum forwarder_verdict verdict;

static int take_command(void *context, const char *forwarder, const struct mail *mail) {
    ck_assert_ptr_eq(context, told);
    if (strcmp(forwarder, "full") == 0)
        return -ENOBUFS;
    for (size_t i = 0; i < told_count; i++) {
        if (strcmp(told[i].name, forwarder) != 0)
            continue;
        commanded = *mail;
        commands++;
        if (answers)
            told[i].answer = (struct forwarder_answer){.number = mail->command.number, .verdict = verdict, .words = "as you say"};
        return 0;
    }
    return FORWARDER_E_NOBODY;
}

static int start(struct error *reterr) {
    struct server_options options = {
        .socket = {path, mode, group},
        .metrics = metrics_address,
        .daemon = {.version = "0.1.0", .instance = "host:1", .started_wall_us = 1, .health_max_age_us = 60000000},
        .collect = collect,
        .command = take_command,
        .context = told,
        .forwarders_max = FORWARDERS,
    };
    return server_start(&options, loop, &server, reterr);
}

static void set_up(void) {
    snprintf(directory, sizeof directory, "/tmp/penstock-server-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/status.sock", directory);
    memset(told, 0, sizeof told);
    snprintf(told[0].name, sizeof told[0].name, "order-status");
    told[0].state = FORWARDER_DELIVERING;
    snprintf(told[1].name, sizeof told[1].name, "two words");
    told[1].state = FORWARDER_IDLE;
    told[0].source_connected = told[1].source_connected = true;
    told_count = 2;
    server = NULL;
    answers = true;
    verdict = FORWARDER_DONE;
    commands = 0;
    mode = 0660;
    group = metrics_address = NULL;
    ck_assert_int_ge(sd_event_new(&loop), 0);
}

static void tear_down(void) {
    server_stop(server);
    sd_event_unref(loop);
    unlink(path);
    ck_assert_int_eq(rmdir(directory), 0);
}

static void started(void) {
    struct error error = {0};
    ck_assert_msg(start(&error) == 0, "%s", error.text);
}

static void turn(void) {
    ck_assert_int_ge(sd_event_run(loop, 10000), 0);
}

static int make_client(void) {
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int try_connect(int fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : -errno;
}

static int connected(void) {
    int fd = make_client();
    ck_assert_int_eq(try_connect(fd), 0);
    return fd;
}

static void put_bytes(int fd, const char *text) {
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Turns the loop until the server has closed, at most for `limit_us`; false: it did not. */
static bool read_to_end(int fd, struct buf *b, int64_t limit_us) {
    int64_t deadline_us = clock_now_us() + limit_us;
    while (clock_now_us() < deadline_us) {
        ck_assert_int_eq(buf_reserve(b, 4096), 0);
        ssize_t n = recv(fd, b->data + b->len, 4096, 0);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return buf_terminate(b) == 0;
        if (n > 0)
            b->len += (size_t)n;
        else
            turn();
    }
    return false;
}

/* One whole exchange; *b then holds the reply as a string. */
static void ask(const char *request, struct buf *b) {
    CLEANUP(cleanup_close) int fd = connected();
    put_bytes(fd, request);
    ck_assert(read_to_end(fd, b, 10000000));
}

static int status_of(const struct buf *b) {
    int status = 0;
    ck_assert_int_eq(sscanf(b->data, "HTTP/1.%*d %d", &status), 1);
    return status;
}

static const char *body_of(const struct buf *b) {
    const char *end = strstr(b->data, "\r\n\r\n");
    ck_assert_ptr_nonnull(end);
    return end + 4;
}

static void expect(const char *request, int status, const char *header) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
    ask(request, &b);
    ck_assert_msg(status_of(&b) == status, "%s -> %s", request, b.data);
    ck_assert_msg(strstr(b.data, header) != NULL, "%s -> %s", request, b.data);
    ck_assert_ptr_nonnull(strstr(b.data, "Connection: close\r\n"));
    if (strstr(header, "text"))
        return;
    json_t *root = json_loads(body_of(&b), 0, NULL);
    ck_assert_ptr_nonnull(root);
    if (status >= 400 && strstr(header, "problem"))
        ck_assert_int_eq(json_integer_value(json_object_get(root, "status")), status);
    json_decref(root);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: p\r\n\r\n"
#define JSON "Content-Type: application/json\r\n"
#define PROBLEM "Content-Type: application/problem+json\r\n"

START_TEST(each_document_has_its_path) {
    started();
    expect(GET("/status"), 200, JSON);
    expect(GET("/status/order-status"), 200, JSON);
    expect(GET("/status/two%20words"), 200, JSON);
    expect(GET("/health"), 200, JSON);
    expect(GET("/ready"), 200, JSON);
    expect(GET("/metrics"), 200, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    expect("GET /metrics HTTP/1.1\r\nHost: p\r\nAccept: application/openmetrics-text\r\n\r\n", 200,
           "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
    expect("GET /status HTTP/1.0\r\n\r\n", 200, JSON);
    expect(GET("/status?unused=1"), 200, JSON);
}
END_TEST

START_TEST(what_there_is_not_is_a_problem) {
    started();
    expect(GET("/"), 404, PROBLEM);
    expect(GET("/statu"), 404, PROBLEM);
    expect(GET("/status/"), 404, PROBLEM);
    expect(GET("/status/nobody"), 404, PROBLEM);
    expect(GET("/status/%ff%00%0a\"x"), 404, PROBLEM);
    expect("POST /status HTTP/1.1\r\nHost: p\r\nContent-Length: 2\r\n\r\n{}", 405, "Allow: GET, HEAD\r\n");
    expect("DELETE /status HTTP/1.1\r\nHost: p\r\n\r\n", 405, PROBLEM);
}
END_TEST

#define POST(path, body) "POST " path " HTTP/1.0\r\nContent-Length: " body

START_TEST(a_command_reaches_its_forwarder_and_its_answer_comes_back) {
    started();
    expect(POST("/forwarders/two%20words/skip", "32\r\n\r\n{\"position\": 7, \"reason\": \"why\"}"), 200, JSON);
    ck_assert_int_eq(commanded.kind, MAIL_SKIP);
    ck_assert_int_eq(commanded.command.position, 7);
    ck_assert_str_eq(commanded.command.reason, "why");
    char who[64];
    snprintf(who, sizeof who, "(uid %d, pid %d)", (int)getuid(), (int)getpid());
    ck_assert_str_eq(commanded.command.who, who);
    ck_assert_uint_ne(commanded.command.number, 0);
    verdict = FORWARDER_REFUSES;
    expect(POST("/forwarders/order-status/pause", "0\r\n\r\n"), 409, PROBLEM);
    ck_assert_int_eq(commanded.kind, MAIL_PAUSE);
    verdict = FORWARDER_CANNOT;
    expect(POST("/forwarders/order-status/resume", "16\r\n\r\n{\"who\": \"alice\"}"), 503, PROBLEM);
    ck_assert_int_eq(commanded.kind, MAIL_RESUME);
    ck_assert_uint_eq(strncmp(commanded.command.who, "alice (uid ", 11), 0);
    ck_assert_uint_eq(commands, 3);
}
END_TEST

START_TEST(a_command_that_makes_no_sense_reaches_nobody) {
    started();
    expect(POST("/forwarders/nobody/pause", "0\r\n\r\n"), 404, PROBLEM);
    expect(POST("/forwarders/full/pause", "0\r\n\r\n"), 503, PROBLEM);
    expect(POST("/forwarders/order-status/stop", "0\r\n\r\n"), 404, PROBLEM);
    expect(POST("/forwarders/order-status", "0\r\n\r\n"), 404, PROBLEM);
    expect(POST("/forwarders//pause", "0\r\n\r\n"), 404, PROBLEM);
    expect(POST("/forwarders/order-status/pause", "2\r\n\r\n[]"), 400, PROBLEM);
    expect(POST("/forwarders/order-status/pause", "1\r\n\r\n{"), 400, PROBLEM);
    expect(POST("/forwarders/order-status/pause", "10\r\n\r\n{\"who\": 5}"), 400, PROBLEM);
    expect(POST("/forwarders/order-status/skip", "0\r\n\r\n"), 400, PROBLEM);
    expect(POST("/forwarders/order-status/skip", "15\r\n\r\n{\"position\": 1}"), 400, PROBLEM);
    expect(GET("/forwarders/order-status/pause"), 405, "Allow: POST\r\n");
    ck_assert_uint_eq(commands, 0);
}
END_TEST

/* A key that was misspelt is a reason that nobody will ever read, or a person that the journal doesn't name. */
START_TEST(a_body_with_anything_unknown_is_refused_and_what_is_allowed_is_said) {
    static const struct {
        const char *path, *body, *words;
    } bodies[] = {
        {"pause", "{\"raeson\": \"x\"}", "raeson: pause takes who and reason"},
        {"resume", "{\"position\": 7}", "position: resume takes who and reason"},
        {"pause", "{\"who\": \"a\", \"\": 1}", "takes who and reason"},
        {"skip", "{\"position\": 7, \"reason\": \"x\", \"postion\": 8}", "postion: skip takes who, reason and position"},
        {"skip", "{\"position\": \"7\", \"reason\": \"x\"}", "position: the number"},
        {"skip", "{\"position\": 7.5, \"reason\": \"x\"}", "position: the number"},
        {"skip", "{\"position\": 99999999999999999999, \"reason\": \"x\"}", "no JSON object"},
        {"skip", "{\"position\": 7, \"reason\": \"\"}", "reason: a text is needed"},
        {"pause", "{\"reason\": null}", "reason: a text"},
        {"pause", "{\"who\": {}}", "who: a text"},
        {"pause", "{\"who\": \"a\", \"who\": \"b\"}", "duplicate"},
        {"pause", "{} {}", "no JSON object"},
        {"pause", "{\"who\": \"a\"}x", "no JSON object"},
        {"pause", "who=alice", "no JSON object"},
    };
    started();
    for (size_t i = 0; i < ARRAY_LENGTH(bodies); i++) {
        char request[512];
        snprintf(request, sizeof request, "POST /forwarders/order-status/%s HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s",
                 bodies[i].path, strlen(bodies[i].body), bodies[i].body);
        CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
        ask(request, &b);
        ck_assert_msg(strncmp(b.data, "HTTP/1.1 400 ", 13) == 0, "%s: %s", bodies[i].body, b.data);
        ck_assert_msg(strstr(b.data, PROBLEM) != NULL, "%s", b.data);
        ck_assert_msg(strstr(b.data, bodies[i].words) != NULL, "%s: %s", bodies[i].body, b.data);
    }
    expect(POST("/forwarders/order-status/pause?reason=x", "0\r\n\r\n"), 400, PROBLEM);
    ck_assert_uint_eq(commands, 0);
    expect(POST("/forwarders/order-status/pause", "0\r\n\r\n"), 200, JSON);
}
END_TEST

START_TEST(a_forwarder_that_says_nothing_holds_up_its_command_alone) {
    started();
    answers = false;
    CLEANUP(cleanup_close) int waiting = connected();
    put_bytes(waiting, POST("/forwarders/order-status/pause", "0\r\n\r\n"));
    int64_t begin_us = clock_now_us();
    while (commands == 0)
        turn();
    expect(POST("/forwarders/order-status/resume", "0\r\n\r\n"), 503, PROBLEM);
    ck_assert_uint_eq(commands, 1);
    answers = true;
    expect(POST("/forwarders/two%20words/pause", "0\r\n\r\n"), 200, JSON);
    expect(GET("/status"), 200, JSON);
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
    ck_assert(read_to_end(waiting, &b, 10000000));
    ck_assert_int_eq(status_of(&b), 504);
    ck_assert_int_ge(clock_now_us() - begin_us, SERVER_ANSWER_TIMEOUT_US - 100000);
    ck_assert_int_lt(clock_now_us() - begin_us, LISTENER_CLIENT_TIMEOUT_US);
    expect(POST("/forwarders/order-status/resume", "0\r\n\r\n"), 200, JSON);
}
END_TEST

START_TEST(whoever_goes_before_the_answer_leaves_nothing_behind) {
    started();
    answers = false;
    int fd = connected();
    put_bytes(fd, POST("/forwarders/order-status/pause", "0\r\n\r\n"));
    while (commands == 0)
        turn();
    close(fd);
    told[0].answer = (struct forwarder_answer){.number = commanded.command.number, .words = "late"};
    answers = true;
    for (int i = 0; i < 20; i++)
        expect(POST("/forwarders/order-status/pause", "0\r\n\r\n"), 200, JSON);
}
END_TEST

START_TEST(a_stop_answers_whoever_waits) {
    started();
    answers = false;
    CLEANUP(cleanup_close) int fd = connected();
    put_bytes(fd, POST("/forwarders/order-status/pause", "0\r\n\r\n"));
    while (commands == 0)
        turn();
    server_stop(server);
    server = NULL;
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
    ck_assert(read_to_end(fd, &b, 1000000));
    ck_assert_int_eq(status_of(&b), 503);
}
END_TEST

START_TEST(head_has_the_header_alone) {
    started();
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
    ask("HEAD /status HTTP/1.1\r\nHost: p\r\n\r\n", &b);
    ck_assert_int_eq(status_of(&b), 200);
    ck_assert_str_eq(body_of(&b), "");
}
END_TEST

START_TEST(health_and_readiness_are_statuses) {
    started();
    told[1].state = FORWARDER_REFUSED;
    expect(GET("/health"), 503, JSON);
    expect(GET("/ready"), 200, JSON);
    told[1].state = FORWARDER_STARTING;
    expect(GET("/health"), 200, JSON);
    expect(GET("/ready"), 503, JSON);
}
END_TEST

/* What is kept for a moment never hides a change of state, nor what a command has done. */
START_TEST(a_change_is_seen_at_once) {
    started();
    for (int i = 0; i < 3; i++) {
        told[0].state = FORWARDER_REFUSED;
        expect(GET("/health"), 503, JSON);
        expect(GET("/health"), 503, JSON);
        told[0].state = FORWARDER_DELIVERING;
        expect(GET("/health"), 200, JSON);
        expect(GET("/health"), 200, JSON);
    }
    told_count = 1;
    expect(GET("/status/two%20words"), 404, PROBLEM);
    told_count = 2;
    expect(GET("/status/two%20words"), 200, JSON);
    told_count = 1;
    expect(GET("/status/two%20words"), 404, PROBLEM);
}
END_TEST

START_TEST(no_forwarders_is_an_answer_too) {
    started();
    told_count = 0;
    expect(GET("/status"), 200, JSON);
    expect(GET("/status/order-status"), 404, PROBLEM);
}
END_TEST

START_TEST(a_header_over_the_limit_is_refused) {
    started();
    CLEANUP(cleanup_close) int fd = connected();
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
    char header[1024];
    memset(header, 'x', sizeof header - 1);
    header[sizeof header - 1] = '\0';
    put_bytes(fd, "GET /status HTTP/1.1\r\nHost: p\r\nX: ");
    for (int i = 0; i < 64; i++)
        put_bytes(fd, header);
    ck_assert(read_to_end(fd, &b, 10000000));
    ck_assert_int_ge(status_of(&b), 400);
    expect(GET("/status"), 200, JSON);
}
END_TEST

/* A request with `count` kilobytes of something; *b gets the reply. */
static void ask_with(const char *begin, size_t count, const char *end, struct buf *b) {
    CLEANUP(cleanup_close) int fd = connected();
    char filling[1024];
    memset(filling, 'x', sizeof filling - 1);
    filling[sizeof filling - 1] = '\0';
    put_bytes(fd, begin);
    for (size_t i = 0; i < count; i++)
        put_bytes(fd, filling);
    put_bytes(fd, end);
    ck_assert(read_to_end(fd, b, 10000000));
}

START_TEST(each_limit_has_a_problem_document) {
    started();
    static const struct {
        const char *begin;
        size_t kilobytes;
        const char *end;
        int status;
    } cases[] = {
        {"GET /status/", 2, " HTTP/1.1\r\nHost: p\r\n\r\n", 414},
        {"GET /status?q=", 12, " HTTP/1.1\r\nHost: p\r\n\r\n", 431},
        {"GET /status HTTP/1.1\r\nHost: p\r\nX: ", 12, "\r\n\r\n", 431},
        {"POST /status HTTP/1.1\r\nHost: p\r\nContent-Length: 5000\r\n\r\n", 0, "", 413},
        {"POST /status HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n1400\r\n", 5, "xxxxx\r\n0\r\n\r\n", 413},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
        ask_with(cases[i].begin, cases[i].kilobytes, cases[i].end, &b);
        ck_assert_msg(status_of(&b) == cases[i].status, "%s: %s", cases[i].begin, b.data);
        ck_assert_msg(strstr(b.data, PROBLEM) != NULL, "%s: %s", cases[i].begin, b.data);
    }
    expect(GET("/status"), 200, JSON);
}
END_TEST

START_TEST(what_is_no_http_harms_nothing) {
    started();
    static const char *const garbage[] = {"\r\n\r\n\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
                                          "GET\r\n\r\n", "GET /status HTTP/9.9\r\n\r\n",
                                          "POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    for (size_t i = 0; i < ARRAY_LENGTH(garbage); i++) {
        CLEANUP(cleanup_close) int fd = connected();
        put_bytes(fd, garbage[i]);
        shutdown(fd, SHUT_WR);
        CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
        ck_assert_msg(read_to_end(fd, &b, 10000000), "number %zu", i);
    }
    expect(GET("/status"), 200, JSON);
}
END_TEST

/* Silent, half-sent, dripping, and one that never reads its reply. */
START_TEST(a_slow_client_stops_no_other_and_is_cut) {
    started();
    CLEANUP(cleanup_close) int silent = connected();
    CLEANUP(cleanup_close) int half = connected();
    CLEANUP(cleanup_close) int dripping = connected();
    int64_t begin_us = clock_now_us();
    put_bytes(half, "GET /status HTTP/1.1\r\nHo");
    for (int i = 0; i < 20; i++)
        turn();
    int64_t before_us = clock_now_us();
    expect(GET("/status"), 200, JSON);
    ck_assert_int_lt(clock_now_us() - before_us, 2000000);

    int64_t next_drip_us = begin_us;
    bool cut = false;
    while (!cut && clock_now_us() - begin_us < 3 * LISTENER_CLIENT_TIMEOUT_US) {
        if (clock_now_us() >= next_drip_us) {
            cut = send(dripping, "G", 1, MSG_NOSIGNAL) < 0;
            next_drip_us += 100000;
        }
        turn();
    }
    ck_assert(cut);
    ck_assert_int_ge(clock_now_us() - begin_us, LISTENER_CLIENT_TIMEOUT_US - 100000);
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
    ck_assert(read_to_end(silent, &b, 1000000));
    ck_assert(read_to_end(half, &b, 1000000));
    expect(GET("/status"), 200, JSON);
}
END_TEST

/* Connects once there is room in the backlog; the loop accepts meanwhile. */
static int connected_in_time(int64_t limit_us) {
    int fd = make_client();
    int64_t deadline_us = clock_now_us() + limit_us;
    int r = -EAGAIN;
    while ((r = try_connect(fd)) == -EAGAIN && clock_now_us() < deadline_us)
        turn();
    ck_assert_int_eq(r, 0);
    return fd;
}

START_TEST(two_hundred_clients_at_once_are_all_answered) {
    enum { MANY = 200 };
    started();
    int fds[MANY];
    for (int i = 0; i < MANY; i++) {
        fds[i] = connected_in_time(1000000);
        put_bytes(fds[i], GET("/status"));
    }
    for (int i = 0; i < MANY; i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
        ck_assert(read_to_end(fds[i], &b, 10000000));
        ck_assert_int_eq(status_of(&b), 200);
        close(fds[i]);
    }
}
END_TEST

START_TEST(when_every_place_is_taken_the_next_waits_for_the_timeout_at_most) {
    enum { MANY = LISTENER_CLIENTS_MAX + 20 };
    started();
    int silent[MANY];
    for (int i = 0; i < MANY; i++)
        silent[i] = connected_in_time(1000000);
    /* The twenty that wait in the backlog get their own five seconds. */
    CLEANUP(cleanup_close) int fd = connected_in_time(1000000);
    int64_t begin_us = clock_now_us();
    put_bytes(fd, GET("/status"));
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
    ck_assert(read_to_end(fd, &b, 3 * LISTENER_CLIENT_TIMEOUT_US));
    ck_assert_int_eq(status_of(&b), 200);
    ck_assert_int_lt(clock_now_us() - begin_us, LISTENER_CLIENT_TIMEOUT_US + 2000000);
    for (int i = 0; i < MANY; i++)
        close(silent[i]);
}
END_TEST

START_TEST(the_socket_is_for_owner_and_group) {
    mode_t before = umask(0);
    started();
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0660);
    server_stop(server);
    umask(0777);
    started();
    umask(before);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0660);
}
END_TEST

START_TEST(the_socket_can_be_for_its_owner_alone) {
    mode = 0600;
    started();
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
}
END_TEST

static void refused(int error, const char *words) {
    struct error why = {0};
    ck_assert_int_eq(start(&why), -error);
    ck_assert_msg(strstr(why.text, words) != NULL, "%s", why.text);
    ck_assert_msg(strstr(why.text, path) != NULL, "%s", why.text);
    ck_assert_ptr_null(server);
}

START_TEST(a_stale_socket_file_is_replaced) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int dead = make_client();
    ck_assert_int_eq(bind(dead, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(dead, 1), 0);
    close(dead);
    started();
    expect(GET("/status"), 200, JSON);
}
END_TEST

START_TEST(a_live_socket_file_is_refused_and_stays) {
    started();
    struct server *first = server;
    server = NULL;
    refused(EADDRINUSE, "running program answers");
    server = first;
    expect(GET("/status"), 200, JSON);
}
END_TEST

START_TEST(a_socket_whose_backlog_is_full_is_live) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    CLEANUP(cleanup_close) int busy = make_client();
    ck_assert_int_eq(bind(busy, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(busy, 0), 0);
    CLEANUP(cleanup_close) int waiting = make_client();
    ck_assert_int_eq(try_connect(waiting), 0);
    refused(EADDRINUSE, "running program answers");
}
END_TEST

START_TEST(a_file_that_is_no_socket_is_refused_and_stays) {
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    refused(EEXIST, "no socket");
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert(S_ISREG(status.st_mode));
}
END_TEST

START_TEST(a_missing_directory_is_named) {
    char good[sizeof path];
    memcpy(good, path, sizeof path);
    snprintf(path, sizeof path, "%.60s/none/status.sock", directory);
    refused(ENOENT, "directory is missing");
    memcpy(path, good, sizeof path);
}
END_TEST

static int locked_directory(void) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    return fd;
}

/* Two daemons that start at once: each holds the directory for a moment. */
START_TEST(a_directory_that_another_one_has_locked_is_waited_for) {
    int fd = locked_directory();
    pid_t other = fork();
    if (other == 0) { /* shares the lock, and keeps it for a moment longer */
        poll(NULL, 0, 100);
        _exit(0);
    }
    close(fd);
    started();
    expect(GET("/status"), 200, JSON);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
}
END_TEST

START_TEST(a_directory_that_stays_locked_is_refused_in_the_end) {
    CLEANUP(cleanup_close) int fd = locked_directory();
    int64_t began_us = clock_now_us();
    refused(EWOULDBLOCK, "has locked its directory");
    ck_assert_int_ge(clock_now_us() - began_us, SOCKET_LOCK_TIMEOUT_US);
}
END_TEST

START_TEST(a_path_that_is_too_long_is_refused) {
    char long_path[200];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    struct server_options options = {
        .socket = {long_path, 0660, NULL}, .collect = collect, .context = told, .forwarders_max = 1};
    struct error why = {0};
    ck_assert_int_eq(server_start(&options, loop, &server, &why), -ENAMETOOLONG);
    ck_assert_ptr_nonnull(strstr(why.text, "at most 107"));
}
END_TEST

START_TEST(a_group_that_there_is_not_is_named) {
    group = "no such group";
    refused(ENOENT, "no group 'no such group'");
    ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

/* The port, and what it must not do. --------------------------------------- */

static struct sockaddr_in port_of(int fd) {
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    return address;
}

/* One that is free now. */
static void choose_port(char address[32], struct sockaddr_in *ret_address) {
    CLEANUP(cleanup_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    *ret_address = port_of(fd);
    snprintf(address, 32, "127.0.0.1:%d", (int)ntohs(ret_address->sin_port));
    metrics_address = address;
}

static int connected_to_port(const struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)address, sizeof *address), 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static int ask_port(const struct sockaddr_in *address, const char *request, struct buf *b) {
    CLEANUP(cleanup_close) int fd = connected_to_port(address);
    put_bytes(fd, request);
    ck_assert(read_to_end(fd, b, 10000000));
    return status_of(b);
}

START_TEST(the_port_reads_and_commands_nothing) {
    char text[32];
    struct sockaddr_in address;
    choose_port(text, &address);
    started();
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {GET("/metrics"), 200}, {GET("/status"), 200}, {GET("/health"), 200}, {GET("/nothing"), 404},
        {"POST /forwarders/order-status/pause HTTP/1.1\r\nHost: p\r\nContent-Length: 2\r\n\r\n{}", 405},
        {"PUT /status HTTP/1.1\r\nHost: p\r\nContent-Length: 2\r\n\r\n{}", 405},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
        ck_assert_msg(ask_port(&address, cases[i].request, &b) == cases[i].status, "%s: %s", cases[i].request, b.data);
    }
    expect(GET("/status"), 200, JSON);
}
END_TEST

START_TEST(clients_that_fill_the_port_take_nothing_from_the_socket) {
    enum { MANY = 2 * LISTENER_CLIENTS_MAX };
    char text[32];
    struct sockaddr_in address;
    choose_port(text, &address);
    started();
    int half_open[MANY];
    for (int i = 0; i < MANY; i++) {
        half_open[i] = connected_to_port(&address);
        put_bytes(half_open[i], "GET /metrics HTTP/1.1\r\nX: ");
        while (sd_event_run(loop, 0) > 0)
            ;
    }
    int64_t begin_us = clock_now_us();
    for (int i = 0; i < 20; i++)
        expect(GET("/status"), 200, JSON);
    ck_assert_int_lt(clock_now_us() - begin_us, LISTENER_CLIENT_TIMEOUT_US / 2);
    /* And the port itself is free again when they have been cut. */
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
    CLEANUP(cleanup_close) int fd = connected_to_port(&address);
    put_bytes(fd, GET("/metrics"));
    ck_assert(read_to_end(fd, &b, 4 * LISTENER_CLIENT_TIMEOUT_US));
    ck_assert_int_eq(status_of(&b), 200);
    for (int i = 0; i < MANY; i++)
        close(half_open[i]);
}
END_TEST

START_TEST(a_port_that_is_taken_is_refused) {
    char text[32];
    struct sockaddr_in address;
    choose_port(text, &address);
    CLEANUP(cleanup_close) int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(other, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(other, 1), 0);
    struct error why = {0};
    ck_assert_int_eq(start(&why), -EADDRINUSE);
    ck_assert_ptr_nonnull(strstr(why.text, text));
    ck_assert_int_eq(access(path, F_OK), -1); /* nothing half-starts */
}
END_TEST

START_TEST(stop_removes_only_its_own_file) {
    started();
    server_stop(server);
    ck_assert_int_eq(access(path, F_OK), -1);
    started();
    ck_assert_int_eq(unlink(path), 0);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    server_stop(server);
    server = NULL;
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(stop_closes_who_is_connected) {
    started();
    CLEANUP(cleanup_close) int idle = connected();
    CLEANUP(cleanup_close) int half = connected();
    put_bytes(half, "GET /st");
    for (int i = 0; i < 10; i++)
        turn();
    server_stop(server);
    server = NULL;
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPLY_MAX_BYTES);
    ck_assert(read_to_end(idle, &b, 1000000));
    ck_assert(read_to_end(half, &b, 1000000));
}
END_TEST

START_TEST(an_idle_server_never_wakes_the_loop) {
    started();
    expect(GET("/status"), 200, JSON);
    while (sd_event_run(loop, 0) > 0)
        ;
    ck_assert_int_eq(sd_event_run(loop, 200000), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("server");
    TCase *cases = tcase_create("server");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, each_document_has_its_path);
    tcase_add_test(cases, what_there_is_not_is_a_problem);
    tcase_add_test(cases, a_command_reaches_its_forwarder_and_its_answer_comes_back);
    tcase_add_test(cases, a_command_that_makes_no_sense_reaches_nobody);
    tcase_add_test(cases, a_body_with_anything_unknown_is_refused_and_what_is_allowed_is_said);
    tcase_add_test(cases, a_forwarder_that_says_nothing_holds_up_its_command_alone);
    tcase_add_test(cases, whoever_goes_before_the_answer_leaves_nothing_behind);
    tcase_add_test(cases, a_stop_answers_whoever_waits);
    tcase_add_test(cases, head_has_the_header_alone);
    tcase_add_test(cases, health_and_readiness_are_statuses);
    tcase_add_test(cases, a_change_is_seen_at_once);
    tcase_add_test(cases, no_forwarders_is_an_answer_too);
    tcase_add_test(cases, a_header_over_the_limit_is_refused);
    tcase_add_test(cases, each_limit_has_a_problem_document);
    tcase_add_test(cases, what_is_no_http_harms_nothing);
    tcase_add_test(cases, a_slow_client_stops_no_other_and_is_cut);
    tcase_add_test(cases, two_hundred_clients_at_once_are_all_answered);
    tcase_add_test(cases, when_every_place_is_taken_the_next_waits_for_the_timeout_at_most);
    tcase_add_test(cases, the_socket_is_for_owner_and_group);
    tcase_add_test(cases, a_stale_socket_file_is_replaced);
    tcase_add_test(cases, a_live_socket_file_is_refused_and_stays);
    tcase_add_test(cases, a_socket_whose_backlog_is_full_is_live);
    tcase_add_test(cases, a_file_that_is_no_socket_is_refused_and_stays);
    tcase_add_test(cases, a_missing_directory_is_named);
    tcase_add_test(cases, a_directory_that_another_one_has_locked_is_waited_for);
    tcase_add_test(cases, a_directory_that_stays_locked_is_refused_in_the_end);
    tcase_add_test(cases, a_path_that_is_too_long_is_refused);
    tcase_add_test(cases, the_socket_can_be_for_its_owner_alone);
    tcase_add_test(cases, a_group_that_there_is_not_is_named);
    tcase_add_test(cases, the_port_reads_and_commands_nothing);
    tcase_add_test(cases, clients_that_fill_the_port_take_nothing_from_the_socket);
    tcase_add_test(cases, a_port_that_is_taken_is_refused);
    tcase_add_test(cases, stop_removes_only_its_own_file);
    tcase_add_test(cases, stop_closes_who_is_connected);
    tcase_add_test(cases, an_idle_server_never_wakes_the_loop);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
