/* kafka_topics: pure: what is known of topics, which to look at next, and what of it users should hear */
#include "sink/kafka_topics.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "sink/kafka_findings.h"
#include "sink/kafka_options.h"

#define BUCKETS 4096 /* a power of two */
/* So much is said of topics that only templates name, the rest is left out: events name them, not operators. */
#define NOTICES_OF_TEMPLATES_MAX 100
/* A look takes along what would be due within that time, so that topics found one by one don't stay one by one. */
#define TOGETHER_US (30 * CLOCK_US_PER_S)

struct entry {
    struct kafka_topic topic; /* its name is the one below */
    struct entry *next;       /* of its bucket */
    bool named;               /* by the rules: never forgotten, always looked at */
    bool known;
    bool doubted; /* and not looked at since */
    bool looked;
    int64_t used_us, again_us;
    int64_t refused_until_us; /* by the broker, whatever a look finds */
    int64_t refused_us;       /* for how long the last time */
    uint32_t failures;                    /* looks in a row that found it not fit */
    unsigned holds, unsaid;               /* bits of enum kafka_finding */
    int32_t partitions, partitions_before; /* the last that were seen, and what they are compared with; 0: none */
    int64_t limit_said;
    char text[];
};

struct kafka_topics {
    struct entry **entries; /* in no order */
    uint32_t count, capacity;
    uint32_t named, named_unlooked;
    uint32_t doubted;
    struct entry *buckets[BUCKETS];
    struct hash_key key; /* names come out of events */
    int64_t due_us;      /* the least again_us of those that are wanted */
    int64_t smallest_limit;

    struct kafka_cluster cluster;
    bool names_more_unsaid;
    uint32_t unsaid;            /* entries with unsaid findings */
    uint32_t said_of_templates; /* up to one more than NOTICES_OF_TEMPLATES_MAX, which is the word that it was reached */
    uint32_t notice_at;         /* entries before it have been asked for what is unsaid */
    char notice[KAFKA_FINDINGS_TEXT_MAX];
};

/* Entries. --------------------------------------------------------------- */

static struct entry **bucket_of(struct kafka_topics *t, struct span name) {
    return &t->buckets[hash_bytes(&t->key, name) % BUCKETS];
}

static struct entry *lookup(struct kafka_topics *t, struct span name) {
    struct entry *e = *bucket_of(t, name);
    while (e && !span_equal(e->topic.name, name))
        e = e->next;
    return e;
}

/* One that no event goes to any more is left alone. */
static bool wanted(const struct entry *e) {
    return e->named || e->used_us >= e->topic.looked_us;
}

static void due_by(struct kafka_topics *t, int64_t at_us) {
    if (at_us < t->due_us)
        t->due_us = at_us;
}

static void sum_up(struct kafka_topics *t) {
    t->due_us = CLOCK_NEVER;
    t->smallest_limit = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct entry *e = t->entries[i];
        if (wanted(e))
            due_by(t, e->again_us);
        int64_t limit = e->known && e->topic.described ? e->topic.max_message_bytes : 0;
        if (limit > 0 && (t->smallest_limit == 0 || limit < t->smallest_limit))
            t->smallest_limit = limit;
    }
}

static void forget(struct kafka_topics *t, uint32_t i) {
    struct entry *e = t->entries[i];
    ASSERT(!e->named);
    struct entry **at = bucket_of(t, e->topic.name);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    t->entries[i] = t->entries[--t->count];
    t->unsaid -= e->unsaid != 0;
    t->doubted -= e->doubted;
    free(e);
}

/* It may have been the one that is due; but the new one is due at once. */
static void forget_the_least_used(struct kafka_topics *t) {
    uint32_t least = t->count;
    for (uint32_t i = 0; i < t->count; i++)
        if (!t->entries[i]->named && (least == t->count || t->entries[i]->used_us < t->entries[least]->used_us))
            least = i;
    if (least < t->count)
        forget(t, least);
}

static int make_room(struct kafka_topics *t) {
    if (t->count < t->capacity)
        return 0;
    uint32_t capacity = t->capacity > 0 ? 2 * t->capacity : 16;
    struct entry **entries = realloc(t->entries, capacity * sizeof *entries);
    if (!entries)
        return -ENOMEM;
    t->entries = entries;
    t->capacity = capacity;
    return 0;
}

/* NULL: no memory. */
static struct entry *add(struct kafka_topics *t, struct span name) {
    ASSERT(name.len > 0);
    ASSERT(name.len <= KAFKA_TOPIC_MAX);
    struct entry *e = make_room(t) < 0 ? NULL : calloc(1, sizeof *e + name.len);
    if (!e)
        return NULL;
    if (t->count - t->named >= KAFKA_TOPICS_MAX)
        forget_the_least_used(t);
    memcpy(e->text, name.data, name.len);
    e->topic.name = (struct span){e->text, name.len};
    struct entry **bucket = bucket_of(t, name);
    e->next = *bucket;
    *bucket = e;
    t->entries[t->count++] = e;
    return e;
}

static int add_named(struct kafka_topics *t, struct span name) {
    if (lookup(t, name))
        return 0;
    struct entry *e = add(t, name);
    if (!e)
        return -ENOMEM;
    e->named = true;
    t->named++;
    t->named_unlooked++;
    t->due_us = 0;
    return 0;
}

/* Making one. ------------------------------------------------------------ */

static void cleanup_topics(struct kafka_topics **t) {
    kafka_topics_free(*t);
}

int kafka_topics_new(const struct sink_setup *setup, struct kafka_topics **ret_topics) {
    CLEANUP(cleanup_topics) struct kafka_topics *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    t->key = hash_key_random();
    t->due_us = CLOCK_NEVER;
    t->names_more_unsaid = setup->names_more;
    kafka_findings_init(&t->cluster, setup);
    for (size_t i = 0; i < setup->named_count; i++)
        if (add_named(t, setup->named[i]) < 0)
            return -ENOMEM;
    *ret_topics = TAKE(t);
    return 0;
}

void kafka_topics_free(struct kafka_topics *t) {
    if (!t)
        return;
    for (uint32_t i = 0; i < t->count; i++)
        free(t->entries[i]);
    free(t->entries);
    free(t);
}

/* For whoever publishes. ------------------------------------------------- */

const struct kafka_topic *kafka_topics_find(struct kafka_topics *t, struct span name, int64_t now_us) {
    struct entry *e = lookup(t, name);
    if (!e) {
        e = add(t, name);
        if (!e)
            return NULL; /* the next call tries again */
        e->again_us = now_us;
    }
    e->used_us = now_us;
    due_by(t, e->again_us);
    return e->known ? &e->topic : NULL;
}

void kafka_topics_doubt(struct kafka_topics *t, struct span name, int64_t now_us) {
    struct entry *e = lookup(t, name);
    if (!e || !e->known || now_us < e->refused_until_us)
        return;
    int64_t earliest_us = e->topic.looked_us + KAFKA_TOPICS_AGAIN_US;
    e->known = false;
    e->doubted = true;
    t->doubted++;
    e->used_us = now_us;
    e->again_us = now_us > earliest_us ? now_us : earliest_us;
    due_by(t, e->again_us);
}

void kafka_topics_review(struct kafka_topics *t, struct span name, int64_t now_us) {
    struct entry *e = lookup(t, name);
    if (!e || !e->known || now_us < e->refused_until_us)
        return;
    int64_t stale_us = e->topic.looked_us + KAFKA_TOPICS_STALE_US;
    int64_t again_us = now_us > stale_us ? now_us : stale_us;
    e->used_us = now_us;
    if (again_us < e->again_us)
        e->again_us = again_us;
    due_by(t, e->again_us);
}

/* If it was written to meanwhile, that took longer than an event waits for its next attempt. */
static int64_t refusal_us(const struct entry *e, int64_t now_us) {
    if (now_us - e->refused_until_us >= e->refused_us)
        return KAFKA_TOPICS_REFUSED_US;
    return 2 * e->refused_us < KAFKA_TOPICS_REFUSED_MAX_US ? 2 * e->refused_us : KAFKA_TOPICS_REFUSED_MAX_US;
}

void kafka_topics_refuse(struct kafka_topics *t, struct span name, const char *reason, int64_t now_us) {
    struct entry *e = lookup(t, name);
    if (!e || !e->known || now_us < e->refused_until_us)
        return; /* the first report of an attempt has said it */
    e->topic.state = KAFKA_TOPIC_REFUSED;
    snprintf(e->topic.reason, sizeof e->topic.reason, "%s", reason);
    e->refused_us = refusal_us(e, now_us);
    e->again_us = e->refused_until_us = now_us + e->refused_us;
    sum_up(t);
}

bool kafka_topics_ready(const struct kafka_topics *t) {
    return t->named_unlooked == 0;
}

bool kafka_topics_certain(const struct kafka_topics *t) {
    return t->doubted == 0;
}

int64_t kafka_topics_smallest_limit(const struct kafka_topics *t) {
    return t->smallest_limit;
}

/* Which to look at. ------------------------------------------------------ */

int64_t kafka_topics_deadline_us(const struct kafka_topics *t) {
    return t->due_us;
}

static uint32_t pick_between(const struct kafka_topics *t, int64_t after_us, int64_t until_us, struct span *names,
                             uint32_t max) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->count && count < max; i++) {
        const struct entry *e = t->entries[i];
        if (wanted(e) && e->again_us > after_us && e->again_us <= until_us)
            names[count++] = e->topic.name;
    }
    return count;
}

uint32_t kafka_topics_pick(const struct kafka_topics *t, int64_t now_us, struct span *ret_names, uint32_t max) {
    uint32_t count = pick_between(t, INT64_MIN, now_us, ret_names, max);
    if (count > 0)
        count += pick_between(t, now_us, now_us + TOGETHER_US, ret_names + count, max - count);
    return count;
}

/* What a look found. ----------------------------------------------------- */

/* What holds now and did not the last time is to be said. What can't be seen now is as it was. */
static void take_note(struct kafka_topics *t, struct entry *e) {
    bool fit = e->topic.state == KAFKA_TOPIC_FIT;
    unsigned before = e->holds, now = kafka_findings_of(&t->cluster, &e->topic);
    if (fit && !e->topic.described)
        now |= before & KAFKA_FINDINGS_OF_CONFIGURATION;
    if (!e->named)
        now &= ~KAFKA_FINDINGS_OF_STATE; /* the event that waits for it says so */

    unsigned news = now & ~before;
    if (fit && (before & KAFKA_FINDINGS_OF_STATE & ~e->unsaid))
        news |= KAFKA_FOUND(KAFKA_THERE_NOW);
    if (now & KAFKA_FOUND(KAFKA_SMALL_LIMIT) && e->topic.described && e->topic.max_message_bytes != e->limit_said)
        news |= KAFKA_FOUND(KAFKA_SMALL_LIMIT);
    if (fit && e->partitions > 0 && e->topic.partitions != e->partitions) {
        news |= KAFKA_FOUND(KAFKA_OTHER_PARTITIONS);
        e->partitions_before = e->partitions;
    }
    if (fit)
        e->partitions = e->topic.partitions;
    if (now & KAFKA_FOUND(KAFKA_SMALL_LIMIT) && e->topic.described)
        e->limit_said = e->topic.max_message_bytes;

    unsigned still = now | (fit ? KAFKA_FOUND(KAFKA_OTHER_PARTITIONS) | KAFKA_FOUND(KAFKA_THERE_NOW) : 0);
    t->unsaid -= e->unsaid != 0;
    e->unsaid = (e->unsaid & still) | news;
    t->unsaid += e->unsaid != 0;
    e->holds = now;
}

static int64_t wait_us(const struct entry *e) {
    if (e->topic.state == KAFKA_TOPIC_FIT)
        return e->topic.described ? KAFKA_TOPICS_FRESH_US : KAFKA_TOPICS_UNDESCRIBED_US;
    int64_t wait = KAFKA_TOPICS_AGAIN_US;
    for (uint32_t i = 1; i < e->failures && wait < KAFKA_TOPICS_AGAIN_MAX_US; i++)
        wait *= 2;
    return wait < KAFKA_TOPICS_AGAIN_MAX_US ? wait : KAFKA_TOPICS_AGAIN_MAX_US;
}

static void learn_one(struct kafka_topics *t, struct entry *e, const struct kafka_topic *found, int64_t now_us) {
    if (e->named && !e->looked)
        t->named_unlooked--;
    e->topic = *found;
    e->topic.name.data = e->text;
    e->looked = e->known = true;
    t->doubted -= e->doubted;
    e->doubted = false;
    e->topic.looked_us = now_us;
    e->failures = found->state == KAFKA_TOPIC_FIT ? 0 : e->failures + 1;
    e->again_us = now_us + wait_us(e);
    take_note(t, e);
}

void kafka_topics_learn(struct kafka_topics *t, const struct kafka_topic *found, uint32_t count, uint32_t brokers,
                        int64_t now_us) {
    if (brokers > t->cluster.brokers)
        t->cluster.brokers = brokers;
    t->notice_at = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct entry *e = lookup(t, found[i].name);
        if (e && now_us >= e->refused_until_us) /* NULL: it was forgotten meanwhile */
            learn_one(t, e, &found[i], now_us);
    }
    sum_up(t);
}

/* What users hear of it. ------------------------------------------------- */

static bool take_finding(struct kafka_topics *t, struct entry **ret_entry, enum kafka_finding *ret_finding) {
    for (; t->unsaid > 0 && t->notice_at < t->count; t->notice_at++) {
        struct entry *e = t->entries[t->notice_at];
        if (e->unsaid == 0)
            continue;
        *ret_entry = e;
        *ret_finding = (enum kafka_finding)__builtin_ctz(e->unsaid);
        e->unsaid &= e->unsaid - 1;
        t->unsaid -= e->unsaid == 0;
        return true;
    }
    return false;
}

static struct sink_notice say_once(struct kafka_topics *t, const char *text) {
    snprintf(t->notice, sizeof t->notice, "%s", text);
    return (struct sink_notice){.warning = false, .text = t->notice};
}

bool kafka_topics_notice(struct kafka_topics *t, struct sink_notice *ret_notice) {
    if (t->names_more_unsaid) {
        t->names_more_unsaid = false;
        *ret_notice = say_once(t, "topics that only templates name are looked at when the first event goes there");
        return true;
    }
    struct entry *e;
    enum kafka_finding finding;
    while (take_finding(t, &e, &finding)) {
        if (!e->named && t->said_of_templates > NOTICES_OF_TEMPLATES_MAX)
            continue;
        if (!e->named && t->said_of_templates++ == NOTICES_OF_TEMPLATES_MAX) {
            *ret_notice = say_once(t, "more could be said of topics that only templates name; from now on it is left out");
            return true;
        }
        bool warning = kafka_findings_say(&t->cluster, &e->topic, e->partitions_before, finding, t->notice);
        bool holds = KAFKA_FOUND(finding) & KAFKA_FINDINGS_OF_STATE;
        *ret_notice = (struct sink_notice){.warning = warning, .holds = holds, .text = t->notice};
        return true;
    }
    return false;
}
