/* test_penstock_http: the command's GET against peers that behave and that do not */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "penstock_http.h"

static char directory[64], path[96];
static int listener;

/* What the peer does with the one connection it takes. */
struct peer {
    const char *reply;
    size_t repeat; /* sends the reply's last part so many times more */
    bool hang;     /* keeps the connection open until the client has gone */
    char request[4096];
    pthread_t thread;
};

static void *serve(void *argument) {
    struct peer *peer = argument;
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return NULL;
    size_t len = 0;
    while (len < sizeof peer->request - 1 && !strstr(peer->request, "\r\n\r\n")) {
        ssize_t n = recv(fd, peer->request + len, sizeof peer->request - 1 - len, 0);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    for (size_t i = 0; i <= peer->repeat; i++)
        if (send(fd, peer->reply, strlen(peer->reply), MSG_NOSIGNAL) < 0)
            break;
    char byte;
    while (peer->hang && recv(fd, &byte, 1, 0) > 0)
        ;
    close(fd);
    return NULL;
}

static void set_up(void) {
    snprintf(directory, sizeof directory, "/tmp/penstock-http-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/s", directory);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 4), 0);
}

static void tear_down(void) {
    close(listener);
    unlink(path);
    ck_assert_int_eq(rmdir(directory), 0);
}

static int get_from(struct peer *peer, struct buf *body, int *ret_status, struct error *reterr) {
    ck_assert_int_eq(pthread_create(&peer->thread, NULL, serve, peer), 0);
    int r = penstock_http_get(path, "/status", body, ret_status, reterr);
    pthread_join(peer->thread, NULL);
    return r;
}

START_TEST(a_reply_is_taken_apart) {
    struct peer peer = {.reply = "HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\n{\"healthy\": false}\r\n\r\n"};
    CLEANUP(buf_done) struct buf body = BUF_INIT(PENSTOCK_HTTP_MAX_BYTES);
    struct error error = {0};
    int status = 0;
    ck_assert_msg(get_from(&peer, &body, &status, &error) == 0, "%s", error.text);
    ck_assert_int_eq(status, 503);
    ck_assert_str_eq(body.data, "{\"healthy\": false}\r\n\r\n");
    ck_assert_str_eq(peer.request, "GET /status HTTP/1.0\r\nHost: penstock\r\n\r\n");
}
END_TEST

static void fails(struct peer *peer, int error, const char *words) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(PENSTOCK_HTTP_MAX_BYTES);
    struct error why = {0};
    int status = -7;
    ck_assert_int_eq(get_from(peer, &body, &status, &why), -error);
    ck_assert_msg(strstr(why.text, words) != NULL, "%s", why.text);
    ck_assert_msg(strstr(why.text, path) != NULL, "%s", why.text);
    ck_assert_int_eq(status, -7);
}

START_TEST(what_is_no_http_is_said) {
    static const char *const replies[] = {"", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/2.0 200 OK\r\n\r\n",
                                          "HTTP/1.1 OK\r\n\r\n"};
    struct peer peer = {.reply = replies[_i]};
    fails(&peer, EPROTO, "does not speak HTTP");
}
END_TEST

START_TEST(a_reply_without_end_is_cut_at_the_maximum) {
    static char block[65537];
    memset(block, 'x', sizeof block - 1);
    struct peer peer = {.reply = block, .repeat = 1000};
    fails(&peer, EMSGSIZE, "longer than 4 MiB");
}
END_TEST

START_TEST(a_daemon_that_hangs_is_given_five_seconds) {
    struct peer peer = {.reply = "HTTP/1.1 200 OK\r\n\r\n{", .hang = true};
    int64_t begin_us = clock_now_us();
    fails(&peer, ETIMEDOUT, "within 5 s");
    int64_t took_us = clock_now_us() - begin_us;
    ck_assert_int_ge(took_us, PENSTOCK_HTTP_TIMEOUT_US);
    ck_assert_int_lt(took_us, PENSTOCK_HTTP_TIMEOUT_US + 3000000);
}
END_TEST

static void not_reached(const char *socket_path, int error, const char *words) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(PENSTOCK_HTTP_MAX_BYTES);
    struct error why = {0};
    int status;
    ck_assert_int_eq(penstock_http_get(socket_path, "/status", &body, &status, &why), -error);
    ck_assert_msg(strstr(why.text, words) != NULL, "%s", why.text);
}

START_TEST(nobody_there_is_said_with_what_to_look_at) {
    char none[128], too_long[300];
    snprintf(none, sizeof none, "%s/none", directory);
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    not_reached(none, ENOENT, "is penstockd running");
    not_reached(too_long, ENAMETOOLONG, "1 to 107 bytes");
    not_reached("", ENAMETOOLONG, "1 to 107 bytes");
    close(listener);
    not_reached(path, ECONNREFUSED, "nobody answers there any more");
    listener = -1;
}
END_TEST

START_TEST(a_segment_is_percent_encoded) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100);
    ck_assert_int_eq(penstock_http_add_segment("aZ09-._~ /?%\xC3\xBC\r\n", &b), 0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_str_eq(b.data, "aZ09-._~%20%2F%3F%25%C3%BC%0D%0A");
    CLEANUP(buf_done) struct buf small = BUF_INIT(3);
    ck_assert_int_eq(penstock_http_add_segment("a b", &small), -EMSGSIZE);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("penstock_http");
    TCase *cases = tcase_create("penstock_http");
    tcase_set_timeout(cases, 30);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, a_reply_is_taken_apart);
    tcase_add_loop_test(cases, what_is_no_http_is_said, 0, 5);
    tcase_add_test(cases, a_reply_without_end_is_cut_at_the_maximum);
    tcase_add_test(cases, a_daemon_that_hangs_is_given_five_seconds);
    tcase_add_test(cases, nobody_there_is_said_with_what_to_look_at);
    tcase_add_test(cases, a_segment_is_percent_encoded);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
