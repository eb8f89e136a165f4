/* sink: the contract of everything that publishes, and the list of its kinds */
#ifndef PENSTOCK_SINK_SINK_H
#define PENSTOCK_SINK_SINK_H

#include <poll.h>

#include "base/error.h"
#include "base/guard.h"
#include "base/option.h"
#include "event/binding.h"
#include "event/destination.h"
#include "event/event.h"

/* Of every kind; a kind's options struct begins with it. */
struct sink_options {
    int64_t ack_timeout_us;    /* a confirm that takes longer: the connection is renewed (RabbitMQ) */
    int64_t in_flight;         /* on the wire at once; 0: half of window.events */
    int64_t max_message_bytes; /* larger ones are rejected by name */
    struct binding_options binding;
};

/* max_message_bytes, where none is given. */
#define SINK_MAX_MESSAGE_MIB 16
#define SINK_MAX_MESSAGE_BYTES (SINK_MAX_MESSAGE_MIB * 1024 * 1024)

/* Keys: ack_timeout, in_flight, max_message_bytes. (binding_options_table stands beside it.) */
extern const struct option sink_options_table[];

/* What a sink is opened with; borrowed, outlives the sink. */
struct sink_setup {
    const char *forwarder;       /* its name, for the connection's name at the broker */
    const char *connection_name; /* as in the configuration, for messages */
    const void *connection;      /* the kind's connection options */
    const void *options;         /* the kind's options; begins with struct sink_options */
    uint32_t in_flight;          /* resolved; the most tokens accepted and open at once */
    struct guard *guard;         /* its sockets are watched there */
    uint64_t seed;               /* for jitter */
    /* The first field (exchange, topic) of each destination where it stands in the rules as it is, and its second, or absent. */
    const struct span *named, *named_seconds;
    size_t named_count;
    bool names_more; /* templates will name others */
};

/* Something that whoever runs the broker should know and nothing waits for: a topic that would lose its only copy. */
struct sink_notice {
    bool warning, holds; /* holds: what is published there waits until it is mended */
    const char *text; /* a sentence; valid until the next call of the sink */
};

enum sink_outcome_kind {
    SINK_CONFIRMED,
    SINK_NACKED,   /* the broker said no, this time */
    SINK_RETURNED, /* confirmed or not, but routed nowhere */
    SINK_LOST,     /* outcome unknown: the connection or channel died */
    SINK_REJECTED, /* permanent */
};

/* One for each accepted token, exactly once. */
struct sink_outcome {
    uint64_t token;
    enum sink_outcome_kind kind;
    const char *reason; /* for all but SINK_CONFIRMED; valid until the next call of the sink */
};

/* For status and log; texts are valid until the next call of the sink. */
struct sink_view {
    bool connected, elsewhere; /* elsewhere: not connected, as another instance has what only one can have: down_reason */
    bool blocked; /* told to stop publishing, or nothing is confirmed; for how long: blocked_since_us (monotonic) */
    int64_t blocked_since_us;
    const char *blocked_reason; /* a clause of the kind's own: "it has told us to stop publishing: low on memory" */
    const char *blocked_ends;   /* "when …"; NULL: a confirm ends it */
    const char *down_reason;    /* why not connected; NULL: never tried */
    int64_t next_attempt_us;    /* monotonic; CLOCK_NEVER while one runs */
    uint64_t reconnects;
    uint32_t open_tokens;
};

struct sink {
    const struct sink_kind *kind;
};

#define SINK_E_BUSY 1     /* not taken: come again when sink_ready */
#define SINK_E_DOWN 2     /* not taken: not connected */
#define SINK_E_REJECTED 3 /* not taken, permanent: nothing was written; *reterr */
#define SINK_E_RETRY 4    /* not taken, for now hopeless (a missing exchange): nothing was written; *reterr */
#define SINK_POLL_MAX 4

/* A kind: one static const value in its .c file, one line in sinks.list. All
 * calls come from the forwarder's thread and return without waiting. */
struct sink_kind {
    const char *name; /* as under connections: */
    size_t connection_size;
    const struct option *connection_table;
    /* What the table can't say; 0, or -EINVAL with *reterr and the key that it is about (as in the table, or a
     * property's name; untouched: the connection as a whole). May be NULL. */
    int (*check_connection)(const void *connection, const char **ret_key, struct error *reterr);
    size_t options_size; /* >= sizeof(struct sink_options) */
    const struct option *options_table; /* beyond the common ones; may be empty */
    size_t destination_options_size;
    const struct option *destination_options_table; /* keys at a destination beside the fields */
    const struct destination_field *fields;
    uint32_t default_window_events;
    /* Messages of one ordering key arrive in the order of their submits, however many are on the wire: the key's
     * in_flight doesn't count. Then what follows a message that failed must fail, too. */
    bool pipelines_keys;

    /* No connection is made yet: work does that. */
    int (*open)(const struct sink_setup *setup, struct sink **ret_sink);
    void (*close)(struct sink *s); /* without any wait; open tokens are forgotten */
    /* Fills at most SINK_POLL_MAX entries; returns how many. */
    int (*poll)(struct sink *s, struct pollfd *fds);
    int64_t (*deadline)(const struct sink *s); /* monotonic: when work wants to be called at the latest */
    /* Connects, reads what has come, keeps heartbeats. Outcomes are then there for next. */
    void (*work)(struct sink *s, int64_t now_us);
    /* 0: accepted, one outcome will come. Else SINK_E_…, or -ENOMEM. Never calls back. */
    int (*submit)(struct sink *s, const struct event *e, const struct destination *d, uint64_t token, int64_t now_us,
                  struct error *reterr);
    /* After a batch of submits: what was kept back for one write goes out. */
    void (*flush)(struct sink *s);
    bool (*next)(struct sink *s, struct sink_outcome *ret_outcome); /* true: there was one more */
    bool (*ready)(const struct sink *s);                            /* room to submit right now? */
    /* Gives the connection up and makes a new one: every open token gets SINK_LOST. */
    void (*renew)(struct sink *s, int64_t now_us, const char *reason);
    /* This instance may no longer be the active one (G12): what it was handed and has not yet written to a socket must not
     * follow by itself, so renews the connection if there is any such. May be NULL: submit writes at once. */
    void (*fence)(struct sink *s, int64_t now_us, const char *reason);
    /* Whether this instance is the active one by the database (G12), for a broker that lets only one in: not connected while
     * it is not. Never told: it only looks. May be NULL: all are let in. */
    void (*lead)(struct sink *s, int64_t now_us, bool leads);
    void (*view)(const struct sink *s, struct sink_view *ret_view);
    /* true: *ret_notice is the next one, said once. May be NULL: there is never one. */
    bool (*notice)(struct sink *s, struct sink_notice *ret_notice);
    /* All that the rules name has been looked at: the notices of the start are there. May be NULL: nothing is. */
    bool (*looked)(const struct sink *s);
};

const struct sink_kind *sink_kind_find(struct span name); /* NULL if there is none of that name */
const struct sink_kind *sink_kind_at(size_t i);           /* NULL behind the last */

#endif
