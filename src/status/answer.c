/* answer: path and headers of a GET -> status, type and text of the reply; knows no HTTP library */
#include "status/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "status/metrics.h"

static const char json[] = "application/json", problem_json[] = "application/problem+json";

static const struct {
    unsigned status;
    const char *title;
} titles[] = {
    {400, "Bad Request"},          {404, "Not Found"},         {405, "Method Not Allowed"},
    {409, "Conflict"},             {413, "Content Too Large"}, {414, "URI Too Long"},
    {431, "Request Header Fields Too Large"}, {503, "Service Unavailable"}, {504, "Gateway Timeout"},
};

static const char *title_of(unsigned status) {
    for (size_t i = 0; i < ARRAY_LENGTH(titles); i++)
        if (titles[i].status == status)
            return titles[i].title;
    return "Internal Server Error";
}

struct answer answer_problem(unsigned status, const char *detail) {
    return (struct answer){status, problem_json, NULL, document_problem((int)status, title_of(status), detail)};
}

struct answer answer_not_allowed(const char *allow) {
    char detail[128];
    snprintf(detail, sizeof detail, "Here only %s can be used.", allow);
    struct answer answer = answer_problem(405, detail);
    answer.allow = allow;
    return answer;
}

/* What a request is about, handed down as one. */
struct question {
    const struct document_daemon *daemon;
    const struct forwarder_stats *stats;
    size_t count;
    const char *accept;
    int64_t now_us, wall_us;
};

static struct answer yes_or_no(bool yes, char *text) {
    return (struct answer){yes ? 200 : 503, json, NULL, text};
}

static struct answer get_status(const struct question *q) {
    return yes_or_no(true, document_status(q->daemon, q->stats, q->count, q->now_us, q->wall_us));
}

static struct answer get_health(const struct question *q) {
    bool healthy;
    char *text = document_health(q->daemon, q->stats, q->count, q->now_us, q->wall_us, &healthy);
    return yes_or_no(healthy, text);
}

static struct answer get_ready(const struct question *q) {
    bool ready;
    char *text = document_ready(q->stats, q->count, &ready);
    return yes_or_no(ready, text);
}

static struct answer get_metrics(const struct question *q) {
    enum metrics_format format = metrics_format_of(q->accept);
    return (struct answer){200, metrics_media_type(format), NULL,
                           metrics_text(format, q->daemon, q->stats, q->count, q->now_us, q->wall_us)};
}

static const struct {
    const char *path;
    struct answer (*get)(const struct question *q);
} documents[] = {
    {"/status", get_status},
    {"/health", get_health},
    {"/ready", get_ready},
    {"/metrics", get_metrics},
};

static const char under_status[] = "/status/";

static struct answer get_forwarder(const struct question *q, const char *name) {
    for (size_t i = 0; i < q->count; i++)
        if (strcmp(q->stats[i].name, name) == 0)
            return yes_or_no(true, document_forwarder(q->daemon, &q->stats[i], q->now_us, q->wall_us));
    char detail[FORWARDER_NAME_MAX + 128];
    snprintf(detail, sizeof detail, "There is no forwarder '%.*s'; GET /status lists those there are.",
             FORWARDER_NAME_MAX, name);
    return answer_problem(404, detail);
}

struct answer answer_get(const struct document_daemon *d, const struct forwarder_stats *stats, size_t count,
                         const char *path, const char *accept) {
    struct question q = {d, stats, count, accept, clock_now_us(), clock_wall_us()};
    for (size_t i = 0; i < ARRAY_LENGTH(documents); i++)
        if (strcmp(path, documents[i].path) == 0)
            return documents[i].get(&q);
    if (strncmp(path, under_status, strlen(under_status)) == 0)
        return get_forwarder(&q, path + strlen(under_status));
    return answer_problem(404, "There are /status, /status/NAME, /health, /ready and /metrics.");
}
