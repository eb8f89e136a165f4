/* clock: the two clocks, in microseconds; pure rooms get `now` handed in */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

static int64_t read_clock(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * CLOCK_US_PER_S + ts.tv_nsec / 1000;
}

int64_t clock_now_us(void) {
    return read_clock(CLOCK_BOOTTIME);
}

int64_t clock_wall_us(void) {
    return read_clock(CLOCK_REALTIME);
}

int clock_poll(struct pollfd *fds, size_t count, int64_t deadline_us) {
    if (deadline_us == CLOCK_NEVER)
        return poll(fds, (nfds_t)count, -1);
    int64_t now_us = clock_now_us(), us = deadline_us > now_us ? deadline_us - now_us : 0;
    struct timespec timeout = {.tv_sec = us / CLOCK_US_PER_S, .tv_nsec = us % CLOCK_US_PER_S * 1000};
    return ppoll(fds, (nfds_t)count, &timeout, NULL);
}

/* Days since 1970-01-01 to a civil date (Howard Hinnant, "chrono-compatible
 * low-level date algorithms", civil_from_days). */
static void civil_from_days(int64_t days, int64_t *year, unsigned *month, unsigned *day) {
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    unsigned day_of_era = (unsigned)(days - era * 146097);
    unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned shifted_month = (5 * day_of_year + 2) / 153;
    *day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    *month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
    *year = (int64_t)year_of_era + era * 400 + (*month <= 2);
}

/* By hand: each event has a time, and snprintf would cost more than all the
 * rest of the event. */
static char *add_char(char *at, char c) {
    *at = c;
    return at + 1;
}

static char *add_two(char *at, unsigned value) {
    at[0] = (char)('0' + value / 10);
    at[1] = (char)('0' + value % 10);
    return at + 2;
}

int clock_format_rfc3339(int64_t wall_us, char text[CLOCK_RFC3339_SIZE]) {
    const int64_t us_per_day = 86400 * CLOCK_US_PER_S;
    int64_t days = wall_us / us_per_day;
    int64_t rest = wall_us % us_per_day;
    if (rest < 0) {
        rest += us_per_day;
        days--;
    }
    int64_t year;
    unsigned month, day;
    civil_from_days(days, &year, &month, &day);
    if (year < 1 || year > 9999)
        return -ERANGE;
    unsigned seconds = (unsigned)(rest / CLOCK_US_PER_S);
    unsigned fraction = (unsigned)(rest % CLOCK_US_PER_S);
    char *at = add_two(add_two(text, (unsigned)year / 100), (unsigned)year % 100);
    at = add_two(add_char(at, '-'), month);
    at = add_two(add_char(at, '-'), day);
    at = add_two(add_char(at, 'T'), seconds / 3600);
    at = add_two(add_char(at, ':'), seconds / 60 % 60);
    at = add_two(add_char(at, ':'), seconds % 60);
    if (fraction > 0) {
        at = add_two(add_char(at, '.'), fraction / 10000);
        at = add_two(at, fraction / 100 % 100);
        at = add_two(at, fraction % 100);
        while (at[-1] == '0')
            at--;
    }
    *add_char(at, 'Z') = '\0';
    return 0;
}
