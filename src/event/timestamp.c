/* timestamp: is a text an RFC 3339 date and time? */
#include "event/timestamp.h"

/* What is left to read; at becomes NULL at the first fault. */
struct reader {
    const char *at, *end;
};

static int take_digits(struct reader *r, int count) {
    int value = 0;
    for (int i = 0; i < count && r->at; i++) {
        if (r->at == r->end || *r->at < '0' || *r->at > '9') {
            r->at = NULL;
            return 0;
        }
        value = value * 10 + (*r->at++ - '0');
    }
    return value;
}

static void take(struct reader *r, char c) {
    if (r->at && r->at < r->end && *r->at == c)
        r->at++;
    else
        r->at = NULL;
}

/* T and Z may be lower case (section 5.6, note). */
static bool take_letter(struct reader *r, char upper) {
    if (!r->at || r->at == r->end || (*r->at & ~0x20) != upper)
        return false;
    r->at++;
    return true;
}

static int days_in_month(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

static bool take_date(struct reader *r) {
    int year = take_digits(r, 4);
    take(r, '-');
    int month = take_digits(r, 2);
    take(r, '-');
    int day = take_digits(r, 2);
    return r->at && month >= 1 && month <= 12 && day >= 1 && day <= days_in_month(year, month);
}

static void take_fraction(struct reader *r) {
    if (!r->at || r->at == r->end || *r->at != '.')
        return;
    r->at++;
    take_digits(r, 1);
    while (r->at && r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
}

/* Minutes east of UTC. */
static bool take_offset(struct reader *r, int *ret_minutes) {
    *ret_minutes = 0;
    if (take_letter(r, 'Z'))
        return true;
    bool west = r->at && r->at < r->end && *r->at == '-';
    take(r, west ? '-' : '+');
    int hour = take_digits(r, 2);
    take(r, ':');
    int minute = take_digits(r, 2);
    *ret_minutes = (west ? -1 : 1) * (hour * 60 + minute);
    return r->at && hour <= 23 && minute <= 59;
}

bool timestamp_valid(struct span text) {
    struct reader r = {text.data, text.data + text.len};
    if (text.len == 0 || !take_date(&r) || !take_letter(&r, 'T'))
        return false;
    int hour = take_digits(&r, 2);
    take(&r, ':');
    int minute = take_digits(&r, 2);
    take(&r, ':');
    int second = take_digits(&r, 2);
    take_fraction(&r);
    int offset;
    if (!take_offset(&r, &offset) || r.at != r.end)
        return false;
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    const int day = 24 * 60;
    int utc_minute = (hour * 60 + minute - offset + day) % day;
    return second < 60 || utc_minute == day - 1;
}
