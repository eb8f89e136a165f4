/* instance: the name of a running process, which no other process ever has, and whether such a one is gone */
#include "base/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIELD_START_TIME 22 /* of /proc/PID/stat, from 1; the second one may hold anything */
#define TEXT_MAX 1024

/* Bytes read, 0 if there are none; -errno. `text` is terminated. */
static int read_text(const char *path, char text[TEXT_MAX]) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t len = read(fd, text, TEXT_MAX - 1);
    int r = len < 0 ? -errno : (int)len;
    close(fd);
    text[len < 0 ? 0 : len] = '\0';
    return r;
}

/* Ticks since the boot; 0: unknown; -ESRCH: there is no such process, or it is only not yet waited for. proc(5) may be
 * mounted so that those of other users are hidden, so it is not asked whether there is one. */
static int64_t birth_of(int pid) {
    char path[64], text[TEXT_MAX];
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return -ESRCH;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (read_text(path, text) < 0)
        return 0;
    const char *at = strrchr(text, ')');
    if (!at)
        return 0;
    if (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0)
        return -ESRCH;
    for (int field = 2; at && field < FIELD_START_TIME; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : 0;
}

/* 0: unknown. */
static uint32_t place(void) {
    char boot[TEXT_MAX];
    struct stat namespace;
    if (read_text("/proc/sys/kernel/random/boot_id", boot) <= 0 || stat("/proc/self/ns/pid", &namespace) != 0)
        return 0;
    /* FNV-1a (RFC 9923): the same for every program that asks. */
    uint32_t hash = 2166136261U;
    for (const char *c = boot; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619U;
    for (uint64_t rest = namespace.st_ino; rest > 0; rest >>= 8)
        hash = (hash ^ (uint8_t)rest) * 16777619U;
    return hash ? hash : 1;
}

void instance_name(char name[INSTANCE_NAME_MAX]) {
    char host[65] = "localhost";
    (void)!gethostname(host, sizeof host - 1);
    int64_t birth = birth_of(getpid());
    snprintf(name, INSTANCE_NAME_MAX, "%s:%d:%08" PRIx32 ":%" PRId64, host, (int)getpid(), place(), birth > 0 ? birth : 0);
}

/* Behind host. */
static const char *find_pid(const char *name) {
    const char *colon = strchr(name, ':');
    return colon ? colon + 1 : NULL;
}

bool instance_is_gone(struct span name) {
    char text[INSTANCE_NAME_MAX];
    int pid, end = 0;
    uint32_t its_place;
    int64_t birth;
    if (span_absent(name) || name.len >= sizeof text)
        return false;
    memcpy(text, name.data, name.len);
    text[name.len] = '\0';
    const char *rest = find_pid(text);
    if (!rest || sscanf(rest, "%d:%" SCNx32 ":%" SCNd64 "%n", &pid, &its_place, &birth, &end) != 3 || rest[end] != '\0')
        return false;
    if (pid <= 0 || its_place == 0 || birth <= 0 || its_place != place())
        return false;
    int64_t now = birth_of(pid);
    return now < 0 || (now > 0 && now != birth);
}

struct span instance_brief(struct span name) {
    const char *host = span_absent(name) ? NULL : memchr(name.data, ':', name.len);
    if (!host)
        return name;
    const char *end = name.data + name.len;
    const char *pid = memchr(host + 1, ':', (size_t)(end - host - 1));
    return pid ? (struct span){name.data, (size_t)(pid - name.data)} : name;
}

struct span instance_place(struct span name) {
    struct span brief = instance_brief(name);
    if (span_absent(name) || brief.len == name.len)
        return SPAN_ABSENT;
    const char *place = name.data + brief.len + 1, *end = name.data + name.len;
    const char *birth = memchr(place, ':', (size_t)(end - place));
    return (struct span){place, (size_t)((birth ? birth : end) - place)};
}
