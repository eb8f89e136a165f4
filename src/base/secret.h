/* secret: where a password stands; read at each connect, never printed (G14) */
#ifndef PENSTOCK_BASE_SECRET_H
#define PENSTOCK_BASE_SECRET_H

#include "base/buf.h"
#include "base/error.h"

enum secret_kind {
    SECRET_NONE,
    SECRET_INLINE,     /* the text itself (allowed, warned about) */
    SECRET_CREDENTIAL, /* a file of that name in $CREDENTIALS_DIRECTORY (systemd.exec(5)) */
    SECRET_FILE,       /* a path; refused if group or others can read it */
    SECRET_ENV,        /* an environment variable; unset is an error */
};

/* Owns value. */
struct secret {
    enum secret_kind kind;
    char *value;
};

#define SECRET_MAX_BYTES 65536

/* Appends the secret (one trailing newline of a file is dropped) to *out and
 * terminates it; SECRET_NONE appends nothing. Empty ones and such with a NUL
 * byte are refused. 0; -EINVAL (config); -ENOMEM, -EMSGSIZE, -EIO (retry): *out
 * as before and *reterr set, which names the place, never the content. */
int secret_read(const struct secret *s, struct buf *out, struct error *reterr) MUST_CHECK;

/* Overwrites before freeing. */
void secret_done(struct secret *s);
/* The same for a buf that held one. Usable as CLEANUP(secret_wipe). */
void secret_wipe(struct buf *b);

#endif
