/* agenda: a heap of numbered things by the time they are due */
#ifndef PENSTOCK_FLOW_AGENDA_H
#define PENSTOCK_FLOW_AGENDA_H

#include <stdint.h>

#include "base/cleanup.h"

/* Numbers 0 to count - 1, each at most once. Allocates at agenda_new only. */
struct agenda;

int agenda_new(uint32_t count, struct agenda **ret_agenda) MUST_CHECK;
void agenda_free(struct agenda *a);
void agenda_clear(struct agenda *a);

/* Asserts that it isn't there. */
void agenda_add(struct agenda *a, uint32_t number, int64_t due_us);
/* Asserts that it is there. */
void agenda_remove(struct agenda *a, uint32_t number);
/* Of the first one; CLOCK_NEVER: empty. */
int64_t agenda_deadline_us(const struct agenda *a);
/* The first one, which stays; asserts that there is one. */
uint32_t agenda_first(const struct agenda *a);

#endif
