/* test_config: the whole configuration as one immutable value, read from YAML */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/config_keys.h"
#include "config/scalar.h"
#include "sink/kafka_options.h"
#include "unit/fail_alloc.h"

#define EXAMPLE "conf/penstock.yaml"
#define MANUAL "man/penstock.yaml.5"
#define TEXT_MAX (1024 * 1024)

/* A file of the source tree, or the empty text. */
static void read_file(const char *path, struct buf *b) {
    FILE *file = fopen(path, "re");
    ck_assert_msg(file != NULL, "%s can't be read", path);
    ck_assert_int_eq(buf_reserve(b, TEXT_MAX / 2), 0);
    b->len = fread(b->data, 1, TEXT_MAX / 2, file);
    fclose(file);
    ck_assert_int_eq(buf_terminate(b), 0);
}

/* Loading text ------------------------------------------------------------ */

static char directory[] = "/tmp/penstock-test-config-XXXXXX";
static char path[sizeof(directory) + 16];
static struct diag *diag;
static struct config *config;

static void before(void) {
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/t.yaml", directory);
    ck_assert_int_eq(diag_new(&diag), 0);
    config = NULL;
}

static void after(void) {
    config_free(config);
    diag_free(diag);
    unlink(path);
    rmdir(directory);
    memcpy(directory + strlen(directory) - 6, "XXXXXX", 6);
}

static void write_text(struct span text) {
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text.data, 1, text.len, file), text.len);
    fclose(file);
}

static int load(struct span text) {
    write_text(text);
    config_free(config);
    config = NULL;
    diag_free(diag);
    ck_assert_int_eq(diag_new(&diag), 0);
    return config_load(path, diag, &config);
}

static const char *first_finding(void) {
    enum diag_level level;
    const char *text = diag_text(diag, 0, &level);
    return text ? text : "";
}

#define SMALL(forwarder)                                                    \
    "connections:\n"                                                        \
    "  db: {postgresql: {conninfo: dbname=shop}}\n"                         \
    "  out: {stdout: {}}\n"                                                 \
    "forwarders:\n"                                                         \
    "  f:\n"                                                                \
    "    source: {connection: db, table: event}\n"                          \
    "    rules: [{to: {headers: {tenant: \"{tenant}\"}}}]\n" forwarder

START_TEST(what_is_not_given_has_its_default) {
    ck_assert_int_eq(load(SPAN_LITERAL(SMALL("    sink: {connection: out}\n"))), 0);
    const struct config_forwarder *f = &config->forwarders[0];
    const struct sink_options *sink = f->sink_options;
    ck_assert_str_eq(f->name, "f");
    ck_assert_ptr_eq(f->source_connection, &config->connections[0]);
    ck_assert_ptr_eq(f->sink_connection, &config->connections[1]);
    ck_assert_int_eq(f->source.start, SOURCE_START_BEGINNING);
    ck_assert_int_eq(f->source.max_message_bytes, 16 * 1024 * 1024);
    ck_assert_ptr_null(f->source.columns[ROW_ID]);
    ck_assert_ptr_null(f->filter);
    ck_assert(f->emit_streamid && f->emit_streamversion && f->emit_position);
    ck_assert_int_eq(f->poll_min_us, 1000);
    ck_assert_int_eq(f->poll_max_us, 1000000);
    ck_assert_int_eq(f->window_events, config->connections[1].sink->default_window_events);
    ck_assert_int_eq(f->window_bytes, 16 * 1024 * 1024);
    ck_assert_int_eq(f->window_unsaved, 10000);
    ck_assert_int_eq(sink->ack_timeout_us, 5000000);
    ck_assert_int_eq(sink->in_flight, f->window_events / 2);
    ck_assert_int_eq(sink->binding.mode, BINDING_BINARY);
    ck_assert_int_eq(f->order, FLOW_BY_KEY);
    ck_assert_str_eq(f->order_attribute, "streamid");
    ck_assert_int_eq(f->order_in_flight, 1);
    ck_assert_int_eq(f->retry.initial_us, 100000);
    ck_assert_int_eq(f->retry.max_us, 2000000);
    ck_assert(f->retry.multiplier == 2.0);
    ck_assert_int_eq(f->on_unmatched, CONFIG_HOLD);
    ck_assert_int_eq(f->on_rejected, CONFIG_HOLD);
    ck_assert_str_eq(config->status_socket, CONFIG_DEFAULT_SOCKET);
    ck_assert_int_eq(config->health_max_age_us, 60000000);
    ck_assert_int_eq(config->stop_timeout_us, 20000000);
    ck_assert_str_eq(config->checkpoint_schema, "penstock");
    ck_assert(!config->checkpoint_create);
}
END_TEST

START_TEST(the_order_is_by_a_key_by_none_or_by_all) {
    ck_assert_int_eq(load(SPAN_LITERAL(SMALL("    sink: {connection: out}\n    order: {by: none}\n"))), 0);
    ck_assert_int_eq(config->forwarders[0].order, FLOW_BY_NONE);
    ck_assert_ptr_null(config->forwarders[0].order_attribute);
    ck_assert_int_eq(load(SPAN_LITERAL(SMALL("    sink: {connection: out}\n    order: {by: all}\n"))), 0);
    ck_assert_int_eq(config->forwarders[0].order, FLOW_BY_ALL);
}
END_TEST

START_TEST(the_idempotency_key_is_a_header_of_every_destination) {
    ck_assert_int_eq(load(SPAN_LITERAL(SMALL(
                         "    sink: {connection: out, idempotency_key: {header: key, value: \"{source}/{id}\"}}\n"))),
                     0);
    struct event e;
    struct destination d;
    struct rule_result result;
    struct error error;
    event_init(&e, 10000);
    destination_init(&d);
    ck_assert_int_eq(event_set_core(&e, EVENT_ID, SPAN_LITERAL("7")), 0);
    ck_assert_int_eq(event_set_core(&e, EVENT_SOURCE, SPAN_LITERAL("/shop")), 0);
    ck_assert_int_eq(event_set_extension(&e, SPAN_LITERAL("tenant"), ATTRIBUTE_STRING, SPAN_LITERAL("eu")), 0);
    rule_resolve(config->forwarders[0].rules, &e, &result, &error);
    ck_assert_int_eq(result.outcome, RULE_DESTINATIONS);
    ck_assert_int_eq(rule_render(config->forwarders[0].rules, result.destinations[0], &e, &d), 0);
    ck_assert_uint_eq(d.header_count, 2);
    ck_assert(span_is(d.headers[0].name, "key"));
    ck_assert(span_is(d.headers[0].value, "/shop/7"));
    ck_assert(span_is(d.headers[1].name, "tenant"));
    destination_done(&d);
    event_done(&e);
}
END_TEST

START_TEST(a_destination_of_kafka_goes_by_the_key_and_in_the_mode_of_the_sink_unless_it_says_otherwise) {
    ck_assert_int_eq(load(SPAN_LITERAL("connections: {db: {postgresql: {}}, k: {kafka: {bootstrap.servers: k1}}}\n"
                                       "forwarders:\n"
                                       "  f:\n"
                                       "    source: {connection: db, table: event}\n"
                                       "    sink: {connection: k, mode: structured}\n"
                                       "    rules: [{to: [{topic: a}, {topic: a, mode: binary, partition: 3}]}]\n")),
                     0);
    const struct config_forwarder *f = &config->forwarders[0];
    ck_assert_uint_eq(f->destination_options_count, 2);
    const struct kafka_destination *silent = f->destination_options[0], *outspoken = f->destination_options[1];
    ck_assert_int_eq(silent->binding.mode, BINDING_STRUCTURED);
    ck_assert_int_eq(silent->partition, KAFKA_PARTITION_BY_KEY);
    ck_assert_int_eq(outspoken->binding.mode, BINDING_BINARY);
    ck_assert_int_eq(outspoken->partition, 3);
    ck_assert_int_eq(f->window_events, 10000);
}
END_TEST

START_TEST(a_refused_configuration_leaves_nothing_but_findings) {
    struct config *untouched = (struct config *)&path;
    write_text(SPAN_LITERAL(SMALL("    sink: {connection: out}\n    colour: red\n")));
    ck_assert_int_eq(config_load(path, diag, &untouched), CONFIG_E_REFUSED);
    ck_assert_ptr_eq(untouched, &path);
    ck_assert_uint_eq(diag_count(diag, DIAG_ERROR), 1);
}
END_TEST

START_TEST(findings_of_before_do_not_refuse_it) {
    diag_add(diag, DIAG_ERROR, (struct diag_place){"x", 1, 1}, "of another file");
    write_text(SPAN_LITERAL(SMALL("    sink: {connection: out}\n")));
    ck_assert_int_eq(config_load(path, diag, &config), 0);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_a_finding) {
    ck_assert_int_eq(config_load("/nonexistent/penstock.yaml", diag, &config), CONFIG_E_REFUSED);
    ck_assert_str_eq(first_finding(), "/nonexistent/penstock.yaml: error: can't be read: No such file or directory");
}
END_TEST

static const char *const seeds[] = {EXAMPLE, "tests/config/cases/good-full.yaml", "tests/config/cases/good-kafka.yaml"};
#define SEEDS ((int)(sizeof(seeds) / sizeof(seeds[0])))

START_TEST(without_memory_it_says_so_and_keeps_nothing) {
    FAIL_ALLOC_EACH(n) {
        struct config *c = NULL;
        int r = config_load(seeds[1 + _i], diag, &c);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
        config_free(c);
    }
}
END_TEST

START_TEST(printing_without_memory_says_so) {
    ck_assert_int_eq(load(SPAN_LITERAL(SMALL("    sink: {connection: out}\n"))), 0);
    FAIL_ALLOC_EACH(n) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
        int r = config_print(config, &b);
        bool failed = fail_alloc_end();
        ck_assert_int_eq(r, failed ? -ENOMEM : 0);
    }
    CLEANUP(buf_done) struct buf small = BUF_INIT(100);
    ck_assert_int_eq(config_print(config, &small), -EMSGSIZE);
}
END_TEST

/* Damaged text ------------------------------------------------------------ */

/* Whatever comes of it: no crash, and if it loads, what it prints loads to the same. */
static void survive(struct span text) {
    CLEANUP(buf_done) struct buf once = BUF_INIT(TEXT_MAX), twice = BUF_INIT(TEXT_MAX);
    int r = load(text);
    ck_assert_int_ge(r, 0);
    ck_assert_int_eq(r == 0, diag_count(diag, DIAG_ERROR) == 0);
    if (r != 0)
        return;
    ck_assert_int_eq(config_print(config, &once), 0);
    ck_assert_msg(load(buf_span(&once)) == 0, "%s in:\n%.*s", first_finding(), SPAN_ARGS(buf_span(&once)));
    ck_assert_int_eq(config_print(config, &twice), 0);
    ck_assert(span_equal(buf_span(&once), buf_span(&twice)));
}

static void read_seed(int which, struct buf *b) {
    read_file(seeds[which], b);
}

START_TEST(every_prefix_is_survived) {
    CLEANUP(buf_done) struct buf seed = BUF_INIT(TEXT_MAX);
    read_seed(_i, &seed);
    for (size_t len = 0; len <= seed.len; len += _i == 0 ? 3 : 1)
        survive((struct span){seed.data, len});
}
END_TEST

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17; /* xorshift64 */
    return *state;
}

/* A byte replaced, a piece removed, or a piece said twice. */
static void damage(struct buf *b, uint64_t *random) {
    static const char likely[] = "{}[]:,-#\"'\n \t&*!|>%@0129azAZ_.\\\xff\xc3\x01";
    size_t at = next_random(random) % b->len, len = 1 + next_random(random) % 12;
    if (len > b->len - at)
        len = b->len - at;
    switch (next_random(random) % 4) {
    case 0:
        memmove(b->data + at, b->data + at + len, b->len - at - len);
        b->len -= len;
        break;
    case 1:
        ck_assert_int_eq(buf_reserve(b, len), 0);
        memmove(b->data + at + len, b->data + at, b->len - at);
        b->len += len;
        break;
    default:
        b->data[at] = likely[next_random(random) % (sizeof(likely) - 1)];
    }
}

START_TEST(thousands_of_damaged_files_are_survived) {
    CLEANUP(buf_done) struct buf seed = BUF_INIT(TEXT_MAX), text = BUF_INIT(TEXT_MAX);
    uint64_t random = 0x9e3779b97f4a7c15u + (uint64_t)_i;
    read_seed(_i, &seed);
    for (int i = 0; i < 2000; i++) {
        buf_clear(&text);
        ck_assert_int_eq(buf_add_span(&text, buf_span(&seed)), 0);
        for (uint64_t n = 1 + next_random(&random) % 4; n > 0; n--)
            damage(&text, &random);
        survive(buf_span(&text));
    }
}
END_TEST

/* Example and manual ------------------------------------------------------ */

#define KEYS_MAX 512

struct known_key {
    char path[160];
    const struct option *option; /* NULL: its value is a mapping or list */
    bool found;
};

static struct known_key keys[KEYS_MAX];
static size_t key_count;

static struct known_key *find_key(const char *wanted) {
    for (size_t i = 0; i < key_count; i++)
        if (strcmp(keys[i].path, wanted) == 0)
            return &keys[i];
    return NULL;
}

static int join(char *out, size_t size, const char *place, const char *key) {
    return snprintf(out, size, "%s%s%s", place, place[0] ? "." : "", key);
}

static int add_key(void *context, const char *place, const char *key, const struct option *option) {
    struct known_key k = {.option = option};
    (void)context;
    join(k.path, sizeof(k.path), place, key);
    ck_assert_uint_lt(key_count, KEYS_MAX);
    if (!find_key(k.path))
        keys[key_count++] = k;
    return 0;
}

static void learn_keys(void) {
    key_count = 0;
    ck_assert_int_eq(config_keys_visit(add_key, NULL), 0);
}

static void expect_all_found(const char *where) {
    for (size_t i = 0; i < key_count; i++)
        ck_assert_msg(keys[i].found, "%s is not in %s", keys[i].path, where);
}

/* Where a mapping takes the properties of a library, too: one that there is. */
static struct known_key *find_property(const char *place, const char *name) {
    struct error error;
    for (size_t i = 0; i < key_count; i++) {
        const struct option *o = keys[i].option;
        size_t len = strlen(place);
        if (o && o->kind == OPTION_PROPERTIES && strncmp(keys[i].path, place, len) == 0 &&
            strcmp(keys[i].path + len + 1, o->key) == 0)
            return o->properties->check(span_of(name), SPAN_ABSENT, &error) == OPTION_E_UNKNOWN ? NULL : &keys[i];
    }
    return NULL;
}

/* "tls" of tls.ca_file: it is there only for what is in it. */
static bool is_group(const char *wanted) {
    size_t len = strlen(wanted);
    for (size_t i = 0; i < key_count; i++)
        if (strncmp(keys[i].path, wanted, len) == 0 && keys[i].path[len] == '.')
            return true;
    return false;
}

/* Names of connections, forwarders, headers and attributes are the user's. */
static bool holds_names(const char *place) {
    return strcmp(place, "connections") == 0 || strcmp(place, "forwarders") == 0;
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static bool is_leaf(const char *place) {
    return ends_with(place, ".headers") || ends_with(place, ".exact") || ends_with(place, ".prefix") ||
           ends_with(place, ".suffix") || ends_with(place, ".password");
}

/* A filter of a source, or inside another one, has the keys of every filter. */
static void simplify(char *place, size_t size) {
    if (ends_with(place, ".source.filter") || ends_with(place, ".filter.all") || ends_with(place, ".filter.any") ||
        ends_with(place, ".filter.not"))
        snprintf(place, size, "forwarders.NAME.rules.filter");
}

/* Where it is no choice of the example, the value is the default. */
static void check_default(const struct known_key *key, const struct yaml_node *value) {
    const struct option *o = key->option;
    if (!o || !o->fallback || value->kind != YAML_SCALAR || strstr(key->path, ".rules."))
        return;
    CLEANUP(buf_done) struct buf expected = BUF_INIT(1000), got = BUF_INIT(1000);
    struct error error;
    union {
        char *text;
        int64_t number;
        double decimal;
        bool boolean;
        int choice;
    } member;
    struct option alone = *o;
    alone.offset = 0;
    for (int i = 0; i < 2; i++) {
        struct span text = i == 0 ? span_of(o->fallback) : yaml_text(value);
        ck_assert_int_eq(scalar_read(&alone, text, &member, &error), 0);
        ck_assert_int_eq(scalar_add(&alone, &member, i == 0 ? &expected : &got), 0);
        if (o->kind == OPTION_TEXT)
            free(member.text);
    }
    ck_assert_msg(span_equal(buf_span(&expected), buf_span(&got)), "%s: the example says %s, the default is %s",
                  key->path, value->text, o->fallback);
}

static void walk(const struct yaml_node *node, const char *place) {
    for (size_t i = 0; node->kind == YAML_SEQUENCE && i < node->count; i++)
        walk(node->children[i], place);
    for (size_t i = 0; node->kind == YAML_MAPPING && !is_leaf(place) && i < yaml_pairs(node); i++) {
        char next[160];
        join(next, sizeof(next), place, holds_names(place) ? "NAME" : yaml_key(node, i)->text);
        struct known_key *key = find_key(next);
        if (!key)
            key = find_property(place, yaml_key(node, i)->text);
        ck_assert_msg(key || holds_names(place) || is_group(next), "%s in the example is no key", next);
        if (key) {
            key->found = true;
            check_default(key, yaml_value(node, i));
        }
        simplify(next, sizeof(next));
        walk(yaml_value(node, i), next);
    }
}

/* "#key: value" is a key that is not set; "# text" is a comment. */
static void set_unset_keys(struct buf *b) {
    size_t to = 0;
    bool at_start = true;
    for (size_t i = 0; i < b->len; i++) {
        char c = b->data[i];
        bool unset = at_start && c == '#' && i + 1 < b->len && !strchr(" \n", b->data[i + 1]);
        at_start = c == '\n' || (at_start && c == ' ');
        if (!unset)
            b->data[to++] = c;
    }
    b->len = to;
}

START_TEST(the_example_loads_without_any_finding) {
    ck_assert_msg(config_load(EXAMPLE, diag, &config) == 0, "%s", first_finding());
    ck_assert_str_eq(first_finding(), "");
}
END_TEST

START_TEST(the_example_has_every_key_with_its_default_and_no_other) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    struct yaml y;
    learn_keys();
    read_file(EXAMPLE, &text);
    set_unset_keys(&text);
    ck_assert_msg(yaml_parse(buf_span(&text), EXAMPLE, diag, &y) == 0, "%s", first_finding());
    walk(y.root, "");
    yaml_done(&y);
    expect_all_found(EXAMPLE);
}
END_TEST

START_TEST(the_example_with_all_its_keys_set_loads_too) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    read_file(EXAMPLE, &text);
    set_unset_keys(&text);
    ck_assert_msg(load(buf_span(&text)) == 0, "%s", first_finding());
    enum diag_level level;
    const char *finding;
    for (size_t i = 0; (finding = diag_text(diag, i, &level)) != NULL; i++) /* the machine has no such files */
        ck_assert_msg(strstr(finding, ".location: /etc/") && strstr(finding, "can't be read"), "%s", finding);
}
END_TEST

/* ".Ss PLACE" and below it ".It Ic KEY" or ".It Ic KEY Pq DEFAULT". */
static void check_item(char *line, const char *place) {
    char full[160], *save;
    const char *key = strtok_r(line + strlen(".It Ic "), " ", &save), *word = strtok_r(NULL, " ", &save);
    const char *fallback = word && strcmp(word, "Pq") == 0 ? strtok_r(NULL, "", &save) : NULL;
    ck_assert_ptr_nonnull(key);
    join(full, sizeof(full), place, key);
    struct known_key *known = find_key(full), *property = find_property(place, key);
    if (property) {
        property->found = true;
        return; /* its default is the library's */
    }
    ck_assert_msg(known != NULL, "%s in the manual is no key", full);
    known->found = true;
    const char *expected = known->option && !strstr(full, ".rules.to") ? known->option->fallback : NULL;
    ck_assert_msg((expected == NULL) == (fallback == NULL), "%s: default in the manual: %s; is: %s", full,
                  fallback ? fallback : "none", expected ? expected : "none");
    if (expected)
        ck_assert_str_eq(fallback, expected);
}

START_TEST(the_manual_has_every_key_with_its_default_and_no_other) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    char place[160] = "", *save;
    bool keys_begin = false;
    learn_keys();
    read_file(MANUAL, &text);
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, ".Sh ", 4) == 0)
            keys_begin = strcmp(line, ".Sh KEYS") == 0;
        if (strncmp(line, ".Ss ", 4) == 0)
            snprintf(place, sizeof(place), "%s", strcmp(line, ".Ss Top level") == 0 ? "" : line + 4);
        if (keys_begin && strncmp(line, ".It Ic ", 7) == 0)
            check_item(line, place);
    }
    expect_all_found(MANUAL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("config");
    TCase *cases = tcase_create("config");
    tcase_set_timeout(cases, 600);
    tcase_add_checked_fixture(cases, before, after);
    tcase_add_test(cases, what_is_not_given_has_its_default);
    tcase_add_test(cases, the_order_is_by_a_key_by_none_or_by_all);
    tcase_add_test(cases, the_idempotency_key_is_a_header_of_every_destination);
    tcase_add_test(cases, a_destination_of_kafka_goes_by_the_key_and_in_the_mode_of_the_sink_unless_it_says_otherwise);
    tcase_add_test(cases, a_refused_configuration_leaves_nothing_but_findings);
    tcase_add_test(cases, findings_of_before_do_not_refuse_it);
    tcase_add_test(cases, a_file_that_is_not_there_is_a_finding);
    tcase_add_loop_test(cases, without_memory_it_says_so_and_keeps_nothing, 0, SEEDS - 1);
    tcase_add_test(cases, printing_without_memory_says_so);
    tcase_add_loop_test(cases, every_prefix_is_survived, 0, SEEDS);
    tcase_add_loop_test(cases, thousands_of_damaged_files_are_survived, 0, SEEDS);
    tcase_add_test(cases, the_example_loads_without_any_finding);
    tcase_add_test(cases, the_example_has_every_key_with_its_default_and_no_other);
    tcase_add_test(cases, the_example_with_all_its_keys_set_loads_too);
    tcase_add_test(cases, the_manual_has_every_key_with_its_default_and_no_other);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
