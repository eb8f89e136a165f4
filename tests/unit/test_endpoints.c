/* test_endpoints: what nobody should send, thousands of times, to the status socket and the metrics port: both live on */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-event.h>

#include "base/clock.h"
#include "sim/random.h"
#include "status/server.h"

/* PENSTOCK_FUZZ_REQUESTS of them (make fuzz: many), from PENSTOCK_FUZZ_SEED on: what fails names its seed, and that
 * seed with one request is the same again. Under SANITIZE=address,undefined a byte too far is seen at once. */
#define REQUESTS 3000
#define REQUEST_MAX 40000
#define REPLY_MAX (1 << 20)
/* Both deadlines of a client (status/listener.h), and a sanitizer on a busy machine. */
#define BOUND_US (3 * LISTENER_CLIENT_TIMEOUT_US)
#define RIGHT_ONE_EVERY 20
#define PATIENT_ONE_EVERY 1500
#define SILENCE_US 5000

static sd_event *loop;
static struct server *server;
static char directory[64], path[96], metrics[32];
static struct sockaddr_in port;
static struct forwarder_stats told[2];
static bool by_port;
static size_t commands, commands_by_port;
static struct random chance;
static uint64_t *current; /* the seed, where it outlives the process that runs the test */

/* The server under attack. --------------------------------------------------- */

static size_t collect(void *context, struct forwarder_stats *stats, size_t max) {
    (void)context;
    ck_assert_uint_ge(max, ARRAY_LENGTH(told));
    memcpy(stats, told, sizeof told);
    return ARRAY_LENGTH(told);
}

static int take_command(void *context, const char *forwarder, const struct mail *mail) {
    (void)context;
    commands++;
    commands_by_port += by_port;
    ck_assert(memchr(mail->command.reason, '\0', sizeof mail->command.reason) != NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(told); i++) {
        if (strcmp(told[i].name, forwarder) != 0)
            continue;
        told[i].answer = (struct forwarder_answer){.number = mail->command.number, .verdict = FORWARDER_DONE, .words = "done"};
        return 0;
    }
    return FORWARDER_E_NOBODY;
}

static void choose_port(void) {
    CLEANUP(cleanup_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof port;
    port = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&port, sizeof port), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&port, &len), 0);
    snprintf(metrics, sizeof metrics, "127.0.0.1:%d", (int)ntohs(port.sin_port));
}

static void set_up(void) {
    struct error error = {0};
    snprintf(directory, sizeof directory, "/tmp/penstock-fuzz-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/status.sock", directory);
    snprintf(told[0].name, sizeof told[0].name, "order-status");
    snprintf(told[1].name, sizeof told[1].name, "two words");
    told[0].state = told[1].state = FORWARDER_IDLE;
    choose_port();
    ck_assert_int_ge(sd_event_new(&loop), 0);
    struct server_options options = {
        .socket = {path, 0660, NULL},
        .metrics = metrics,
        .daemon = {.version = "0.1.0", .instance = "host:1", .started_wall_us = 1, .health_max_age_us = 60000000},
        .collect = collect,
        .command = take_command,
        .forwarders_max = ARRAY_LENGTH(told),
    };
    ck_assert_msg(server_start(&options, loop, &server, &error) == 0, "%s", error.text);
}

static void tear_down(void) {
    server_stop(server);
    sd_event_unref(loop);
    rmdir(directory);
}

/* What is sent. --------------------------------------------------------------- */

static const char *const right_ones[] = {
    "GET /status HTTP/1.1\r\nHost: p\r\n\r\n",
    "GET /status/two%20words?x=1&y=%41 HTTP/1.1\r\nHost: p\r\nAccept: */*\r\n\r\n",
    "HEAD /health HTTP/1.0\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nHost: p\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1\r\n"
    "Accept-Encoding: gzip\r\nUser-Agent: Prometheus/2.42.0\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n",
    "GET /ready HTTP/1.1\r\nHost: p\r\nConnection: keep-alive\r\nCookie: a=b; c=d\r\n\r\n",
    "POST /forwarders/order-status/pause HTTP/1.1\r\nHost: p\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n"
    "{\"reason\": \"fuzz\", \"who\": \"me\"}",
    "POST /forwarders/two%20words/skip HTTP/1.1\r\nHost: p\r\nContent-Length: 36\r\n\r\n"
    "{\"position\": 1039, \"reason\": \"\\u00e4\"}",
    "POST /forwarders/order-status/resume HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5\r\n{\"rea\r\n7;x=y\r\nson\":1}\r\n0\r\nTrailer: x\r\n\r\n",
    "POST /forwarders/order-status/pause HTTP/1.1\r\nHost: p\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "OPTIONS * HTTP/1.1\r\nHost: p\r\n\r\n",
};

static const char *const tokens[] = {
    "\r\n", "\r\n\r\n", "\n", "\r", " ", "\t", ":", "%", "%00", "%2F%2e%2e", "%zz", "/", "//", "..", "?", "&", "=", "#", ";",
    "HTTP/1.1", "HTTP/9.9", "HTTP/1.", "GET ", "POST ", "CONNECT ", "Content-Length: 4", "Content-Length: -1\r\n",
    "Content-Length: 99999999999999999999\r\n", "Content-Length: 0x10\r\n", "Content-Length: 3\r\nContent-Length: 4\r\n",
    "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Expect: 100-continue\r\n", "Upgrade: h2c\r\n",
    "Connection: close, keep-alive\r\n", "Host: ", "Accept: application/openmetrics-text\r\n", "Cookie: \r\n",
    "ffffffffffffffff\r\n", "0\r\n\r\n", "\xff\xfe", "\xc0\x80", "\xed\xa0\x80", "{\"reason\": ", "{\"position\": 1e999}",
    "{\"position\": 9223372036854775808}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "\"\\ud800\"", "null", "{}", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01",
};

struct request {
    char bytes[REQUEST_MAX];
    size_t len;
};

static size_t below(size_t n) {
    return random_below(&chance, (uint32_t)n);
}

/* `len` bytes go at `at`; what has no room is cut. */
static void insert(struct request *q, size_t at, const char *bytes, size_t len) {
    if (len > REQUEST_MAX - q->len)
        len = REQUEST_MAX - q->len;
    memmove(q->bytes + at + len, q->bytes + at, q->len - at);
    memcpy(q->bytes + at, bytes, len);
    q->len += len;
}

static void remove_some(struct request *q) {
    size_t at = below(q->len + 1), len = below(q->len - at + 1);
    memmove(q->bytes + at, q->bytes + at + len, q->len - at - len);
    q->len -= len;
}

static void repeat_some(struct request *q) {
    char copy[4096];
    size_t at = below(q->len + 1), len = below(q->len - at + 1);
    if (len > sizeof copy)
        len = sizeof copy;
    memcpy(copy, q->bytes + at, len);
    for (size_t times = 1 + below(12); times > 0; times--)
        insert(q, at, copy, len);
}

static void fill_some(struct request *q) {
    char run[2048];
    memset(run, below(2) ? 'A' : (int)below(256), sizeof run);
    for (size_t times = 1 + below(12); times > 0; times--)
        insert(q, below(q->len + 1), run, below(sizeof run));
}

static void mutate(struct request *q) {
    const char *token = tokens[below(ARRAY_LENGTH(tokens))];
    const char *other = right_ones[below(ARRAY_LENGTH(right_ones))];
    size_t other_at = below(strlen(other));
    switch (below(8)) {
    case 0:
    case 1:
        insert(q, below(q->len + 1), token, strlen(token));
        return;
    case 2:
        if (q->len > 0)
            q->bytes[below(q->len)] = (char)below(256);
        return;
    case 3:
        remove_some(q);
        return;
    case 4:
        repeat_some(q);
        return;
    case 5:
        q->len = below(q->len + 1);
        return;
    case 6:
        insert(q, below(q->len + 1), other + other_at, strlen(other) - other_at);
        return;
    default:
        fill_some(q);
        return;
    }
}

static void make_request(struct request *q) {
    q->len = 0;
    const char *begin = right_ones[below(ARRAY_LENGTH(right_ones))];
    insert(q, 0, begin, strlen(begin));
    for (size_t times = below(6); times > 0; times--)
        mutate(q);
}

/* How it is sent. -------------------------------------------------------------- */

/* Check writes down every assertion that holds: not for what turns so often. */
static void must(bool holds, const char *what) {
    if (!holds)
        ck_abort_msg("%s", what);
}

static void turn(uint64_t at_most_us) {
    must(sd_event_run(loop, at_most_us) >= 0, "the loop ended");
}

static int try_connect(int fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    return by_port ? connect(fd, (struct sockaddr *)&port, sizeof port) : connect(fd, (struct sockaddr *)&address, sizeof address);
}

/* Who waits to be let in is let in by a turn, and that is ours to make. */
static int connected(void) {
    int64_t until_us = clock_now_us() + BOUND_US;
    int fd = socket(by_port ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* From one address there are not ports enough for all that TCP remembers for a minute. */
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)below(1 << 20))};
    if (by_port)
        must(bind(fd, (struct sockaddr *)&from, sizeof from) == 0, "no port is left");
    while (try_connect(fd) != 0 && errno != EISCONN) {
        must(errno == EINPROGRESS || errno == EALREADY || errno == EAGAIN, strerror(errno));
        must(clock_now_us() < until_us, "nobody is let in");
        turn(1000);
    }
    return fd;
}

/* In pieces, whole or not; false: the server has had enough. */
static bool put(int fd, const struct request *q, int64_t until_us) {
    for (size_t at = 0; at < q->len;) {
        must(clock_now_us() < until_us, "it is not read");
        size_t piece = below(4) ? q->len - at : 1 + below(q->len - at);
        ssize_t n = send(fd, q->bytes + at, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            return false;
        at += n > 0 ? (size_t)n : 0;
        turn(n > 0 ? 0 : 1000);
    }
    return true;
}

/* Until the server closes, or says nothing for so long. Returns what it said; "" if nothing. */
static size_t hear(int fd, char *reply, int64_t silence_us, int64_t until_us) {
    int64_t heard_us = clock_now_us();
    size_t len = 0;
    while (clock_now_us() - heard_us < silence_us) {
        must(clock_now_us() < until_us, "the connection is not closed in time");
        must(len < REPLY_MAX - 1, "a reply without end");
        ssize_t n = recv(fd, reply + len, REPLY_MAX - 1 - len, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        len += n > 0 ? (size_t)n : 0;
        if (n > 0)
            heard_us = clock_now_us();
        turn(n > 0 ? 0 : 1000);
    }
    reply[len] = '\0';
    return len;
}

static void check_reply(const char *reply, size_t len) {
    int status = 0;
    if (len == 0)
        return;
    ck_assert_msg(sscanf(reply, "HTTP/1.%*1d %3d ", &status) == 1, "no HTTP: %.80s", reply);
    ck_assert_msg(status == 100 || (status >= 200 && status < 300) || (status >= 400 && status < 500) || status >= 503,
                  "%.200s", reply);
}

static void send_one(const struct request *q, bool patient) {
    static char reply[REPLY_MAX];
    int64_t until_us = clock_now_us() + BOUND_US;
    CLEANUP(cleanup_close) int fd = connected();
    size_t way = below(8);
    bool whole = put(fd, q, until_us);
    if (way == 0) { /* gone without a word, */
        struct linger reset = {.l_onoff = 1};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        return;
    }
    if (way == 1) /* or without waiting */
        return;
    if (whole)
        shutdown(fd, SHUT_WR);
    /* Half of a request is waited for, whatever is said of more; but not always by us. */
    check_reply(reply, hear(fd, reply, patient ? BOUND_US : SILENCE_US, until_us));
}

static void send_a_right_one(void) {
    static char reply[REPLY_MAX];
    struct request q = {.len = strlen(right_ones[0])};
    memcpy(q.bytes, right_ones[0], q.len);
    CLEANUP(cleanup_close) int fd = connected();
    int64_t until_us = clock_now_us() + BOUND_US;
    ck_assert(put(fd, &q, until_us));
    hear(fd, reply, BOUND_US, until_us);
    ck_assert_msg(strncmp(reply, "HTTP/1.1 200 ", 13) == 0, "%.200s", reply);
    ck_assert_ptr_nonnull(strstr(reply, "\"order-status\""));
}

/* What is left behind. ---------------------------------------------------------- */

static int descriptors(void) {
    int count = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

/* Clients that went away are noticed a turn later. */
static void wait_for_descriptors(int most) {
    int64_t until_us = clock_now_us() + BOUND_US;
    while (descriptors() > most) {
        ck_assert_msg(clock_now_us() < until_us, "%d descriptors are open, %d were", descriptors(), most);
        turn(1000);
    }
}

static uint64_t number_from(const char *variable, uint64_t fallback) {
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : fallback;
}

START_TEST(nothing_that_is_sent_brings_it_down) {
    static struct request q;
    uint64_t count = number_from("PENSTOCK_FUZZ_REQUESTS", REQUESTS), seed = number_from("PENSTOCK_FUZZ_SEED", 1);
    send_a_right_one();
    int before = descriptors();
    for (uint64_t i = 0; i < count; i++) {
        *current = seed + i;
        chance = (struct random){seed + i};
        by_port = below(2);
        make_request(&q);
        send_one(&q, i % PATIENT_ONE_EVERY == 0);
        if (i % RIGHT_ONE_EVERY == 0)
            send_a_right_one();
    }
    wait_for_descriptors(before);
    for (int i = 0; i < 2; i++) {
        by_port = i;
        send_a_right_one();
    }
    ck_assert_uint_gt(commands, 0);
    ck_assert_uint_eq(commands_by_port, 0);
}
END_TEST

static void say_seed(void) {
    fprintf(stderr, "test_endpoints: the last request was PENSTOCK_FUZZ_REQUESTS=1 PENSTOCK_FUZZ_SEED=%" PRIu64 "\n", *current);
}

/* Of a sanitizer, if there is one. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

int main(void) {
    current = mmap(NULL, sizeof *current, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(say_seed);
    Suite *suite = suite_create("endpoints");
    TCase *cases = tcase_create("endpoints");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_set_timeout(cases, 0);
    tcase_add_test(cases, nothing_that_is_sent_brings_it_down);
    suite_add_tcase(suite, cases);
    int status = unit_run(suite);
    if (status != EXIT_SUCCESS)
        say_seed();
    return status;
}
