/* request: path and body of a POST -> an operator's command, and a forwarder's word on it -> the answer */
#ifndef PENSTOCK_STATUS_REQUEST_H
#define PENSTOCK_STATUS_REQUEST_H

#include <sys/types.h>

#include "base/error.h"
#include "base/mailbox.h"
#include "base/span.h"
#include "status/answer.h"

#define REQUEST_ALLOWS "POST"

/* An operator's command, to one forwarder. */
struct request {
    char forwarder[FORWARDER_NAME_MAX];
    struct mail mail; /* without its number */
};

/* Is that the path of a command? */
bool request_is_command(const char *path);

/* POST /forwarders/NAME/pause, resume, skip. The body is a JSON object of the keys that the
 * command has and no others, or empty; `who` (a name for people) is not believed but written beside pid and uid, which
 * the kernel gave. 0; or an HTTP status (400, 404) with *reterr. */
int request_read(const char *path, struct span body, pid_t pid, uid_t uid, struct request *ret_request,
                 struct error *reterr) MUST_CHECK;

/* What the forwarder has answered, as a document or a problem. */
struct answer request_answer(const struct request *r, const struct forwarder_answer *answer);

#endif
