/* kafka_files: the files that a connection's properties name: can they be read? */
#include "sink/kafka_files.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    const char *property;
    bool also_directory;
    const char *also_word; /* that is no path */
};

static const struct file files[] = {
    {"ssl.ca.location", true, "probe"},       {"ssl.certificate.location", false, NULL},
    {"ssl.key.location", false, NULL},        {"ssl.keystore.location", false, NULL},
    {"ssl.crl.location", false, NULL},
};

/* 0 or an errno. */
static int look_at(const struct file *file, const char *path) {
    struct stat st;
    if (access(path, R_OK) < 0 || stat(path, &st) < 0)
        return errno;
    return S_ISDIR(st.st_mode) && !file->also_directory ? EISDIR : 0;
}

static int check(const struct file *file, struct span value, struct error *reterr) {
    CLEANUP(cleanup_free) char *path = strndup(value.data, value.len);
    if (!path)
        return -ENOMEM;
    int why = look_at(file, path);
    if (why == 0)
        return 0;
    error_set(reterr, ERROR_CONFIG, "%.300s can't be read: %s", path, strerrordesc_np(why));
    return -EINVAL;
}

int kafka_files_check(struct span name, struct span value, struct error *reterr) {
    for (size_t i = 0; i < ARRAY_LENGTH(files) && !span_absent(value); i++)
        if (span_is(name, files[i].property))
            return files[i].also_word && span_is(value, files[i].also_word) ? 0 : check(&files[i], value, reterr);
    return 0;
}
