/* event: nanoseconds per event of the pure way from a row to a message */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "event/binding.h"
#include "event/row.h"
#include "rule/rule.h"
#include "unit/rows.h"

enum { EVENTS = 50000, ROUNDS = 7, DATA_BYTES = 500 };

/* Eight attributes beside position and stream, 500 bytes of jsonb. */
static void make_row(struct rows *r, char *data) {
    rows_minimal(r);
    rows_text(r, ROW_SUBJECT, "order/4711");
    rows_integer(r, ROW_TIME, ROW_FORM_TIMESTAMPTZ, ROWS_TIME);
    rows_text(r, ROW_DATASCHEMA, "https://schemas.acme.example/order/1");
    rows_add(r, ROW_EXTENSIONS, ROW_FORM_JSONB, SPAN_LITERAL("\1{\"tenant\": \"acme\", \"prio\": 5}"));
    rows_text(r, ROW_STREAM_ID, "order-4711");
    rows_integer(r, ROW_STREAM_VERSION, ROW_FORM_INT8, 12);
    memset(data, 'x', DATA_BYTES);
    memcpy(data, "\1\"", 2);
    data[DATA_BYTES - 1] = '"';
    rows_add(r, ROW_DATA, ROW_FORM_JSONB, (struct span){data, DATA_BYTES});
}

static int add_template(struct rule_set *s, size_t field, const char *header, const char *text) {
    struct template *t;
    struct error error;
    size_t column;
    if (template_compile(span_of(text), &t, &error, &column) < 0)
        return -1;
    return header ? rule_set_add_header(s, span_of(header), t) : rule_set_add_field(s, field, t);
}

static struct rule_set *make_rules(void) {
    struct rule_set *s;
    struct filter *f;
    struct error error;
    if (rule_set_new(&s) < 0 || filter_new(FILTER_PREFIX, &f) < 0 ||
        filter_add_match(f, SPAN_LITERAL("type"), SPAN_LITERAL("com.acme.order."), &error) < 0 ||
        rule_set_add_rule(s, SPAN_LITERAL("orders"), f, false, false) < 0 ||
        rule_set_add_destination(s, NULL) < 0 || add_template(s, 0, NULL, "orders") < 0 ||
        add_template(s, 1, NULL, "order.{type|last}.{tenant?none}") < 0 ||
        add_template(s, 0, "tenant", "{tenant}") < 0)
        return NULL;
    return s;
}

struct bench {
    struct row row;
    struct row_options row_options;
    struct rule_set *rules;
    struct event event;
    struct destination destination;
    struct binding_message message;
};

/* The steps of one event up to number `steps`; false: something failed. */
static bool one_event(struct bench *b, const struct binding_options *options, int steps) {
    struct error error;
    struct rule_result result;
    event_clear(&b->event, 65536);
    if (row_to_event(&b->row, &b->row_options, &b->event, &error) != 0)
        return false;
    if (steps > 1)
        rule_resolve(b->rules, &b->event, &result, &error);
    if (steps > 2 && rule_render(b->rules, result.destinations[0], &b->event, &b->destination) != 0)
        return false;
    return steps < 4 || binding_encode(BINDING_AMQP, options, &b->event, &b->message, &error) == 0;
}

static int64_t cpu_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* Of processor time, the best of several rounds: others use the machine too. */
static int64_t ns_per_event(struct bench *b, enum binding_mode mode, int steps) {
    struct binding_options options = {.mode = mode};
    int64_t best = INT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = cpu_ns();
        for (int i = 0; i < EVENTS; i++)
            if (!one_event(b, &options, steps))
                return -1;
        int64_t taken = (cpu_ns() - start) / EVENTS;
        best = taken < best ? taken : best;
    }
    return best;
}

int main(void) {
    static const char *const names[] = {"row", "resolve", "render", "encode"};
    struct rows rows;
    char data[DATA_BYTES];
    make_row(&rows, data);
    struct bench b = {
        .row = rows_view(&rows),
        .row_options = {.emit_streamid = true, .emit_streamversion = true, .emit_position = true},
        .rules = make_rules(),
    };
    event_init(&b.event, 1 << 20);
    destination_init(&b.destination);
    binding_message_init(&b.message, 1 << 20);
    int64_t before = 0, total = b.rules ? 0 : -1;
    for (int step = 1; step <= 4 && total >= 0; step++) {
        total = ns_per_event(&b, BINDING_BINARY, step);
        printf("event: %-8s %5" PRId64 " ns\n", names[step - 1], total - before);
        before = total;
    }
    int64_t structured = total < 0 ? -1 : ns_per_event(&b, BINDING_STRUCTURED, 4);
    printf("event: binary %" PRId64 " ns/event, structured %" PRId64 " ns/event\n", total, structured);
    binding_message_done(&b.message);
    destination_done(&b.destination);
    event_done(&b.event);
    rule_set_free(b.rules);
    return structured < 0;
}
