/* kafka_partitions: pure: how much each partition may take, so that one which stands holds no other */
#include "sink/kafka_partitions.h"

#include <errno.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#define PLACES_AT_FIRST 64
#define NEVER INT64_MIN

struct place {
    uint64_t name; /* hash of topic and partition; two with the same would only share their warmth */
    int64_t waits_since_us, confirmed_us;
    uint32_t open; /* under way */
    int32_t partition;
    char *topic;
    size_t topic_len;
};

/* Place 0 is the one that is shared. */
struct kafka_partitions {
    struct hash_key key;
    struct place *places;
    uint32_t count, capacity;
    uint32_t *map; /* open addressing, linear probing: place; 0: empty. Twice the capacity, a power of two */
};

static void forget_all(struct kafka_partitions *p) {
    while (p->count > 0)
        free(p->places[--p->count].topic);
}

int kafka_partitions_new(struct kafka_partitions **ret_partitions) {
    struct kafka_partitions *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->key = hash_key_random();
    p->capacity = PLACES_AT_FIRST;
    p->places = calloc(p->capacity, sizeof *p->places);
    p->map = calloc(2 * p->capacity, sizeof *p->map);
    if (!p->places || !p->map) {
        kafka_partitions_free(p);
        return -ENOMEM;
    }
    kafka_partitions_reset(p);
    *ret_partitions = p;
    return 0;
}

void kafka_partitions_free(struct kafka_partitions *p) {
    if (!p)
        return;
    forget_all(p);
    free(p->places);
    free(p->map);
    free(p);
}

void kafka_partitions_reset(struct kafka_partitions *p) {
    forget_all(p);
    memset(p->map, 0, 2 * p->capacity * sizeof *p->map);
    p->places[0] = (struct place){.confirmed_us = NEVER};
    p->count = 1;
}

/* Where the partition is, or the empty place where it belongs: the map is at most half full. */
static uint32_t *find(const struct kafka_partitions *p, uint64_t name) {
    uint32_t mask = 2 * p->capacity - 1, at = (uint32_t)name & mask;
    while (p->map[at] && p->places[p->map[at]].name != name)
        at = (at + 1) & mask;
    return &p->map[at];
}

static int grow(struct kafka_partitions *p) {
    uint32_t capacity = 2 * p->capacity;
    struct place *places = realloc(p->places, capacity * sizeof *places);
    if (!places)
        return -ENOMEM;
    p->places = places;
    uint32_t *map = calloc(2 * capacity, sizeof *map);
    if (!map)
        return -ENOMEM;
    free(p->map);
    p->map = map;
    p->capacity = capacity;
    for (uint32_t place = 1; place < p->count; place++)
        *find(p, p->places[place].name) = place;
    return 0;
}

static uint64_t name_of(const struct kafka_partitions *p, struct span topic, int32_t partition) {
    uint64_t name = hash_bytes(&p->key, topic);
    return name + ((uint64_t)(uint32_t)partition + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static int add(struct kafka_partitions *p, struct span topic, int32_t partition, uint64_t name) {
    if (p->count == p->capacity && grow(p) < 0)
        return -ENOMEM;
    char *copy = malloc(topic.len + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, topic.data, topic.len);
    p->places[p->count] = (struct place){
        .name = name, .confirmed_us = NEVER, .partition = partition, .topic = copy, .topic_len = topic.len};
    *find(p, name) = p->count++;
    return 0;
}

int kafka_partitions_find(struct kafka_partitions *p, struct span topic, int32_t partition, uint32_t *ret_place) {
    uint64_t name = name_of(p, topic, partition);
    if (!*find(p, name) && p->count < KAFKA_PARTITIONS_MAX && add(p, topic, partition, name) < 0)
        return -ENOMEM;
    *ret_place = *find(p, name);
    ASSERT(*ret_place < p->count);
    return 0;
}

bool kafka_partitions_warm(const struct kafka_partitions *p, uint32_t place, int64_t now_us) {
    ASSERT(place < p->count);
    int64_t confirmed_us = p->places[place].confirmed_us;
    return place > 0 && confirmed_us != NEVER && now_us - confirmed_us < KAFKA_PARTITIONS_WARM_US;
}

bool kafka_partitions_takes(const struct kafka_partitions *p, uint32_t place, uint32_t room, int64_t now_us) {
    ASSERT(place < p->count);
    uint32_t open = p->places[place].open;
    return open == 0 || (open / KAFKA_PARTITIONS_SHARE < room && kafka_partitions_warm(p, place, now_us));
}

void kafka_partitions_sent(struct kafka_partitions *p, uint32_t place, int64_t now_us) {
    ASSERT(place < p->count);
    if (p->places[place].open++ == 0)
        p->places[place].waits_since_us = now_us;
}

int64_t kafka_partitions_waits_since_us(const struct kafka_partitions *p, uint32_t place) {
    ASSERT(place < p->count);
    return p->places[place].waits_since_us;
}

void kafka_partitions_confirmed(struct kafka_partitions *p, uint32_t place, int64_t now_us) {
    ASSERT(place < p->count);
    ASSERT(p->places[place].open > 0);
    p->places[place].open--;
    p->places[place].waits_since_us = p->places[place].confirmed_us = now_us;
}

bool kafka_partitions_name(const struct kafka_partitions *p, uint32_t place, struct span *ret_topic, int32_t *ret_partition) {
    ASSERT(place < p->count);
    if (place == 0)
        return false;
    *ret_topic = (struct span){p->places[place].topic, p->places[place].topic_len};
    *ret_partition = p->places[place].partition;
    return true;
}
