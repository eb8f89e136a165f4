/* kafka_producer: one instance of librdkafka's producer: messages in, reports and words out */
#include "sink/kafka_producer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "sink/kafka_options.h"

#define GREET_TIMEOUT_US (10 * CLOCK_US_PER_S)
#define GREET_STEP_MS 200 /* the first; the next ones are longer, for brokers that are far */
#define ERRSTR_SIZE 512
/* Handles of topics at hand. The library keeps the topic itself for as long as the instance lives. */
#define TOPICS 256

struct topic {
    rd_kafka_topic_t *handle;
    struct span name; /* in the handle */
};

struct kafka_producer {
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    int fd;
    struct hash_key key;
    struct topic topics[TOPICS];
    struct topic *last; /* the one that was used last; NULL: none */
};

/* Making. ---------------------------------------------------------------- */

static int errno_of(rd_kafka_resp_err_t err) {
    return err == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE ? -EAGAIN : -EINVAL;
}

/* All that it has to say comes through one queue, and wakes one fd. */
static int open_queue(struct kafka_producer *p) {
    static const uint64_t one = 1;
    p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->fd < 0)
        return -errno;
    rd_kafka_set_log_queue(p->rk, NULL);
    p->queue = rd_kafka_queue_get_main(p->rk);
    rd_kafka_queue_io_event_enable(p->queue, p->fd, &one, sizeof one);
    return 0;
}

int kafka_producer_new(rd_kafka_conf_t *conf, struct kafka_producer **ret_producer, struct error *reterr) {
    struct kafka_producer *p = calloc(1, sizeof *p);
    if (!p) {
        rd_kafka_conf_destroy(conf);
        return -ENOMEM;
    }
    p->fd = -1;
    p->key = hash_key_random();
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG);
    char why[ERRSTR_SIZE];
    p->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!p->rk) {
        int result = errno_of(rd_kafka_last_error());
        error_set(reterr, ERROR_CONFIG, "librdkafka can't start: %s", why);
        rd_kafka_conf_destroy(conf);
        free(p);
        return result;
    }
    int result = open_queue(p);
    if (result < 0) {
        error_set(reterr, ERROR_RETRY, "eventfd: %s", strerrordesc_np(-result));
        kafka_producer_free(p);
        return result;
    }
    *ret_producer = p;
    return 0;
}

void kafka_producer_free(struct kafka_producer *p) {
    if (!p)
        return;
    for (size_t i = 0; i < TOPICS; i++)
        if (p->topics[i].handle)
            rd_kafka_topic_destroy(p->topics[i].handle);
    if (p->queue)
        rd_kafka_queue_destroy(p->queue);
    rd_kafka_purge(p->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_destroy(p->rk);
    /* Last: until now the library may have written to it. */
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

/* Greeting. -------------------------------------------------------------- */

bool kafka_producer_unwanted(rd_kafka_resp_err_t err) {
    return err == RD_KAFKA_RESP_ERR__AUTHENTICATION || err == RD_KAFKA_RESP_ERR__SSL ||
           err == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED || err == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
}

/* -EACCES if one of the words is a refusal. The last word is kept: the first is often only a symptom. */
static int hear(struct kafka_producer *p, struct error *reterr) {
    int result = 0;
    rd_kafka_event_t *event;
    while ((event = kafka_producer_event(p))) {
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR && result == 0) {
            if (kafka_producer_unwanted(rd_kafka_event_error(event)))
                result = -EACCES;
            if (result < 0 || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
                error_set(reterr, ERROR_RETRY, "%s", rd_kafka_event_error_string(event));
        }
        rd_kafka_event_destroy(event);
    }
    return result;
}

int kafka_producer_greet(struct kafka_producer *p, int64_t timeout_us, struct error *reterr) {
    int64_t deadline_us = clock_now_us() + timeout_us;
    error_set(reterr, ERROR_RETRY, "no broker answers");
    struct error before; /* of that, nothing counts any more */
    for (int step_ms = GREET_STEP_MS; clock_now_us() < deadline_us; step_ms *= 2) {
        const struct rd_kafka_metadata *metadata = NULL;
        rd_kafka_resp_err_t err = rd_kafka_metadata(p->rk, 0, NULL, &metadata, step_ms);
        if (err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            rd_kafka_metadata_destroy(metadata);
            (void)hear(p, &before);
            return 0;
        }
        int result = hear(p, reterr);
        if (result < 0)
            return result;
    }
    return -ETIMEDOUT;
}

/* Events. ---------------------------------------------------------------- */

int kafka_producer_fd(const struct kafka_producer *p) {
    return p->fd;
}

/* The library writes when its queue was empty: who clears the fd has to take
 * all events, and in this order. */
void kafka_producer_listen(struct kafka_producer *p) {
    uint64_t count;
    (void)!read(p->fd, &count, sizeof count);
}

/* Lines of this facility show sasl.kerberos.kinit.cmd, which may hold a password (G14). */
#define SECRET_FACILITY "SASLREFRESH"

/* false: it is nobody's to hear. */
static bool pass_on(const struct kafka_producer *p, rd_kafka_event_t *event) {
    const char *facility, *text;
    int level;
    if (rd_kafka_event_type(event) != RD_KAFKA_EVENT_LOG || rd_kafka_event_log(event, &facility, &text, &level) < 0)
        return true;
    if (strcmp(facility, SECRET_FACILITY) != 0) {
        log_say(LOG_LEVEL_DEBUG, NULL, "librdkafka (%s) %s: %s", rd_kafka_name(p->rk), facility, text);
        return true;
    }
    if (level <= LOG_LEVEL_WARNING)
        log_say(LOG_LEVEL_WARNING, NULL, "librdkafka (%s): sasl.kerberos.kinit.cmd has failed; what it printed stands in "
                "the log of the service", rd_kafka_name(p->rk));
    return false;
}

rd_kafka_event_t *kafka_producer_event(struct kafka_producer *p) {
    rd_kafka_event_t *event;
    while ((event = rd_kafka_queue_poll(p->queue, 0)) && !pass_on(p, event))
        rd_kafka_event_destroy(event);
    return event;
}

/* Messages. -------------------------------------------------------------- */

static rd_kafka_topic_t *handle_of(struct kafka_producer *p, struct span name) {
    if (p->last && span_equal(p->last->name, name))
        return p->last->handle;
    struct topic *t = &p->topics[hash_bytes(&p->key, name) % TOPICS];
    if (t->handle && span_equal(t->name, name)) {
        p->last = t;
        return t->handle;
    }
    char text[KAFKA_TOPIC_MAX + 1];
    ASSERT(name.len <= KAFKA_TOPIC_MAX);
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    rd_kafka_topic_t *handle = rd_kafka_topic_new(p->rk, text, NULL);
    if (!handle)
        return NULL;
    if (t->handle)
        rd_kafka_topic_destroy(t->handle);
    *t = (struct topic){.handle = handle, .name = span_of(rd_kafka_topic_name(handle))};
    return handle;
}

static rd_kafka_resp_err_t add_header(rd_kafka_headers_t *headers, struct span name, struct span value) {
    return rd_kafka_header_add(headers, name.data, (ssize_t)name.len, value.data ? value.data : "", (ssize_t)value.len);
}

static rd_kafka_headers_t *headers_of(const struct kafka_message *m) {
    const struct binding_message *b = &m->binding;
    const struct destination *d = m->destination;
    rd_kafka_headers_t *headers = rd_kafka_headers_new(b->header_count + d->header_count);
    rd_kafka_resp_err_t err = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0; i < b->header_count && !err; i++)
        err = add_header(headers, b->headers[i].name, b->headers[i].value);
    for (size_t i = 0; i < d->header_count && !err; i++)
        err = add_header(headers, d->headers[i].name, d->headers[i].value);
    ASSERT(!err); /* only a list that a message has taken over can't grow */
    return headers;
}

static void *bytes_of(struct span s) {
    return (void *)(uintptr_t)s.data;
}

rd_kafka_resp_err_t kafka_producer_produce(struct kafka_producer *p, struct span topic, const struct kafka_message *m,
                                           uint64_t tag) {
    rd_kafka_topic_t *handle = handle_of(p, topic);
    if (!handle)
        return rd_kafka_last_error();
    rd_kafka_headers_t *headers = headers_of(m);
    rd_kafka_resp_err_t err = rd_kafka_producev(
        p->rk, RD_KAFKA_V_RKT(handle), RD_KAFKA_V_PARTITION(m->partition), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY(bytes_of(m->key), m->key.len), RD_KAFKA_V_VALUE(bytes_of(m->value), m->value.len),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE((void *)(uintptr_t)tag), RD_KAFKA_V_END);
    if (err)
        rd_kafka_headers_destroy(headers);
    return err;
}

const char *kafka_producer_topic_of(const rd_kafka_message_t *m) {
    return m->rkt ? rd_kafka_topic_name(m->rkt) : "?";
}

bool kafka_producer_fatal(const struct kafka_producer *p, char *ret_text, size_t size) {
    return rd_kafka_fatal_error(p->rk, ret_text, size) != RD_KAFKA_RESP_ERR_NO_ERROR;
}

void kafka_producer_stop(struct kafka_producer *p) {
    rd_kafka_purge(p->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

void kafka_producer_abandon(struct kafka_producer *p) {
    rd_kafka_purge(p->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

/* Connecting. ------------------------------------------------------------ */

struct kafka_call {
    struct kafka_producer *old;
    rd_kafka_conf_t *conf;
};

int kafka_call_new(struct kafka_producer *old, rd_kafka_conf_t *conf, struct kafka_call **ret_call) {
    struct kafka_call *c = malloc(sizeof *c);
    if (!c)
        return -ENOMEM;
    *c = (struct kafka_call){.old = old, .conf = conf};
    *ret_call = c;
    return 0;
}

static void free_call(void *argument) {
    struct kafka_call *c = argument;
    if (c->conf)
        rd_kafka_conf_destroy(c->conf);
    free(c);
}

static void close_producer(void *handle) {
    kafka_producer_free(handle);
}

/* What the one before still sends would only be duplicates: it ends first. */
static void *connect_producer(void *argument, struct error *reterr) {
    struct kafka_call *c = argument;
    struct kafka_producer *p = NULL;
    kafka_producer_free(TAKE(c->old));
    if (!c->conf) {
        error_set(reterr, ERROR_RETRY, "closed");
        return NULL;
    }
    int result = kafka_producer_new(TAKE(c->conf), &p, reterr);
    if (result == -ENOMEM)
        error_set(reterr, ERROR_RETRY, "no memory");
    if (result < 0)
        return NULL;
    if (kafka_producer_greet(p, GREET_TIMEOUT_US, reterr) == 0)
        return p;
    kafka_producer_free(p);
    return NULL;
}

const struct dial_ops kafka_producer_ops = {.connect = connect_producer, .close = close_producer, .free_argument = free_call};
