/* text: what pgconn.h says about conninfo and quoting, without a connection */
#include <errno.h>
#include <libpq-fe.h>

#include "base/buf.h"
#include "base/clock.h"
#include "pg/pgconn.h"

#define CONNINFO_MAX 65536

/* libpq quotes the piece that it stumbles over, which may be one of an unquoted password. */
static void explain(const char *conninfo, const char *words, struct error *reterr) {
    bool secret = strcasestr(conninfo, "pass") || strstr(conninfo, "://");
    error_set(reterr, ERROR_CONFIG, "libpq can't read the conninfo%s%s; written is \"host=… dbname=…\" (values with "
              "spaces in single quotes) or \"postgresql://…\"", secret ? "" : ": ", secret ? "" : words);
}

static int check_conninfo(struct span text, struct error *reterr) {
    if (text.len > CONNINFO_MAX || memchr(text.data, '\0', text.len)) {
        error_set(reterr, ERROR_CONFIG, "the conninfo is over %d bytes or holds a NUL", CONNINFO_MAX);
        return -EINVAL;
    }
    CLEANUP(secret_wipe) struct buf b = BUF_INIT(CONNINFO_MAX + 1);
    int r = buf_add_span(&b, text);
    if (r == 0)
        r = buf_terminate(&b);
    if (r != 0)
        return r;
    char *words = NULL;
    PQconninfoOption *options = PQconninfoParse(b.data, &words);
    if (!options && words)
        explain(b.data, words, reterr);
    if (!options)
        r = words ? -EINVAL : -ENOMEM;
    PQfreemem(words);
    PQconninfoFree(options);
    return r;
}

int pgconn_check_options(const struct pgconn_options *options, struct error *reterr) {
    return check_conninfo(span_of(options->conninfo ? options->conninfo : ""), reterr);
}

const struct option pgconn_options_table[] = {
    {.key = "conninfo",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct pgconn_options, conninfo),
     .summary = "what libpq honours: host, port, dbname, user, service, sslmode, passfile …, or a postgresql:// URI",
     .check = check_conninfo},
    {.key = "password",
     .kind = OPTION_SECRET,
     .offset = offsetof(struct pgconn_options, password),
     .summary = "where the password stands; without it libpq's own ways (passfile, peer) remain"},
    {.key = "connect_timeout",
     .kind = OPTION_DURATION,
     .offset = offsetof(struct pgconn_options, connect_timeout_us),
     .fallback = "5s",
     .min = 2 * CLOCK_US_PER_S,
     .max = 600 * CLOCK_US_PER_S,
     .summary = "how long one address may take to answer"},
    {.key = "statement_timeout",
     .kind = OPTION_DURATION,
     .offset = offsetof(struct pgconn_options, statement_timeout_us),
     .fallback = "60s",
     .min = CLOCK_US_PER_S,
     .max = 3600 * CLOCK_US_PER_S,
     .summary = "how long one statement may take before the connection is given up"},
    OPTION_END};

static int quote(struct span text, char mark, bool double_backslash, struct buf *b) {
    int r = buf_reserve(b, 2 * text.len + 2);
    if (r == 0)
        r = buf_add_char(b, mark);
    for (size_t i = 0; r == 0 && i < text.len; i++) {
        char c = text.data[i];
        if (c == mark || (double_backslash && c == '\\'))
            r = buf_add_char(b, c);
        if (r == 0)
            r = buf_add_char(b, c);
    }
    return r ? r : buf_add_char(b, mark);
}

int pgconn_quote_identifier(struct span name, struct buf *b) {
    return quote(name, '"', false, b);
}

/* Right whatever standard_conforming_strings says. */
int pgconn_quote_literal(struct span text, struct buf *b) {
    bool backslash = text.len > 0 && memchr(text.data, '\\', text.len);
    int r = backslash ? buf_add(b, " E", 2) : 0;
    return r ? r : quote(text, '\'', backslash, b);
}
