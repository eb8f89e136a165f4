/* arguments: the command line of penstockd */
#include "arguments.h"

#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "sink/sink.h"

static void print_usage(FILE *out) {
    fputs("usage: penstockd [-c FILE]\n"
          "\n"
          "Carries events from PostgreSQL tables to message brokers. Runs in the foreground.\n"
          "\n"
          "  -c, --config FILE   configuration (default " CONFIG_DEFAULT_PATH ")\n"
          "  -h, --help          this text\n"
          "  -V, --version       version and what is built in\n"
          "\n"
          "Look at it with: penstock status; journalctl -u penstockd. Manual: penstockd(8).\n",
          out);
}

static void print_version(void) {
    printf("penstockd %s\n", PENSTOCK_VERSION);
    printf("sinks:");
    for (size_t i = 0; sink_kind_at(i); i++)
        printf(" %s", sink_kind_at(i)->name);
    printf("\nsources: snapshot gaps\n");
}

static enum arguments refuse(const char *what, const char *argument) {
    fprintf(stderr, "penstockd: %s '%s'\n", what, argument);
    print_usage(stderr);
    return ARGUMENTS_WRONG;
}

/* The value of "-c FILE", "-cFILE", "--config FILE" or "--config=FILE"; NULL: it
 * is something else. *i moves past a value that stands alone. */
static const char *config_value(int argc, char **argv, int *i) {
    const char *argument = argv[*i];
    if (strncmp(argument, "--config=", 9) == 0)
        return argument + 9;
    if (strncmp(argument, "-c", 2) == 0 && argument[2])
        return argument + 2;
    if (strcmp(argument, "-c") != 0 && strcmp(argument, "--config") != 0)
        return NULL;
    return ++*i < argc ? argv[*i] : "";
}

enum arguments arguments_read(int argc, char **argv, const char **ret_path) {
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0) {
            print_usage(stdout);
            return ARGUMENTS_ANSWERED;
        }
        if (strcmp(argument, "-V") == 0 || strcmp(argument, "--version") == 0) {
            print_version();
            return ARGUMENTS_ANSWERED;
        }
        const char *path = config_value(argc, argv, &i);
        if (!path)
            return refuse("not known:", argument);
        if (!path[0])
            return refuse("a file name is missing after", argument);
        *ret_path = path;
    }
    return ARGUMENTS_RUN;
}
