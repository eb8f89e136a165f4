/* penstockd: front hall of the daemon: signals, the main thread's loop, order of start, reload and stop */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "arguments.h"
#include "base/clock.h"
#include "base/instance.h"
#include "base/log.h"
#include "base/message_id.h"
#include "config/config_change.h"
#include "fleet.h"
#include "status/server.h"

/* penstockd(8), "EXIT STATUS". */
enum exit_status { EXIT_CLEAN = 0, EXIT_LATE = 1, EXIT_WRONG_USAGE = 64, EXIT_SYSTEM = 71, EXIT_CONFIGURATION = 78 };

/* The main thread looks after the forwarders this often. */
#define LOOK_INTERVAL_US (1 * CLOCK_US_PER_S)
/* A forwarder turns at least once a second; older ticks mean that a call hangs. */
#define TICK_STALE_US (6 * CLOCK_US_PER_S)
#define TICK_DEAD_US (15 * CLOCK_US_PER_S)
#define LOOK_LATE_US (2 * CLOCK_US_PER_S)
/* After the stop timeout the sockets are shut down; then this long, then the process ends. */
#define STOP_GRACE_US (1 * CLOCK_US_PER_S)
/* malloc(3)'s arenas: by default 8 for each core, among which what threads free lies scattered. With these
 * memory is the same after a thousand reloads. */
#define ARENAS 4
/* Timers: sd_event_add_time(3) takes 0 for 250 ms. */
#define ACCURACY_US CLOCK_US_PER_MS

struct daemon {
    const char *config_path;
    struct config *config; /* in force */
    int64_t config_wall_us;
    char refused[1024]; /* why the file is not in force as it is now; "": it is */
    int64_t refused_wall_us; /* when that was found; 0 */
    struct fleet *fleet;
    char instance[INSTANCE_NAME_MAX];
    int ended_fd;
    sd_event *loop;
    struct server *server;
    int64_t started_wall_us;
    uint64_t watchdog_us; /* 0: no watchdog */
    bool watchdog_withheld;
    bool reloading, reload_again; /* the fleet is on its way to `config`; asked for once more meanwhile */
    struct fleet_changes changes; /* of the last reload */
    bool stopping;
    int64_t stop_deadline_us;
};

/* Configuration. --------------------------------------------------------- */

static void diag_cleanup(struct diag **diag) {
    diag_free(*diag);
}

static void config_cleanup(struct config **config) {
    config_free(*config);
}

static void say_findings(const struct diag *diag) {
    enum diag_level level;
    const char *text;
    for (size_t i = 0; (text = diag_text(diag, i, &level)) != NULL; i++)
        log_say(level == DIAG_ERROR ? LOG_LEVEL_ERR : LOG_LEVEL_WARNING, NULL, "%s", text);
}

/* For the status: how many there are, and the first. */
static void note_refusal(struct daemon *d, const struct diag *diag) {
    size_t errors = diag_count(diag, DIAG_ERROR), i = 0;
    enum diag_level level;
    const char *text = diag_text(diag, i, &level);
    while (text && level != DIAG_ERROR)
        text = diag_text(diag, ++i, &level);
    snprintf(d->refused, sizeof d->refused, "%zu error%s: %s", errors, errors == 1 ? "" : "s", text ? text : "");
}

/* What the file says now; every finding is said. 0; CONFIG_E_REFUSED; -ENOMEM. */
static int load(struct daemon *d, struct config **ret_config) {
    CLEANUP(diag_cleanup) struct diag *diag = NULL;
    CLEANUP(config_cleanup) struct config *config = NULL;
    int r = diag_new(&diag);
    if (r == 0)
        r = config_load(d->config_path, diag, &config);
    if (r < 0) {
        snprintf(d->refused, sizeof d->refused, "it can't be loaded: %s", strerrordesc_np(-r));
        return r;
    }
    if (r == 0 && d->config)
        config_change_check(d->config, config, d->config_path, diag);
    say_findings(diag);
    if (diag_count(diag, DIAG_ERROR) > 0) {
        note_refusal(d, diag);
        return CONFIG_E_REFUSED;
    }
    d->refused[0] = '\0';
    *ret_config = TAKE(config);
    return 0;
}

/* At start: 0, or an exit status. */
static int load_first(struct daemon *d) {
    int r = load(d, &d->config);
    if (r == 0)
        return 0;
    struct log_fields fields = {.message_id = r > 0 ? MESSAGE_ID_CONFIGURATION_REFUSED : NULL};
    log_say(LOG_LEVEL_ERR, &fields, "%s is refused, %s; mend it and start again; penstock check shows all", d->config_path,
            d->refused);
    return r > 0 ? EXIT_CONFIGURATION : EXIT_SYSTEM;
}

/* Stop. ------------------------------------------------------------------ */

/* A thread still hangs in a call although its sockets are shut: kill -9 loses
 * nothing, so neither does this. */
static _Noreturn void end_now(struct daemon *d) {
    for (size_t i = 0; i < fleet_count(d->fleet); i++) {
        struct forwarder *forwarder = fleet_forwarder(d->fleet, i);
        if (!forwarder || forwarder_ended(forwarder) != FORWARDER_RUNNING)
            continue;
        struct forwarder_stats stats;
        forwarder_copy_stats(forwarder, &stats);
        struct log_fields fields = {.forwarder = stats.name};
        log_say(LOG_LEVEL_ERR, &fields,
                "did not stop in time: ending without it; up to %" PRIu32 " events will be sent again (checkpoint at position %"
                PRId64 ", read up to %" PRId64 ")", stats.window_events + stats.window_unsaved, stats.checkpoint_position,
                stats.read_position);
    }
    _exit(EXIT_LATE);
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
    fleet_stop(d->fleet, d->stop_deadline_us);
    return fleet_ended(d->fleet) ? sd_event_exit(d->loop, 0) : 0;
}

/* Reload. ---------------------------------------------------------------- */

/* What GET /status and systemctl status say of us. */
static void tell(struct daemon *d) {
    struct document_daemon daemon = {
        .version = PENSTOCK_VERSION,
        .instance = d->instance,
        .started_wall_us = d->started_wall_us,
        .configuration_wall_us = d->config_wall_us,
        .configuration_refused = d->refused,
        .configuration_refused_wall_us = d->refused_wall_us,
        .health_max_age_us = d->config->health_max_age_us,
    };
    server_tell(d->server, &daemon);
    size_t count = fleet_count(d->fleet);
    sd_notifyf(0, "READY=1\nSTATUS=%zu forwarder%s%s%s", count, count == 1 ? "" : "s",
               d->refused[0] ? "; the changed configuration is refused, " : "", d->refused);
}

static void end_reload(struct daemon *d) {
    d->reloading = false;
    malloc_trim(0); /* what forwarders that have ended leave behind */
    d->refused_wall_us = d->refused[0] ? clock_wall_us() : 0;
    if (d->refused[0]) {
        struct log_fields fields = {.message_id = MESSAGE_ID_RELOAD_REFUSED};
        log_say(LOG_LEVEL_ERR, &fields, "%s is refused, what was in force stays: %s", d->config_path, d->refused);
    } else {
        const struct fleet_changes *c = &d->changes;
        struct log_fields fields = {.message_id = MESSAGE_ID_RELOADED};
        log_say(LOG_LEVEL_NOTICE, &fields, "%s reloaded: forwarders: %zu new, %zu started anew, %zu removed, %zu untouched",
                d->config_path, c->started, c->restarted, c->stopped, c->kept);
    }
    tell(d);
}

/* Goes over to what the file says now; what runs stays as it is if that can't be. */
static int take_configuration(struct daemon *d) {
    CLEANUP(config_cleanup) struct config *config = NULL;
    int r = load(d, &config);
    if (r != 0)
        return r;
    r = fleet_go_to(d->fleet, config, clock_now_us() + config->stop_timeout_us, &d->changes);
    if (r < 0) {
        snprintf(d->refused, sizeof d->refused, "it can't be compared: %s", strerrordesc_np(-r));
        return r;
    }
    config_free(d->config);
    d->config = TAKE(config);
    d->config_wall_us = clock_wall_us();
    return 0;
}

static void reload(struct daemon *d) {
    d->reload_again = false;
    d->reloading = true;
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\nSTATUS=reloading %s", clock_now_us(), d->config_path);
    log_say(LOG_LEVEL_NOTICE, NULL, "reloading %s", d->config_path);
    if (take_configuration(d) != 0)
        end_reload(d);
}

/* A step on the way: what has ended is joined, what is due is started. At most
 * twice round: nobody asks for another one meanwhile. */
static void go_on_reloading(struct daemon *d) {
    do {
        if (d->reload_again && !d->reloading)
            reload(d);
        (void)!fleet_settle(d->fleet); /* it has said what did not start, and tries again */
        if (d->reloading && fleet_settled(d->fleet))
            end_reload(d);
    } while (d->reload_again && !d->reloading);
}

static int on_hangup_signal(sd_event_source *source, const struct signalfd_siginfo *signal, void *context) {
    (void)source, (void)signal;
    struct daemon *d = context;
    if (d->stopping)
        return 0;
    d->reload_again = true;
    go_on_reloading(d);
    return 0;
}

static int on_ended(sd_event_source *source, int fd, uint32_t revents, void *context) {
    (void)source, (void)revents;
    struct daemon *d = context;
    uint64_t ended;
    (void)!read(fd, &ended, sizeof ended);
    if (!d->stopping)
        go_on_reloading(d);
    else if (fleet_ended(d->fleet))
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
    for (size_t i = 0; i < fleet_count(d->fleet); i++) {
        struct forwarder *forwarder = fleet_forwarder(d->fleet, i);
        if (!forwarder || forwarder_ended(forwarder) != FORWARDER_RUNNING)
            continue;
        struct guard *guard = forwarder_guard(forwarder);
        struct log_fields fields = {.forwarder = fleet_name(d->fleet, i)};
        if (guard_expire(guard, now_us))
            log_say(LOG_LEVEL_WARNING, &fields, "a publish hung in the broker's socket: closed it, connecting again");
        int64_t age_us = now_us - forwarder_tick_us(forwarder);
        if (age_us > TICK_STALE_US) {
            log_say(LOG_LEVEL_WARNING, &fields, "has not turned for %.0f s: closing its sockets", (double)age_us / 1e6);
            guard_shut(guard);
        }
        oldest_us = age_us > oldest_us ? age_us : oldest_us;
    }
    feed_watchdog(d, oldest_us);
}

static int64_t look_interval_us(const struct daemon *d) {
    if (d->stopping || d->reloading)
        return 100 * CLOCK_US_PER_MS;
    int64_t quarter_us = (int64_t)d->watchdog_us / 4;
    return quarter_us > 0 && quarter_us < LOOK_INTERVAL_US ? quarter_us : LOOK_INTERVAL_US;
}

static int on_look(sd_event_source *source, uint64_t at_us, void *context) {
    struct daemon *d = context;
    int64_t now_us = clock_now_us();
    /* If this thread was late, all of them slept (SIGSTOP, suspend): their ages say nothing before they had their turn. */
    if (now_us - (int64_t)at_us < LOOK_LATE_US)
        look_after_forwarders(d, now_us);
    fleet_shut_late(d->fleet, now_us);
    if (!d->stopping)
        go_on_reloading(d);
    else if (now_us >= d->stop_deadline_us + STOP_GRACE_US)
        end_now(d);
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
        r = sd_event_add_time(d->loop, &look, CLOCK_BOOTTIME, (uint64_t)(clock_now_us() + look_interval_us(d)), ACCURACY_US,
                              on_look, d);
    if (r >= 0)
        r = sd_event_source_set_enabled(look, SD_EVENT_ON);
    if (r >= 0)
        r = sd_event_source_set_floating(look, 1);
    sd_event_source_unref(look);
    return r < 0 ? r : 0;
}

static size_t collect_stats(void *context, struct forwarder_stats *stats, size_t max) {
    struct daemon *d = context;
    return fleet_copy_stats(d->fleet, stats, max);
}

static int hand_over_command(void *context, const char *forwarder, const struct mail *mail) {
    struct daemon *d = context;
    return fleet_command(d->fleet, forwarder, mail);
}

static int start_server(struct daemon *d) {
    struct server_options options = {
        .socket = {.path = d->config->status_socket, .mode = d->config->status_socket_owner_only ? 0600 : 0660,
                   .group = d->config->status_group},
        .metrics = d->config->status_metrics,
        .collect = collect_stats,
        .command = hand_over_command,
        .context = d,
        .forwarders_max = FLEET_MEMBERS_MAX,
    };
    struct error error;
    int r = server_start(&options, d->loop, &d->server, &error);
    if (r < 0)
        log_say(LOG_LEVEL_ERR, NULL, "%s", error.text);
    return r;
}

static int start_forwarders(struct daemon *d) {
    int r = fleet_go_to(d->fleet, d->config, 0, &d->changes);
    return r < 0 ? r : fleet_settle(d->fleet);
}

static int start(struct daemon *d) {
    instance_name(d->instance);
    d->started_wall_us = d->config_wall_us = clock_wall_us();
    (void)sd_watchdog_enabled(0, &d->watchdog_us);
    d->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = d->ended_fd < 0 ? -errno : sd_event_default(&d->loop);
    if (r >= 0)
        r = fleet_new(d->instance, d->ended_fd, &d->fleet);
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
    fleet_free(d->fleet);
    config_free(d->config);
    sd_event_unref(d->loop);
    if (d->ended_fd >= 0)
        close(d->ended_fd);
}

static int serve(struct daemon *d) {
    if (start(d) < 0)
        return EXIT_SYSTEM; /* threads that already run end with the process */
    struct log_fields fields = {.message_id = MESSAGE_ID_STARTED};
    size_t count = fleet_count(d->fleet);
    log_say(LOG_LEVEL_NOTICE, &fields, "penstockd %s started: %zu forwarder%s, status on %s", PENSTOCK_VERSION, count,
            count == 1 ? "" : "s", d->config->status_socket);
    tell(d);
    int r = sd_event_loop(d->loop);
    if (r < 0) {
        log_say(LOG_LEVEL_ERR, NULL, "the event loop failed: %s", strerror(-r));
        return EXIT_SYSTEM;
    }
    int status = fleet_ended_late(d->fleet) ? EXIT_LATE : EXIT_CLEAN;
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
    mallopt(M_ARENA_MAX, ARENAS);
    struct daemon d = {.config_path = CONFIG_DEFAULT_PATH, .ended_fd = -1};
    switch (arguments_read(argc, argv, &d.config_path)) {
    case ARGUMENTS_ANSWERED:
        return EXIT_CLEAN;
    case ARGUMENTS_WRONG:
        return EXIT_WRONG_USAGE;
    case ARGUMENTS_RUN:
        break;
    }
    log_open(wanted_log_level());

    int status = load_first(&d);
    if (status == 0)
        status = serve(&d);
    if (!alone())
        _exit(status);
    return status;
}
