/* test_confirms: tags, multiple acks, returns, resets; a table, and random schedules against a naive model */
#include "unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sink/confirms.h"

static void free_confirms(struct confirms **c) {
    confirms_free(*c);
}
#define CONFIRMS(name, in_flight, span)                \
    CLEANUP(free_confirms) struct confirms *name = NULL; \
    ck_assert_int_eq(confirms_new(in_flight, span, &name), 0)

/* One letter for each outcome that is there: "C3 N4" is tag 3 confirmed, tag 4 nacked. */
static void expect(struct confirms *c, const char *expected) {
    char seen[256] = "";
    uint64_t token, tag;
    enum confirms_outcome outcome;
    while (confirms_next(c, &token, &tag, &outcome)) {
        size_t len = strlen(seen);
        snprintf(seen + len, sizeof seen - len, "%s%c%" PRIu64, len ? " " : "", "CNRL"[outcome], tag);
        ck_assert_uint_eq(token, 100 + tag);
    }
    ck_assert_str_eq(seen, expected);
}

static void publish(struct confirms *c, int count) {
    for (int i = 0; i < count; i++)
        confirms_publish(c, 100 + confirms_next_tag(c), 0);
}

/* A schedule: p publish, aN ack, mN ack multiple, nN nack, wN nack multiple,
 * rN return, x reset; '!' before one says that it must be unknown. */
static void play(struct confirms *c, const char *schedule) {
    for (const char *p = schedule; *p; p++) {
        bool unknown = *p == '!';
        char op = unknown ? *++p : *p;
        char *end;
        uint64_t tag = op == 'p' || op == 'x' ? 0 : strtoull(p + 1, &end, 10);
        int r = 0;
        switch (op) {
        case 'p': publish(c, 1); break;
        case 'x': confirms_reset(c); break;
        case 'a': r = confirms_ack(c, tag, false); break;
        case 'm': r = confirms_ack(c, tag, true); break;
        case 'n': r = confirms_nack(c, tag, false); break;
        case 'w': r = confirms_nack(c, tag, true); break;
        case 'r': r = confirms_return(c, tag); break;
        default: continue;
        }
        ck_assert_msg(r == (unknown ? CONFIRMS_E_UNKNOWN : 0), "%c%" PRIu64 " of \"%s\" gave %d", op, tag, schedule, r);
        if (op != 'p' && op != 'x')
            p = end - 1;
    }
}

static const struct {
    const char *what, *schedule, *outcomes;
} table[] = {
    {"one ack", "p a1", "C1"},
    {"one nack", "p n1", "N1"},
    {"acks out of order", "pppp a3 a1 a4 a2", "C3 C1 C4 C2"},
    {"multiple takes what is open up to its tag", "ppppp a2 a4 a5 m3", "C2 C4 C5 C1 C3"},
    {"multiple whose own tag was answered before", "ppp a2 m2", "C2 C1"},
    {"nacks overtake a multiple ack", "ppppp n3 n4 n5 m2", "N3 N4 N5 C1 C2"},
    {"multiple nack", "pppp w3 a4", "N1 N2 N3 C4"},
    {"multiple of tag 0 is every open one", "ppp a2 m0", "C2 C1 C3"},
    {"a return decides what its ack means", "pp r1 a1 a2", "R1 C2"},
    {"a return inside a multiple ack", "pppp r2 r4 m4", "C1 R2 C3 R4"},
    {"a returned one that is nacked is returned", "p r1 n1", "R1"},
    {"an ack twice", "pp a1 !a1 a2", "C1 C2"},
    {"a multiple ack twice", "pp m2 !m2", "C1 C2"},
    {"a multiple of nothing", "!m0 p a1 !m0", "C1"},
    {"never published", "p !a2 !m2 !n2 !r2 !a0 !r0 a1", "C1"},
    {"a return after the answer, and twice", "p a1 !r1 p r2 !r2 a2", "C1 R2"},
    {"a reset loses what is open and starts at 1", "pppp a2 r3 x p a1", "C2 L1 L3 L4 C1"},
    {"an ack of before the reset", "ppp x !a2 p !a2", "L1 L2 L3"},
    {"a reset of nothing", "x p a1 x", "C1"},
};

START_TEST(each_schedule_gives_its_outcomes) {
    CONFIRMS(c, 8, 8);
    play(c, table[_i].schedule);
    expect(c, table[_i].outcomes);
}
END_TEST

START_TEST(the_number_in_flight_is_bounded) {
    CONFIRMS(c, 3, 12);
    publish(c, 3);
    ck_assert(!confirms_has_room(c));
    play(c, "a2");
    ck_assert_uint_eq(confirms_open(c), 2);
    ck_assert_msg(!confirms_has_room(c), "an outcome that was not taken keeps its place");
    expect(c, "C2");
    ck_assert(confirms_has_room(c));
}
END_TEST

START_TEST(a_tag_that_is_never_answered_bounds_the_span) {
    CONFIRMS(c, 4, 10);
    publish(c, 1);
    for (uint64_t tag = 2; tag <= 10; tag++) {
        publish(c, 1);
        ck_assert_int_eq(confirms_ack(c, tag, false), 0);
        uint64_t token, answered;
        enum confirms_outcome outcome;
        ck_assert(confirms_next(c, &token, &answered, &outcome));
    }
    ck_assert_uint_eq(confirms_open(c), 1);
    ck_assert(!confirms_has_room(c));
    play(c, "a1");
    expect(c, "C1");
    ck_assert(confirms_has_room(c));
}
END_TEST

START_TEST(the_oldest_open_tag_sets_the_deadline) {
    CONFIRMS(c, 4, 4);
    ck_assert_int_eq(confirms_deadline_us(c, 50), CLOCK_NEVER);
    confirms_publish(c, 101, 1000);
    confirms_publish(c, 102, 1010);
    ck_assert_int_eq(confirms_deadline_us(c, 50), 1050);
    play(c, "a1");
    ck_assert_int_eq(confirms_deadline_us(c, 50), 1060);
    ck_assert_int_eq(confirms_deadline_us(c, INT64_MAX), CLOCK_NEVER);
    play(c, "a2");
    ck_assert_int_eq(confirms_deadline_us(c, 50), CLOCK_NEVER);
}
END_TEST

START_TEST(the_deadline_stands_still_while_blocked) {
    CONFIRMS(c, 4, 4);
    confirms_publish(c, 101, 1000);
    confirms_blocked(c, true, 1020);
    confirms_blocked(c, true, 1025);
    ck_assert_int_eq(confirms_deadline_us(c, 50), CLOCK_NEVER);
    confirms_publish(c, 102, 1030); /* already in the buffer when it came */
    confirms_blocked(c, false, 5020);
    confirms_blocked(c, false, 5025);
    ck_assert_int_eq(confirms_deadline_us(c, 50), 5050);
    play(c, "a1");
    ck_assert_int_eq(confirms_deadline_us(c, 50), 5070);
    confirms_publish(c, 103, 6000);
    play(c, "a2");
    ck_assert_int_eq(confirms_deadline_us(c, 50), 6050);
}
END_TEST

/* The naive model: a list of everything published on this channel, and a list of outcomes. */
#define MODEL_MAX 4096

struct model {
    struct {
        uint64_t token;
        int64_t age_us; /* time on the wire that counts */
        bool open, returned;
    } published[MODEL_MAX];
    size_t count;
    struct {
        uint64_t token, tag;
        enum confirms_outcome outcome;
    } answers[MODEL_MAX];
    size_t answered, taken;
    uint64_t unknown;
    bool blocked;
    uint32_t in_flight_max, span_max;
};

static uint32_t model_open(const struct model *m, uint64_t *ret_oldest) {
    uint32_t open = 0;
    for (size_t i = m->count; i-- > 0;)
        if (m->published[i].open) {
            open++;
            *ret_oldest = i + 1;
        }
    return open;
}

static bool model_has_room(const struct model *m) {
    uint64_t oldest = m->count + 1;
    uint32_t open = model_open(m, &oldest);
    return open + m->answered - m->taken < m->in_flight_max && m->count + 1 - oldest < m->span_max;
}

static void model_answer(struct model *m, uint64_t tag, enum confirms_outcome outcome) {
    m->published[tag - 1].open = false;
    m->answers[m->answered].token = m->published[tag - 1].token;
    m->answers[m->answered].tag = tag;
    m->answers[m->answered++].outcome = outcome;
}

static int model_take(struct model *m, uint64_t tag, bool multiple, enum confirms_outcome outcome) {
    bool any = false;
    for (uint64_t t = 1; t <= m->count; t++) {
        bool meant = multiple ? (tag == 0 || t <= tag) && tag <= m->count : t == tag;
        if (!meant || !m->published[t - 1].open)
            continue;
        model_answer(m, t, m->published[t - 1].returned ? CONFIRMS_RETURNED : outcome);
        any = true;
    }
    m->unknown += !any;
    return any ? 0 : CONFIRMS_E_UNKNOWN;
}

static int model_return(struct model *m, uint64_t tag) {
    if (tag < 1 || tag > m->count || !m->published[tag - 1].open || m->published[tag - 1].returned) {
        m->unknown++;
        return CONFIRMS_E_UNKNOWN;
    }
    m->published[tag - 1].returned = true;
    return 0;
}

static void model_reset(struct model *m) {
    for (uint64_t t = 1; t <= m->count; t++)
        if (m->published[t - 1].open)
            model_answer(m, t, CONFIRMS_LOST);
    m->count = 0;
}

static void model_pass(struct model *m, int64_t us) {
    for (size_t i = 0; i < m->count; i++)
        m->published[i].age_us += m->blocked ? 0 : us;
}

static void same_outcomes(struct model *m, struct confirms *c, size_t most) {
    uint64_t token, tag;
    enum confirms_outcome outcome;
    while (most-- > 0 && confirms_next(c, &token, &tag, &outcome)) {
        ck_assert_uint_lt(m->taken, m->answered);
        ck_assert_uint_eq(token, m->answers[m->taken].token);
        ck_assert_uint_eq(tag, m->answers[m->taken].tag);
        ck_assert_int_eq(outcome, m->answers[m->taken].outcome);
        m->taken++;
    }
}

static void same_view(const struct model *m, const struct confirms *c, int64_t now_us) {
    uint64_t oldest = 0;
    ck_assert_uint_eq(confirms_open(c), model_open(m, &oldest));
    ck_assert_uint_eq(confirms_next_tag(c), m->count + 1);
    ck_assert_int_eq(confirms_has_room(c), model_has_room(m));
    ck_assert_uint_eq(confirms_unknown(c), m->unknown);
    int64_t deadline_us = CLOCK_NEVER;
    if (oldest > 0 && !m->blocked)
        deadline_us = now_us - m->published[oldest - 1].age_us + 500;
    ck_assert_int_eq(confirms_deadline_us(c, 500), deadline_us);
}

static uint64_t dice(uint64_t *random, uint64_t sides) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (*random >> 11) % sides;
}

static void step(struct model *m, struct confirms *c, uint64_t *random, uint64_t *token, int64_t *now_us) {
    uint64_t tag = dice(random, m->count + 3);
    bool multiple = dice(random, 3) == 0;
    switch (dice(random, 12)) {
    case 0: case 1: case 2: case 3: case 4:
        if (!model_has_room(m))
            break;
        confirms_publish(c, ++*token, *now_us);
        m->published[m->count].token = *token;
        m->published[m->count].age_us = 0;
        m->published[m->count].returned = false;
        m->published[m->count++].open = true;
        break;
    case 5: case 6:
        ck_assert_int_eq(confirms_ack(c, tag, multiple), model_take(m, tag, multiple, CONFIRMS_CONFIRMED));
        break;
    case 7:
        ck_assert_int_eq(confirms_nack(c, tag, multiple), model_take(m, tag, multiple, CONFIRMS_NACKED));
        break;
    case 8:
        ck_assert_int_eq(confirms_return(c, tag), model_return(m, tag));
        break;
    case 9:
        same_outcomes(m, c, dice(random, 6));
        break;
    case 10:
        m->blocked = dice(random, 2);
        confirms_blocked(c, m->blocked, *now_us);
        break;
    case 11:
        if (dice(random, 20) == 0) {
            confirms_reset(c);
            model_reset(m);
        }
        break;
    }
    int64_t passed_us = (int64_t)dice(random, 50);
    model_pass(m, passed_us);
    *now_us += passed_us;
}

START_TEST(random_schedules_agree_with_the_model) {
    static struct model m;
    for (uint64_t seed = 1; seed <= 250; seed++) {
        uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15), token = 0;
        int64_t now_us = 1000000;
        m = (struct model){.in_flight_max = 1 + (uint32_t)dice(&random, 12)};
        m.span_max = m.in_flight_max + (uint32_t)dice(&random, 30);
        CONFIRMS(c, m.in_flight_max, m.span_max);
        for (int i = 0; i < 400; i++) {
            step(&m, c, &random, &token, &now_us);
            same_view(&m, c, now_us);
        }
        confirms_reset(c);
        model_reset(&m);
        same_outcomes(&m, c, SIZE_MAX);
        ck_assert_uint_eq(m.taken, m.answered);
        ck_assert_msg(m.taken == token, "seed %" PRIu64 ": %zu outcomes for %" PRIu64 " tokens", seed, m.taken, token);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("confirms");
    TCase *cases = tcase_create("confirms");
    tcase_add_loop_test(cases, each_schedule_gives_its_outcomes, 0, (int)ARRAY_LENGTH(table));
    tcase_add_test(cases, the_number_in_flight_is_bounded);
    tcase_add_test(cases, a_tag_that_is_never_answered_bounds_the_span);
    tcase_add_test(cases, the_oldest_open_tag_sets_the_deadline);
    tcase_add_test(cases, the_deadline_stands_still_while_blocked);
    tcase_add_test(cases, random_schedules_agree_with_the_model);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
