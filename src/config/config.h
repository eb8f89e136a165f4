/* config: the whole configuration as one immutable value, read from YAML */
#ifndef PENSTOCK_CONFIG_CONFIG_H
#define PENSTOCK_CONFIG_CONFIG_H

#include "base/hash.h"
#include "config/diag.h"
#include "flow/flow.h"
#include "pg/pgconn.h"
#include "rule/rule.h"
#include "sink/sink.h"
#include "source/source.h"

#define CONFIG_DEFAULT_PATH PENSTOCK_SYSCONFDIR "/penstock/penstock.yaml" /* configure: /etc unless told otherwise */
#define CONFIG_DEFAULT_SOCKET "/run/penstock/status.sock"
#define CONFIG_CONNECTIONS_MAX 256
#define CONFIG_FORWARDERS_MAX 256

/* connections: NAME: {postgresql|rabbitmq|…: {…}} */
struct config_connection {
    char *name;
    const struct sink_kind *sink; /* NULL: postgresql */
    struct pgconn_options postgresql;
    void *sink_connection; /* by sink->connection_table */
};

enum config_policy { CONFIG_HOLD, CONFIG_SKIP };

/* forwarders: NAME: … */
struct config_forwarder {
    char *name;
    const struct config_connection *source_connection;
    struct source_options source;
    struct filter *filter; /* of the subscription; NULL: all */
    int64_t poll_min_us, poll_max_us;
    char *listen; /* NULL: no channel */
    bool emit_streamid, emit_streamversion, emit_position;
    char *default_text_type;
    int invalid_json_as_base64; /* 0: invalid_json: reject; 1: base64 */
    struct span *allow_control_characters; /* borrowed from control_characters */
    size_t allow_control_characters_count;
    struct option_texts control_characters;

    const struct config_connection *sink_connection;
    void *sink_options; /* by sink_options_table, binding_options_table and the kind's table */
    char *idempotency_header, *idempotency_value; /* NULL: none; a header of every destination already */
    struct rule_set *rules;
    void **destination_options; /* of the rules, by the kind's destination_options_table; owned here */
    size_t destination_options_count;
    int on_unmatched, on_rejected; /* enum config_policy */
    enum flow_order order;
    char *order_attribute; /* FLOW_BY_KEY */
    int64_t order_in_flight;
    struct backoff_options retry;
    int64_t window_events, window_bytes, window_unsaved;

    char *filter_text, *rules_text; /* for config_print */
};

/* Owns everything. Immutable after load, shared between threads. Each forwarder
 * that runs keeps the one that it was started from. */
struct config {
    unsigned owners; /* the main thread's business */
    struct config_connection *connections;
    size_t connection_count;
    struct config_forwarder *forwarders;
    size_t forwarder_count;
    char *status_socket;
    int status_socket_owner_only; /* mode 0600 instead of 0660 */
    char *status_group, *status_metrics; /* NULL: not given */
    int64_t health_max_age_us;
    int64_t stop_timeout_us;
    char *checkpoint_schema; /* checkpoint: {schema: penstock, create: false, lease: 20s} */
    bool checkpoint_create;
    int64_t checkpoint_lease_us;
};

#define CONFIG_E_REFUSED 1 /* findings of level error in *diag */

/* The file and what stands in conf.d beside it (names ending in .yaml). Every finding goes to diag, warnings
 * too. 0; CONFIG_E_REFUSED; -ENOMEM. */
int config_load(const char *path, struct diag *diag, struct config **ret_config) MUST_CHECK;
/* One more owner. */
struct config *config_share(struct config *c);
/* One owner less; the last one frees. NULL is fine. */
void config_free(struct config *c);
/* NULL: there is none of that name. */
const struct config_forwarder *config_find_forwarder(const struct config *c, const char *name);

/* The effective configuration: defaults shown, secrets masked where inline;
 * loads again to the same. */
int config_print(const struct config *c, struct buf *b) MUST_CHECK;
/* All that one forwarder depends on: its connections, itself, our own tables. Each
 * secret with its hash by that key, to see that it changed: for comparing, not for showing. */
int config_print_forwarder(const struct config *c, const struct config_forwarder *f, const struct hash_key *fingerprints,
                           struct buf *b) MUST_CHECK;

#endif
