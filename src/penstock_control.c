/* penstock_control: the commands that change something: pause, resume, skip */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "config/quantity.h"
#include "penstock_command.h"
#include "penstock_http.h"
#include "penstock_status.h"
#include "penstock_who.h"

enum { PATH_MAX_BYTES = 2048, ANSWER_MAX_BYTES = 65536, WHO_MAX = 64 };

static void decref(json_t **root) {
    json_decref(*root);
}

static int say_usage(const char *sentence) {
    fprintf(stderr, "penstock: %s\n", sentence);
    return PENSTOCK_USAGE;
}

static int say_no_memory(void) {
    fprintf(stderr, "penstock: %s\n", strerror(ENOMEM));
    return PENSTOCK_NO;
}

/* The body; the daemon writes the user id that the kernel knows beside `who`. The caller frees. NULL without memory, or
 * if the reason is no UTF-8. */
static char *write_body(const struct penstock_command_line *line, const json_int_t *position) {
    char who[WHO_MAX];
    penstock_who(who, sizeof who);
    CLEANUP(decref) json_t *root = json_pack("{s:s}", "who", who);
    int r = root ? 0 : -1;
    if (r == 0 && line->reason)
        r = json_object_set_new(root, "reason", json_string(line->reason));
    if (r == 0 && position)
        r = json_object_set_new(root, "position", json_integer(*position));
    return r == 0 ? json_dumps(root, JSON_COMPACT) : NULL;
}

static int write_path(const char *forwarder, const char *verb, struct buf *path) {
    int r = buf_addf(path, "/forwarders/");
    if (r == 0)
        r = penstock_http_add_segment(forwarder, path);
    if (r == 0)
        r = buf_addf(path, "/%s", verb);
    return r ? r : buf_terminate(path);
}

/* 200 is done; everything else is a problem document (RFC 9457). */
static int say_answer(const struct penstock_command_line *line, int status, const struct buf *body) {
    CLEANUP(decref) json_t *root = json_loadb(body->data, body->len, 0, NULL);
    if (!json_is_object(root)) {
        fputs("penstock: what answers there is not penstockd: no JSON object came back\n", stderr);
        return PENSTOCK_UNREACHABLE;
    }
    if (status != 200) {
        fprintf(stderr, "penstock: %s: %s\n", line->operand, penstock_status_detail(root));
        return PENSTOCK_NO;
    }
    printf("%s: %s\n", line->operand, penstock_status_detail(root));
    return PENSTOCK_YES;
}

static int command(const struct penstock_command_line *line, const char *verb, const json_int_t *position) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(PATH_MAX_BYTES);
    CLEANUP(buf_done) struct buf body = BUF_INIT(ANSWER_MAX_BYTES);
    if (!line->operand || !line->operand[0])
        return say_usage("which forwarder? penstock status shows them");
    if (write_path(line->operand, verb, &path) != 0)
        return say_usage("the forwarder's name is too long");
    CLEANUP(cleanup_free) char *json = write_body(line, position);
    if (!json)
        return say_usage("--reason takes a text in UTF-8");
    CLEANUP(cleanup_free) char *socket_path = penstock_status_socket(line);
    if (!socket_path)
        return say_no_memory();
    struct error error;
    int status;
    if (penstock_http_post(socket_path, path.data, json, &body, &status, &error) < 0) {
        fprintf(stderr, "penstock: %s\n", error.text);
        return PENSTOCK_UNREACHABLE;
    }
    return say_answer(line, status, &body);
}

int penstock_pause(const struct penstock_command_line *line) {
    return command(line, "pause", NULL);
}

int penstock_resume(const struct penstock_command_line *line) {
    return command(line, "resume", NULL);
}

int penstock_skip(const struct penstock_command_line *line) {
    int64_t position;
    if (!line->second)
        return say_usage("which event? its position is needed; penstock status FORWARDER names what is held");
    if (quantity_read_integer(span_of(line->second), &position) != 0)
        return say_usage("the position is a number");
    if (!line->reason || !line->reason[0])
        return say_usage("--reason TEXT is needed: it stands in penstock.journal");
    return command(line, "skip", &(json_int_t){position});
}
