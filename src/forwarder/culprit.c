/* culprit: what is said of a gap that waits, and of the transaction that keeps it open */
#include "forwarder/culprit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

/* Appends; *len never exceeds what fits. */
static void add(char *text, size_t size, size_t *len, const char *format, ...) PRINTF_LIKE(4, 5);

static void add(char *text, size_t size, size_t *len, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int added = vsnprintf(text + *len, size - *len, format, args);
    va_end(args);
    if (added > 0)
        *len = *len + (size_t)added < size ? *len + (size_t)added : size - 1;
}

static void add_positions(const struct source_culprit *c, char *text, size_t size, size_t *len) {
    if (c->first == INT64_MIN)
        add(text, size, len, "positions below %" PRId64, c->last + 1);
    else if (c->first == c->last)
        add(text, size, len, "position %" PRId64, c->first);
    else
        add(text, size, len, "positions %" PRId64 " to %" PRId64, c->first, c->last);
}

void culprit_name(const struct source_culprit *c, char *text, size_t size) {
    size_t len = 0;
    text[0] = '\0';
    if (!c->known) {
        add(text, size, &len, "a transaction that writes to the table");
        return;
    }
    if (c->pid != 0)
        add(text, size, &len, "pid %d", c->pid);
    else if (c->prepared[0])
        add(text, size, &len, "prepared transaction '%s'", c->prepared);
    else
        add(text, size, &len, "a prepared transaction that is about to end");
    const char *before = " (";
    if (c->application[0]) {
        add(text, size, &len, "%s%s", before, c->application);
        before = ", ";
    }
    if (c->user[0]) {
        add(text, size, &len, "%suser %s", before, c->user);
        before = ", ";
    }
    if (before[0] == ',')
        add(text, size, &len, ")");
}

static void add_session(const struct source_culprit *c, char *text, size_t size, size_t *len) {
    char began[CLOCK_RFC3339_SIZE];
    if (c->state[0])
        add(text, size, len, "; its session is '%s'", c->state);
    if (c->began_wall_us != 0 && clock_format_rfc3339(c->began_wall_us, began) == 0)
        add(text, size, len, "; it %s %s", c->pid ? "began" : "was prepared", began);
    if (c->grant[0])
        add(text, size, len, "; its state is hidden from us: %s", c->grant);
}

/* A list of locks doesn't say who drew which position. */
static void add_doubt(const struct source_culprit *c, char *text, size_t size, size_t *len) {
    if (c->known && c->holders == 1)
        add(text, size, len, "; that it drew %s is not known, only that no other can have", c->first == c->last ? "it" : "them");
    else if (c->known && c->holders > 1)
        add(text, size, len, "; that it drew %s is not known: it was seen first of the %zu that may have",
            c->first == c->last ? "it" : "them", c->holders);
}

size_t culprit_start(const struct source_culprit *c, int64_t now_us, char *text, size_t size) {
    size_t len = 0, about;
    text[0] = '\0';
    add(text, size, &len, "%zu ranges of positions below the start are missing, more than can be watched: it waits until %s that "
        "may still fill them", c->gaps, c->holders == 1 ? "the transaction" : "the transactions");
    about = len;
    add(text, size, &len, " %s ended: %zu, first of them %s (virtualtransaction of pg_locks); for %.0f s",
        c->holders == 1 ? "has" : "have", c->holders, c->holder, (double)(now_us - c->since_us) / (double)CLOCK_US_PER_S);
    return about;
}

size_t culprit_reason(const struct source_culprit *c, int64_t now_us, char *text, size_t size) {
    char name[sizeof c->prepared + 256];
    size_t len = 0, about;
    add_positions(c, text, size, &len);
    if (c->undrawn) {
        add(text, size, &len, " are not drawn from the table's sequence yet");
    } else {
        culprit_name(c, name, sizeof name);
        add(text, size, &len, " may still be filled by %s", name);
    }
    if (c->full)
        add(text, size, &len, "; nothing more is read: gaps.max is reached");
    about = len;
    if (!c->undrawn) {
        add_session(c, text, size, &len);
        add_doubt(c, text, size, &len);
    }
    if (c->gaps > 1)
        add(text, size, &len, "; %zu more gap%s wait%s", c->gaps - 1, c->gaps == 2 ? "" : "s", c->gaps == 2 ? "s" : "");
    add(text, size, &len, "; open for %.0f s; %s", (double)(now_us - c->since_us) / (double)CLOCK_US_PER_S,
        c->full ? "all other events wait" : "all other events go on");
    return about;
}

size_t culprit_lock_reason(const struct source_culprit *c, const char *schema, char *text, size_t size) {
    char name[sizeof c->prepared + 256];
    size_t len = 0, about;
    culprit_name(c, name, sizeof name);
    add(text, size, &len, "the checkpoint can't be saved, nor the lease extended: its row in %s.checkpoint is locked by %s", schema,
        name);
    about = len;
    add_session(c, text, size, &len);
    return about;
}

void culprit_resumes(const struct source_culprit *c, char *text, size_t size) {
    size_t len = 0;
    text[0] = '\0';
    if (c->starts)
        add(text, size, &len, "when they have ended; after half a minute it begins again to wait");
    else if (c->undrawn)
        add(text, size, &len, "when the sequence has passed them (setval, if it never will)");
    else if (c->known && c->holders > 1)
        add(text, size, &len, "when the %zu transactions that may have drawn %s have ended, at the latest", c->holders,
            c->first == c->last ? "it" : "them");
    else if (c->known && c->pid != 0)
        add(text, size, &len, "when pid %d ends its transaction", c->pid);
    else if (c->known && c->prepared[0])
        add(text, size, &len, "when '%s' is ended: COMMIT PREPARED or ROLLBACK PREPARED", c->prepared);
    else
        add(text, size, &len, "when the transactions that held a lock on the table have ended");
}

void culprit_fill(const struct source_culprit *c, struct forwarder_culprit *ret_culprit) {
    *ret_culprit = (struct forwarder_culprit){.position = c->last, .pid = c->pid, .began_wall_us = c->began_wall_us};
    snprintf(ret_culprit->kind, sizeof ret_culprit->kind, "%s", c->undrawn ? "sequence" : "transaction");
    snprintf(ret_culprit->prepared, sizeof ret_culprit->prepared, "%s", c->prepared);
    snprintf(ret_culprit->application, sizeof ret_culprit->application, "%s", c->application);
    snprintf(ret_culprit->user, sizeof ret_culprit->user, "%s", c->user);
    snprintf(ret_culprit->session, sizeof ret_culprit->session, "%s", c->state);
    if (c->grant[0])
        snprintf(ret_culprit->words, sizeof ret_culprit->words, "state and beginning are hidden from us: %s", c->grant);
    else if (!c->known && !c->undrawn)
        snprintf(ret_culprit->words, sizeof ret_culprit->words, "not found yet");
}

bool culprit_same(const struct source_culprit *a, const struct source_culprit *b) {
    return a->known == b->known && a->pid == b->pid && strcmp(a->prepared, b->prepared) == 0 && a->undrawn == b->undrawn;
}
