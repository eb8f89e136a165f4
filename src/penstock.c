/* penstock: the operator's command: looks at a running daemon, and checks and prints what needs none */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "penstock_command.h"

/* Options that belong to some commands only, as bits. */
enum {
    GIVEN_JSON = 1 << 0,
    GIVEN_WATCH = 1 << 1,
    GIVEN_CONNECT = 1 << 2,
    GIVEN_EXPAND = 1 << 3,
    GIVEN_ROLE = 1 << 4,
    GIVEN_EVENT_TABLE = 1 << 5,
    GIVEN_EXISTING = 1 << 6,
    GIVEN_LAYOUT = 1 << 7,
    GIVEN_POSITION = 1 << 8,
    GIVEN_REASON = 1 << 9,
    GIVEN_UPGRADED = 1 << 10,
    GIVEN_LISTEN = 1 << 11,
    GIVEN_ONLY = 1 << 12,
};

struct command {
    const char *name, *arguments, *summary;
    int (*run)(const struct penstock_command_line *line); /* NULL: not in this version */
    int takes_operands; /* at most; how many it needs it knows itself */
    unsigned takes, later; /* options */
    const char *help;
};

static const struct command commands[] = {
    {"status", "[FORWARDER] [--watch | --json]", "how the forwarders are, or everything about one", penstock_status, 1,
     GIVEN_JSON | GIVEN_WATCH, 0,
     "Asks the daemon. One line per forwarder: its state and for how long, the position\n"
     "that its checkpoint has reached, the age of the oldest event that waits, how many\n"
     "wait (\"+\": more lie behind), how many were confirmed per second lately, and why it\n"
     "does not move. With FORWARDER everything about that one. With --watch again each\n"
     "second, on a terminal, until q. Exit status 1: something is not healthy, or there is\n"
     "no such one.\n"
     "\n"
     "  penstock status\n"
     "  penstock status --watch\n"
     "  penstock status order-status\n"
     "  penstock status --json | jq '.forwarders[].lag'\n"
     "  penstock status >/dev/null || echo 'look at Penstock'\n"},
    {"check", "[--connect] [--json]", "all findings about the configuration; with --connect, about databases and brokers",
     penstock_check, 0, GIVEN_JSON | GIVEN_CONNECT, 0,
     "Does what the daemon does with its configuration at start, without starting. With\n"
     "--connect what each forwarder does at its start, too: it looks at our tables, the event\n"
     "table, the checkpoint, the broker, and the exchanges, queues and topics that the rules\n"
     "name. Nothing is written, made or published. What is found comes with the statement\n"
     "that mends it. Exit status 1: the configuration would be refused, or a forwarder would\n"
     "not deliver.\n"
     "\n"
     "  penstock check\n"
     "  penstock check --connect\n"
     "  penstock check -c new.yaml && mv new.yaml /etc/penstock/penstock.yaml\n"},
    {"config", "", "the effective configuration, defaults shown, secrets masked", penstock_config, 0, 0,
     GIVEN_EXPAND,
     "What it prints loads again.\n"
     "\n"
     "  penstock config | less\n"},
    {"schema", "[--role ROLE] [--event-table TABLE [--existing [--position COLUMN]] [--listen CHANNEL]] [--only PART]",
     "the SQL of Penstock's own tables, its role and its rights", penstock_schema, 0,
     GIVEN_ROLE | GIVEN_EVENT_TABLE | GIVEN_EXISTING | GIVEN_POSITION | GIVEN_LISTEN | GIVEN_ONLY, GIVEN_LAYOUT,
     "Prints SQL and changes nothing. With --event-table a fresh event table too; with\n"
     "--existing instead what TABLE needs besides: its transaction-id column and index\n"
     "(with --position, where its position column has another name). With --listen a trigger\n"
     "that wakes the forwarder up; writers pay for it, see penstock.yaml(5). With --only one\n"
     "part of it: event-table, tables, role or listen.\n"
     "\n"
     "  penstock schema | psql shop\n"
     "  penstock schema --role forwarder --event-table public.event | psql shop\n"
     "  penstock schema --event-table '\"Event Log\".\"Events\"' --existing\n"
     "  penstock schema --event-table public.event --listen woken --only listen\n"},
    {"pause", "FORWARDER [--reason TEXT]", "stop a forwarder without losing its place", penstock_pause, 1, GIVEN_REASON, 0,
     "What is under way settles and is saved; then nothing is read or published until\n"
     "penstock resume, also over restarts of the daemon. Written to penstock.journal.\n"
     "\n"
     "  penstock pause order-status\n"
     "  penstock pause order-status --reason 'the broker is being moved'\n"},
    {"resume", "FORWARDER [--reason TEXT]", "let a paused forwarder go on", penstock_resume, 1, GIVEN_REASON, 0,
     "It goes on from where it was.\n"
     "\n"
     "  penstock resume order-status\n"},
    {"skip", "FORWARDER POSITION --reason TEXT", "give up the one event that holds everything up", penstock_skip, 2,
     GIVEN_REASON, 0,
     "Only the event that penstock status names, while it is held: it is not delivered,\n"
     "ever, and those behind it go on. Who, when, why and what it was are written to\n"
     "penstock.journal first. Done means that the saved checkpoint is past it.\n"
     "\n"
     "  penstock status order-status\n"
     "  penstock skip order-status 1039 --reason 'test data, agreed with billing'\n"},
    {"rebase", "FORWARDER (--position N | --upgraded) --reason TEXT",
     "says where a forwarder goes on after a restore or pg_upgrade", penstock_rebase, 1,
     GIVEN_POSITION | GIVEN_UPGRADED | GIVEN_REASON, 0,
     "Rewrites the forwarder's checkpoint, through the connection of the configuration, and\n"
     "writes that down in penstock.journal. Nothing is done while a daemon has it open.\n"
     "--position N: what is there now at N or below counts as sent, what stands above it or\n"
     "commits later is sent. --upgraded: transaction ids went on (pg_upgrade), the place\n"
     "stays as it is.\n"
     "\n"
     "  penstock rebase order-status --upgraded --reason 'PostgreSQL 15 to 17'\n"
     "  penstock rebase order-status --position 1041 --reason 'restored the dump of Monday'\n"},
    {.name = "resolve"},
    {.name = "parked"},
    {.name = "redrive"},
    {.name = "seek"},
    {.name = "replay"},
};

enum { OPTION_HELP = 'h', OPTION_VERSION = 'V', OPTION_CONFIG = 'c', OPTION_SOCKET = 's', OPTION_GIVEN = 1 << 16 };

static const struct option options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"socket", required_argument, NULL, OPTION_SOCKET},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"json", no_argument, NULL, OPTION_GIVEN + GIVEN_JSON},
    {"watch", no_argument, NULL, OPTION_GIVEN + GIVEN_WATCH},
    {"connect", no_argument, NULL, OPTION_GIVEN + GIVEN_CONNECT},
    {"expand", no_argument, NULL, OPTION_GIVEN + GIVEN_EXPAND},
    {"role", required_argument, NULL, OPTION_GIVEN + GIVEN_ROLE},
    {"event-table", required_argument, NULL, OPTION_GIVEN + GIVEN_EVENT_TABLE},
    {"position", required_argument, NULL, OPTION_GIVEN + GIVEN_POSITION},
    {"existing", no_argument, NULL, OPTION_GIVEN + GIVEN_EXISTING},
    {"reason", required_argument, NULL, OPTION_GIVEN + GIVEN_REASON},
    {"only", required_argument, NULL, OPTION_GIVEN + GIVEN_ONLY},
    {"listen", required_argument, NULL, OPTION_GIVEN + GIVEN_LISTEN},
    {"upgraded", no_argument, NULL, OPTION_GIVEN + GIVEN_UPGRADED},
    {"layout", required_argument, NULL, OPTION_GIVEN + GIVEN_LAYOUT},
    {0},
};

/* Help. ------------------------------------------------------------------- */

static void print_help(void) {
    fputs("usage: penstock [-c FILE] [-s SOCKET] COMMAND ...\n\n", stdout);
    for (size_t i = 0; i < ARRAY_LENGTH(commands); i++)
        if (commands[i].run)
            printf("  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "  -c, --config FILE    configuration\n"
          "  -s, --socket SOCKET  the daemon's status socket, if not the configuration's\n"
          "  -h, --help           this text; with a command: about that command\n"
          "  -V, --version        version\n"
          "\n"
          "  penstock check                   is the configuration right?\n"
          "  penstock schema | psql shop      prepare the database\n"
          "  penstock status                  what moves, what waits, and why\n"
          "  penstock pause order-status      stop one, without losing its place\n"
          "\n"
          "Exit status: 0 yes, 1 no, 64 wrong usage, 69 the daemon can't be reached.\n",
          stdout);
    printf("Without -c: %s. Manuals: penstock(1), penstockd(8).\n", penstock_default_config());
}

static void print_command_help(const struct command *command) {
    printf("usage: penstock %s %s\n\n%s", command->name, command->arguments, command->help);
}

/* The command line. ------------------------------------------------------- */

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static const char *option_name(unsigned given) {
    for (const struct option *o = options; o->name; o++)
        if (o->val >= OPTION_GIVEN && ((unsigned)(o->val - OPTION_GIVEN) & given))
            return o->name;
    return "?";
}

struct request {
    struct penstock_command_line line;
    bool help, version;
    unsigned given;
};

static void take_option(struct request *q, int option, const char *value) {
    switch (option) {
    case OPTION_CONFIG:
        q->line.config_path = value;
        return;
    case OPTION_SOCKET:
        q->line.socket_path = value;
        return;
    case OPTION_HELP:
        q->help = true;
        return;
    case OPTION_VERSION:
        q->version = true;
        return;
    case OPTION_GIVEN + GIVEN_ROLE:
        q->line.role = value;
        break;
    case OPTION_GIVEN + GIVEN_EVENT_TABLE:
        q->line.event_table = value;
        break;
    case OPTION_GIVEN + GIVEN_POSITION:
        q->line.position = value;
        break;
    case OPTION_GIVEN + GIVEN_LISTEN:
        q->line.listen = value;
        break;
    case OPTION_GIVEN + GIVEN_ONLY:
        q->line.only = value;
        break;
    case OPTION_GIVEN + GIVEN_REASON:
        q->line.reason = value;
        break;
    default:
        break;
    }
    q->given |= (unsigned)(option - OPTION_GIVEN);
}

/* getopt_long(3) takes options before and after the command, and says itself what it does not know. */
static int read_options(int argc, char **argv, struct request *q) {
    int option;
    while ((option = getopt_long(argc, argv, "c:s:hV", options, NULL)) != -1) {
        if (option == '?') {
            fputs("penstock: penstock --help shows what there is\n", stderr);
            return PENSTOCK_USAGE;
        }
        take_option(q, option, optarg);
    }
    q->line.json = q->given & GIVEN_JSON;
    q->line.existing = q->given & GIVEN_EXISTING;
    q->line.upgraded = q->given & GIVEN_UPGRADED;
    q->line.watch = q->given & GIVEN_WATCH;
    q->line.connect = q->given & GIVEN_CONNECT;
    return 0;
}

static int refuse(const char *format, const char *what, const char *command) {
    fputs("penstock: ", stderr);
    fprintf(stderr, format, what, command);
    fputc('\n', stderr);
    return PENSTOCK_USAGE;
}

static int check_usage(const struct command *command, const struct request *q, int operands) {
    if (!command->run)
        return refuse("'%s' is not in this version", command->name, NULL);
    if (q->given & command->later)
        return refuse("--%s of '%s' is not in this version", option_name(q->given & command->later), command->name);
    unsigned foreign = q->given & ~command->takes;
    if (foreign)
        return refuse("--%s does not belong to '%s'", option_name(foreign), command->name);
    if (operands > command->takes_operands)
        return refuse("too many words; usage: penstock %2$s %1$s", command->arguments, command->name);
    return 0;
}

static int dispatch(struct request *q, int count, char **words) {
    if (count == 0) {
        fputs("penstock: a command is missing; penstock --help shows them\n", stderr);
        return PENSTOCK_USAGE;
    }
    const struct command *command = find_command(words[0]);
    if (!command)
        return refuse("there is no command '%s'; penstock --help shows them", words[0], NULL);
    if (q->help && command->run) {
        print_command_help(command);
        return PENSTOCK_YES;
    }
    int status = check_usage(command, q, count - 1);
    if (status != 0)
        return status;
    q->line.operand = count > 1 ? words[1] : NULL;
    q->line.second = count > 2 ? words[2] : NULL;
    return command->run(&q->line);
}

int main(int argc, char **argv) {
    struct request q = {0};
    int status = read_options(argc, argv, &q);
    if (status != 0)
        return status;
    if (q.version) {
        puts("penstock " PENSTOCK_VERSION);
        return PENSTOCK_YES;
    }
    if (q.help && optind == argc) {
        print_help();
        return PENSTOCK_YES;
    }
    status = dispatch(&q, argc - optind, argv + optind);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("penstock: standard output");
        return PENSTOCK_NO;
    }
    if (q.line.connect) /* a thread of a library that still hangs would meet what exit(3) destroys */
        _exit(status);
    return status;
}
