/* mailbox: a bounded queue of commands from the main thread to a forwarder */
#ifndef PENSTOCK_BASE_MAILBOX_H
#define PENSTOCK_BASE_MAILBOX_H

#include <stdint.h>

#include "base/cleanup.h"

enum mail_kind { MAIL_STOP, MAIL_PAUSE, MAIL_RESUME, MAIL_SKIP };

/* What comes with an operator's command. */
struct mail_command {
    uint64_t number; /* by which it is answered; never 0 */
    int64_t position; /* MAIL_SKIP */
    char who[128], reason[512];
};

/* Plain data, copied in and out. */
struct mail {
    enum mail_kind kind;
    int64_t deadline_us; /* MAIL_STOP: by clock_now_us, when to give up */
    struct mail_command command; /* MAIL_PAUSE, MAIL_RESUME, MAIL_SKIP */
};

#define MAILBOX_CAPACITY 16

struct mailbox;

int mailbox_new(struct mailbox **ret_mailbox) MUST_CHECK;
void mailbox_free(struct mailbox *m);

/* Any thread. 0; -ENOBUFS when full: nothing was put in. */
int mailbox_put(struct mailbox *m, const struct mail *mail) MUST_CHECK;

/* Readable (poll POLLIN) while mail lies in it. */
int mailbox_fd(const struct mailbox *m);

#define MAILBOX_E_EMPTY 1
/* The owning thread. 0; MAILBOX_E_EMPTY. */
int mailbox_take(struct mailbox *m, struct mail *ret_mail) MUST_CHECK;

#endif
