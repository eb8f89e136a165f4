/* kept: the documents that were made last, for whoever asks the same within a moment */
#ifndef PENSTOCK_STATUS_KEPT_H
#define PENSTOCK_STATUS_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "status/answer.h"
#include "status/metrics.h"

/* Making a document costs more than all else of a request. What it is made from is
 * up to 100 ms old (forwarder/report), so a moment more hides nothing, as long
 * as no state has changed meanwhile: the version says so. */
#define KEPT_FRESH_US (50 * INT64_C(1000))
#define KEPT_MAX 8
#define KEPT_PATH_BYTES 64 /* a longer one is made each time */

struct kept_document {
    char path[KEPT_PATH_BYTES];
    enum metrics_format format;
    uint64_t version;
    int64_t made_us;
    struct answer answer; /* text NULL: none here; owned */
};

/* Embedded; zero is empty. */
struct kept {
    struct kept_document documents[KEPT_MAX];
};

void kept_done(struct kept *k);
/* true: *ret_answer, whose text is the caller's. */
bool kept_find(const struct kept *k, const char *path, enum metrics_format format, uint64_t version, int64_t now_us,
               struct answer *ret_answer) MUST_CHECK;
/* Copies it. Without memory, or if it is a refusal, it isn't kept. */
void kept_put(struct kept *k, const char *path, enum metrics_format format, uint64_t version, int64_t now_us,
              const struct answer *answer);

#endif
