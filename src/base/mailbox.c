/* mailbox: a bounded queue of commands from the main thread to a forwarder */
#include "base/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/log.h"

/* A ring; the eventfd counts exactly the mail that lies in it (EFD_SEMAPHORE),
 * because both change together under the mutex. */
struct mailbox {
    pthread_mutex_t mutex;
    int event_fd;
    uint32_t first, count;
    struct mail ring[MAILBOX_CAPACITY];
};

static_assert((MAILBOX_CAPACITY & (MAILBOX_CAPACITY - 1)) == 0, "the ring's indexes wrap by a mask");

int mailbox_new(struct mailbox **ret_mailbox) {
    CLEANUP(cleanup_free) struct mailbox *m = calloc(1, sizeof *m);
    if (!m)
        return -ENOMEM;
    m->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (m->event_fd < 0)
        return -errno;
    int r = pthread_mutex_init(&m->mutex, NULL);
    if (r != 0) {
        close(m->event_fd);
        return -r;
    }
    *ret_mailbox = TAKE(m);
    return 0;
}

void mailbox_free(struct mailbox *m) {
    if (!m)
        return;
    close(m->event_fd);
    pthread_mutex_destroy(&m->mutex);
    free(m);
}

static int put_locked(struct mailbox *m, const struct mail *mail) {
    ASSERT(m->count <= MAILBOX_CAPACITY);
    if (m->count == MAILBOX_CAPACITY)
        return -ENOBUFS;
    m->ring[(m->first + m->count) & (MAILBOX_CAPACITY - 1)] = *mail;
    m->count++;
    ASSERT(eventfd_write(m->event_fd, 1) == 0);
    return 0;
}

int mailbox_put(struct mailbox *m, const struct mail *mail) {
    pthread_mutex_lock(&m->mutex);
    int r = put_locked(m, mail);
    pthread_mutex_unlock(&m->mutex);
    return r;
}

int mailbox_fd(const struct mailbox *m) {
    return m->event_fd;
}

static int take_locked(struct mailbox *m, struct mail *ret_mail) {
    ASSERT(m->first < MAILBOX_CAPACITY);
    if (m->count == 0)
        return MAILBOX_E_EMPTY;
    *ret_mail = m->ring[m->first];
    m->first = (m->first + 1) & (MAILBOX_CAPACITY - 1);
    m->count--;
    eventfd_t one;
    ASSERT(eventfd_read(m->event_fd, &one) == 0);
    return 0;
}

int mailbox_take(struct mailbox *m, struct mail *ret_mail) {
    pthread_mutex_lock(&m->mutex);
    int r = take_locked(m, ret_mail);
    pthread_mutex_unlock(&m->mutex);
    return r;
}
