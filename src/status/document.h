/* document: what the forwarders tell -> the JSON documents of the status socket */
#ifndef PENSTOCK_STATUS_DOCUMENT_H
#define PENSTOCK_STATUS_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forwarder/stats.h"

/* Pure: ages are computed from the `now` handed in, so the lag of a forwarder
 * that hangs still grows. Every text that is not UTF-8 (a peer's words, cut by
 * their bound) comes out as UTF-8 with `?` for what was broken. */

#define DOCUMENT_MAX_BYTES (4 << 20) /* a larger one is not made */

/* What is said of the daemon itself. Borrowed texts. */
struct document_daemon {
    const char *version, *instance;
    int64_t started_wall_us;
    int64_t configuration_wall_us;     /* since when it is in force */
    const char *configuration_refused; /* why the file as it is now isn't; "" or NULL: it is */
    int64_t configuration_refused_wall_us; /* when it was; 0: it isn't */
    int64_t health_max_age_us;
};

/* Each returns malloc'ed JSON text, NUL-terminated with a line end, that the
 * caller frees; NULL without memory or past DOCUMENT_MAX_BYTES. */

/* GET /status: the daemon and every forwarder. */
char *document_status(const struct document_daemon *d, const struct forwarder_stats *stats, size_t count,
                      int64_t now_us, int64_t wall_us);
/* GET /status/NAME: the same of one forwarder. */
char *document_forwarder(const struct document_daemon *d, const struct forwarder_stats *stats, int64_t now_us,
                         int64_t wall_us);
/* GET /health: *ret_healthy, and who is not, why. */
char *document_health(const struct document_daemon *d, const struct forwarder_stats *stats, size_t count,
                      int64_t now_us, int64_t wall_us, bool *ret_healthy);
/* GET /ready: *ret_ready once every forwarder has got past `starting`. */
char *document_ready(const struct forwarder_stats *stats, size_t count, bool *ret_ready);
/* application/problem+json (RFC 9457). */
char *document_problem(int status, const char *title, const char *detail);

#endif
