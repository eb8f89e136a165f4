/* test_config_cases: loads every configuration of a directory and compares findings and printed form with what is expected */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "config/config.h"

/* NAME.yaml or NAME/penstock.yaml (with NAME/conf.d); NAME.err: the findings,
 * none if there is no such file; NAME.out: the printed form of one that loads.
 * --update writes both as they are now: read the difference before committing it. */

#define TEXT_MAX (4 * 1024 * 1024)

struct outcome {
    struct buf findings, printed;
};

static void fatal(const char *what) {
    fprintf(stderr, "test_config_cases: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void add_findings(const struct diag *diag, struct buf *b) {
    enum diag_level level;
    const char *text;
    for (size_t i = 0; (text = diag_text(diag, i, &level)) != NULL; i++)
        if (buf_addf(b, "%s\n", text) != 0)
            fatal("findings");
}

static void load(const char *path, struct outcome *o) {
    struct diag *diag;
    struct config *config = NULL;
    if (diag_new(&diag) != 0)
        fatal("diag");
    int r = config_load(path, diag, &config);
    if (r < 0)
        fatal(path);
    if ((r == CONFIG_E_REFUSED) != (diag_count(diag, DIAG_ERROR) > 0)) {
        fprintf(stderr, "test_config_cases: %s: result %d does not fit the findings\n", path, r);
        exit(2);
    }
    add_findings(diag, &o->findings);
    if (r == 0 && config_print(config, &o->printed) != 0)
        fatal("print");
    config_free(config);
    diag_free(diag);
}

static void outcome_done(struct outcome *o) {
    buf_done(&o->findings);
    buf_done(&o->printed);
}

static void read_file(const char *path, struct buf *b) {
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return;
    for (ssize_t got = 1; fd >= 0 && got > 0; b->len += (size_t)got) {
        if (buf_reserve(b, 65536) != 0)
            fatal(path);
        got = read(fd, b->data + b->len, 65536);
        if (got < 0)
            fatal(path);
    }
}

static void write_file(const char *path, struct span text) {
    if (text.len == 0) {
        unlink(path);
        return;
    }
    FILE *file = fopen(path, "we");
    if (!file || fwrite(text.data, 1, text.len, file) != text.len || fclose(file) != 0)
        fatal(path);
}

static bool expect(const char *name, const char *suffix, struct span got, bool update) {
    CLEANUP(buf_done) struct buf expected = BUF_INIT(TEXT_MAX);
    char path[512];
    snprintf(path, sizeof(path), "%s%s", name, suffix);
    if (update)
        write_file(path, got);
    read_file(path, &expected);
    if (span_equal(buf_span(&expected), got))
        return true;
    printf("%s differs; expected:\n%.*sgot:\n%.*s", path, SPAN_ARGS(buf_span(&expected)), SPAN_ARGS(got));
    return false;
}

/* What is printed loads, without errors, and prints the same. */
static bool loads_again(const char *name, struct span printed) {
    char path[] = "/tmp/penstock-check-XXXXXX";
    if (!mkdtemp(path))
        fatal(path);
    char file[sizeof(path) + 16];
    snprintf(file, sizeof(file), "%s/again.yaml", path);
    write_file(file, printed);
    struct outcome again = {BUF_INIT(TEXT_MAX), BUF_INIT(TEXT_MAX)};
    load(file, &again);
    unlink(file);
    rmdir(path);
    bool same = span_equal(buf_span(&again.printed), printed);
    if (!same)
        printf("%s: what is printed does not load to the same:\n%.*s%.*s", name, SPAN_ARGS(buf_span(&again.findings)),
               SPAN_ARGS(buf_span(&again.printed)));
    outcome_done(&again);
    return same;
}

static bool check_case(const char *entry, bool update) {
    char name[256], path[512];
    struct stat st;
    snprintf(name, sizeof(name), "%s", entry);
    bool directory = stat(entry, &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(path, sizeof(path), directory ? "%s/penstock.yaml" : "%s", entry);
    if (!directory)
        name[strlen(name) - strlen(".yaml")] = '\0';
    struct outcome o = {BUF_INIT(TEXT_MAX), BUF_INIT(TEXT_MAX)};
    load(path, &o);
    bool ok = expect(name, ".err", buf_span(&o.findings), update);
    ok = expect(name, ".out", buf_span(&o.printed), update) && ok;
    if (o.printed.len > 0)
        ok = loads_again(name, buf_span(&o.printed)) && ok;
    outcome_done(&o);
    return ok;
}

static int is_case(const struct dirent *entry) {
    size_t len = strlen(entry->d_name);
    if (entry->d_name[0] == '.')
        return 0;
    return entry->d_type == DT_DIR || (len > 5 && strcmp(entry->d_name + len - 5, ".yaml") == 0);
}

static bool check_all(const char *directory, bool update) {
    struct dirent **entries;
    if (chdir(directory) != 0)
        fatal(directory);
    int count = scandir(".", &entries, is_case, alphasort), failed = 0;
    if (count < 0)
        fatal(directory);
    for (int i = 0; i < count; i++) {
        failed += !check_case(entries[i]->d_name, update);
        free(entries[i]);
    }
    free(entries);
    printf("%d%%: Checks: %d, Failures: %d, Errors: 0 (configurations)\n",
           count ? 100 * (count - failed) / count : 0, count, failed);
    return failed == 0 && count > 0;
}

int main(int argc, char **argv) {
    bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
    return check_all("tests/config/cases", update) ? EXIT_SUCCESS : EXIT_FAILURE;
}
