/* address: HOST:PORT to listen on, as text -> a socket address */
#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

/* "[", an IPv6 address, "]" and NUL fit. */
enum { HOST_SIZE = INET6_ADDRSTRLEN + 2 };

static int refuse(struct error *reterr) {
    error_set(reterr, ERROR_CONFIG, "not an address to listen on; ADDRESS:PORT is allowed, as in 127.0.0.1:9464, [::1]:9464 "
                                    "or localhost:9464");
    return -EINVAL;
}

/* 1 to 65535 in digits; 0: it is none. */
static uint16_t read_port(struct span text) {
    unsigned port = 0;
    for (size_t i = 0; i < text.len && port <= UINT16_MAX; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        port = port * 10 + (unsigned)(text.data[i] - '0');
    }
    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

static bool read_v4(const char *host, uint16_t port, struct sockaddr_storage *ret_address, socklen_t *ret_len) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &v4.sin_addr) != 1)
        return false;
    memcpy(ret_address, &v4, sizeof v4);
    *ret_len = sizeof v4;
    return true;
}

/* In brackets, as in a URI (RFC 3986 section 3.2.2). */
static bool read_v6(char *host, uint16_t port, struct sockaddr_storage *ret_address, socklen_t *ret_len) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    size_t len = strlen(host);
    if (len < 2 || host[0] != '[' || host[len - 1] != ']')
        return false;
    host[len - 1] = '\0';
    if (inet_pton(AF_INET6, host + 1, &v6.sin6_addr) != 1)
        return false;
    memcpy(ret_address, &v6, sizeof v6);
    *ret_len = sizeof v6;
    return true;
}

int address_parse(struct span text, struct sockaddr_storage *ret_address, socklen_t *ret_len, struct error *reterr) {
    char host[HOST_SIZE] = "";
    const char *colon = text.len > 0 ? memrchr(text.data, ':', text.len) : NULL;
    size_t len = colon ? (size_t)(colon - text.data) : 0;
    if (len == 0 || len >= sizeof host)
        return refuse(reterr);
    memcpy(host, text.data, len);
    uint16_t port = read_port((struct span){colon + 1, text.len - len - 1});
    struct sockaddr_storage address = {0};
    const char *v4 = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    if (port == 0 || (!read_v4(v4, port, &address, ret_len) && !read_v6(host, port, &address, ret_len)))
        return refuse(reterr);
    *ret_address = address;
    return 0;
}
