/* guard: lets the main thread end a call that hangs, by shutdown(2) of its socket */
#include "base/guard.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"

/* shutdown(2) is called under the mutex: an owner forgets a socket before it
 * closes it, so no other file that got the same number is ever hit. */
struct guard {
    pthread_mutex_t mutex;
    int fds[GUARD_FDS_MAX];
    int count;
    int armed_fd; /* -1: none */
    int64_t deadline_us;
};

int guard_new(struct guard **ret_guard) {
    CLEANUP(cleanup_free) struct guard *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->armed_fd = -1;
    g->deadline_us = CLOCK_NEVER;
    int r = pthread_mutex_init(&g->mutex, NULL);
    if (r != 0)
        return -r;
    *ret_guard = TAKE(g);
    return 0;
}

void guard_free(struct guard *g) {
    if (!g)
        return;
    pthread_mutex_destroy(&g->mutex);
    free(g);
}

static int find(const struct guard *g, int fd) {
    for (int i = 0; i < g->count; i++)
        if (g->fds[i] == fd)
            return i;
    return -1;
}

void guard_watch(struct guard *g, int fd) {
    ASSERT(fd >= 0);
    pthread_mutex_lock(&g->mutex);
    ASSERT(find(g, fd) < 0);
    ASSERT(g->count < GUARD_FDS_MAX);
    g->fds[g->count++] = fd;
    pthread_mutex_unlock(&g->mutex);
}

void guard_forget(struct guard *g, int fd) {
    pthread_mutex_lock(&g->mutex);
    int i = find(g, fd);
    ASSERT(i >= 0);
    ASSERT(g->armed_fd != fd);
    g->fds[i] = g->fds[--g->count];
    pthread_mutex_unlock(&g->mutex);
}

void guard_arm(struct guard *g, int fd, int64_t deadline_us) {
    pthread_mutex_lock(&g->mutex);
    ASSERT(g->armed_fd < 0);
    ASSERT(find(g, fd) >= 0);
    g->armed_fd = fd;
    g->deadline_us = deadline_us;
    pthread_mutex_unlock(&g->mutex);
}

void guard_disarm(struct guard *g) {
    pthread_mutex_lock(&g->mutex);
    g->armed_fd = -1;
    g->deadline_us = CLOCK_NEVER;
    pthread_mutex_unlock(&g->mutex);
}

bool guard_expire(struct guard *g, int64_t now_us) {
    pthread_mutex_lock(&g->mutex);
    bool expired = g->armed_fd >= 0 && now_us >= g->deadline_us;
    if (expired) {
        shutdown(g->armed_fd, SHUT_RDWR);
        g->deadline_us = CLOCK_NEVER; /* once per call */
    }
    pthread_mutex_unlock(&g->mutex);
    return expired;
}

void guard_shut(struct guard *g) {
    pthread_mutex_lock(&g->mutex);
    for (int i = 0; i < g->count; i++)
        shutdown(g->fds[i], SHUT_RDWR);
    pthread_mutex_unlock(&g->mutex);
}
