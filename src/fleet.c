/* fleet: the forwarders that run, and the way from one configuration to the next */
#include "fleet.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/limit.h"
#include "base/log.h"
#include "config/config_change.h"
#include "wiring.h"

#define NOT_STARTED_INTERVAL_US (10 * CLOCK_US_PER_S) /* said so often at most; tried whenever somebody looks */

/* One name. It runs by `config`, is to run by `next`, or is on its way from one to the other. */
struct member {
    char *name;
    struct config *config; /* shared; NULL: no forwarder */
    struct forwarder_options options;
    struct forwarder *forwarder;
    struct config *next; /* shared; NULL while it runs as it should, or is to go */
    bool leaving;
    bool told; /* to leave: its mailbox took it */
    int64_t deadline_us; /* while leaving */
    struct limit limit;
    int64_t failing_since_us, failing_since_wall_us; /* it can't be started; 0: it can */
    int failure;
};

struct fleet {
    const char *instance;
    int ended_fd;
    struct config *config; /* the one in force; shared */
    struct member **members;
    size_t count;
    bool stopping;
};

/* Members. --------------------------------------------------------------- */

static void member_free(struct member *m) {
    if (!m)
        return;
    forwarder_free(m->forwarder);
    config_free(m->config);
    config_free(m->next);
    free(m->name);
    free(m);
}

static struct member *member_new(const char *name) {
    struct member *m = calloc(1, sizeof *m);
    if (m)
        m->name = strdup(name);
    if (m && !m->name) {
        free(m);
        return NULL;
    }
    return m;
}

static struct member *find(const struct fleet *f, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->members[i]->name, name) == 0)
            return f->members[i];
    return NULL;
}

static bool member_runs(const struct member *m) {
    return m->forwarder && !m->leaving;
}

static void member_tell(struct member *m) {
    if (m->leaving && !m->told)
        m->told = forwarder_stop(m->forwarder, m->deadline_us) == 0;
}

/* A later deadline than it has already changes nothing: it may have given up by the earlier one. */
static void member_stop(struct member *m, int64_t deadline_us) {
    if (!m->forwarder || (m->leaving && m->deadline_us <= deadline_us))
        return;
    m->leaving = true;
    m->told = false;
    m->deadline_us = deadline_us;
    member_tell(m);
}

/* Whether it goes or is started anew: what it was is over. */
static void member_end(struct member *m) {
    if (!m->forwarder || forwarder_ended(m->forwarder) == FORWARDER_RUNNING)
        return;
    forwarder_free(TAKE(m->forwarder));
    config_free(TAKE(m->config));
    m->leaving = false;
}

static void member_fail(struct member *m, int failure) {
    int64_t now_us = clock_now_us();
    uint64_t left_out;
    if (m->failing_since_us == 0) {
        m->failing_since_us = now_us;
        m->failing_since_wall_us = clock_wall_us();
    }
    m->failure = failure;
    struct log_fields fields = {.forwarder = m->name};
    if (limit_allows(&m->limit, now_us, NOT_STARTED_INTERVAL_US, 1, &left_out))
        log_say(LOG_LEVEL_ERR, &fields, "can't be started: %s: trying again", strerrordesc_np(-failure));
}

static int member_start(struct fleet *f, struct member *m) {
    const struct config_forwarder *from = config_find_forwarder(m->next, m->name);
    ASSERT(from != NULL);
    wiring_forwarder(m->next, from, f->instance, f->ended_fd, &m->options);
    int r = forwarder_start(&m->options, &m->forwarder);
    if (r < 0) {
        member_fail(m, r);
        return r;
    }
    m->config = TAKE(m->next);
    m->failing_since_us = 0;
    return 0;
}

/* From one configuration to the next. ------------------------------------ */

/* What will be; made first, so that a lack of memory changes nothing. */
struct plan {
    struct member **members; /* old and new ones */
    size_t count, kept_count; /* of these those that the new configuration has */
    bool *changed;
};

static void plan_done(struct plan *p) {
    free(p->members);
    free(p->changed);
}

/* Those that are not the fleet's yet. */
static void plan_undo(const struct fleet *f, struct plan *p) {
    for (size_t i = 0; i < p->count; i++)
        if (find(f, p->members[i]->name) != p->members[i])
            member_free(p->members[i]);
}

static int plan_forwarder(const struct fleet *f, const struct config *to, size_t i, struct plan *p) {
    const struct config_forwarder *forwarder = &to->forwarders[i];
    p->changed[i] = true;
    int r = f->config ? config_change_of(f->config, to, forwarder, &p->changed[i]) : 0;
    if (r < 0)
        return r;
    struct member *m = find(f, forwarder->name);
    if (!m)
        m = member_new(forwarder->name);
    if (!m)
        return -ENOMEM;
    p->members[p->count++] = m;
    return 0;
}

static int plan_make(const struct fleet *f, const struct config *to, struct plan *p) {
    p->members = calloc(to->forwarder_count + f->count + 1, sizeof *p->members);
    p->changed = calloc(to->forwarder_count + 1, sizeof *p->changed);
    int r = p->members && p->changed ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < to->forwarder_count; i++)
        r = plan_forwarder(f, to, i, p);
    if (r < 0)
        return r;
    p->kept_count = p->count;
    for (size_t i = 0; i < f->count; i++)
        if (!config_find_forwarder(to, f->members[i]->name))
            p->members[p->count++] = f->members[i];
    return 0;
}

static void plan_follow(struct plan *p, struct config *to, int64_t deadline_us, struct fleet_changes *ret_changes) {
    struct fleet_changes changes = {0};
    for (size_t i = 0; i < p->count; i++) {
        struct member *m = p->members[i];
        bool stays = i < p->kept_count;
        if (stays && m->forwarder && !p->changed[i]) {
            changes.kept++;
            continue;
        }
        *(stays ? m->forwarder ? &changes.restarted : &changes.started : &changes.stopped) += 1;
        config_free(m->next); /* of one that could not be started yet */
        m->next = stays ? config_share(to) : NULL;
        member_stop(m, deadline_us);
    }
    *ret_changes = changes;
}

int fleet_go_to(struct fleet *f, struct config *to, int64_t deadline_us, struct fleet_changes *ret_changes) {
    ASSERT(fleet_settled(f));
    ASSERT(!f->stopping);
    struct plan plan = {0};
    int r = plan_make(f, to, &plan);
    if (r < 0) {
        plan_undo(f, &plan);
        plan_done(&plan);
        return r;
    }
    plan_follow(&plan, to, deadline_us, ret_changes);
    free(f->members);
    f->members = TAKE(plan.members);
    f->count = plan.count;
    plan_done(&plan);
    config_free(f->config);
    f->config = config_share(to);
    return 0;
}

int fleet_settle(struct fleet *f) {
    ASSERT(!f->stopping);
    int result = 0;
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct member *m = f->members[i];
        member_tell(m);
        member_end(m);
        if (!m->forwarder && m->next) {
            int r = member_start(f, m);
            result = r < 0 ? r : result;
        }
        if (m->forwarder || m->next)
            f->members[count++] = m;
        else
            member_free(m);
    }
    f->count = count;
    return result;
}

bool fleet_settled(const struct fleet *f) {
    for (size_t i = 0; i < f->count; i++)
        if (f->members[i]->leaving)
            return false;
    return true;
}

/* Start and end. --------------------------------------------------------- */

int fleet_new(const char *instance, int ended_fd, struct fleet **ret_fleet) {
    struct fleet *f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    f->instance = instance;
    f->ended_fd = ended_fd;
    *ret_fleet = f;
    return 0;
}

void fleet_free(struct fleet *f) {
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        member_free(f->members[i]);
    free(f->members);
    config_free(f->config);
    free(f);
}

void fleet_stop(struct fleet *f, int64_t deadline_us) {
    f->stopping = true;
    for (size_t i = 0; i < f->count; i++)
        member_stop(f->members[i], deadline_us);
}

bool fleet_ended(const struct fleet *f) {
    for (size_t i = 0; i < f->count; i++)
        if (f->members[i]->forwarder && forwarder_ended(f->members[i]->forwarder) == FORWARDER_RUNNING)
            return false;
    return true;
}

bool fleet_ended_late(const struct fleet *f) {
    for (size_t i = 0; i < f->count; i++)
        if (f->members[i]->forwarder && forwarder_ended(f->members[i]->forwarder) == FORWARDER_ENDED_LATE)
            return true;
    return false;
}

void fleet_shut_late(struct fleet *f, int64_t now_us) {
    for (size_t i = 0; i < f->count; i++)
        if (f->members[i]->leaving && now_us >= f->members[i]->deadline_us)
            guard_shut(forwarder_guard(f->members[i]->forwarder));
}

/* Looking. --------------------------------------------------------------- */

size_t fleet_count(const struct fleet *f) {
    return f->count;
}

struct forwarder *fleet_forwarder(const struct fleet *f, size_t i) {
    ASSERT(i < f->count);
    return f->members[i]->forwarder;
}

const char *fleet_name(const struct fleet *f, size_t i) {
    ASSERT(i < f->count);
    return f->members[i]->name;
}

/* It has no thread that could tell of itself; a database that is away for as long makes it unhealthy in time. */
static void describe_failing(const struct member *m, struct forwarder_stats *s) {
    *s = (struct forwarder_stats){
        .state = FORWARDER_STARTING,
        .since_wall_us = m->failing_since_wall_us,
        .source_lost_us = m->failing_since_us,
        .read_position = INT64_MIN,
        .checkpoint_position = INT64_MIN,
    };
    snprintf(s->name, sizeof s->name, "%s", m->name);
    snprintf(s->reason, sizeof s->reason, "can't be started: %s", strerrordesc_np(-m->failure));
    snprintf(s->resumes, sizeof s->resumes, "when the system allows it; tried again each second");
}

size_t fleet_copy_stats(const struct fleet *f, struct forwarder_stats *stats, size_t max) {
    size_t count = 0;
    for (size_t i = 0; i < f->count && count < max; i++) {
        const struct member *m = f->members[i];
        if (m->forwarder)
            forwarder_copy_stats(m->forwarder, &stats[count++]);
        else if (m->failing_since_us != 0)
            describe_failing(m, &stats[count++]);
    }
    return count;
}

int fleet_command(const struct fleet *f, const char *name, const struct mail *mail) {
    const struct member *m = find(f, name);
    if (!m)
        return FORWARDER_E_NOBODY;
    return member_runs(m) ? forwarder_command(m->forwarder, mail) : -EAGAIN;
}
