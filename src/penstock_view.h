/* penstock_view: the status documents as a person reads them on a terminal */
#ifndef PENSTOCK_PENSTOCK_VIEW_H
#define PENSTOCK_PENSTOCK_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* How to show it. Plain data. */
struct penstock_view {
    FILE *out;
    bool color;
    unsigned width;  /* columns, lines are cut there; 0: never */
    int64_t wall_us; /* now, for "since" */
};

/* As fits `out`: color and width only on a terminal, no color with NO_COLOR
 * (no-color.org) or TERM=dumb. */
struct penstock_view penstock_view_of(FILE *out);

/* One line per forwarder. Anything missing in the documents is shown as "-";
 * control characters in what peers said never reach the terminal. */
void penstock_view_table(const struct penstock_view *view, const json_t *forwarders);
/* What is to be said of the daemon beside its forwarders, in a line; nothing: nothing is. */
void penstock_view_daemon(const struct penstock_view *view, const char *before, const json_t *status);
/* Everything about one. */
void penstock_view_forwarder(const struct penstock_view *view, const json_t *forwarder);

#endif
