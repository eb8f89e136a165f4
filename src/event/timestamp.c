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

/* Takes one character of the set; '\0': it wasn't there. */
static char take_one(struct reader *r, const char *set) {
    if (r->at && r->at < r->end && *r->at != '\0' && strchr(set, *r->at))
        return *r->at++;
    r->at = NULL;
    return '\0';
}

static int days_in_month(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

static bool take_date(struct reader *r) {
    int year = take_digits(r, 4);
    take_one(r, "-");
    int month = take_digits(r, 2);
    take_one(r, "-");
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
    char sign = take_one(r, "+-Zz");
    *ret_minutes = 0;
    if (sign == 'Z' || sign == 'z')
        return true;
    int hour = take_digits(r, 2);
    take_one(r, ":");
    int minute = take_digits(r, 2);
    *ret_minutes = (sign == '-' ? -1 : 1) * (hour * 60 + minute);
    return r->at && hour <= 23 && minute <= 59;
}

bool timestamp_valid(struct span text) {
    struct reader r = {text.data, text.data + text.len};
    if (text.len == 0 || !take_date(&r))
        return false;
    take_one(&r, "Tt");
    int hour = take_digits(&r, 2);
    take_one(&r, ":");
    int minute = take_digits(&r, 2);
    take_one(&r, ":");
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
