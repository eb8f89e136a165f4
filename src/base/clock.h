/* clock: the two clocks, in microseconds; pure rooms get `now` handed in */
#ifndef PENSTOCK_BASE_CLOCK_H
#define PENSTOCK_BASE_CLOCK_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#define CLOCK_US_PER_S INT64_C(1000000)
#define CLOCK_US_PER_MS INT64_C(1000)
/* "no deadline" */
#define CLOCK_NEVER INT64_MAX

/* CLOCK_BOOTTIME, called monotonic in what follows: timers, deadlines. It goes on while
 * the machine sleeps, and so does what waits for us elsewhere: above all the lease. */
int64_t clock_now_us(void);
int64_t clock_wall_us(void); /* CLOCK_REALTIME since 1970: only to show to people */

/* poll(2) until `deadline_us` by clock_now_us, and not a millisecond longer, which is a lot between two looks at a
 * table; at once if it is past, without end if it is CLOCK_NEVER. As poll(2) otherwise. */
int clock_poll(struct pollfd *fds, size_t count, int64_t deadline_us);

#define CLOCK_RFC3339_SIZE 40
/* RFC 3339 in UTC with `Z`; as many digits of the fraction as needed, none if
 * zero. Years 1 to 9999 only: returns -ERANGE outside, text untouched. */
int clock_format_rfc3339(int64_t wall_us, char text[CLOCK_RFC3339_SIZE]);

#endif
