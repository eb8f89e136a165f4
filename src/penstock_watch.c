/* penstock_watch: the status on a terminal, again and again, until somebody has seen enough */
#include "penstock_watch.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "penstock_http.h"
#include "penstock_status.h"
#include "penstock_view.h"

#define INTERVAL_US (1 * CLOCK_US_PER_S)
enum { ROWS_DEFAULT = 24 };

/* xterm's, which every terminal of today understands: second screen, cursor, erasing. */
#define SCREEN_ENTER "\033[?1049h\033[?25l\033[H"
#define SCREEN_LEAVE "\033[?25h\033[?1049l"
#define SCREEN_HOME "\033[H"
#define ERASE_LINE "\033[K"
#define ERASE_BELOW "\033[J"

struct watch {
    const char *socket_path, *forwarder;
    bool has_keys; /* standard input is the terminal too */
    struct termios before;
    int signals;
};

bool penstock_watch_possible(void) {
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* The screen. ------------------------------------------------------------- */

static void enter(struct watch *w) {
    w->has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &w->before) == 0;
    if (w->has_keys) {
        struct termios keys = w->before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
    }
    fputs(SCREEN_ENTER, stdout);
    fflush(stdout);
}

static void leave(struct watch *w) {
    fputs(SCREEN_LEAVE, stdout);
    fflush(stdout);
    if (w->has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &w->before);
}

static int rows_of_terminal(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : ROWS_DEFAULT;
}

/* Over what stands there, without clearing first: nothing flickers. The last row
 * stays free, or the terminal would scroll. */
static void draw(const char *text) {
    int rows = rows_of_terminal() - 1;
    fputs(SCREEN_HOME, stdout);
    for (; *text && rows > 0; rows--) {
        size_t len = strcspn(text, "\n");
        printf("%.*s" ERASE_LINE "\n", (int)len, text);
        text += len + (text[len] == '\n');
    }
    fputs(ERASE_BELOW, stdout);
    fflush(stdout);
}

/* One look. --------------------------------------------------------------- */

static void put_head(FILE *out, const struct watch *w, const char *words) {
    char clock[16] = "";
    time_t now = (time_t)(clock_wall_us() / CLOCK_US_PER_S);
    struct tm tm;
    if (localtime_r(&now, &tm))
        strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    fprintf(out, "penstock  %s  %s  %s  (q ends)\n\n", clock, w->socket_path, words);
}

static void decref(json_t **root) {
    json_decref(*root);
}

static void put_status(FILE *out, const struct watch *w) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(PENSTOCK_HTTP_MAX_BYTES);
    CLEANUP(decref) json_t *root = NULL;
    struct error error;
    int status = 0;
    bool answered = penstock_status_ask(w->socket_path, w->forwarder, &body, &root, &status, &error) == 0;
    struct penstock_view view = penstock_view_of(stdout);
    view.out = out;
    if (!answered || status != 200) {
        put_head(out, w, "no answer");
        fprintf(out, "%s\n", answered ? penstock_status_detail(root) : error.text);
        return;
    }
    put_head(out, w, json_is_true(json_object_get(root, "healthy")) ? "healthy" : "NOT HEALTHY");
    if (w->forwarder) {
        penstock_view_forwarder(&view, root);
        return;
    }
    penstock_view_table(&view, json_object_get(root, "forwarders"));
    penstock_view_daemon(&view, "\n", root);
}

static void look(const struct watch *w) {
    CLEANUP(cleanup_free) char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return; /* no memory just now: what stands there stays */
    put_status(out, w);
    if (fclose(out) == 0)
        draw(text);
}

/* Signals and keys. ------------------------------------------------------- */

static int take_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
    for (size_t i = 0; i < ARRAY_LENGTH(handled); i++)
        sigaddset(&set, handled[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Ctrl-Z: the shell gets its screen back meanwhile. */
static void stop_for_a_while(struct watch *w) {
    leave(w);
    raise(SIGSTOP);
    enter(w);
}

/* false: that was the end. */
static bool go_on_after_signal(struct watch *w) {
    struct signalfd_siginfo signal;
    while (read(w->signals, &signal, sizeof signal) == sizeof signal) {
        if (signal.ssi_signo == SIGTSTP)
            stop_for_a_while(w);
        else if (signal.ssi_signo != SIGWINCH)
            return false;
    }
    return true;
}

static bool go_on_after_key(void) {
    char key = 0;
    ssize_t n = read(STDIN_FILENO, &key, 1);
    return n > 0 && key != 'q' && key != 'Q';
}

/* Until the next look is due, or something wants one at once. */
static bool go_on(struct watch *w) {
    struct pollfd fds[2] = {{.fd = w->signals, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    if (poll(fds, w->has_keys ? 2 : 1, INTERVAL_US / CLOCK_US_PER_MS) <= 0)
        return true;
    if (fds[0].revents)
        return go_on_after_signal(w);
    return go_on_after_key();
}

int penstock_watch(const char *socket_path, const char *forwarder) {
    struct watch w = {.socket_path = socket_path, .forwarder = forwarder};
    w.signals = take_signals();
    if (w.signals < 0) {
        perror("penstock: signalfd");
        return PENSTOCK_NO;
    }
    enter(&w);
    do
        look(&w);
    while (go_on(&w) && !ferror(stdout));
    leave(&w);
    close(w.signals);
    return PENSTOCK_YES;
}
