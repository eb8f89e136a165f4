/* penstockd: front hall of the daemon: command line, signals, the main thread's loop, order of start and stop */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/message_id.h"
#include "status/server.h"
#include "wiring.h"

/* penstockd(8), "EXIT STATUS". */
enum exit_status { EXIT_CLEAN = 0, EXIT_LATE = 1, EXIT_WRONG_USAGE = 64, EXIT_SYSTEM = 71, EXIT_CONFIGURATION = 78 };

/* The main thread looks after the forwarders this often. */
#define LOOK_INTERVAL_US (1 * CLOCK_US_PER_S)
/* A forwarder turns at least once a second; older ticks mean that a call hangs. */
#define TICK_STALE_US (6 * CLOCK_US_PER_S)
#define TICK_DEAD_US (15 * CLOCK_US_PER_S)
/* After the stop timeout the sockets are shut down; then this long, then the process ends. */
#define STOP_GRACE_US (1 * CLOCK_US_PER_S)
/* Timers: sd_event_add_time(3) takes 0 for 250 ms. */
#define ACCURACY_US CLOCK_US_PER_MS

struct daemon {
    struct config *config;
    struct forwarder_options *options;
    struct forwarder **forwarders;
    size_t count;
    char instance[128];
    int ended_fd;
    sd_event *loop;
    struct server *server;
    int64_t started_wall_us;
    uint64_t watchdog_us; /* 0: no watchdog */
    bool watchdog_withheld;
    bool stopping;
    int64_t stop_deadline_us;
};

/* Command line. ---------------------------------------------------------- */

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
    printf("\nsources: snapshot\n");
}

static int refuse_usage(const char *what, const char *argument) {
    fprintf(stderr, "penstockd: %s '%s'\n", what, argument);
    print_usage(stderr);
    return EXIT_WRONG_USAGE;
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

/* -1: go on with *ret_path; else an exit status. */
static int read_command_line(int argc, char **argv, const char **ret_path) {
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0) {
            print_usage(stdout);
            return EXIT_CLEAN;
        }
        if (strcmp(argument, "-V") == 0 || strcmp(argument, "--version") == 0) {
            print_version();
            return EXIT_CLEAN;
        }
        const char *path = config_value(argc, argv, &i);
        if (!path)
            return refuse_usage("not known:", argument);
        if (!path[0])
            return refuse_usage("a file name is missing after", argument);
        *ret_path = path;
    }
    return -1;
}

/* Configuration. --------------------------------------------------------- */

static void diag_cleanup(struct diag **diag) {
    diag_free(*diag);
}

static void say_findings(const struct diag *diag) {
    enum diag_level level;
    const char *text;
    for (size_t i = 0; (text = diag_text(diag, i, &level)) != NULL; i++)
        log_say(level == DIAG_ERROR ? LOG_LEVEL_ERR : LOG_LEVEL_WARNING, NULL, "%s", text);
}

static int load(struct daemon *d, const char *path) {
    CLEANUP(diag_cleanup) struct diag *diag = NULL;
    int r = diag_new(&diag);
    if (r == 0)
        r = config_load(path, diag, &d->config);
    if (r < 0) {
        log_say(LOG_LEVEL_ERR, NULL, "%s can't be loaded: %s", path, strerror(-r));
        return EXIT_SYSTEM;
    }
    say_findings(diag);
    if (r == 0)
        return 0;
    struct log_fields fields = {.message_id = MESSAGE_ID_CONFIGURATION_REFUSED};
    size_t errors = diag_count(diag, DIAG_ERROR);
    log_say(LOG_LEVEL_ERR, &fields, "%s is refused (%zu error%s): mend them and start again; penstock check shows the same",
            path, errors, errors == 1 ? "" : "s");
    return EXIT_CONFIGURATION;
}

/* Forwarders. ------------------------------------------------------------ */

static int start_forwarders(struct daemon *d) {
    d->options = calloc(d->config->forwarder_count, sizeof *d->options);
    d->forwarders = calloc(d->config->forwarder_count, sizeof *d->forwarders);
    if (!d->options || !d->forwarders)
        return -ENOMEM;
    for (size_t i = 0; i < d->config->forwarder_count; i++) {
        wiring_forwarder(d->config, &d->config->forwarders[i], d->instance, d->ended_fd, &d->options[i]);
        int r = forwarder_start(&d->options[i], &d->forwarders[i]);
        if (r < 0)
            return r;
        d->count++;
    }
    return 0;
}

static size_t collect_stats(void *context, struct forwarder_stats *stats, size_t max) {
    struct daemon *d = context;
    size_t count = d->count < max ? d->count : max;
    for (size_t i = 0; i < count; i++)
        forwarder_copy_stats(d->forwarders[i], &stats[i]);
    return count;
}

static bool all_ended(const struct daemon *d) {
    for (size_t i = 0; i < d->count; i++)
        if (forwarder_ended(d->forwarders[i]) == FORWARDER_RUNNING)
            return false;
    return true;
}

static int end_status(const struct daemon *d) {
    for (size_t i = 0; i < d->count; i++)
        if (forwarder_ended(d->forwarders[i]) == FORWARDER_ENDED_LATE)
            return EXIT_LATE;
    return EXIT_CLEAN;
}

/* Stop. ------------------------------------------------------------------ */

/* A thread still hangs in a call although its sockets are shut: kill -9 loses
 * nothing, so neither does this. */
static _Noreturn void end_now(struct daemon *d) {
    for (size_t i = 0; i < d->count; i++) {
        if (forwarder_ended(d->forwarders[i]) != FORWARDER_RUNNING)
            continue;
        struct forwarder_stats stats;
        forwarder_copy_stats(d->forwarders[i], &stats);
        struct log_fields fields = {.forwarder = stats.name};
        log_say(LOG_LEVEL_ERR, &fields,
                "did not stop in time: ending without it; up to %" PRIu32 " events will be sent again (checkpoint at position %"
                PRId64 ", read up to %" PRId64 ")", stats.window_events + stats.window_unsaved, stats.checkpoint_position,
                stats.read_position);
    }
    _exit(EXIT_LATE);
}

static void look_after_stop(struct daemon *d, int64_t now_us) {
    if (now_us < d->stop_deadline_us)
        return;
    for (size_t i = 0; i < d->count; i++)
        guard_shut(forwarder_guard(d->forwarders[i]));
    if (now_us >= d->stop_deadline_us + STOP_GRACE_US)
        end_now(d);
}

static int on_stop_signal(sd_event_source *source, const struct signalfd_siginfo *signal, void *context) {
    (void)source;
    struct daemon *d = context;
    int64_t now_us = clock_now_us();
    if (d->stopping) {
        log_say(LOG_LEVEL_NOTICE, NULL, "asked to stop again: not waiting any longer");
        d->stop_deadline_us = now_us;
    } else {
        log_say(LOG_LEVEL_NOTICE, NULL, "stopping (%s): settling what is in flight for at most %.1f s",
                signal->ssi_signo == SIGINT ? "SIGINT" : "SIGTERM", (double)d->config->stop_timeout_us / 1e6);
        d->stop_deadline_us = now_us + d->config->stop_timeout_us;
    }
    d->stopping = true;
    sd_notifyf(0, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64, d->config->stop_timeout_us + 5 * CLOCK_US_PER_S);
    for (size_t i = 0; i < d->count; i++)
        forwarder_stop(d->forwarders[i], d->stop_deadline_us);
    return 0;
}

/* Left to itself it would end the daemon, and systemd takes that for a clean end. */
static int on_hangup_signal(sd_event_source *source, const struct signalfd_siginfo *signal, void *context) {
    (void)source, (void)signal, (void)context;
    log_say(LOG_LEVEL_NOTICE, NULL, "SIGHUP is ignored: restart to use a changed configuration, which loses nothing");
    return 0;
}

static int on_ended(sd_event_source *source, int fd, uint32_t revents, void *context) {
    (void)source, (void)revents;
    struct daemon *d = context;
    uint64_t ended;
    (void)!read(fd, &ended, sizeof ended);
    if (all_ended(d))
        return sd_event_exit(d->loop, 0);
    return 0;
}

/* Watching. -------------------------------------------------------------- */

static void feed_watchdog(struct daemon *d, int64_t oldest_us) {
    if (oldest_us < TICK_DEAD_US) {
        d->watchdog_withheld = false;
        if (d->watchdog_us > 0)
            sd_notify(0, "WATCHDOG=1");
        return;
    }
    if (!d->watchdog_withheld)
        log_say(LOG_LEVEL_ERR, NULL, "a forwarder has not turned for %.0f s although its sockets were shut: %s",
                (double)oldest_us / 1e6, d->watchdog_us > 0 ? "no longer feeding the watchdog" : "restart the daemon");
    d->watchdog_withheld = true;
}

/* Ends calls that hang, and feeds the watchdog only while every loop turns. */
static void look_after_forwarders(struct daemon *d, int64_t now_us) {
    int64_t oldest_us = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (forwarder_ended(d->forwarders[i]) != FORWARDER_RUNNING)
            continue;
        struct guard *guard = forwarder_guard(d->forwarders[i]);
        struct log_fields fields = {.forwarder = d->options[i].name};
        if (guard_expire(guard, now_us))
            log_say(LOG_LEVEL_WARNING, &fields, "a publish hung in the broker's socket: closed it, connecting again");
        int64_t age_us = now_us - forwarder_tick_us(d->forwarders[i]);
        if (age_us > TICK_STALE_US) {
            log_say(LOG_LEVEL_WARNING, &fields, "has not turned for %.0f s: closing its sockets", (double)age_us / 1e6);
            guard_shut(guard);
        }
        oldest_us = age_us > oldest_us ? age_us : oldest_us;
    }
    feed_watchdog(d, oldest_us);
}

static int64_t look_interval_us(const struct daemon *d) {
    if (d->stopping)
        return 100 * CLOCK_US_PER_MS;
    int64_t quarter_us = (int64_t)d->watchdog_us / 4;
    return quarter_us > 0 && quarter_us < LOOK_INTERVAL_US ? quarter_us : LOOK_INTERVAL_US;
}

static int on_look(sd_event_source *source, uint64_t at_us, void *context) {
    (void)at_us;
    struct daemon *d = context;
    int64_t now_us = clock_now_us();
    look_after_forwarders(d, now_us);
    if (d->stopping)
        look_after_stop(d, now_us);
    return sd_event_source_set_time(source, (uint64_t)(now_us + look_interval_us(d)));
}

/* The loop. -------------------------------------------------------------- */

static int attach(struct daemon *d) {
    sd_event_source *look = NULL;
    int r = sd_event_add_signal(d->loop, NULL, SIGTERM, on_stop_signal, d);
    if (r >= 0)
        r = sd_event_add_signal(d->loop, NULL, SIGINT, on_stop_signal, d);
    if (r >= 0)
        r = sd_event_add_signal(d->loop, NULL, SIGHUP, on_hangup_signal, d);
    if (r >= 0)
        r = sd_event_add_io(d->loop, NULL, d->ended_fd, EPOLLIN, on_ended, d);
    if (r >= 0)
        r = sd_event_add_time(d->loop, &look, CLOCK_MONOTONIC, (uint64_t)(clock_now_us() + look_interval_us(d)), ACCURACY_US,
                              on_look, d);
    if (r >= 0)
        r = sd_event_source_set_enabled(look, SD_EVENT_ON);
    if (r >= 0)
        r = sd_event_source_set_floating(look, 1);
    sd_event_source_unref(look);
    return r < 0 ? r : 0;
}

static int start_server(struct daemon *d) {
    struct server_options options = {
        .socket = {.path = d->config->status_socket, .mode = d->config->status_socket_owner_only ? 0600 : 0660,
                   .group = d->config->status_group},
        .metrics = d->config->status_metrics,
        .daemon = {.version = PENSTOCK_VERSION, .instance = d->instance, .started_wall_us = d->started_wall_us,
                   .health_max_age_us = d->config->health_max_age_us},
        .collect = collect_stats,
        .context = d,
        .forwarders_max = d->config->forwarder_count,
    };
    struct error error;
    int r = server_start(&options, d->loop, &d->server, &error);
    if (r < 0)
        log_say(LOG_LEVEL_ERR, NULL, "%s", error.text);
    return r;
}

static void name_instance(struct daemon *d) {
    char host[65] = "localhost";
    (void)!gethostname(host, sizeof host - 1);
    snprintf(d->instance, sizeof d->instance, "%s:%d", host, (int)getpid());
}

static int start(struct daemon *d) {
    name_instance(d);
    d->started_wall_us = clock_wall_us();
    (void)sd_watchdog_enabled(0, &d->watchdog_us);
    d->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = d->ended_fd < 0 ? -errno : sd_event_default(&d->loop);
    if (r >= 0)
        r = attach(d);
    if (r >= 0)
        r = start_server(d);
    if (r >= 0)
        r = start_forwarders(d);
    if (r < 0)
        log_say(LOG_LEVEL_ERR, NULL, "can't start: %s", strerror(-r));
    return r;
}

/* What was started, backwards. */
static void release(struct daemon *d) {
    server_stop(d->server);
    for (size_t i = 0; i < d->count; i++)
        forwarder_free(d->forwarders[i]);
    free(d->forwarders);
    free(d->options);
    config_free(d->config);
    sd_event_unref(d->loop);
    if (d->ended_fd >= 0)
        close(d->ended_fd);
}

static int serve(struct daemon *d) {
    if (start(d) < 0)
        return EXIT_SYSTEM; /* threads that already run end with the process */
    struct log_fields fields = {.message_id = MESSAGE_ID_STARTED};
    log_say(LOG_LEVEL_NOTICE, &fields, "penstockd %s started: %zu forwarder%s, status on %s", PENSTOCK_VERSION, d->count,
            d->count == 1 ? "" : "s", d->config->status_socket);
    sd_notifyf(0, "READY=1\nSTATUS=%zu forwarder%s", d->count, d->count == 1 ? "" : "s");
    int r = sd_event_loop(d->loop);
    if (r < 0) {
        log_say(LOG_LEVEL_ERR, NULL, "the event loop failed: %s", strerror(-r));
        return EXIT_SYSTEM;
    }
    int status = end_status(d);
    release(d);
    return status;
}

static enum log_level wanted_log_level(void) {
    const char *level = getenv("PENSTOCK_LOG_LEVEL");
    return level && strcmp(level, "debug") == 0 ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
}

/* A connection attempt that was left behind (base/dial.h) may still be inside a
 * library whose locks exit(3) would destroy below it. */
static bool alone(void) {
    int tasks = 0;
    DIR *directory = opendir("/proc/self/task");
    if (!directory)
        return false;
    for (struct dirent *entry; (entry = readdir(directory));)
        tasks += entry->d_name[0] != '.';
    closedir(directory);
    return tasks == 1;
}

/* First of all: a signal that comes while starting waits for the loop, instead
 * of ending us without a word. sd_event_add_signal(3) wants them blocked, and in
 * every thread. */
static void take_signals(void) {
    signal(SIGPIPE, SIG_IGN);
    sigset_t handled;
    sigemptyset(&handled);
    sigaddset(&handled, SIGTERM);
    sigaddset(&handled, SIGINT);
    sigaddset(&handled, SIGHUP);
    sigprocmask(SIG_BLOCK, &handled, NULL);
}

int main(int argc, char **argv) {
    take_signals();
    const char *path = CONFIG_DEFAULT_PATH;
    int status = read_command_line(argc, argv, &path);
    if (status >= 0)
        return status;
    log_open(wanted_log_level());

    struct daemon d = {.ended_fd = -1};
    status = load(&d, path);
    if (status == 0)
        status = serve(&d);
    if (!alone())
        _exit(status);
    return status;
}
