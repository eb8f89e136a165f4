/* rabbitmq_named: pure: exchanges and queues that the rules name: which to ask for, and what users hear of them */
#include "sink/rabbitmq_named.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"

enum { CODE_MISSING = 404, CODE_LOCKED = 405 }; /* AMQP 0-9-1 1.2: not-found; resource-locked is another's, but there */

#define TEXT_MAX 2048

enum state { UNASKED, FOUND, MISSING, UNKNOWN };

struct item {
    struct span name;
    bool queue;
    enum state state;
    bool unsaid;
    char reason[RABBITMQ_NAME_MAX + 1];
};

struct rabbitmq_named {
    uint32_t count, unasked;
    bool names_more_unsaid;
    char text[TEXT_MAX];
    struct item items[];
};

struct rabbitmq_question *rabbitmq_probe_add(struct rabbitmq_probe *p, struct span name, bool queue) {
    ASSERT(p->count < RABBITMQ_QUESTIONS_MAX);
    ASSERT(name.len <= RABBITMQ_NAME_MAX);
    struct rabbitmq_question *q = &p->questions[p->count++];
    *q = (struct rabbitmq_question){.name_len = name.len, .queue = queue};
    memcpy(q->name, name.data, name.len);
    return q;
}

/* Making. ----------------------------------------------------------------- */

static struct item *lookup(struct rabbitmq_named *n, struct span name, bool queue) {
    for (uint32_t i = 0; i < n->count; i++)
        if (n->items[i].queue == queue && span_equal(n->items[i].name, name))
            return &n->items[i];
    return NULL;
}

static void add(struct rabbitmq_named *n, struct span name, bool queue) {
    if (name.len == 0 || name.len > RABBITMQ_NAME_MAX || lookup(n, name, queue))
        return;
    n->items[n->count++] = (struct item){.name = name, .queue = queue};
    n->unasked++;
}

int rabbitmq_named_new(const struct sink_setup *setup, struct rabbitmq_named **ret_named) {
    struct rabbitmq_named *n = calloc(1, sizeof *n + setup->named_count * sizeof n->items[0]);
    if (!n)
        return -ENOMEM;
    n->names_more_unsaid = setup->names_more;
    for (size_t i = 0; i < setup->named_count; i++) {
        struct span exchange = setup->named[i];
        if (exchange.len > 0)
            add(n, exchange, false);
        else if (setup->named_seconds && !span_absent(setup->named_seconds[i]))
            add(n, setup->named_seconds[i], true); /* the default exchange routes to the queue of that name */
    }
    *ret_named = n;
    return 0;
}

void rabbitmq_named_free(struct rabbitmq_named *n) {
    free(n);
}

/* Asking. ----------------------------------------------------------------- */

bool rabbitmq_named_looked(const struct rabbitmq_named *n) {
    return n->unasked == 0;
}

void rabbitmq_named_ask(const struct rabbitmq_named *n, struct rabbitmq_probe *p) {
    for (uint32_t i = 0; i < n->count && p->count < RABBITMQ_QUESTIONS_MAX; i++)
        if (n->items[i].state == UNASKED)
            rabbitmq_probe_add(p, n->items[i].name, n->items[i].queue);
}

static enum state state_of(const struct rabbitmq_question *answered) {
    if (answered->found || answered->code == CODE_LOCKED)
        return FOUND;
    return answered->code == CODE_MISSING ? MISSING : UNKNOWN;
}

void rabbitmq_named_learn(struct rabbitmq_named *n, const struct rabbitmq_question *answered) {
    struct item *item = lookup(n, (struct span){answered->name, answered->name_len}, answered->queue);
    if (!item)
        return;
    enum state before = item->state, now = state_of(answered);
    n->unasked -= before == UNASKED;
    item->state = now;
    item->unsaid |= before != now && !(before == UNASKED && now == FOUND);
    snprintf(item->reason, sizeof item->reason, "%s", answered->reason);
}

/* Words. ------------------------------------------------------------------ */

/* As a word for the shell; a name that has quotes of its own is left to the operator. */
static void add_word(char *text, size_t size, const char *before, struct span word) {
    size_t len = strlen(text);
    bool plain = !memchr(word.data, '\'', word.len);
    snprintf(text + len, size - len, "%s'%.*s'", before, plain ? (int)word.len : 4, plain ? word.data : "NAME");
}

static void say_missing(struct rabbitmq_named *n, const struct item *item, const char *vhost) {
    snprintf(n->text, sizeof n->text, "%s '%.*s'%s does not exist in virtual host '%s': its events wait. To make it: rabbitmqadmin",
             item->queue ? "queue" : "exchange", SPAN_ARGS(item->name),
             item->queue ? ", which the default exchange is to route to," : "", vhost);
    add_word(n->text, sizeof n->text, " --vhost=", span_of(vhost));
    add_word(n->text, sizeof n->text, item->queue ? " declare queue name=" : " declare exchange name=", item->name);
    size_t len = strlen(n->text);
    snprintf(n->text + len, sizeof n->text - len, "%s durable=true", item->queue ? "" : " type=topic");
}

static void say(struct rabbitmq_named *n, const struct item *item, const char *vhost, struct sink_notice *notice) {
    const char *kind = item->queue ? "queue" : "exchange";
    switch (item->state) {
    case MISSING:
        notice->warning = notice->holds = true;
        say_missing(n, item, vhost);
        return;
    case UNKNOWN:
        snprintf(n->text, sizeof n->text, "the broker doesn't tell whether there is %s '%.*s' (%s)", kind,
                 SPAN_ARGS(item->name), item->reason);
        return;
    case UNASKED:
    case FOUND:
        snprintf(n->text, sizeof n->text, "%s '%.*s' is there now", kind, SPAN_ARGS(item->name));
        return;
    }
}

bool rabbitmq_named_notice(struct rabbitmq_named *n, const char *vhost, struct sink_notice *ret_notice) {
    *ret_notice = (struct sink_notice){.text = n->text};
    for (uint32_t i = 0; i < n->count; i++) {
        struct item *item = &n->items[i];
        if (!item->unsaid)
            continue;
        item->unsaid = false;
        say(n, item, vhost, ret_notice);
        return true;
    }
    if (!n->names_more_unsaid)
        return false;
    n->names_more_unsaid = false;
    snprintf(n->text, sizeof n->text, "exchanges that only templates name are looked at when the first event goes there");
    return true;
}
