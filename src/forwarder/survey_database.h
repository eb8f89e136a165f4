/* survey_database: what a start would find at the database: our tables, the event table, the checkpoint */
#ifndef PENSTOCK_FORWARDER_SURVEY_DATABASE_H
#define PENSTOCK_FORWARDER_SURVEY_DATABASE_H

#include "forwarder/forwarder.h"
#include "forwarder/survey_findings.h"

/* One connection, on which only is read; with checkpoint: {create: true} too. */
struct survey_database;

/* Borrows all. No connection yet. 0; -ENOMEM. */
int survey_database_new(const struct forwarder_options *options, struct guard *guard, struct survey_findings *findings,
                        struct survey_database **ret_database) MUST_CHECK;
void survey_database_free(struct survey_database *d);

void survey_database_poll(const struct survey_database *d, struct pollfd *ret_fd);
int64_t survey_database_deadline_us(const struct survey_database *d);
void survey_database_work(struct survey_database *d, int64_t now_us);
bool survey_database_ended(const struct survey_database *d);
/* The time for it is over: adds that. */
void survey_database_give_up(struct survey_database *d);

#endif
