/* ask: asks the status socket so many times within so many seconds, at an even pace, for as little CPU as can be */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

/*     ask SOCKET PATH COUNT SECONDS
 *
 * Prints {"answered": n, "cpu_seconds": n}; what is not answered by 200 ends it with status 1. */

#define REPLY_BYTES (1 << 20)

static int connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("ask: connect");
        exit(1);
    }
    return fd;
}

static void ask(const char *socket_path, const char *request) {
    static char reply[REPLY_BYTES];
    int fd = connect_to(socket_path);
    size_t len = 0;
    ssize_t n = send(fd, request, strlen(request), MSG_NOSIGNAL);
    while (n > 0 && (n = recv(fd, reply + len, sizeof reply - 1 - len, 0)) > 0)
        len += (size_t)n;
    reply[len] = '\0';
    close(fd);
    if (strncmp(reply, "HTTP/1.1 200 ", 13) != 0) {
        fprintf(stderr, "ask: %.200s\n", reply);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 64;
    char request[256];
    long count = strtol(argv[3], NULL, 10);
    int64_t whole_us = (int64_t)(strtod(argv[4], NULL) * CLOCK_US_PER_S), began_us = clock_now_us();
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: p\r\n\r\n", argv[2]);
    for (long i = 0; i < count; i++) {
        int64_t due_us = began_us + whole_us * i / count, now_us = clock_now_us();
        if (due_us > now_us)
            clock_poll(NULL, 0, due_us);
        ask(argv[1], request);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"answered\": %ld, \"cpu_seconds\": %.3f}\n", count, cpu);
    return 0;
}
