/* blocker: whose transaction keeps a statement of the keep connection waiting, asked over the tail */
#include "forwarder/blocker.h"

#include "base/log.h"

/* Who waits for nobody: others that wait for the same lock stand before us in its queue, sessions of ours among them. Each is
 * asked about once. A prepared transaction has no process (0). */
static const char sql[] =
    "WITH RECURSIVE chain (pid) AS (SELECT $1::int UNION SELECT b.pid FROM chain, unnest(pg_blocking_pids(chain.pid)) AS b(pid))"
    " SELECT b.pid, a.application_name, a.usename::text, a.state,"
    " (extract(epoch FROM a.xact_start) * 1000000)::int8,"
    " CASE WHEN a.pid IS NOT NULL AND NOT (pg_has_role('pg_read_all_stats', 'USAGE')"
    " OR pg_has_role(a.usesysid, 'USAGE'))"
    " THEN format('GRANT pg_read_all_stats TO %I;', current_user) END"
    " FROM chain b LEFT JOIN pg_stat_activity a ON a.pid = b.pid WHERE b.pid <> $1"
    " ORDER BY cardinality(pg_blocking_pids(b.pid)), b.pid LIMIT 1";
enum { WHO_PID, WHO_APPLICATION, WHO_USER, WHO_STATE, WHO_BEGAN, WHO_GRANT, WHO_COUNT };

int64_t blocker_due_us(const struct blocker *b) {
    return b->asked_us ? b->asked_us + BLOCKER_AGAIN_US : 0;
}

int blocker_ask(struct blocker *b, int pid, int64_t now_us) {
    struct error ignored; /* said again at the next work */
    char text[PARAM_NUMBER_SIZE];
    struct pgconn_param params[] = {param_number_of(PARAM_INT4, pid, text)};
    ASSERT(!b->asks);
    b->asks = true;
    b->asked_us = now_us;
    b->any = false;
    return pgconn_send(b->tail, NULL, sql, params, ARRAY_LENGTH(params), false, now_us, &ignored);
}

static void take(struct blocker *b) {
    struct span v[WHO_COUNT];
    for (int i = 0; i < WHO_COUNT; i++)
        v[i] = pgconn_value(b->tail, i);
    struct source_culprit *c = &b->who;
    b->any = true;
    *c = (struct source_culprit){.known = true, .first = INT64_MIN, .last = INT64_MIN};
    c->pid = (int)strtol(v[WHO_PID].data, NULL, 10);
    span_copy(c->application, sizeof c->application, v[WHO_APPLICATION]);
    span_copy(c->user, sizeof c->user, v[WHO_USER]);
    span_copy(c->state, sizeof c->state, v[WHO_STATE]);
    span_copy(c->grant, sizeof c->grant, v[WHO_GRANT]);
    c->began_wall_us = span_absent(v[WHO_BEGAN]) ? 0 : strtoll(v[WHO_BEGAN].data, NULL, 10);
}

/* Refused, as by a role without the right: then nobody is known. */
int blocker_work(struct blocker *b, int64_t now_us, struct error *reterr) {
    ASSERT(b->asks);
    int r;
    while ((r = pgconn_fetch(b->tail, reterr)) == 0)
        take(b);
    if (r == PGCONN_E_AGAIN || r == PGCONN_E_LOST)
        return r;
    b->asks = false;
    b->found_us = b->any ? now_us : 0;
    return 0;
}

void blocker_clear(struct blocker *b) {
    b->asked_us = b->found_us = 0;
}

void blocker_reset(struct blocker *b) {
    b->asks = false;
    b->asked_us = 0;
}

const struct source_culprit *blocker_who(const struct blocker *b, int64_t now_us) {
    return b->found_us != 0 && now_us - b->found_us < BLOCKER_FRESH_US ? &b->who : NULL;
}
