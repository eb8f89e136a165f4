/* test_address: which texts are an address to listen on */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "base/address.h"

static int parse(const char *text, struct sockaddr_storage *address, socklen_t *len) {
    struct error error = {0};
    int r = address_parse(span_of(text), address, len, &error);
    if (r < 0)
        ck_assert_ptr_nonnull(strstr(error.text, "127.0.0.1:9464"));
    return r;
}

START_TEST(both_families_and_localhost) {
    struct sockaddr_storage address;
    socklen_t len;
    ck_assert_int_eq(parse("127.0.0.1:9464", &address, &len), 0);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
    ck_assert_int_eq(v4->sin_family, AF_INET);
    ck_assert_int_eq(ntohs(v4->sin_port), 9464);
    ck_assert_uint_eq(ntohl(v4->sin_addr.s_addr), INADDR_LOOPBACK);
    ck_assert_uint_eq(len, sizeof *v4);
    ck_assert_int_eq(parse("localhost:1", &address, &len), 0);
    ck_assert_uint_eq(ntohl(v4->sin_addr.s_addr), INADDR_LOOPBACK);

    ck_assert_int_eq(parse("[::1]:65535", &address, &len), 0);
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
    ck_assert_int_eq(v6->sin6_family, AF_INET6);
    ck_assert_int_eq(ntohs(v6->sin6_port), 65535);
    ck_assert(IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr));
    ck_assert_uint_eq(len, sizeof *v6);
    ck_assert_int_eq(parse("[::]:80", &address, &len), 0);
    ck_assert_int_eq(parse("0.0.0.0:80", &address, &len), 0);
}
END_TEST

START_TEST(everything_else_is_refused) {
    static const char *const wrong[] = {"", ":", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                                        "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1: 1", "127.0.0.1:99999999999999999999",
                                        "127.0.0:1", "::1:9464", "[::1:9464", "::1]:9464", "[]:1", "[:1", "]:1", "[127.0.0.1]:1",
                                        "metrics.example.com:9464", "127.0.0.1:94 64",
                                        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]:1"};
    struct sockaddr_storage address;
    socklen_t len;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        ck_assert_msg(parse(wrong[i], &address, &len) == -EINVAL, "%s", wrong[i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("address");
    TCase *cases = tcase_create("address");
    tcase_add_test(cases, both_families_and_localhost);
    tcase_add_test(cases, everything_else_is_refused);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
