/* property: one key of a mapping that takes the properties of a library */
#include "config/property.h"

#include <errno.h>

#include "config/nearest.h"
#include "config/schema.h"

/* {credential: …}, {file: …}, {env: …}, and not a name that was taken apart at its dots. */
static bool is_place(const struct yaml_node *value) {
    return value->kind == YAML_MAPPING && yaml_pairs(value) == 1 &&
           (yaml_find(value, "credential", NULL) || yaml_find(value, "file", NULL) || yaml_find(value, "env", NULL));
}

static void report_unknown(const struct option *o, const char *mapping, const struct yaml_node *key,
                           const struct yaml_node *value, struct diag *diag) {
    struct nearest nearest = {.word = yaml_text(key)};
    const char *name;
    for (size_t i = 0; (name = o->properties->name(i)) != NULL; i++)
        nearest_try(&nearest, span_of(name));
    if (value->kind == YAML_MAPPING && !is_place(value))
        diag_add(diag, DIAG_ERROR, key->place,
                 "\"%.100s\" is no key of %s; the name of a property is one key with dots in it, as in %.100s.…: …",
                 key->text, mapping, key->text);
    else if (span_absent(nearest.found))
        diag_add(diag, DIAG_ERROR, key->place, "\"%.100s\" is no key of %s; allowed: %s", key->text, mapping, o->summary);
    else
        diag_add(diag, DIAG_ERROR, key->place, "\"%.100s\" is no key of %s; did you mean \"%.*s\"?", key->text, mapping,
                 SPAN_ARGS(nearest.found));
}

static bool is_value(const struct yaml_node *key, const struct yaml_node *value, struct diag *diag) {
    bool empty = value->kind == YAML_SCALAR && value->text[0] == '\0';
    if (value->kind == YAML_MAPPING || (value->kind == YAML_SCALAR && !empty))
        return true;
    if (value->kind != YAML_REFUSED)
        diag_add(diag, DIAG_ERROR, value->place, "%.100s: %s stands here; one value is expected", key->text,
                 empty ? "nothing" : yaml_kind_name(value));
    return false;
}

/* A text that is no secret needs no warning. */
static int read_value(const struct option *o, const struct yaml_node *key, const struct yaml_node *value,
                      struct diag *diag, struct secret *ret_value) {
    if (value->kind != YAML_SCALAR || o->properties->secret(yaml_text(key)))
        return schema_read_secret(value, key->text, ret_value, diag);
    ret_value->value = strdup(value->text);
    ret_value->kind = SECRET_INLINE;
    return ret_value->value ? 0 : -ENOMEM;
}

static int add(const struct option *o, const struct yaml_node *key, const struct yaml_node *value, struct diag *diag,
               struct option_properties *properties) {
    struct option_property *p = &properties->items[properties->count];
    int r = read_value(o, key, value, diag, &p->value);
    if (r != 0 || p->value.kind == SECRET_NONE) {
        secret_done(&p->value);
        return r;
    }
    properties->count++;
    p->name = strdup(key->text);
    return p->name ? 0 : -ENOMEM;
}

/* Such as a file that isn't there: it may come before it is needed. */
static int warn(const struct option *o, const struct yaml_node *key, const struct yaml_node *value, struct diag *diag) {
    struct error error;
    if (!o->properties->doubt || value->kind != YAML_SCALAR)
        return 0;
    int r = o->properties->doubt(yaml_text(key), yaml_text(value), &error);
    if (r == -EINVAL)
        diag_add(diag, DIAG_WARNING, value->place, "%.100s: %s", key->text, error.text);
    return r == -EINVAL ? 0 : r;
}

int property_read(const struct option *o, const char *mapping, const struct yaml_node *key,
                  const struct yaml_node *value, struct diag *diag, struct option_properties *properties) {
    struct error error;
    if (!is_value(key, value, diag))
        return 0;
    struct span text = value->kind == YAML_SCALAR ? yaml_text(value) : SPAN_ABSENT;
    int r = o->properties->check(yaml_text(key), text, &error);
    if (r == OPTION_E_UNKNOWN)
        report_unknown(o, mapping, key, value, diag);
    else if (r == -EINVAL)
        diag_add(diag, DIAG_ERROR, value->place, "%.100s: %s", key->text, error.text);
    else if (r == 0 && value->kind == YAML_MAPPING && !is_place(value))
        diag_add(diag, DIAG_ERROR, value->place,
                 "%.100s: a mapping stands here; one value is expected, or the place where it stands: {credential: NAME}, "
                 "{file: PATH} or {env: NAME}",
                 key->text);
    else if (r == 0)
        r = add(o, key, value, diag, properties);
    if (r == 0)
        r = warn(o, key, value, diag);
    return r == -ENOMEM ? r : 0;
}
