/* penstock_check: the command that says whether the daemon could start: all findings, of the configuration and beyond */
#include "penstock_check.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "penstock_command.h"

static void free_diag(struct diag **d) {
    diag_free(*d);
}

static void free_config(struct config **c) {
    config_free(*c);
}

static int say_failed(const char *what, int r) {
    fprintf(stderr, "penstock: can't %s: %s\n", what, strerror(-r));
    return PENSTOCK_NO;
}

static const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

/* As JSON. ------------------------------------------------------------------ */

static json_t *findings_json(const struct diag *diag) {
    json_t *findings = json_array();
    enum diag_level level;
    const char *text;
    for (size_t i = 0; (text = diag_text(diag, i, &level)) != NULL; i++)
        json_array_append_new(findings, json_pack("{s:s, s:s%}", "level", level == DIAG_ERROR ? "error" : "warning",
                                                  "text", text, strlen(text)));
    return findings;
}

static const char *level_name(enum survey_level level) {
    switch (level) {
    case SURVEY_NOTE:
        return "note";
    case SURVEY_WARNING:
        return "warning";
    case SURVEY_ERROR:
        break;
    }
    return "error";
}

static json_t *forwarder_json(const struct penstock_checked *c) {
    json_t *findings = json_array();
    for (size_t i = 0; i < c->findings->count; i++) {
        const struct survey_finding *f = &c->findings->items[i];
        json_array_append_new(findings, json_pack("{s:s, s:s%, s:s%}", "level", level_name(f->level), "place", f->place,
                                                  strlen(f->place), "text", f->text, strlen(f->text)));
    }
    return json_pack("{s:s, s:b, s:o}", "name", c->name, "ready", penstock_checked_ready(c), "findings", findings);
}

static int print_json(json_t *root) {
    int r = root ? json_dumpf(root, stdout, JSON_INDENT(1)) : -1;
    json_decref(root);
    if (r < 0)
        return say_failed("print the findings as JSON", -ENOMEM);
    putchar('\n');
    return 0;
}

/* As text. ------------------------------------------------------------------ */

static void print_findings(const char *path, const struct diag *diag, bool accepted) {
    diag_print(diag, stdout);
    size_t errors = diag_count(diag, DIAG_ERROR), warnings = diag_count(diag, DIAG_WARNING);
    printf("%s: %s, %zu error%s, %zu warning%s\n", path, accepted ? "accepted" : "refused", errors, plural(errors),
           warnings, plural(warnings));
}

static size_t count_of(const struct penstock_checked *c, enum survey_level level) {
    size_t count = 0;
    for (size_t i = 0; i < c->findings->count; i++)
        count += c->findings->items[i].level == level;
    return count;
}

bool penstock_checked_ready(const struct penstock_checked *c) {
    return !c->findings->failed && count_of(c, SURVEY_ERROR) == 0;
}

static void print_forwarder(const struct penstock_checked *c) {
    for (size_t i = 0; i < c->findings->count; i++) {
        const struct survey_finding *f = &c->findings->items[i];
        printf("%s: %s: %s: %s\n", c->name, level_name(f->level), f->place, f->text);
    }
    size_t errors = count_of(c, SURVEY_ERROR), warnings = count_of(c, SURVEY_WARNING);
    printf("%s: %s, %zu error%s, %zu warning%s\n", c->name, penstock_checked_ready(c) ? "ready" : "not ready", errors,
           plural(errors), warnings, plural(warnings));
}

/* --------------------------------------------------------------------------- */

/* Where each forwarder's findings go, in the order of the configuration. */
struct show {
    json_t *forwarders; /* NULL: printed as text */
    bool all_ready;
};

static void show(void *argument, const struct penstock_checked *checked) {
    struct show *s = argument;
    s->all_ready &= penstock_checked_ready(checked);
    if (s->forwarders)
        json_array_append_new(s->forwarders, forwarder_json(checked));
    else
        print_forwarder(checked);
}

/* To be asked after the configuration's own findings have been said. */
static int connect_all(const struct config *config, struct show *s) {
    fflush(stdout);
    int r = penstock_connect(config, show, s);
    return r < 0 ? say_failed("look at databases and brokers", r) : s->all_ready ? PENSTOCK_YES : PENSTOCK_NO;
}

static int check_as_text(const char *path, const struct diag *diag, const struct config *config, bool connect) {
    struct show s = {.all_ready = true};
    print_findings(path, diag, config != NULL);
    if (!config)
        return PENSTOCK_NO;
    return connect ? connect_all(config, &s) : PENSTOCK_YES;
}

static int check_as_json(const char *path, const struct diag *diag, const struct config *config, bool connect) {
    struct show s = {.all_ready = true};
    int status = config ? PENSTOCK_YES : PENSTOCK_NO;
    json_t *root = json_pack("{s:s, s:b, s:o}", "file", path, "accepted", config != NULL, "findings", findings_json(diag));
    if (config && connect) {
        s.forwarders = json_array();
        status = connect_all(config, &s);
        json_object_set_new(root, "ready", json_boolean(status == PENSTOCK_YES));
        json_object_set_new(root, "forwarders", s.forwarders);
    }
    return print_json(root) != 0 ? PENSTOCK_NO : status;
}

int penstock_check(const struct penstock_command_line *line) {
    CLEANUP(free_diag) struct diag *diag = NULL;
    CLEANUP(free_config) struct config *config = NULL;
    const char *path = line->config_path ? line->config_path : CONFIG_DEFAULT_PATH;
    int r = diag_new(&diag);
    if (r == 0)
        r = config_load(path, diag, &config);
    if (r < 0)
        return say_failed("load the configuration", r);
    return line->json ? check_as_json(path, diag, config, line->connect) : check_as_text(path, diag, config, line->connect);
}
