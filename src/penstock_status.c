/* penstock_status: asks the daemon how its forwarders are, and shows it */
#include "penstock_status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "penstock_http.h"
#include "penstock_view.h"
#include "penstock_watch.h"

/* The socket of the configuration; the standard one if that can't be read:
 * the question may be asked because somebody is just breaking it. */
char *penstock_status_socket(const struct penstock_command_line *line) {
    if (line->socket_path)
        return strdup(line->socket_path);
    const char *path = line->config_path ? line->config_path : CONFIG_DEFAULT_PATH;
    struct diag *diag = NULL;
    struct config *config = NULL;
    int r = diag_new(&diag);
    if (r == 0)
        r = config_load(path, diag, &config);
    if (r != 0 && line->config_path)
        fprintf(stderr, "penstock: %s is refused (penstock check shows why): asking at %s\n", path,
                CONFIG_DEFAULT_SOCKET);
    char *socket_path = strdup(r == 0 && config->status_socket ? config->status_socket : CONFIG_DEFAULT_SOCKET);
    config_free(config);
    diag_free(diag);
    return socket_path;
}

static int say_unreachable(const char *sentence) {
    fprintf(stderr, "penstock: %s\n", sentence);
    return PENSTOCK_UNREACHABLE;
}

const char *penstock_status_detail(const json_t *root) {
    const char *detail = json_string_value(json_object_get(root, "detail"));
    return detail ? detail : "without saying why";
}

/* A problem (RFC 9457) or something that is no answer of ours. */
static int say_problem(int status, const json_t *root) {
    fprintf(stderr, "penstock: the daemon answers %d: %s\n", status, penstock_status_detail(root));
    return status == 404 ? PENSTOCK_NO : PENSTOCK_UNREACHABLE;
}

static int write_path(const char *forwarder, struct buf *path) {
    int r = buf_addf(path, forwarder ? "/status/" : "/status");
    if (r == 0 && forwarder)
        r = penstock_http_add_segment(forwarder, path);
    return r ? r : buf_terminate(path);
}

int penstock_status_ask(const char *socket_path, const char *forwarder, struct buf *body, json_t **ret_root,
                        int *ret_status, struct error *reterr) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(8192);
    int r = write_path(forwarder, &path);
    if (r < 0) {
        error_set(reterr, ERROR_PERMANENT, "the name is too long");
        return r;
    }
    r = penstock_http_get(socket_path, path.data, body, ret_status, reterr);
    if (r < 0)
        return r;
    json_t *root = json_loadb(body->data, body->len, 0, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        error_set(reterr, ERROR_PERMANENT, "what answers there is not penstockd: no JSON object came back");
        return -EPROTO;
    }
    *ret_root = root;
    return 0;
}

static void decref(json_t **root) {
    json_decref(*root);
}

/* The table stays what scripts read; what else there is to say goes beside it. */
static void show_all(const struct penstock_view *view, const json_t *root) {
    struct penstock_view beside = *view;
    beside.out = stderr;
    penstock_view_table(view, json_object_get(root, "forwarders"));
    fflush(view->out);
    penstock_view_daemon(&beside, "penstock: ", root);
}

static int show(const struct penstock_command_line *line, const char *socket_path) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(PENSTOCK_HTTP_MAX_BYTES);
    CLEANUP(decref) json_t *root = NULL;
    struct error error;
    int status;
    if (penstock_status_ask(socket_path, line->operand, &body, &root, &status, &error) < 0)
        return say_unreachable(error.text);
    if (status != 200)
        return say_problem(status, root);
    struct penstock_view view = penstock_view_of(stdout);
    if (line->json)
        fwrite(body.data, 1, body.len, stdout);
    else if (line->operand)
        penstock_view_forwarder(&view, root);
    else
        show_all(&view, root);
    return json_is_true(json_object_get(root, "healthy")) ? PENSTOCK_YES : PENSTOCK_NO;
}

int penstock_status(const struct penstock_command_line *line) {
    if (line->watch && line->json) {
        fputs("penstock: --watch is for people, --json for programs: one of them\n", stderr);
        return PENSTOCK_USAGE;
    }
    if (line->watch && !penstock_watch_possible()) {
        fputs("penstock: --watch needs a terminal; elsewhere call penstock status again and again\n", stderr);
        return PENSTOCK_USAGE;
    }
    CLEANUP(cleanup_free) char *socket_path = penstock_status_socket(line);
    if (!socket_path)
        return say_unreachable("no memory");
    return line->watch ? penstock_watch(socket_path, line->operand) : show(line, socket_path);
}
