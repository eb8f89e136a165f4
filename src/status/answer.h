/* answer: path and headers of a GET -> status, type and text of the reply; knows no HTTP library */
#ifndef PENSTOCK_STATUS_ANSWER_H
#define PENSTOCK_STATUS_ANSWER_H

#include "status/document.h"

struct answer {
    unsigned status;
    const char *type;  /* for Content-Type; static */
    const char *allow; /* for Allow: what else may be asked of that path; static; NULL: does not apply */
    char *text;        /* owned by who asked; NULL: no memory for it */
};

/* `path` decoded, without a query; `accept` NULL: no such header. Every failure is a problem (RFC 9457). */
struct answer answer_get(const struct document_daemon *d, const struct forwarder_stats *stats, size_t count,
                         const char *path, const char *accept);

/* application/problem+json with the name that the status has in RFC 9110. */
struct answer answer_problem(unsigned status, const char *detail);
/* For a method that the path does not know; allow is static. */
struct answer answer_not_allowed(const char *allow);

#define ANSWER_GET_ALLOWS "GET, HEAD"

#endif
