/* port: a listening TCP socket, for whoever may read and nothing else */
#include "status/port.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/address.h"

enum { PORT_BACKLOG = 64 };

static int fail(struct error *reterr, const char *address, const char *what) {
    int error = errno;
    error_set(reterr, ERROR_CONFIG, "status.metrics %s: %s: %s", address, what, strerror(error));
    return -error;
}

int port_open(const char *text, int *ret_fd, struct error *reterr) {
    struct sockaddr_storage address;
    socklen_t len;
    int r = address_parse(span_of(text), &address, &len, reterr);
    if (r < 0) {
        error_prefix(reterr, "status.metrics %s", text);
        return r;
    }
    CLEANUP(cleanup_close) int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(reterr, text, "can't make a socket");
    int yes = 1; /* a restart doesn't wait for the connections of before to time out */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0)
        return fail(reterr, text, "can't make it reusable");
    if (bind(fd, (const struct sockaddr *)&address, len) < 0)
        return fail(reterr, text, "can't bind");
    if (listen(fd, PORT_BACKLOG) < 0)
        return fail(reterr, text, "can't listen");
    *ret_fd = fd;
    fd = -1;
    return 0;
}
