/* request: path and body of a POST -> an operator's command, and a forwarder's word on it -> the answer */
#include "status/request.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

enum { BAD_REQUEST = 400, NOT_FOUND = 404 };

static const char under[] = "/forwarders/";

static const struct verb {
    const char *name;
    enum mail_kind kind;
    bool positioned; /* takes a position */
} verbs[] = {{"pause", MAIL_PAUSE, false}, {"resume", MAIL_RESUME, false}, {"skip", MAIL_SKIP, true}};

static const struct verb *find_verb(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static const struct verb *verb_of(enum mail_kind kind) {
    size_t i = 0;
    while (i + 1 < ARRAY_LENGTH(verbs) && verbs[i].kind != kind)
        i++;
    return &verbs[i];
}

bool request_is_command(const char *path) {
    return strncmp(path, under, strlen(under)) == 0;
}

static int refuse(struct error *reterr, int status, const char *sentence) {
    error_set(reterr, ERROR_CONFIG, "%s", sentence);
    return status;
}

/* The name may hold a slash, the verb does not. */
static int read_path(const char *path, struct request *r, struct error *reterr) {
    const char *name = path + strlen(under), *slash = strrchr(name, '/');
    const struct verb *verb = slash ? find_verb(slash + 1) : NULL;
    if (!verb)
        return refuse(reterr, NOT_FOUND, "There are /forwarders/NAME/pause, /forwarders/NAME/resume and /forwarders/NAME/skip.");
    if (slash == name || slash - name >= (ptrdiff_t)sizeof r->forwarder)
        return refuse(reterr, NOT_FOUND, "There is no forwarder of that name; GET /status lists those there are.");
    memcpy(r->forwarder, name, (size_t)(slash - name));
    r->mail.kind = verb->kind;
    return 0;
}

/* A text of the body; absent is "". */
static bool copy_member(const json_t *root, const char *key, char *text, size_t size) {
    const json_t *value = json_object_get(root, key);
    if (!value)
        return true;
    if (!json_is_string(value) || json_string_length(value) >= size)
        return false;
    snprintf(text, size, "%s", json_string_value(value));
    text_one_line(text);
    return true;
}

/* A key that is misspelt would be a reason that nobody reads. */
static int refuse_unknown(json_t *root, const struct verb *verb, struct error *reterr) {
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        bool known = strcmp(key, "who") == 0 || strcmp(key, "reason") == 0 || (verb->positioned && strcmp(key, "position") == 0);
        if (known)
            continue;
        error_set(reterr, ERROR_CONFIG, "%.64s: %s takes %s and nothing else.", key, verb->name,
                  verb->positioned ? "who, reason and position" : "who and reason");
        return BAD_REQUEST;
    }
    return 0;
}

static int read_members(const json_t *root, struct request *r, char *who, size_t who_size, struct error *reterr) {
    struct mail_command *command = &r->mail.command;
    if (!copy_member(root, "who", who, who_size))
        return refuse(reterr, BAD_REQUEST, "who: a text of at most 63 bytes is allowed.");
    if (!copy_member(root, "reason", command->reason, sizeof command->reason))
        return refuse(reterr, BAD_REQUEST, "reason: a text of at most 511 bytes is allowed.");
    if (r->mail.kind != MAIL_SKIP)
        return 0;
    const json_t *position = json_object_get(root, "position");
    if (!json_is_integer(position))
        return refuse(reterr, BAD_REQUEST, "position: the number of the event that is to be skipped is needed.");
    command->position = json_integer_value(position);
    return command->reason[0] ? 0 : refuse(reterr, BAD_REQUEST, "reason: a text is needed, for the journal.");
}

static void decref(json_t **root) {
    json_decref(*root);
}

int request_read(const char *path, struct span body, pid_t pid, uid_t uid, struct request *ret_request,
                 struct error *reterr) {
    *ret_request = (struct request){0};
    char who[64] = "";
    int status = read_path(path, ret_request, reterr);
    if (status != 0)
        return status;
    json_error_t why = {.text = ""};
    CLEANUP(decref) json_t *root = body.len > 0 ? json_loadb(body.data, body.len, JSON_REJECT_DUPLICATES, &why) : json_object();
    if (!json_is_object(root)) {
        error_set(reterr, ERROR_CONFIG, "The body is no JSON object%s%s; it may be empty.", why.text[0] ? ": " : "", why.text);
        return BAD_REQUEST;
    }
    status = refuse_unknown(root, verb_of(ret_request->mail.kind), reterr);
    if (status == 0)
        status = read_members(root, ret_request, who, sizeof who, reterr);
    struct mail_command *command = &ret_request->mail.command;
    snprintf(command->who, sizeof command->who, "%s%s(uid %ld, pid %ld)", who, who[0] ? " " : "", (long)uid, (long)pid);
    return status;
}

static char *done_document(const struct request *r, const struct forwarder_answer *answer) {
    CLEANUP(decref) json_t *root = json_pack("{s:s, s:s, s:b, s:s}", "forwarder", r->forwarder, "command",
                                             verb_of(r->mail.kind)->name, "done", true, "detail", answer->words);
    return root ? json_dumps(root, JSON_INDENT(1)) : NULL;
}

struct answer request_answer(const struct request *r, const struct forwarder_answer *answer) {
    switch (answer->verdict) {
    case FORWARDER_DONE:
        return (struct answer){200, "application/json", NULL, done_document(r, answer)};
    case FORWARDER_REFUSES:
        return answer_problem(409, answer->words);
    case FORWARDER_CANNOT:
        break;
    }
    return answer_problem(503, answer->words);
}
