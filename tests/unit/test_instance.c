/* test_instance: names that no two processes share */
#include "unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/instance.h"

static char own[INSTANCE_NAME_MAX];

static void set_up(void) {
    instance_name(own);
}

/* A process that writes down its name, and lives on until it is killed. */
static pid_t start_another(char name[INSTANCE_NAME_MAX]) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        instance_name(name);
        (void)!write(ends[1], name, INSTANCE_NAME_MAX);
        pause();
        _exit(0);
    }
    ck_assert_int_eq(read(ends[0], name, INSTANCE_NAME_MAX), INSTANCE_NAME_MAX);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

START_TEST(who_runs_is_not_gone) {
    char again[INSTANCE_NAME_MAX];
    instance_name(again);
    ck_assert_str_eq(own, again);
    ck_assert(!instance_is_gone(span_of(own)));
}
END_TEST

START_TEST(who_was_killed_is_gone_also_before_anybody_has_waited_for_it) {
    char other[INSTANCE_NAME_MAX];
    pid_t pid = start_another(other);
    ck_assert_str_ne(own, other);
    ck_assert(!instance_is_gone(span_of(other)));
    kill(pid, SIGKILL);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert(instance_is_gone(span_of(other)));
    waitpid(pid, NULL, 0);
    ck_assert(instance_is_gone(span_of(other)));
}
END_TEST

/* host:pid:place:birth, with one part replaced. */
static const char *with(int part, const char *text) {
    static char changed[2 * INSTANCE_NAME_MAX];
    char copy[INSTANCE_NAME_MAX], *rest = copy, *field;
    int len = 0;
    memcpy(copy, own, sizeof copy);
    for (int i = 0; (field = strsep(&rest, ":")); i++)
        len += snprintf(changed + len, sizeof changed - (size_t)len, "%s%s", i ? ":" : "", i == part ? text : field);
    return changed;
}

START_TEST(a_later_process_with_the_same_pid_is_another_one) {
    ck_assert(instance_is_gone(span_of(with(3, "1"))));
}
END_TEST

START_TEST(of_a_process_that_cant_be_seen_from_here_nothing_is_known) {
    ck_assert(!instance_is_gone(span_of(with(2, "deadbeef"))));
    ck_assert(!instance_is_gone(span_of(with(2, "00000000"))));
    ck_assert(!instance_is_gone(span_of(with(3, "0"))));
}
END_TEST

START_TEST(of_a_text_that_is_no_name_nothing_is_known) {
    static const char *const texts[] = {"", "alice", "host:99999999", "host:-1:1:1", "host:x:1:1", ":::", "a:1:2:3:4", "a:1:2:"};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        ck_assert_msg(!instance_is_gone(span_of(texts[i])), "%s", texts[i]);
    ck_assert(!instance_is_gone(SPAN_ABSENT));
    ck_assert(!instance_is_gone(span_of(with(0, "a-host-whose-name-is-longer-than-any-that-there-can-be-"
                                                "a-host-whose-name-is-longer-than-any-that-there-can-be"))));
}
END_TEST

START_TEST(people_know_host_and_pid) {
    ck_assert(span_is(instance_brief(SPAN_LITERAL("shop1:4711:0a0b0c0d:99")), "shop1:4711"));
    ck_assert(span_is(instance_brief(SPAN_LITERAL("shop1:4711")), "shop1:4711"));
    ck_assert(span_is(instance_brief(SPAN_LITERAL("alice")), "alice"));
    ck_assert(span_absent(instance_brief(SPAN_ABSENT)));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("instance");
    TCase *cases = tcase_create("instance");
    tcase_add_checked_fixture(cases, set_up, NULL);
    tcase_add_test(cases, who_runs_is_not_gone);
    tcase_add_test(cases, who_was_killed_is_gone_also_before_anybody_has_waited_for_it);
    tcase_add_test(cases, a_later_process_with_the_same_pid_is_another_one);
    tcase_add_test(cases, of_a_process_that_cant_be_seen_from_here_nothing_is_known);
    tcase_add_test(cases, of_a_text_that_is_no_name_nothing_is_known);
    tcase_add_test(cases, people_know_host_and_pid);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
