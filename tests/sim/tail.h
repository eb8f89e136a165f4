/* tail: the cores of either mode of tailing, joined to the model of the server */
#ifndef PENSTOCK_TESTS_SIM_TAIL_H
#define PENSTOCK_TESTS_SIM_TAIL_H

#include "flow/flow.h"
#include "sim/postgres.h"
#include "source/gaps.h"
#include "source/plan.h"

struct tail_options {
    enum source_mode mode; /* snapshot or gaps */
    struct gaps_options gaps;
};

struct tail {
    struct tail_options options;
    struct plan *plan;
    struct gaps *gaps;
    struct plan_statement plan_statement;
    struct gaps_statement gaps_statement;
    struct postgres_result result;
    uint32_t at; /* in it */
    bool begun;
};

void tail_start(struct tail *t, const struct tail_options *options);
void tail_stop(struct tail *t);

/* The first cursor of a new forwarder. */
void tail_print_beginning(const struct tail *t, char text[POSTGRES_TEXT_MAX]);
/* From what a load has brought. */
void tail_open(struct tail *t, const char *text, const struct postgres_gaps *gaps, int64_t now_us);

void tail_want(struct tail *t, uint32_t events, uint64_t bytes);
/* true: a statement is to be sent. */
bool tail_next(struct tail *t, int64_t now_us);
/* The server executes it. */
void tail_execute(struct tail *t, struct postgres *pg);
/* Its answer arrives: tail_begin, then tail_row while tail_more, unless one is not kept; then tail_end. */
void tail_begin(struct tail *t);
bool tail_more(const struct tail *t);
/* *ret_row: which it was. false: it no longer fits. */
bool tail_row(struct tail *t, const struct postgres *pg, uint32_t *ret_row);
void tail_end(struct tail *t, int64_t now_us);
bool tail_dropped(struct tail *t, uint64_t *ret_target);
bool tail_caught_up(const struct tail *t);

struct flow_mark tail_mark(const struct tail *t);
/* What a save of that place writes. false: it was given up. */
bool tail_print(struct tail *t, struct flow_mark mark, char text[POSTGRES_TEXT_MAX], struct postgres_changes *ret_changes,
                int64_t now_us);
void tail_saved(struct tail *t, struct flow_mark mark);
void tail_release(struct tail *t, uint64_t oldest_target);
/* NULL, or which invariant is broken. */
const char *tail_broken(const struct tail *t);
/* For traces. */
const char *tail_asked(const struct tail *t);

#endif
