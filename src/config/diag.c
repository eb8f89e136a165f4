/* diag: findings about the configuration, each with its place; all of one run */
#include "config/diag.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

#define DIAG_TEXT_MAX 1024

struct diag_finding {
    enum diag_level level;
    uint32_t line, column;
    size_t file_len; /* text begins with the file's name */
    char *text;
};

struct diag {
    struct diag_finding findings[DIAG_MAX]; /* in order of place */
    size_t kept;
    size_t counts[2];
};

int diag_new(struct diag **ret_diag) {
    struct diag *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    *ret_diag = d;
    return 0;
}

void diag_free(struct diag *d) {
    if (!d)
        return;
    for (size_t i = 0; i < d->kept; i++)
        free(d->findings[i].text);
    free(d);
}

static const char *level_name(enum diag_level level) {
    switch (level) {
    case DIAG_ERROR:
        return "error";
    case DIAG_WARNING:
        return "warning";
    }
    log_bug(__FILE__, __LINE__, "unknown level");
}

/* A key or value from the file may hold anything; a finding is one line of text. */
static void make_one_line(char *text) {
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

static int compare(const struct diag_finding *a, const struct diag_finding *b) {
    size_t shorter = a->file_len < b->file_len ? a->file_len : b->file_len;
    int order = memcmp(a->text, b->text, shorter);
    if (order != 0)
        return order;
    if (a->file_len != b->file_len)
        return a->file_len < b->file_len ? -1 : 1;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->column < b->column ? -1 : a->column > b->column;
}

/* Behind everything that is not after it, so findings of one place keep their order. */
static void insert(struct diag *d, struct diag_finding finding) {
    ASSERT(d->kept < DIAG_MAX);
    size_t at = d->kept;
    while (at > 0 && compare(&d->findings[at - 1], &finding) > 0)
        at--;
    memmove(&d->findings[at + 1], &d->findings[at], (d->kept - at) * sizeof(finding));
    d->findings[at] = finding;
    d->kept++;
}

static char *join(struct diag_place place, enum diag_level level, const char *sentence) {
    char *text = NULL;
    int len = place.line == 0 ? asprintf(&text, "%s: %s: %s", place.file, level_name(level), sentence)
                              : asprintf(&text, "%s:%u:%u: %s: %s", place.file, place.line, place.column,
                                         level_name(level), sentence);
    if (len < 0)
        return NULL;
    make_one_line(text);
    return text;
}

void diag_add_list(struct diag *d, enum diag_level level, struct diag_place place, const char *format, va_list args) {
    d->counts[level]++;
    if (d->kept == DIAG_MAX)
        return;
    char sentence[DIAG_TEXT_MAX];
    vsnprintf(sentence, sizeof(sentence), format, args);
    char *text = join(place, level, sentence);
    if (text)
        insert(d, (struct diag_finding){level, place.line, place.column, strlen(place.file), text});
}

void diag_add(struct diag *d, enum diag_level level, struct diag_place place, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diag_add_list(d, level, place, format, args);
    va_end(args);
}

size_t diag_count(const struct diag *d, enum diag_level level) {
    return d->counts[level];
}

const char *diag_text(const struct diag *d, size_t i, enum diag_level *ret_level) {
    bool cut = d->counts[DIAG_ERROR] + d->counts[DIAG_WARNING] > d->kept;
    if (i == d->kept && cut) {
        *ret_level = d->counts[DIAG_ERROR] > 0 ? DIAG_ERROR : DIAG_WARNING;
        return "there are more findings than are shown here; mend these and run it again";
    }
    if (i >= d->kept)
        return NULL;
    *ret_level = d->findings[i].level;
    return d->findings[i].text;
}

void diag_print(const struct diag *d, FILE *out) {
    enum diag_level level;
    const char *text;
    for (size_t i = 0; (text = diag_text(d, i, &level)) != NULL; i++)
        fprintf(out, "%s\n", text);
}
