/* metrics: what the forwarders tell -> the text that Prometheus and OpenMetrics scrapers read */
#ifndef PENSTOCK_STATUS_METRICS_H
#define PENSTOCK_STATUS_METRICS_H

#include "status/document.h"

/* Prometheus' text format 0.0.4, or OpenMetrics 1.0: the same figures under the
 * same names, so that whoever changes the scraper keeps the dashboards. */
enum metrics_format { METRICS_PROMETHEUS, METRICS_OPENMETRICS };

/* As the Accept header asks (RFC 9110 section 12.5.1): OpenMetrics where it is
 * named and wanted no less than plain text. NULL: no such header. */
enum metrics_format metrics_format_of(const char *accept);

/* For Content-Type. */
const char *metrics_media_type(enum metrics_format format);

/* malloc'ed, NUL-terminated, the caller's; NULL without memory or past
 * DOCUMENT_MAX_BYTES. What is unknown yet (a position) is left out. Ages are
 * computed from the `now` handed in. */
char *metrics_text(enum metrics_format format, const struct document_daemon *d, const struct forwarder_stats *stats,
                   size_t count, int64_t now_us, int64_t wall_us);

#endif
