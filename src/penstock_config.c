/* penstock_config: the commands that need no daemon, and print what is configured: config, schema */
#include "penstock_command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "config/config.h"
#include "forwarder/checkpoint.h"
#include "source/source.h"

enum { PRINT_MAX_BYTES = 16 << 20 };
#define SCHEMA_DEFAULT "penstock"
#define ROLE_DEFAULT "penstock"

static void free_diag(struct diag **d) {
    diag_free(*d);
}

static void free_config(struct config **c) {
    config_free(*c);
}

const char *penstock_default_config(void) {
    return CONFIG_DEFAULT_PATH;
}

static const char *path_of(const struct penstock_command_line *line) {
    return line->config_path ? line->config_path : CONFIG_DEFAULT_PATH;
}

static int say_failed(const char *what, int r) {
    fprintf(stderr, "penstock: can't %s: %s\n", what, strerror(-r));
    return PENSTOCK_NO;
}

static int load(const char *path, struct diag **ret_diag, struct config **ret_config) {
    int r = diag_new(ret_diag);
    return r < 0 ? r : config_load(path, *ret_diag, ret_config);
}

/* config. ----------------------------------------------------------------- */

int penstock_config(const struct penstock_command_line *line) {
    CLEANUP(free_diag) struct diag *diag = NULL;
    CLEANUP(free_config) struct config *config = NULL;
    CLEANUP(buf_done) struct buf text = BUF_INIT(PRINT_MAX_BYTES);
    int r = load(path_of(line), &diag, &config);
    if (diag)
        diag_print(diag, stderr); /* what is printed on standard output loads again */
    if (r > 0)
        return PENSTOCK_NO;
    if (r == 0)
        r = config_print(config, &text);
    if (r < 0)
        return say_failed("print the configuration", r);
    fwrite(text.data, 1, text.len, stdout);
    return PENSTOCK_YES;
}

/* schema. ----------------------------------------------------------------- */

/* Where our tables live. A database is often prepared before there is a
 * configuration: without one it is the default. */
static int find_schema(const struct penstock_command_line *line, char **ret_schema) {
    CLEANUP(free_diag) struct diag *diag = NULL;
    CLEANUP(free_config) struct config *config = NULL;
    int r = load(path_of(line), &diag, &config);
    if (r < 0)
        return r;
    if (r > 0 && line->config_path)
        fprintf(stderr, "penstock: %s is refused (penstock check shows why): printing for schema '%s'\n",
                line->config_path, SCHEMA_DEFAULT);
    char *schema = strdup(r == 0 ? config->checkpoint_schema : SCHEMA_DEFAULT);
    if (!schema)
        return -ENOMEM;
    *ret_schema = schema;
    return 0;
}

/* What is printed, in this order. */
enum part { PART_EVENT_TABLE = 1 << 0, PART_TABLES = 1 << 1, PART_ROLE = 1 << 2, PART_LISTEN = 1 << 3 };

/* 0: there is no such part. */
static unsigned find_part(const char *name) {
    static const char *const names[] = {"event-table", "tables", "role", "listen"};
    for (unsigned i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(name, names[i]) == 0)
            return 1u << i;
    return 0;
}

/* 0; PENSTOCK_USAGE. */
static int check_schema_usage(const struct penstock_command_line *line) {
    struct error error;
    const char *wrong = NULL;
    if (line->existing && !line->event_table)
        wrong = "--existing needs --event-table TABLE";
    else if (line->listen && !line->event_table)
        wrong = "--listen needs --event-table TABLE";
    else if (line->position && !line->existing)
        wrong = "--position needs --existing";
    else if (line->role && !line->role[0])
        wrong = "--role wants the name of a role";
    else if (line->listen && !line->listen[0])
        wrong = "--listen wants the name of a channel";
    else if (line->only && find_part(line->only) == 0)
        wrong = "--only wants event-table, tables, role or listen";
    else if (line->only && find_part(line->only) == PART_EVENT_TABLE && !line->event_table)
        wrong = "--only event-table needs --event-table TABLE";
    else if (line->only && find_part(line->only) == PART_LISTEN && !line->listen)
        wrong = "--only listen needs --listen CHANNEL";
    if (wrong) {
        fprintf(stderr, "penstock: %s\n", wrong);
        return PENSTOCK_USAGE;
    }
    if (line->event_table && source_check_table(span_of(line->event_table), &error) < 0) {
        fprintf(stderr, "penstock: --event-table: %s\n", error.text);
        return PENSTOCK_USAGE;
    }
    return 0;
}

int penstock_schema(const struct penstock_command_line *line) {
    CLEANUP(cleanup_free) char *schema = NULL;
    CLEANUP(buf_done) struct buf sql = BUF_INIT(PRINT_MAX_BYTES);
    struct span table = span_of(line->event_table);
    struct span position = span_of(line->position ? line->position : source_default_column(ROW_POSITION));
    if (check_schema_usage(line) != 0)
        return PENSTOCK_USAGE;
    int r = find_schema(line, &schema);
    unsigned parts = line->only ? find_part(line->only) : UINT_MAX;
    if (r == 0 && line->event_table && (parts & PART_EVENT_TABLE))
        r = line->existing ? source_add_transaction_id_sql(table, position, &sql) : source_add_event_table_sql(table, &sql);
    if (r == 0 && (parts & PART_TABLES))
        r = checkpoint_add_schema_sql(span_of(schema), &sql);
    if (r == 0 && (parts & PART_ROLE))
        r = checkpoint_add_role_sql(span_of(schema), span_of(line->role ? line->role : ROLE_DEFAULT), table, &sql);
    if (r == 0 && line->listen && (parts & PART_LISTEN))
        r = source_add_notify_sql(table, span_of(schema), span_of(line->listen), &sql);
    if (r < 0)
        return say_failed("print the SQL", r);
    fwrite(sql.data, 1, sql.len, stdout);
    return PENSTOCK_YES;
}
