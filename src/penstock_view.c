/* penstock_view: the status documents as a person reads them on a terminal */
#include "penstock_view.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"

struct penstock_view penstock_view_of(FILE *out) {
    struct penstock_view view = {.out = out, .wall_us = clock_wall_us()};
    int fd = fileno(out);
    if (!isatty(fd))
        return view;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    view.color = !(no_color && no_color[0]) && term && strcmp(term, "dumb") != 0;
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0)
        view.width = size.ws_col;
    return view;
}

/* Reading the document. --------------------------------------------------- */

enum { TEXT_MAX = 4096, CELL_MAX = 160 };

/* `inner` NULL: the member itself. */
static const json_t *member(const json_t *f, const char *outer, const char *inner) {
    const json_t *value = json_object_get(f, outer);
    return inner ? json_object_get(value, inner) : value;
}

/* Without what could steer a terminal: C0, DEL, C1. */
static void copy_text(const json_t *string, char *text, size_t size) {
    const char *s = json_string_value(string);
    const char *end = s ? s + json_string_length(string) : NULL;
    size_t len = 0;
    while (s < end && len + 4 < size) {
        uint32_t code = 0;
        size_t bytes = utf8_next(s, end, &code);
        if (bytes == 0 || code < 0x20 || (code >= 0x7F && code < 0xA0))
            text[len++] = ' ';
        else
            for (size_t i = 0; i < bytes; i++)
                text[len++] = s[i];
        s += bytes ? bytes : 1;
    }
    text[len] = '\0';
    if (len == 0)
        memcpy(text, "-", 2);
}

static void copy_integer(const json_t *number, char *text, size_t size) {
    if (json_is_integer(number))
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(number));
    else
        snprintf(text, size, "-");
}

/* The two largest units: 12 s, 14 min, 3 h 20 min, 4 d 2 h. */
static void copy_duration(double seconds, char *text, size_t size) {
    if (seconds < 0)
        seconds = 0;
    int64_t s = seconds < 1e15 ? (int64_t)seconds : INT64_C(1000000000000000);
    if (seconds < 10)
        snprintf(text, size, "%.1f s", seconds);
    else if (s < 60)
        snprintf(text, size, "%" PRId64 " s", s);
    else if (s < 3600)
        snprintf(text, size, "%" PRId64 " min", s / 60);
    else if (s < 86400)
        snprintf(text, size, "%" PRId64 " h %" PRId64 " min", s / 3600, s / 60 % 60);
    else
        snprintf(text, size, "%" PRId64 " d %" PRId64 " h", s / 86400, s / 3600 % 24);
}

static void copy_age(const struct penstock_view *view, const json_t *time, char *text, size_t size) {
    struct tm tm = {0};
    const char *rfc3339 = json_string_value(time);
    if (!rfc3339 || !strptime(rfc3339, "%Y-%m-%dT%H:%M:%S", &tm)) {
        snprintf(text, size, "-");
        return;
    }
    copy_duration((double)(view->wall_us / CLOCK_US_PER_S - (int64_t)timegm(&tm)), text, size);
}

/* Colors. ----------------------------------------------------------------- */

static const char *paint_of(const json_t *f) {
    const char *state = json_string_value(member(f, "state", NULL));
    if (!json_is_true(member(f, "healthy", NULL)))
        return "\033[31m"; /* red */
    bool moves = state && (strcmp(state, "delivering") == 0 || strcmp(state, "idle") == 0);
    return moves ? "\033[32m" : "\033[33m"; /* green, yellow */
}

/* paint NULL: as the terminal has it. */
static void put_painted(const struct penstock_view *view, const char *paint, const char *text) {
    bool painted = view->color && paint;
    fprintf(view->out, "%s%s%s", painted ? paint : "", text, painted ? "\033[0m" : "");
}

/* The table. -------------------------------------------------------------- */

enum column { COLUMN_NAME, COLUMN_STATE, COLUMN_SINCE, COLUMN_POSITION, COLUMN_LAG, COLUMN_WAITING, COLUMN_RATE, COLUMN_COUNT };

static const struct {
    const char *title;
    bool right;
} columns[COLUMN_COUNT] = {
    [COLUMN_NAME] = {"FORWARDER", false},   [COLUMN_STATE] = {"STATE", false}, [COLUMN_SINCE] = {"SINCE", true},
    [COLUMN_POSITION] = {"POSITION", true}, [COLUMN_LAG] = {"LAG", true},      [COLUMN_WAITING] = {"WAITING", true},
    [COLUMN_RATE] = {"RATE", true},
};

struct row {
    char cells[COLUMN_COUNT][CELL_MAX];
};

/* "-" is: nothing waits. */
static void copy_lag(const json_t *f, char *text, size_t size) {
    const json_t *seconds = member(f, "lag", "seconds");
    if (!json_is_number(seconds))
        snprintf(text, size, "?");
    else if (json_is_integer(member(f, "lag", "oldest_position")) || json_number_value(seconds) > 0)
        copy_duration(json_number_value(seconds), text, size);
    else
        snprintf(text, size, "-");
}

static void copy_waiting(const json_t *f, char *text, size_t size) {
    if (!json_is_number(member(f, "lag", "seconds"))) { /* by whoever sees it */
        snprintf(text, size, "?");
        return;
    }
    copy_integer(member(f, "lag", "events"), text, size);
    size_t len = strlen(text);
    if (json_is_true(member(f, "lag", "estimated")) && len + 1 < size)
        memcpy(text + len, "+", 2);
}

static void copy_rate(const json_t *f, char *text, size_t size) {
    const json_t *rate = member(f, "rate", NULL);
    double per_second = json_number_value(rate);
    if (json_is_number(rate))
        snprintf(text, size, per_second > 0 && per_second < 10 ? "%.1f/s" : "%.0f/s", per_second);
    else
        snprintf(text, size, "-");
}

static void fill_row(const struct penstock_view *view, const json_t *f, struct row *row) {
    copy_text(member(f, "name", NULL), row->cells[COLUMN_NAME], CELL_MAX);
    copy_text(member(f, "state", NULL), row->cells[COLUMN_STATE], CELL_MAX);
    copy_age(view, member(f, "since", NULL), row->cells[COLUMN_SINCE], CELL_MAX);
    copy_integer(member(f, "checkpoint", "position"), row->cells[COLUMN_POSITION], CELL_MAX);
    copy_lag(f, row->cells[COLUMN_LAG], CELL_MAX);
    copy_waiting(f, row->cells[COLUMN_WAITING], CELL_MAX);
    copy_rate(f, row->cells[COLUMN_RATE], CELL_MAX);
}

/* Characters, not bytes; names are rarely wider than one column each. */
static int length_of(const char *text) {
    int length = 0;
    for (; *text; text++)
        length += (*text & 0xC0) != 0x80;
    return length;
}

static int put_cell(const struct penstock_view *view, int column, const char *text, const char *paint, int width) {
    int fill = width - length_of(text);
    fprintf(view->out, "%*s", columns[column].right ? fill : 0, "");
    put_painted(view, paint, text);
    fprintf(view->out, "%*s  ", columns[column].right ? 0 : fill, "");
    return width + 2;
}

/* Cut at the terminal's edge, between two characters. */
static void put_rest(const struct penstock_view *view, const char *text, int used) {
    int room = (int)view->width - used;
    if (view->width == 0 || length_of(text) <= room) {
        fprintf(view->out, "%s\n", text);
        return;
    }
    const char *end = text;
    for (int left = room - 1; *end && left > 0; left--)
        do
            end++;
        while ((*end & 0xC0) == 0x80);
    fprintf(view->out, "%.*s\u2026\n", (int)(end - text), text);
}

static void put_titles(const struct penstock_view *view, const int *widths) {
    for (int c = 0; c < COLUMN_COUNT; c++)
        put_cell(view, c, columns[c].title, "\033[1m", widths[c]);
    put_painted(view, "\033[1m", "REASON");
    fputc('\n', view->out);
}

static void put_row(const struct penstock_view *view, const json_t *f, const int *widths) {
    struct row row;
    char reason[TEXT_MAX];
    int used = 0;
    fill_row(view, f, &row);
    for (int c = 0; c < COLUMN_COUNT; c++)
        used += put_cell(view, c, row.cells[c], c == COLUMN_STATE ? paint_of(f) : NULL, widths[c]);
    copy_text(member(f, "reason", NULL), reason, sizeof reason);
    put_rest(view, reason, used);
}

void penstock_view_table(const struct penstock_view *view, const json_t *forwarders) {
    int widths[COLUMN_COUNT];
    for (int c = 0; c < COLUMN_COUNT; c++)
        widths[c] = length_of(columns[c].title);
    size_t i;
    json_t *f;
    json_array_foreach(forwarders, i, f) {
        struct row row;
        fill_row(view, f, &row);
        for (int c = 0; c < COLUMN_COUNT; c++)
            if (length_of(row.cells[c]) > widths[c])
                widths[c] = length_of(row.cells[c]);
    }
    put_titles(view, widths);
    json_array_foreach(forwarders, i, f) put_row(view, f, widths);
}

/* The daemon. -------------------------------------------------------------- */

void penstock_view_daemon(const struct penstock_view *view, const char *before, const json_t *status) {
    char age[CELL_MAX], why[TEXT_MAX];
    const json_t *refused = member(status, "configuration", "refused");
    if (!json_is_string(refused))
        return;
    copy_age(view, member(status, "configuration", "refused_at"), age, sizeof age);
    copy_text(refused, why, sizeof why);
    fprintf(view->out, "%sthe configuration as it is now was refused %s ago, the one before it is in force: %s\n", before, age,
            why);
}

/* One forwarder. ---------------------------------------------------------- */

static void put_label(const struct penstock_view *view, const char *label) {
    fprintf(view->out, "  %-11s ", label);
}

static void put_text(const struct penstock_view *view, const char *before, const json_t *value) {
    char text[TEXT_MAX];
    copy_text(value, text, sizeof text);
    fprintf(view->out, "%s%s", before, text);
}

static void put_integer(const struct penstock_view *view, const char *before, const json_t *value) {
    char text[CELL_MAX];
    copy_integer(value, text, sizeof text);
    fprintf(view->out, "%s%s", before, text);
}

static void put_age(const struct penstock_view *view, const char *before, const json_t *time, const char *after) {
    char text[CELL_MAX];
    copy_age(view, time, text, sizeof text);
    fprintf(view->out, "%s%s%s", before, text, after);
}

static void put_connected(const struct penstock_view *view, const json_t *connected) {
    fputs(json_is_true(connected) ? ", connected" : ", not connected", view->out);
}

static void put_head(const struct penstock_view *view, const json_t *f) {
    char state[CELL_MAX];
    copy_text(member(f, "state", NULL), state, sizeof state);
    put_text(view, "", member(f, "name", NULL));
    fputs("  ", view->out);
    put_painted(view, paint_of(f), state);
    bool healthy = json_is_true(member(f, "healthy", NULL));
    put_age(view, " for ", member(f, "since", NULL), healthy ? ", healthy\n" : ", not healthy\n");
}

static void put_line(const struct penstock_view *view, const char *label, const json_t *value) {
    if (!json_is_string(value))
        return;
    put_label(view, label);
    put_text(view, "", value);
    fputc('\n', view->out);
}

static void put_culprit(const struct penstock_view *view, const json_t *f) {
    const json_t *culprit = member(f, "culprit", NULL);
    if (!json_is_object(culprit))
        return;
    static const char *const parts[][2] = {{"event_id", ", id "}, {"destination", ", to "}, {"prepared", ", prepared as "},
                                           {"application", ", application "}, {"user", ", user "}, {"state", ", "},
                                           {"since", ", since "}, {"words", ": "}};
    put_label(view, "culprit");
    put_text(view, "", json_object_get(culprit, "kind"));
    if (json_is_integer(json_object_get(culprit, "position")))
        put_integer(view, " at position ", json_object_get(culprit, "position"));
    if (json_is_integer(json_object_get(culprit, "pid")))
        put_integer(view, ", pid ", json_object_get(culprit, "pid"));
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++)
        if (json_is_string(json_object_get(culprit, parts[i][0])))
            put_text(view, parts[i][1], json_object_get(culprit, parts[i][0]));
    fputc('\n', view->out);
}

/* Mode gaps: positions that were not seen. */
static void put_gaps(const struct penstock_view *view, const json_t *f) {
    const json_t *gaps = member(f, "source", "gaps");
    if (!json_is_object(gaps))
        return;
    put_label(view, "gaps");
    put_integer(view, "", json_object_get(gaps, "open"));
    put_integer(view, " open, ", json_object_get(gaps, "dead"));
    put_integer(view, " dead and looked at, ", json_object_get(gaps, "dropped"));
    fputs(" given up early\n", view->out);
}

static void put_ends(const struct penstock_view *view, const json_t *f) {
    put_label(view, "source");
    put_text(view, "", member(f, "source", "connection"));
    put_text(view, ", table ", member(f, "source", "table"));
    put_text(view, ", mode ", member(f, "source", "mode"));
    put_connected(view, member(f, "source", "connected"));
    put_integer(view, ", read up to ", member(f, "source", "read_position"));
    fputc('\n', view->out);
    put_label(view, "sink");
    put_text(view, "", member(f, "sink", "connection"));
    put_text(view, ", kind ", member(f, "sink", "kind"));
    put_connected(view, member(f, "sink", "connected"));
    if (json_is_string(member(f, "sink", "blocked_since")))
        put_age(view, ", blocked for ", member(f, "sink", "blocked_since"), "");
    fputc('\n', view->out);
}

static void put_progress(const struct penstock_view *view, const json_t *f) {
    char text[CELL_MAX];
    put_label(view, "checkpoint");
    put_integer(view, "", member(f, "checkpoint", "position"));
    if (json_is_string(member(f, "checkpoint", "saved")))
        put_age(view, ", saved ", member(f, "checkpoint", "saved"), " ago");
    put_integer(view, ", epoch ", member(f, "checkpoint", "epoch"));
    fputc('\n', view->out);
    put_label(view, "lag");
    copy_lag(f, text, sizeof text);
    fputs(text, view->out);
    put_integer(view, ", oldest position ", member(f, "lag", "oldest_position"));
    copy_waiting(f, text, sizeof text);
    fprintf(view->out, ", %s waiting\n", text);
    put_label(view, "rate");
    copy_rate(f, text, sizeof text);
    fprintf(view->out, "%s\n", text);
}

static void put_window(const struct penstock_view *view, const json_t *f) {
    put_label(view, "window");
    put_integer(view, "", member(f, "window", "events"));
    put_integer(view, " of ", member(f, "window", "max_events"));
    put_integer(view, " events, ", member(f, "window", "bytes"));
    put_integer(view, " of ", member(f, "window", "max_bytes"));
    put_integer(view, " bytes, ", member(f, "window", "unsaved"));
    put_integer(view, " of ", member(f, "window", "max_unsaved"));
    put_integer(view, " unsaved, ", member(f, "window", "held"));
    put_integer(view, " held, ", member(f, "window", "followers"));
    fputs(" behind them\n", view->out);
}

static void put_counts(const struct penstock_view *view, const json_t *f) {
    const char *key;
    json_t *value;
    const char *between = "";
    put_label(view, "counts");
    json_object_foreach((json_t *)member(f, "counts", NULL), key, value) {
        fprintf(view->out, "%s%s", between, key);
        put_integer(view, " ", value);
        between = ", ";
    }
    fputc('\n', view->out);
}

void penstock_view_forwarder(const struct penstock_view *view, const json_t *f) {
    put_head(view, f);
    put_line(view, "reason", member(f, "reason", NULL));
    put_line(view, "resumes", member(f, "resumes", NULL));
    put_culprit(view, f);
    put_ends(view, f);
    put_gaps(view, f);
    put_progress(view, f);
    put_window(view, f);
    put_counts(view, f);
    put_label(view, "lease");
    fputs(json_is_true(member(f, "lease", "held")) ? "held" : "not held", view->out);
    put_text(view, ", owner ", member(f, "lease", "owner"));
    if (json_is_string(member(f, "lease", "place"))) /* the first ones of two containers have one name */
        put_text(view, ", place ", member(f, "lease", "place"));
    fputc('\n', view->out);
}
