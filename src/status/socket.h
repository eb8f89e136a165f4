/* socket: a listening Unix socket whose file is ours: never wider than 0660, never another's */
#ifndef PENSTOCK_STATUS_SOCKET_H
#define PENSTOCK_STATUS_SOCKET_H

#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/error.h"

/* Embedded. Says which file is ours, so that only that one is removed. */
struct socket {
    char *path; /* owned */
    dev_t device;
    ino_t inode;
};

/* How long another one, which opens a socket in the same directory, is waited for. */
#define SOCKET_LOCK_TIMEOUT_US (3 * INT64_C(1000000))

struct socket_options {
    const char *path;
    mode_t mode;       /* 0660 or narrower */
    const char *group; /* that the file belongs to; NULL: the process's */
};

/* Binds and listens; non-blocking, closed on exec. Mode and group stand before
 * anybody can connect. A file left by a dead process is replaced; one that is
 * answered is refused, as is whatever is no socket. Waits for
 * another one that opens a socket in the same directory (SOCKET_LOCK_TIMEOUT_US) and
 * for the lookup of the group, for nothing else. 0 and *ret_fd is the caller's; negative errno with *reterr. */
int socket_open(const struct socket_options *options, struct socket *ret_socket, int *ret_fd, struct error *reterr) MUST_CHECK;

/* Removes the file if it is still the one that was bound. Idempotent; the fd is not touched. */
void socket_remove(struct socket *s);

#endif
