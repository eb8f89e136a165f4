/* option: a table of keys, by which a room says what can be configured in it */
#include "base/option.h"

#include <stdlib.h>

static void release_texts(struct option_texts *texts) {
    for (size_t i = 0; i < texts->count; i++)
        free(texts->items[i]);
    free(texts->items);
    *texts = (struct option_texts){0};
}

static void release_properties(struct option_properties *properties) {
    for (size_t i = 0; i < properties->count; i++) {
        free(properties->items[i].name);
        secret_done(&properties->items[i].value);
    }
    free(properties->items);
    *properties = (struct option_properties){0};
}

static void release_text(char **text) {
    free(*text);
    *text = NULL;
}

static void release_member(enum option_kind kind, void *member) {
    switch (kind) {
    case OPTION_TEXT:
        release_text(member);
        return;
    case OPTION_SECRET:
        secret_done(member);
        return;
    case OPTION_TEXTS:
        release_texts(member);
        return;
    case OPTION_PROPERTIES:
        release_properties(member);
        return;
    case OPTION_BOOLEAN:
    case OPTION_INTEGER:
    case OPTION_DURATION:
    case OPTION_SIZE:
    case OPTION_DECIMAL:
    case OPTION_CHOICE:
        return;
    }
}

void option_release(const struct option *table, void *options) {
    for (const struct option *o = table; o->key; o++)
        release_member(o->kind, (char *)options + o->offset);
}
