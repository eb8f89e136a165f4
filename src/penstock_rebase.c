/* penstock_rebase: the command that says where a forwarder goes on after a restore or an upgrade */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/quantity.h"
#include "forwarder/rebase.h"
#include "penstock_command.h"
#include "penstock_who.h"

enum { WHY_MAX_BYTES = 1 << 20, WHO_MAX_BYTES = 512 };

static void free_diag(struct diag **d) {
    diag_free(*d);
}

static void free_config(struct config **c) {
    config_free(*c);
}

static int usage(const char *what) {
    fprintf(stderr, "penstock: rebase: %s\n", what);
    return PENSTOCK_USAGE;
}

/* 0; PENSTOCK_USAGE. */
static int read_place(const struct penstock_command_line *line, struct rebase *rebase) {
    if (!line->operand)
        return usage("the forwarder's name is missing");
    if (!line->reason || !line->reason[0])
        return usage("--reason TEXT is missing: it is written down in the journal");
    if (line->upgraded == (line->position != NULL))
        return usage("--position N or --upgraded is needed, one of the two");
    rebase->upgraded = line->upgraded;
    if (line->position && (quantity_read_integer(span_of(line->position), &rebase->position) != 0 ||
                           rebase->position < 0 || rebase->position == INT64_MAX))
        return usage("--position: a whole number is expected, the last position that counts as sent");
    return 0;
}

/* The database may be far away: from where, too. */
static void find_who(char who[WHO_MAX_BYTES]) {
    char user[WHO_MAX_BYTES / 2], host[WHO_MAX_BYTES / 2] = "";
    penstock_who(user, sizeof user);
    gethostname(host, sizeof host - 1);
    snprintf(who, WHO_MAX_BYTES, "%s@%s", user, host);
}

static int run(struct rebase *rebase, const struct config *config, const struct config_forwarder *f) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(WHY_MAX_BYTES);
    CLEANUP(rebase_result_done) struct rebase_result result = {0};
    char who[WHO_MAX_BYTES];
    find_who(who);
    rebase->forwarder = f->name;
    rebase->connection_name = f->source_connection->name;
    rebase->database = &f->source_connection->postgresql;
    rebase->source = &f->source;
    rebase->schema = config->checkpoint_schema;
    rebase->who = who;
    int r = rebase_run(rebase, &result, &why);
    if (r == 0) {
        printf("%s was: %s\n%s is:  %s\n", f->name, result.before.data, f->name, result.after.data);
        return PENSTOCK_YES;
    }
    fprintf(stderr, "penstock: nothing was changed: %s\n", r > 0 ? why.data : strerror(-r));
    return PENSTOCK_NO;
}

int penstock_rebase(const struct penstock_command_line *line) {
    CLEANUP(free_diag) struct diag *diag = NULL;
    CLEANUP(free_config) struct config *config = NULL;
    struct rebase rebase = {.reason = line->reason};
    int r = read_place(line, &rebase);
    if (r != 0)
        return r;
    const char *path = line->config_path ? line->config_path : CONFIG_DEFAULT_PATH;
    r = diag_new(&diag);
    if (r == 0)
        r = config_load(path, diag, &config);
    if (r < 0) {
        fprintf(stderr, "penstock: can't load the configuration: %s\n", strerror(-r));
        return PENSTOCK_NO;
    }
    if (r > 0) {
        diag_print(diag, stderr);
        fprintf(stderr, "penstock: %s is refused\n", path);
        return PENSTOCK_NO;
    }
    const struct config_forwarder *f = config_find_forwarder(config, line->operand);
    if (f)
        return run(&rebase, config, f);
    fprintf(stderr, "penstock: there is no forwarder '%s' in the configuration\n", line->operand);
    return PENSTOCK_NO;
}
