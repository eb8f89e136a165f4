/* database_view: what a database tells of itself and of the fact it has said last */
#include "base/clock.h"
#include "base/instance.h"
#include "forwarder/database_state.h"

const struct row *database_row(const struct database *d) {
    return source_row(d->source);
}

struct source_mark database_row_mark(const struct database *d) {
    return source_row_mark(d->source);
}

bool database_mark_counts(const struct database *d) {
    return source_mark_counts(d->source);
}

bool database_caught_up(const struct database *d) {
    return source_caught_up(d->source);
}

uint64_t database_dropped(const struct database *d) {
    return source_dropped(d->source);
}

bool database_connected(const struct database *d) {
    return d->phase == PHASE_UP;
}

bool database_stands_by(const struct database *d) {
    return d->phase == PHASE_STANDBY;
}

const struct database_waiting *database_waiting(const struct database *d) {
    return &d->waiting;
}

int64_t database_leased_us(const struct database *d) {
    return d->leased_us;
}

struct span database_owner(const struct database *d) {
    return checkpoint_has_row(d->checkpoint) ? instance_brief(checkpoint_row(d->checkpoint)->owner) : SPAN_ABSENT;
}

struct span database_owner_place(const struct database *d) {
    return checkpoint_has_row(d->checkpoint) ? instance_place(checkpoint_row(d->checkpoint)->owner) : SPAN_ABSENT;
}

int64_t database_watched_save_wall_us(const struct database *d) {
    return checkpoint_has_row(d->checkpoint) ? checkpoint_row(d->checkpoint)->updated_wall_us : 0;
}

int64_t database_lease_until_us(const struct database *d) {
    if (d->phase == PHASE_UP)
        return d->leased_us + d->options->lease_us;
    bool watches = d->phase == PHASE_STANDBY && checkpoint_has_row(d->checkpoint);
    return watches ? d->watched_us + checkpoint_row(d->checkpoint)->lease_left_us : INT64_MIN;
}

int64_t database_busy_since_us(const struct database *d) {
    int64_t keep_us = pgconn_busy_since_us(d->keep), tail_us = pgconn_busy_since_us(d->tail);
    return keep_us < tail_us ? keep_us : tail_us;
}

const struct source_culprit *database_blocker(const struct database *d, int64_t now_us) {
    return blocker_who(&d->blocker, now_us);
}

const char *database_note(const struct database *d) {
    if (d->phase == PHASE_UP)
        return source_note(d->source);
    return d->note.len > 0 ? d->note.data : "";
}

int64_t database_next_attempt_us(const struct database *d) {
    return d->phase == PHASE_CLOSED ? d->retry_at_us : CLOCK_NEVER;
}

int64_t database_checkpoint_position(const struct database *d) {
    return d->checkpoint_position;
}

bool database_paused(const struct database *d) {
    return checkpoint_has_row(d->checkpoint) && checkpoint_row(d->checkpoint)->paused;
}

int64_t database_epoch(const struct database *d) {
    return checkpoint_has_row(d->checkpoint) ? checkpoint_row(d->checkpoint)->epoch : 0;
}

bool database_new_checkpoint(const struct database *d) {
    return d->new_checkpoint;
}

uint64_t database_reconnects(const struct database *d) {
    return d->ups > 1 ? d->ups - 1 : 0;
}

uint64_t database_writes(const struct database *d) {
    return d->writes;
}

const char *database_mode(const struct database *d) {
    return source_mode(d->source);
}

const struct source *database_source(const struct database *d) {
    return d->source;
}
