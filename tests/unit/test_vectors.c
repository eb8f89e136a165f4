/* test_vectors: the vectors of others and our own (tests/vectors/README.md), read by a JSON library that isn't ours */
#include "unit/unit.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "event/attribute.h"
#include "event/binding.h"
#include "event/row.h"
#include "rule/filter.h"
#include "unit/rows.h"

#define VECTORS "tests/vectors/"

static struct error error;

static struct span text_of(const json_t *string) {
    return (struct span){json_string_value(string), json_string_length(string)};
}

static json_t *load(const char *path) {
    json_error_t why;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(root != NULL, "%s (run from the source directory): %s", path, why.text);
    return root;
}

static const char *member_text(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

/* Not ours, so that ours is checked by it. */
static void decode_base64(const char *text, struct buf *b) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned group = 0, bits = 0;
    for (; *text && *text != '='; text++) {
        group = group << 6 | (unsigned)(strchr(alphabet, *text) - alphabet);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            ck_assert_int_eq(buf_add_char(b, (char)(group >> bits & 0xff)), 0);
        }
    }
}

/* Reading a JSON document as an event, as a receiver would: 0; -EINVAL if it is none. */

static int read_extension(struct event *e, const char *name, const json_t *value) {
    char text[32];
    struct span boolean = json_is_true(value) ? SPAN_LITERAL("true") : SPAN_LITERAL("false");
    if (json_is_string(value))
        return event_set_extension(e, span_of(name), ATTRIBUTE_STRING, text_of(value));
    if (json_is_boolean(value))
        return event_set_extension(e, span_of(name), ATTRIBUTE_BOOLEAN, boolean);
    if (!json_is_integer(value))
        return -EINVAL; /* no CloudEvents type */
    snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return event_set_extension(e, span_of(name), ATTRIBUTE_INTEGER, span_of(text));
}

static int read_attribute(struct event *e, const char *name, const json_t *value) {
    int which = event_core_by_name(span_of(name));
    if (json_is_null(value))
        return 0;
    if (strcmp(name, "specversion") == 0)
        return json_is_string(value) && span_equal(event_get(e, span_of(name)), text_of(value)) ? 0 : -EINVAL;
    if (which < 0)
        return read_extension(e, name, value);
    return json_is_string(value) ? event_set_core(e, (enum event_core)which, text_of(value)) : -EINVAL;
}

static int read_data(struct event *e, const json_t *document) {
    const json_t *data = json_object_get(document, "data"), *base64 = json_object_get(document, "data_base64");
    if (data && base64)
        return -EINVAL;
    if (base64) {
        CLEANUP(buf_done) struct buf bytes = BUF_INIT(10000);
        decode_base64(json_string_value(base64), &bytes);
        return event_set_data(e, EVENT_DATA_BINARY, buf_span(&bytes));
    }
    if (json_is_string(data))
        return event_set_data(e, EVENT_DATA_TEXT, text_of(data));
    if (!data)
        return 0;
    char *text = json_dumps(data, JSON_ENCODE_ANY);
    int r = event_set_data(e, EVENT_DATA_JSON, span_of(text));
    free(text);
    return r;
}

static int read_attributes(struct event *e, json_t *attributes) {
    static const struct attribute_names none = {0};
    const char *name;
    json_t *value;
    int r = 0;
    json_object_foreach(attributes, name, value) {
        if (r == 0)
            r = read_attribute(e, name, value);
    }
    return r == 0 ? attribute_check_event(e, &none, &error) : r;
}

static int read_event(struct event *e, const json_t *document) {
    json_t *attributes = json_copy((json_t *)document);
    json_object_del(attributes, "data");
    json_object_del(attributes, "data_base64");
    int r = json_object_get(document, "specversion") ? read_attributes(e, attributes) : -EINVAL;
    json_decref(attributes);
    return r == 0 ? read_data(e, document) : r;
}

static json_t *parse(struct span text) {
    json_error_t why;
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(root != NULL, "%s in %.*s", why.text, SPAN_ARGS(text));
    return root;
}

/* The document read as an event and written again has equal values; null members are no members. */
static void expect_round_trip(const char *label, json_t *document) {
    CLEANUP(event_done) struct event e;
    CLEANUP(buf_done) struct buf b = BUF_INIT(100000);
    event_init(&e, 100000);
    ck_assert_msg(read_event(&e, document) == 0, "%s: %s", label, error.text);
    ck_assert_int_eq(binding_add_json(&e, &b, &error), 0);
    json_t *again = parse(buf_span(&b)), *wanted = json_object();
    const char *name;
    json_t *value;
    json_object_foreach(document, name, value) {
        if (!json_is_null(value))
            json_object_set(wanted, name, value);
    }
    ck_assert_msg(json_equal(again, wanted), "%s: %.*s", label, (int)b.len, b.data);
    json_decref(again);
    json_decref(wanted);
}

static void expect_refused(const char *label, const json_t *document) {
    CLEANUP(event_done) struct event e;
    event_init(&e, 100000);
    ck_assert_msg(read_event(&e, document) == -EINVAL, "%s was accepted", label);
}

START_TEST(valid_events_of_the_conformance_suite_are_accepted) {
    json_t *root = load(VECTORS "json_format/valid-events.json"), *tests = json_object_get(root, "tests"), *test;
    size_t i;
    json_array_foreach(tests, i, test) expect_round_trip(member_text(test, "id"), json_object_get(test, "event"));
    ck_assert_uint_eq(json_array_size(tests), 10);
    json_decref(root);
}
END_TEST

START_TEST(invalid_events_of_the_conformance_suite_are_refused) {
    json_t *root = load(VECTORS "json_format/invalid-events.json"), *tests = json_object_get(root, "tests"), *test;
    size_t i;
    json_array_foreach(tests, i, test) expect_refused(member_text(test, "id"), json_object_get(test, "event"));
    ck_assert_uint_eq(json_array_size(tests), 25);
    json_decref(root);
}
END_TEST

START_TEST(events_of_the_java_sdk_come_back_with_equal_values) {
    static const char *const valid[] = {
        "base64_json_data", "base64_json_data_with_ext", "base64_text_data",   "base64_xml_data",
        "binary_attr",      "json_data",                 "json_data_with_ext", "json_data_with_fractional_time",
        "min",              "min_subject_null",          "numeric_ext",        "text_data",
        "xml_data",
    };
    static const char *const invalid[] = {"fail_numeric_decimal", "fail_numeric_long", "json_data_with_ext_invalid",
                                          "json_data_with_ext_upper_case"};
    ck_assert_uint_eq(ARRAY_LENGTH(valid) + ARRAY_LENGTH(invalid), 17);
    for (size_t i = 0; i < ARRAY_LENGTH(valid) + ARRAY_LENGTH(invalid); i++) {
        bool good = i < ARRAY_LENGTH(valid);
        const char *name = good ? valid[i] : invalid[i - ARRAY_LENGTH(valid)];
        char path[200];
        snprintf(path, sizeof path, VECTORS "json_format/sdk-java/%s.json", name);
        json_t *document = load(path);
        if (good)
            expect_round_trip(name, document);
        else
            expect_refused(name, document);
        json_decref(document);
    }
}
END_TEST

/* Our own cases go the whole way: a row as PostgreSQL would send it, then each binding. */

struct own_case {
    struct rows rows;
    struct event event;
    struct buf bytes; /* of data and of a Binary attribute */
};

static void add_bytes(struct own_case *c, enum row_role role, const char *base64) {
    size_t start = c->bytes.len;
    ck_assert_int_eq(buf_reserve(&c->bytes, 1000), 0); /* it may not move */
    decode_base64(base64, &c->bytes);
    rows_add(&c->rows, role, ROW_FORM_BYTEA, (struct span){c->bytes.data + start, c->bytes.len - start});
}

static void add_column(struct own_case *c, const char *name, json_t *value) {
    static const enum row_role roles[] = {
        [EVENT_ID] = ROW_ID,           [EVENT_SOURCE] = ROW_SOURCE, [EVENT_TYPE] = ROW_TYPE,
        [EVENT_SUBJECT] = ROW_SUBJECT, [EVENT_TIME] = ROW_TIME,     [EVENT_DATASCHEMA] = ROW_DATASCHEMA,
    };
    int which = event_core_by_name(span_of(name));
    if (strcmp(name, "specversion") == 0)
        return;
    enum row_role role = which >= 0 ? roles[which] : ROW_EXTENSION;
    if (json_is_string(value))
        rows_add(&c->rows, role, ROW_FORM_TEXT, text_of(value));
    else if (json_is_integer(value))
        rows_integer(&c->rows, role, ROW_FORM_INT8, json_integer_value(value));
    else if (json_is_boolean(value))
        rows_add(&c->rows, role, ROW_FORM_BOOL, json_is_true(value) ? (struct span){"\1", 1} : (struct span){"\0", 1});
    else
        add_bytes(c, role, member_text(value, "base64"));
    rows_name(&c->rows, name);
}

static void add_data(struct own_case *c, const json_t *in) {
    const char *kind = member_text(in, "data_kind");
    const json_t *data = json_object_get(in, "data");
    if (strcmp(kind, "bytes") == 0)
        add_bytes(c, ROW_DATA, json_string_value(data));
    else if (strcmp(kind, "json") == 0)
        rows_add(&c->rows, ROW_DATA, ROW_FORM_JSON, text_of(data));
    else
        rows_add(&c->rows, ROW_DATA, ROW_FORM_TEXT, text_of(data));
    rows_text(&c->rows, ROW_DATACONTENTTYPE, member_text(in, "datacontenttype"));
}

static void read_own(struct own_case *c, const json_t *test) {
    static const struct row_options options; /* nothing of ours is emitted */
    const json_t *in = json_object_get(test, "in");
    const char *name;
    json_t *value;
    *c = (struct own_case){.bytes = BUF_INIT(10000)};
    event_init(&c->event, 100000);
    rows_integer(&c->rows, ROW_POSITION, ROW_FORM_INT8, 1);
    json_object_foreach(json_object_get(in, "attributes"), name, value) add_column(c, name, value);
    add_data(c, in);
    struct row row = rows_view(&c->rows);
    int r = row_to_event(&row, &options, &c->event, &error);
    ck_assert_msg(r == 0, "%s: %s", member_text(test, "name"), error.text);
}

static void own_done(struct own_case *c) {
    event_done(&c->event);
    buf_done(&c->bytes);
}

/* The same text with the data's own text, which no JSON library keeps, as 0. */
static json_t *parse_without_data(struct span text, struct span data) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100000);
    const char *at = span_absent(data) ? NULL : memmem(text.data, text.len, data.data, data.len);
    size_t before = at ? (size_t)(at - text.data) : text.len;
    ck_assert_int_eq(buf_add(&b, text.data, before), 0);
    if (at) {
        ck_assert_int_eq(buf_add_char(&b, '0'), 0);
        ck_assert_int_eq(buf_add(&b, at + data.len, text.len - before - data.len), 0);
    }
    return parse(buf_span(&b));
}

static void expect_structured(const json_t *test, const struct binding_message *m) {
    const json_t *in = json_object_get(test, "in");
    bool json = strcmp(member_text(in, "data_kind"), "json") == 0;
    struct span data = json ? text_of(json_object_get(in, "data")) : SPAN_ABSENT;
    ck_assert(!json || memmem(m->body.data, m->body.len, data.data, data.len)); /* byte for byte */
    const json_t *wanted_message = json_object_get(test, "structured_json");
    json_t *wanted = parse_without_data(text_of(json_object_get(wanted_message, "body_utf8")), data);
    json_t *got = parse_without_data(m->body, data);
    ck_assert_msg(json_equal(got, wanted), "%s: %.*s", member_text(test, "name"), SPAN_ARGS(m->body));
    json_decref(got);
    json_decref(wanted);
}

static bool has_header(const struct binding_message *m, struct span name, struct span value) {
    int found = 0;
    for (size_t i = 0; i < m->header_count; i++)
        found += span_equal(m->headers[i].name, name) && span_equal(m->headers[i].value, value);
    return found == 1;
}

/* Each of the wanted once, and no other. `prefix` replaces the vector's. */
static void expect_headers(const char *label, const json_t *wanted, const struct binding_message *m,
                           const char *prefix) {
    json_t *pair;
    size_t i;
    json_array_foreach(wanted, i, pair) {
        const char *name = json_string_value(json_array_get(pair, 0));
        char replaced[100];
        snprintf(replaced, sizeof replaced, "%s%s", prefix, name + (*prefix ? 3 : 0));
        ck_assert_msg(has_header(m, span_of(replaced), text_of(json_array_get(pair, 1))), "%s: %s", label, replaced);
    }
    ck_assert_uint_eq(m->header_count, json_array_size(wanted));
}

static void expect_body(const char *label, const json_t *base64, struct span body, bool null_is_empty) {
    CLEANUP(buf_done) struct buf wanted = BUF_INIT(10000);
    if (json_is_string(base64))
        decode_base64(json_string_value(base64), &wanted);
    ck_assert_msg(span_equal(body, buf_span(&wanted)), "%s: body", label);
    if (!null_is_empty)
        ck_assert_msg(span_absent(body) == json_is_null(base64), "%s: null or empty", label);
}

static void encode(enum binding_protocol protocol, enum binding_mode mode, enum binding_prefix prefix,
                   const struct event *e, struct binding_message *m) {
    const struct binding_options options = {.mode = mode, .header_prefix = prefix};
    ck_assert_int_eq(binding_encode(protocol, &options, e, m, &error), 0);
}

static void check_own(const json_t *test, struct binding_message *m) {
    static const char *const prefixes[] = {
        [BINDING_PREFIX_UNDERSCORE] = "cloudEvents_",
        [BINDING_PREFIX_COLON] = "cloudEvents:",
        [BINDING_PREFIX_CE] = "ce-",
    };
    const char *label = member_text(test, "name");
    const json_t *kafka = json_object_get(test, "kafka_binary");
    const json_t *rabbitmq = json_object_get(test, "rabbitmq_binary_ce-");
    struct own_case c;
    read_own(&c, test);
    encode(BINDING_AMQP, BINDING_STRUCTURED, BINDING_PREFIX_CE, &c.event, m);
    expect_structured(test, m);
    ck_assert(span_is(m->content_type, member_text(json_object_get(test, "structured_json"), "content_type")));
    encode(BINDING_KAFKA, BINDING_STRUCTURED, BINDING_PREFIX_CE, &c.event, m);
    expect_structured(test, m);
    encode(BINDING_KAFKA, BINDING_BINARY, BINDING_PREFIX_CE, &c.event, m);
    expect_headers(label, json_object_get(kafka, "headers"), m, "");
    expect_body(label, json_object_get(kafka, "value_base64"), m->body, false);
    for (int prefix = BINDING_PREFIX_UNDERSCORE; prefix <= BINDING_PREFIX_CE; prefix++) {
        encode(BINDING_AMQP, BINDING_BINARY, (enum binding_prefix)prefix, &c.event, m);
        expect_headers(label, json_object_get(rabbitmq, "headers_longstr"), m, prefixes[prefix]);
        expect_body(label, json_object_get(rabbitmq, "body_base64"), m->body, true);
        const char *type = member_text(rabbitmq, "content_type");
        ck_assert(type ? span_is(m->content_type, type) : span_absent(m->content_type));
    }
    own_done(&c);
}

START_TEST(our_events_have_their_forms_in_each_binding) {
    json_t *root = load(VECTORS "own/binding_cases.json"), *tests = json_object_get(root, "valid"), *test;
    struct binding_message m;
    size_t i;
    binding_message_init(&m, 100000);
    json_array_foreach(tests, i, test) check_own(test, &m);
    ck_assert_uint_eq(json_array_size(tests), 12);
    binding_message_done(&m);
    json_decref(root);
}
END_TEST

START_TEST(our_refused_attributes_are_refused) {
    json_t *root = load(VECTORS "own/binding_cases.json"), *tests = json_object_get(root, "reject"), *test;
    size_t i;
    json_array_foreach(tests, i, test) {
        CLEANUP(event_done) struct event e;
        event_init(&e, 10000);
        ck_assert_msg(read_attributes(&e, json_object_get(test, "attributes")) == -EINVAL, "%s was accepted",
                      member_text(test, "name"));
    }
    ck_assert_uint_eq(json_array_size(tests), 18);
    json_decref(root);
}
END_TEST

/* Core attributes as columns, all others in the jsonb column. */
static int row_of_attributes(json_t *attributes, struct event *e) {
    static struct rows rows;
    static const struct row_options options;
    json_t *extensions = json_object(), *value;
    const char *name;
    rows = (struct rows){0};
    rows_integer(&rows, ROW_POSITION, ROW_FORM_INT8, 1);
    json_object_foreach(attributes, name, value) {
        int which = event_core_by_name(span_of(name));
        static const enum row_role roles[] = {ROW_ID,   ROW_SOURCE,          ROW_TYPE,      ROW_SUBJECT,
                                              ROW_TIME, ROW_DATACONTENTTYPE, ROW_DATASCHEMA};
        if (which >= 0)
            rows_add(&rows, roles[which], ROW_FORM_TEXT, text_of(value));
        else
            json_object_set(extensions, name, value);
    }
    char *text = json_dumps(extensions, 0);
    rows_add(&rows, ROW_EXTENSIONS, ROW_FORM_JSON, span_of(text));
    struct row row = rows_view(&rows);
    int r = row_to_event(&row, &options, e, &error);
    free(text);
    json_decref(extensions);
    return r;
}

START_TEST(rows_with_our_refused_attributes_are_rejected) {
    json_t *root = load(VECTORS "own/binding_cases.json"), *tests = json_object_get(root, "reject"), *test;
    size_t i;
    json_array_foreach(tests, i, test) {
        CLEANUP(event_done) struct event e;
        event_init(&e, 100000);
        int r = row_of_attributes(json_object_get(test, "attributes"), &e);
        /* a row's number that no Integer can hold goes out as a String (spec.md "Type System") */
        bool becomes_string = strcmp(member_text(test, "name"), "Integer over 2147483647") == 0;
        ck_assert_msg(r == (becomes_string ? 0 : ROW_E_REJECTED), "%s", member_text(test, "name"));
        if (becomes_string)
            ck_assert(span_is(event_get(&e, span_of("n")), "2147483648"));
    }
    json_decref(root);
}
END_TEST

/* Filters as they stand in a subscription. NULL: refused. */
static struct filter *build(json_t *document);

static int fill(struct filter *f, int dialect, json_t *content) {
    const char *name;
    json_t *value;
    size_t i;
    int r = 0;
    if (dialect == FILTER_NOT) {
        struct filter *child = build(content);
        return child ? filter_add_child(f, child, &error) : -EINVAL;
    }
    json_object_foreach(content, name, value) {
        if (r == 0)
            r = filter_add_match(f, span_of(name), text_of(value), &error);
    }
    json_array_foreach(content, i, value) {
        struct filter *child = r == 0 ? build(value) : NULL;
        r = child ? filter_add_child(f, child, &error) : -EINVAL;
    }
    return r == 0 ? filter_finish(f, &error) : r;
}

static struct filter *build(json_t *document) {
    const char *name = json_object_iter_key(json_object_iter(document));
    int dialect = filter_dialect_by_name(span_of(name));
    struct filter *f;
    if (json_object_size(document) != 1 || dialect < 0)
        return NULL;
    ck_assert_int_eq(filter_new((enum filter_dialect)dialect, &f), 0);
    if (fill(f, dialect, json_object_get(document, name)) == 0)
        return f;
    filter_free(f);
    return NULL;
}

/* CloudEvents SQL comes later: such a case is left out, and said so. */
static bool left_out(const json_t *test, int *count) {
    char *text = json_dumps(test, JSON_COMPACT);
    bool sql = strstr(text, "\"sql\":") != NULL;
    if (sql)
        printf("vectors: left out, no dialect sql yet: %s\n", text);
    *count += sql;
    free(text);
    return sql;
}

static void check_evaluation(const json_t *test, const struct event *e) {
    json_t *filters = json_object_get(test, "filters"), *document;
    bool pass = true;
    size_t i;
    json_array_foreach(filters, i, document) {
        struct filter *f = build(document);
        ck_assert_ptr_nonnull(f);
        pass = pass && filter_match(f, e);
        filter_free(f);
    }
    ck_assert_msg(pass == json_is_true(json_object_get(test, "pass")), "%s", member_text(test, "why"));
}

START_TEST(filters_evaluate_and_are_refused_as_the_dialects_say) {
    json_t *root = load(VECTORS "own/filter_cases.json"), *test;
    CLEANUP(event_done) struct event e;
    size_t i;
    int skipped = 0, run = 0;
    event_init(&e, 10000);
    ck_assert_int_eq(read_event(&e, json_object_get(root, "event")), 0);
    json_array_foreach(json_object_get(root, "evaluate"), i, test) {
        if (left_out(test, &skipped))
            continue;
        check_evaluation(test, &e);
        run++;
    }
    json_array_foreach(json_object_get(root, "reject_at_load"), i, test) {
        if (left_out(test, &skipped))
            continue;
        ck_assert_msg(!build(json_object_get(test, "filter")), "%s", member_text(test, "why"));
        run++;
    }
    printf("vectors: %d filter cases run, %d left out\n", run, skipped);
    ck_assert_int_eq(run, 15);
    ck_assert_int_eq(skipped, 4);
    json_decref(root);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("vectors");
    TCase *cases = tcase_create("vectors");
    tcase_add_test(cases, valid_events_of_the_conformance_suite_are_accepted);
    tcase_add_test(cases, invalid_events_of_the_conformance_suite_are_refused);
    tcase_add_test(cases, events_of_the_java_sdk_come_back_with_equal_values);
    tcase_add_test(cases, our_events_have_their_forms_in_each_binding);
    tcase_add_test(cases, our_refused_attributes_are_refused);
    tcase_add_test(cases, rows_with_our_refused_attributes_are_rejected);
    tcase_add_test(cases, filters_evaluate_and_are_refused_as_the_dialects_say);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
