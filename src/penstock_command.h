/* penstock_command: the operator's commands, as the command line asked for them */
#ifndef PENSTOCK_PENSTOCK_COMMAND_H
#define PENSTOCK_PENSTOCK_COMMAND_H

#include <stdbool.h>

/* Scripts hold on to them: penstock(1) "EXIT STATUS". */
enum penstock_exit {
    PENSTOCK_YES = 0, /* yes, done, healthy */
    PENSTOCK_NO = 1,  /* no, findings, not healthy */
    PENSTOCK_USAGE = 64,
    PENSTOCK_UNREACHABLE = 69,
};

/* Borrowed texts; NULL: not given. */
struct penstock_command_line {
    const char *config_path, *socket_path;
    const char *role, *event_table, *position, *reason, *listen, *only;
    const char *operand, *second;
    bool json, existing, upgraded, watch, connect;
};

/* Each prints its product to standard output, what is wrong to standard error,
 * and returns the exit status. */
int penstock_status(const struct penstock_command_line *line);
int penstock_check(const struct penstock_command_line *line);
int penstock_config(const struct penstock_command_line *line);
int penstock_pause(const struct penstock_command_line *line);
int penstock_resume(const struct penstock_command_line *line);
int penstock_skip(const struct penstock_command_line *line);
int penstock_schema(const struct penstock_command_line *line);
int penstock_rebase(const struct penstock_command_line *line);

/* CONFIG_DEFAULT_PATH, for where <getopt.h> is included: base/option.h has a struct option too. */
const char *penstock_default_config(void);

#endif
