/* survey: what a forwarder would find at its start, at its database and its broker; starts and writes nothing */
#include "forwarder/survey.h"

#include <errno.h>

#include "forwarder/survey_database.h"
#include "forwarder/survey_sink.h"

struct survey {
    struct guard *guard;
    struct survey_database *database;
    struct survey_sink sink;
    struct survey_findings findings;
};

int survey_new(const struct forwarder_options *options, uint64_t seed, struct survey **ret_survey) {
    struct survey *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    int r = guard_new(&s->guard);
    if (r == 0)
        r = survey_database_new(options, s->guard, &s->findings, &s->database);
    if (r == 0)
        r = survey_sink_init(&s->sink, options, s->guard, seed, &s->findings);
    if (r < 0) {
        survey_free(s);
        return r;
    }
    *ret_survey = s;
    return 0;
}

void survey_free(struct survey *s) {
    if (!s)
        return;
    survey_sink_done(&s->sink);
    survey_database_free(s->database);
    survey_findings_done(&s->findings);
    guard_free(s->guard);
    free(s);
}

int survey_poll(struct survey *s, struct pollfd fds[SURVEY_POLL_MAX]) {
    survey_database_poll(s->database, &fds[0]);
    return 1 + survey_sink_poll(&s->sink, fds + 1);
}

int64_t survey_deadline_us(const struct survey *s) {
    int64_t database_us = survey_database_deadline_us(s->database), sink_us = survey_sink_deadline_us(&s->sink);
    return database_us < sink_us ? database_us : sink_us;
}

void survey_work(struct survey *s, int64_t now_us) {
    survey_database_work(s->database, now_us);
    survey_sink_work(&s->sink, now_us);
}

bool survey_ended(const struct survey *s) {
    return survey_database_ended(s->database) && s->sink.ended;
}

void survey_give_up(struct survey *s) {
    survey_database_give_up(s->database);
    survey_sink_give_up(&s->sink);
}

const struct survey_findings *survey_findings(const struct survey *s) {
    return &s->findings;
}
