/* document: what the forwarders tell -> the JSON documents of the status socket */
#ifndef PENSTOCK_STATUS_DOCUMENT_H
#define PENSTOCK_STATUS_DOCUMENT_H

#include <stddef.h>

#include "forwarder/stats.h"

/* What is said of the daemon itself. Borrowed texts. */
struct document_daemon {
    const char *version, *instance;
    int64_t started_wall_us;
    int64_t health_max_age_us;
};

/* surface.md "Status socket". Returns malloc'ed JSON text (NUL-terminated), NULL without memory. */
char *document_status(const struct document_daemon *d, const struct forwarder_stats *stats, size_t count,
                      int64_t now_us, int64_t wall_us);
/* One forwarder: /status/NAME. */
char *document_forwarder(const struct document_daemon *d, const struct forwarder_stats *stats, int64_t now_us,
                         int64_t wall_us);
/* /health: *ret_healthy, and who is not, why. */
char *document_health(const struct document_daemon *d, const struct forwarder_stats *stats, size_t count,
                      int64_t now_us, int64_t wall_us, bool *ret_healthy);
/* RFC 9457. */
char *document_problem(int status, const char *title, const char *detail);

#endif
