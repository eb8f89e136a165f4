/* penstock_http: one request over the status socket: bounded in bytes and time */
#ifndef PENSTOCK_PENSTOCK_HTTP_H
#define PENSTOCK_PENSTOCK_HTTP_H

#include "base/buf.h"
#include "base/error.h"

#define PENSTOCK_HTTP_MAX_BYTES (4 << 20)
#define PENSTOCK_HTTP_TIMEOUT_US (5 * INT64_C(1000000)) /* from connecting to the last byte */

/* Path segments must be encoded (penstock_http_add_segment). *body, empty
 * before, gets the reply's body, NUL-terminated; *ret_status is its HTTP status.
 * 0; negative errno with *reterr: nobody there, not allowed, too late, too long, no HTTP. */
int penstock_http_get(const char *socket_path, const char *path, struct buf *body, int *ret_status,
                      struct error *reterr) MUST_CHECK;

/* The same with a body of JSON; NUL-terminated. */
int penstock_http_post(const char *socket_path, const char *path, const char *json, struct buf *body, int *ret_status,
                       struct error *reterr) MUST_CHECK;

/* Appends one path segment, percent-encoded (RFC 3986 section 2.1). */
int penstock_http_add_segment(const char *segment, struct buf *path) MUST_CHECK;

#endif
