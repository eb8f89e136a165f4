/* penstock_status: asks the daemon how its forwarders are, and shows it */
#include "penstock_command.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "penstock_http.h"
#include "penstock_view.h"

/* The socket of the configuration; the standard one if that can't be read:
 * the question may be asked because somebody is just breaking it. */
static char *find_socket(const struct penstock_command_line *line) {
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

/* A problem (RFC 9457) or something that is no answer of ours. */
static int say_problem(int status, const json_t *root) {
    const char *detail = json_string_value(json_object_get(root, "detail"));
    fprintf(stderr, "penstock: the daemon answers %d: %s\n", status, detail ? detail : "without saying why");
    return status == 404 ? PENSTOCK_NO : PENSTOCK_UNREACHABLE;
}

static int ask(const char *socket_path, const char *forwarder, struct buf *body, int *ret_status,
               struct error *reterr) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(8192);
    int r = buf_addf(&path, forwarder ? "/status/" : "/status");
    if (r == 0 && forwarder)
        r = penstock_http_add_segment(forwarder, &path);
    if (r == 0)
        r = buf_terminate(&path);
    if (r < 0) {
        error_set(reterr, ERROR_PERMANENT, "the name is too long");
        return r;
    }
    return penstock_http_get(socket_path, path.data, body, ret_status, reterr);
}

static void decref(json_t **root) {
    json_decref(*root);
}

int penstock_status(const struct penstock_command_line *line) {
    CLEANUP(cleanup_free) char *socket_path = find_socket(line);
    if (!socket_path)
        return say_unreachable("no memory");
    CLEANUP(buf_done) struct buf body = BUF_INIT(PENSTOCK_HTTP_MAX_BYTES);
    struct error error;
    int status;
    if (ask(socket_path, line->operand, &body, &status, &error) < 0)
        return say_unreachable(error.text);
    CLEANUP(decref) json_t *root = json_loadb(body.data, body.len, 0, NULL);
    if (!json_is_object(root))
        return say_unreachable("what answers there is not penstockd: no JSON object came back");
    if (status != 200)
        return say_problem(status, root);
    struct penstock_view view = penstock_view_of(stdout);
    if (line->json)
        fwrite(body.data, 1, body.len, stdout);
    else if (line->operand)
        penstock_view_forwarder(&view, root);
    else
        penstock_view_table(&view, json_object_get(root, "forwarders"));
    return json_is_true(json_object_get(root, "healthy")) ? PENSTOCK_YES : PENSTOCK_NO;
}
