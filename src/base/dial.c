/* dial: one connection attempt in a helper thread that may hang */
#include "base/dial.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "base/log.h"

/* Name lookup plug-ins, TLS and GSSAPI run on it. Only what is touched costs memory. */
enum { DIAL_STACK_BYTES = 1 << 20 };

/* Belongs to its thread until that has handed it over as `ended` or, given up
 * meanwhile, has freed it. */
struct attempt {
    struct dial *dial;
    void *argument;
    void *handle;
    struct error error;
    bool ended; /* dial->mutex */
};

/* Lives as long as its owner or one of its threads (references). */
struct dial {
    struct dial_ops ops;
    int event_fd; /* counts 1 while `current` has ended */
    pthread_mutex_t mutex;
    unsigned references;
    struct attempt *current; /* running or ended; those given up are known to their threads only */
};

int dial_new(const struct dial_ops *ops, struct dial **ret_dial) {
    CLEANUP(cleanup_free) struct dial *d = calloc(1, sizeof *d);
    if (!d)
        return -ENOMEM;
    d->ops = *ops;
    d->references = 1;
    d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->event_fd < 0)
        return -errno;
    int r = pthread_mutex_init(&d->mutex, NULL);
    if (r != 0) {
        close(d->event_fd);
        return -r;
    }
    *ret_dial = TAKE(d);
    return 0;
}

/* Called with the mutex locked, unlocks it. */
static void unref_locked(struct dial *d) {
    ASSERT(d->references > 0);
    bool last = --d->references == 0;
    pthread_mutex_unlock(&d->mutex);
    if (!last)
        return;
    close(d->event_fd);
    pthread_mutex_destroy(&d->mutex);
    free(d);
}

static void close_handle(const struct dial_ops *ops, void *handle) {
    if (handle)
        ops->close(handle);
}

static void *attempt_thread(void *argument) {
    struct attempt *a = argument;
    struct dial *d = a->dial;
    a->handle = d->ops.connect(a->argument, &a->error);
    d->ops.free_argument(a->argument);
    ASSERT(a->handle || a->error.class != ERROR_NONE);

    pthread_mutex_lock(&d->mutex);
    if (d->current == a) {
        a->ended = true;
        ASSERT(eventfd_write(d->event_fd, 1) == 0);
        unref_locked(d);
        return NULL;
    }
    pthread_mutex_unlock(&d->mutex);

    /* Given up. Closing may take its time too, hence without the mutex. */
    close_handle(&d->ops, a->handle);
    free(a);
    pthread_mutex_lock(&d->mutex);
    unref_locked(d);
    return NULL;
}

/* Detached, and with all signals blocked: they belong to the main thread. */
static int start_thread(struct attempt *a) {
    pthread_attr_t attributes;
    int r = pthread_attr_init(&attributes);
    if (r != 0)
        return -r;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, DIAL_STACK_BYTES);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    r = pthread_create(&thread, &attributes, attempt_thread, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -r;
}

static int start_locked(struct dial *d, struct attempt *a) {
    if (d->current)
        return -EBUSY;
    if (d->references > DIAL_ABANDONED_MAX)
        return -EAGAIN;
    d->current = a;
    d->references++;
    int r = start_thread(a);
    if (r < 0) {
        d->current = NULL;
        d->references--;
    }
    return r;
}

int dial_start(struct dial *d, void *argument) {
    struct attempt *a = calloc(1, sizeof *a);
    int r = -ENOMEM;
    if (a) {
        a->dial = d;
        a->argument = argument;
        pthread_mutex_lock(&d->mutex);
        r = start_locked(d, a);
        pthread_mutex_unlock(&d->mutex);
    }
    if (r < 0) {
        d->ops.free_argument(argument);
        free(a);
    }
    return r;
}

bool dial_running(const struct dial *d) {
    return d->current != NULL; /* only the owner writes it */
}

int dial_fd(const struct dial *d) {
    return d->event_fd;
}

/* The attempt, if it has ended: it is the caller's then. */
static struct attempt *take_ended_locked(struct dial *d) {
    struct attempt *a = d->current;
    if (!a || !a->ended)
        return NULL;
    eventfd_t one;
    ASSERT(eventfd_read(d->event_fd, &one) == 0);
    d->current = NULL;
    return a;
}

int dial_take(struct dial *d, void **ret_handle, struct error *reterr) {
    pthread_mutex_lock(&d->mutex);
    CLEANUP(cleanup_free) struct attempt *a = take_ended_locked(d);
    pthread_mutex_unlock(&d->mutex);
    if (!a)
        return DIAL_E_RUNNING;
    if (!a->handle) {
        *reterr = a->error;
        return DIAL_E_FAILED;
    }
    *ret_handle = a->handle;
    return 0;
}

void dial_abandon(struct dial *d) {
    pthread_mutex_lock(&d->mutex);
    CLEANUP(cleanup_free) struct attempt *a = take_ended_locked(d);
    d->current = NULL;
    pthread_mutex_unlock(&d->mutex);
    if (a)
        close_handle(&d->ops, a->handle);
}

void dial_free(struct dial *d) {
    if (!d)
        return;
    dial_abandon(d);
    pthread_mutex_lock(&d->mutex);
    unref_locked(d);
}
