/* socket: a listening Unix socket whose file is ours: never wider than 0660, never another's */
#include "status/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"

enum { SOCKET_MODE_MAX = 0660, SOCKET_BACKLOG = 64, LOCK_AGAIN_MS = 5 };

static int refuse(int error, struct error *reterr, const char *path, const char *what) {
    error_set(reterr, ERROR_CONFIG, "status.socket %s: %s", path, what);
    return -error;
}

static int fail(struct error *reterr, const char *path, const char *what) {
    int error = errno;
    error_set(reterr, ERROR_CONFIG, "status.socket %s: %s: %s", path, what, strerror(error));
    return -error;
}

static int make_address(const char *path, struct sockaddr_un *ret_address, struct error *reterr) {
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len == 0)
        return refuse(EINVAL, reterr, "\"\"", "a path is needed");
    if (len >= sizeof ret_address->sun_path) {
        error_set(reterr, ERROR_CONFIG,
                  "status.socket %s: %zu bytes are too long, a Unix socket's path has at most %zu", path, len,
                  sizeof ret_address->sun_path - 1);
        return -ENAMETOOLONG;
    }
    memcpy(ret_address->sun_path, path, len);
    return 0;
}

/* Whoever opens a socket there has it for a moment only, but anybody may lock a directory: never for good. */
static int wait_for_lock(int fd) {
    int64_t deadline_us = clock_now_us() + SOCKET_LOCK_TIMEOUT_US;
    int r = flock(fd, LOCK_EX | LOCK_NB);
    while (r < 0 && (errno == EWOULDBLOCK || errno == EINTR) && clock_now_us() < deadline_us) {
        poll(NULL, 0, LOCK_AGAIN_MS);
        r = flock(fd, LOCK_EX | LOCK_NB);
    }
    return r;
}

/* Two daemons that start at once could each take the other's fresh socket for
 * a stale one: the directory is locked from the look to the bind. */
static int lock_directory(const char *path, int *ret_fd, struct error *reterr) {
    char copy[sizeof((struct sockaddr_un *)NULL)->sun_path];
    memcpy(copy, path, strlen(path) + 1);
    CLEANUP(cleanup_close) int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return refuse(ENOENT, reterr, path,
                      "its directory is missing; create it (the unit's RuntimeDirectory= does) or set another path");
    if (fd < 0)
        return fail(reterr, path, "can't open its directory");
    if (wait_for_lock(fd) < 0)
        return fail(reterr, path, "another program has locked its directory and keeps it (lslocks shows which)");
    *ret_fd = fd;
    fd = -1;
    return 0;
}

/* Is somebody behind the file? 0: nobody; negative errno with *reterr: yes, or it can't be told. */
static int check_stale(const char *path, const struct sockaddr_un *address, struct error *reterr) {
    CLEANUP(cleanup_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(reterr, path, "can't make a socket");
    int r = connect(fd, (const struct sockaddr *)address, sizeof *address);
    if (r == 0 || errno == EAGAIN) /* EAGAIN: its backlog is full */
        return refuse(EADDRINUSE, reterr, path,
                      "a running program answers there; stop it, or give each penstockd a socket of its own");
    if (errno == ECONNREFUSED)
        return 0;
    return fail(reterr, path, "can't tell whether a running program answers there");
}

static int clear_place(const char *path, const struct sockaddr_un *address, struct error *reterr) {
    struct stat status;
    if (lstat(path, &status) < 0)
        return errno == ENOENT ? 0 : fail(reterr, path, "can't look at it");
    if (!S_ISSOCK(status.st_mode))
        return refuse(EEXIST, reterr, path, "a file that is no socket stands there; remove it or set another path");
    int r = check_stale(path, address, reterr);
    if (r < 0)
        return r;
    if (unlink(path) < 0)
        return fail(reterr, path, "can't remove what a dead process left there");
    return 0;
}

/* (gid_t)-1: chown(2) leaves the group as it is. */
static int find_group(const struct socket_options *o, gid_t *ret_gid, struct error *reterr) {
    char memory[16384];
    struct group group, *found = NULL;
    *ret_gid = (gid_t)-1;
    if (!o->group)
        return 0;
    errno = getgrnam_r(o->group, &group, memory, sizeof memory, &found);
    if (errno != 0)
        return fail(reterr, o->path, "can't look status.group up");
    if (!found) {
        error_set(reterr, ERROR_CONFIG, "status.socket %s: there is no group '%s' (status.group)", o->path, o->group);
        return -ENOENT;
    }
    *ret_gid = found->gr_gid;
    return 0;
}

/* Mode and group stand before listen(2): until then nobody can connect. fchmod
 * before bind(2) keeps the file from ever being wider, chmod after it adds what the umask took. */
static int bind_and_listen(int fd, const struct sockaddr_un *address, const struct socket_options *o, struct socket *s,
                           struct error *reterr) {
    gid_t gid;
    int r = find_group(o, &gid, reterr);
    if (r < 0)
        return r;
    if (fchmod(fd, o->mode) < 0)
        return fail(reterr, s->path, "can't set its mode");
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) < 0)
        return fail(reterr, s->path, "can't bind");
    struct stat status;
    if (lstat(s->path, &status) < 0)
        return fail(reterr, s->path, "can't look at it");
    s->device = status.st_dev;
    s->inode = status.st_ino;
    /* A hardened service may not even call it (SystemCallFilter= of its unit). */
    if (o->group && status.st_gid != gid && lchown(s->path, (uid_t)-1, gid) < 0)
        return fail(reterr, s->path, "can't give it to status.group (its members may, or root)");
    if (chmod(s->path, o->mode) < 0)
        return fail(reterr, s->path, "can't set its mode");
    return listen(fd, SOCKET_BACKLOG) < 0 ? fail(reterr, s->path, "can't listen") : 0;
}

int socket_open(const struct socket_options *o, struct socket *ret_socket, int *ret_fd, struct error *reterr) {
    const char *path = o->path;
    struct sockaddr_un address;
    ASSERT((o->mode & ~SOCKET_MODE_MAX) == 0);
    CLEANUP(cleanup_close) int directory = -1;
    int r = make_address(path, &address, reterr);
    if (r == 0)
        r = lock_directory(path, &directory, reterr);
    if (r == 0)
        r = clear_place(path, &address, reterr);
    if (r < 0)
        return r;

    CLEANUP(cleanup_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(reterr, path, "can't make a socket");
    struct socket s = {.path = strdup(path)};
    if (!s.path)
        return fail(reterr, path, "can't open it");
    r = bind_and_listen(fd, &address, o, &s, reterr);
    if (r < 0) {
        socket_remove(&s);
        return r;
    }
    *ret_socket = s;
    *ret_fd = fd;
    fd = -1;
    return 0;
}

void socket_remove(struct socket *s) {
    struct stat status;
    if (s->path && s->inode != 0 && lstat(s->path, &status) == 0 && status.st_dev == s->device &&
        status.st_ino == s->inode)
        unlink(s->path);
    free(s->path);
    *s = (struct socket){0};
}
