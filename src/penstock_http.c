/* penstock_http: one request over the status socket: bounded in bytes and time */
#include "penstock_http.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"

enum { READ_BYTES = 16384 };

static int say(struct error *reterr, int error, const char *path, const char *what) {
    error_set(reterr, ERROR_RETRY, "%s: %s (%s)", path, what, strerror(error));
    return -error;
}

static const char *what_connect_means(int error) {
    switch (error) {
    case ENOENT:
        return "no status socket there; is penstockd running, and is this its status.socket?";
    case ECONNREFUSED:
        return "nobody answers there any more; is penstockd running?";
    case EACCES:
        return "you may not; the socket is for its owner and group";
    case EAGAIN:
        return "the daemon takes no more connections now";
    default:
        return "can't connect";
    }
}

static int open_socket(const char *path, int *ret_fd, struct error *reterr) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof address.sun_path)
        return say(reterr, ENAMETOOLONG, path, "a socket's path has 1 to 107 bytes");
    memcpy(address.sun_path, path, len);
    CLEANUP(cleanup_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return say(reterr, errno, path, "can't make a socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return say(reterr, errno, path, what_connect_means(errno));
    *ret_fd = fd;
    fd = -1;
    return 0;
}

static int wait_for(int fd, short events, int64_t deadline_us) {
    struct pollfd poll_fd = {.fd = fd, .events = events};
    int r;
    do
        r = clock_poll(&poll_fd, 1, deadline_us);
    while (r < 0 && errno == EINTR);
    return r > 0 ? 0 : r == 0 ? -ETIMEDOUT : -errno;
}

static int send_all(int fd, struct span rest, int64_t deadline_us) {
    while (rest.len > 0) {
        ssize_t n = send(fd, rest.data, rest.len, MSG_NOSIGNAL);
        if (n > 0)
            rest = (struct span){rest.data + n, rest.len - (size_t)n};
        else if (errno != EAGAIN && errno != EINTR)
            return -errno;
        else {
            int r = wait_for(fd, POLLOUT, deadline_us);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* Until the other side closes: HTTP/1.0. */
static int receive_all(int fd, struct buf *b, int64_t deadline_us) {
    for (;;) {
        size_t room = b->max - b->len < READ_BYTES ? b->max - b->len : READ_BYTES;
        if (room == 0)
            return -EMSGSIZE;
        int r = wait_for(fd, POLLIN, deadline_us);
        if (r == 0)
            r = buf_reserve(b, room);
        if (r < 0)
            return r;
        ssize_t n = recv(fd, b->data + b->len, room, 0);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        if (n > 0)
            b->len += (size_t)n;
    }
}

static int split(const struct buf *reply, struct buf *body, int *ret_status) {
    static const char end_of_header[] = "\r\n\r\n";
    const char *header_end = memmem(reply->data, reply->len, end_of_header, strlen(end_of_header));
    int status;
    if (!header_end || sscanf(reply->data, "HTTP/1.%*1[01] %3d", &status) != 1)
        return -EPROTO;
    const char *begin = header_end + strlen(end_of_header);
    int r = buf_add(body, begin, (size_t)(reply->data + reply->len - begin));
    if (r == 0)
        r = buf_terminate(body);
    if (r == 0)
        *ret_status = status;
    return r;
}

static const char *what_exchange_means(int error) {
    switch (error) {
    case ETIMEDOUT:
        return "no whole answer within 5 s";
    case EMSGSIZE:
        return "the answer is longer than 4 MiB";
    case EPROTO:
        return "what answers there does not speak HTTP";
    default:
        return "the exchange failed";
    }
}

static int exchange(const char *socket_path, const struct buf *request, struct buf *body, int *ret_status,
                    struct error *reterr) {
    int64_t deadline_us = clock_now_us() + PENSTOCK_HTTP_TIMEOUT_US;
    CLEANUP(cleanup_close) int fd = -1;
    int r = open_socket(socket_path, &fd, reterr);
    if (r < 0)
        return r;
    CLEANUP(buf_done) struct buf reply = BUF_INIT(PENSTOCK_HTTP_MAX_BYTES);
    r = send_all(fd, buf_span(request), deadline_us);
    if (r == 0)
        r = receive_all(fd, &reply, deadline_us);
    if (r == 0)
        r = buf_terminate(&reply);
    if (r == 0)
        r = split(&reply, body, ret_status);
    return r < 0 ? say(reterr, -r, socket_path, what_exchange_means(-r)) : 0;
}

int penstock_http_get(const char *socket_path, const char *path, struct buf *body, int *ret_status,
                      struct error *reterr) {
    CLEANUP(buf_done) struct buf request = BUF_INIT(READ_BYTES);
    int r = buf_addf(&request, "GET %s HTTP/1.0\r\nHost: penstock\r\n\r\n", path);
    return r < 0 ? say(reterr, -r, socket_path, what_exchange_means(-r))
                 : exchange(socket_path, &request, body, ret_status, reterr);
}

int penstock_http_post(const char *socket_path, const char *path, const char *json, struct buf *body, int *ret_status,
                       struct error *reterr) {
    CLEANUP(buf_done) struct buf request = BUF_INIT(READ_BYTES);
    int r = buf_addf(&request,
                     "POST %s HTTP/1.0\r\nHost: penstock\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     path, strlen(json), json);
    return r < 0 ? say(reterr, -r, socket_path, what_exchange_means(-r))
                 : exchange(socket_path, &request, body, ret_status, reterr);
}

static bool unreserved(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c));
}

int penstock_http_add_segment(const char *segment, struct buf *path) {
    int r = 0;
    for (; *segment && r == 0; segment++)
        r = unreserved(*segment) ? buf_add_char(path, *segment) : buf_addf(path, "%%%02X", (unsigned char)*segment);
    return r;
}
