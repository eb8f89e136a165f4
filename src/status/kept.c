/* kept: the documents that were made last, for whoever asks the same within a moment */
#include "status/kept.h"

#include <stdlib.h>
#include <string.h>

static void drop(struct kept_document *d) {
    free(d->answer.text);
    d->answer.text = NULL;
}

void kept_done(struct kept *k) {
    for (size_t i = 0; i < KEPT_MAX; i++)
        drop(&k->documents[i]);
}

bool kept_find(const struct kept *k, const char *path, enum metrics_format format, uint64_t version, int64_t now_us,
               struct answer *ret_answer) {
    for (size_t i = 0; i < KEPT_MAX; i++) {
        const struct kept_document *d = &k->documents[i];
        if (!d->answer.text || d->format != format || strcmp(d->path, path) != 0)
            continue;
        if (d->version != version || now_us < d->made_us || now_us - d->made_us >= KEPT_FRESH_US)
            return false;
        *ret_answer = d->answer;
        ret_answer->text = strdup(d->answer.text);
        return ret_answer->text != NULL;
    }
    return false;
}

/* The one of that path, else a free one, else the oldest. */
static struct kept_document *choose(struct kept *k, const char *path, enum metrics_format format) {
    struct kept_document *chosen = &k->documents[0];
    for (size_t i = 0; i < KEPT_MAX; i++) {
        struct kept_document *d = &k->documents[i];
        if (d->answer.text && d->format == format && strcmp(d->path, path) == 0)
            return d;
        if (chosen->answer.text && (!d->answer.text || d->made_us < chosen->made_us))
            chosen = d;
    }
    return chosen;
}

void kept_put(struct kept *k, const char *path, enum metrics_format format, uint64_t version, int64_t now_us,
              const struct answer *answer) {
    bool is_document = answer->text && (answer->status == 200 || answer->status == 503);
    if (!is_document || strlen(path) >= KEPT_PATH_BYTES)
        return;
    struct kept_document *d = choose(k, path, format);
    drop(d);
    d->answer = *answer;
    d->answer.text = strdup(answer->text);
    memcpy(d->path, path, strlen(path) + 1);
    d->format = format;
    d->version = version;
    d->made_us = now_us;
}
