/* penstock_connect: looks at the databases and brokers of all forwarders, as their start would */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "forwarder/survey.h"
#include "penstock_check.h"
#include "wiring.h"

enum { AT_ONCE = 8 };
/* For one forwarder. Steps that hang end by their own deadlines, mostly earlier. */
#define DEADLINE_US (30 * CLOCK_US_PER_S)

struct place {
    struct forwarder_options options;
    struct survey *survey;
    int64_t until_us;
};

/* The forwarders from `first` on, as many as there are at once. */
struct batch {
    const struct config *config;
    size_t first, count;
    struct place places[AT_ONCE];
};

static int start(struct batch *b) {
    int64_t now_us = clock_now_us();
    int r = 0;
    for (size_t i = 0; r == 0 && i < b->count; i++) {
        struct place *p = &b->places[i];
        wiring_forwarder(b->config, &b->config->forwarders[b->first + i], "penstock check", -1, &p->options);
        p->until_us = now_us + DEADLINE_US;
        r = survey_new(&p->options, (uint64_t)now_us + i, &p->survey);
    }
    return r;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void wait_for_something(struct batch *b) {
    struct pollfd fds[AT_ONCE * SURVEY_POLL_MAX];
    int count = 0;
    int64_t deadline_us = CLOCK_NEVER;
    for (size_t i = 0; i < b->count; i++) {
        struct place *p = &b->places[i];
        if (survey_ended(p->survey))
            continue;
        count += survey_poll(p->survey, fds + count);
        deadline_us = earlier(deadline_us, earlier(survey_deadline_us(p->survey), p->until_us));
    }
    clock_poll(fds, (size_t)count, deadline_us);
}

/* false: all have ended. */
static bool turn(struct batch *b, int64_t now_us) {
    bool any = false;
    for (size_t i = 0; i < b->count; i++) {
        struct place *p = &b->places[i];
        if (survey_ended(p->survey))
            continue;
        survey_work(p->survey, now_us);
        if (now_us >= p->until_us)
            survey_give_up(p->survey);
        any |= !survey_ended(p->survey);
    }
    return any;
}

static void run(struct batch *b) {
    int64_t now_us = clock_now_us();
    while (turn(b, now_us)) {
        wait_for_something(b);
        now_us = clock_now_us();
    }
}

static void done(struct batch *b) {
    for (size_t i = 0; i < b->count; i++)
        survey_free(b->places[i].survey);
}

static int check_batch(struct batch *b, penstock_connect_show *show, void *argument) {
    int r = start(b);
    if (r == 0)
        run(b);
    for (size_t i = 0; r == 0 && i < b->count; i++) {
        struct penstock_checked checked = {b->places[i].options.name, survey_findings(b->places[i].survey)};
        show(argument, &checked);
    }
    done(b);
    return r;
}

int penstock_connect(const struct config *config, penstock_connect_show *show, void *argument) {
    int r = 0;
    signal(SIGPIPE, SIG_IGN); /* a TLS library writes to what a peer has closed */
    for (size_t first = 0; r == 0 && first < config->forwarder_count; first += AT_ONCE) {
        size_t left = config->forwarder_count - first;
        struct batch b = {.config = config, .first = first, .count = left < AT_ONCE ? left : AT_ONCE};
        r = check_batch(&b, show, argument);
    }
    return r;
}
