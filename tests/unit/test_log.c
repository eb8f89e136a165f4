/* test_log: one sentence to the journal or to standard error */
#include "unit/unit.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/log.h"
#include "base/message_id.h"

/* Standard error is a pipe while a test runs. */
static int saved_stderr, pipe_end;

static void set_up(void) {
    int fds[2];
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    saved_stderr = dup(STDERR_FILENO);
    ck_assert_int_eq(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    close(fds[1]);
    pipe_end = fds[0];
    unsetenv("JOURNAL_STREAM");
    log_open(LOG_LEVEL_INFO);
}

static void tear_down(void) {
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(pipe_end);
}

/* What was written so far. */
static const char *written(void) {
    static char text[65536];
    ssize_t len = read(pipe_end, text, sizeof text - 1);
    text[len < 0 ? 0 : len] = '\0';
    return text;
}

/* The journal, as far as the log knows it (--wrap=sd_journal_sendv). */
static struct {
    char text[16384];
    int calls, answer;
} journal;

int __wrap_sd_journal_sendv(const struct iovec *fields, int count);
int __wrap_sd_journal_sendv(const struct iovec *fields, int count) {
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += (size_t)snprintf(journal.text + len, sizeof journal.text - len, "%.*s\n", (int)fields[i].iov_len,
                                (const char *)fields[i].iov_base);
    journal.calls++;
    return journal.answer;
}

static void name_the_journal(const char *format_tail) {
    struct stat st;
    char stream[128];
    ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
    snprintf(stream, sizeof stream, "%ju:%ju%s", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, format_tail);
    setenv("JOURNAL_STREAM", stream, 1);
    journal.calls = 0;
    journal.answer = 0;
    log_open(LOG_LEVEL_INFO);
}

START_TEST(a_line_has_level_forwarder_and_sentence) {
    log_say(LOG_LEVEL_WARNING, &(struct log_fields){.forwarder = "order-status"}, "waiting %d s", 4);
    ck_assert_str_eq(written(), "warning order-status: waiting 4 s\n");
    log_say(LOG_LEVEL_ERR, NULL, "no");
    log_say(LOG_LEVEL_NOTICE, &(struct log_fields){.state = "held"}, "yes");
    ck_assert_str_eq(written(), "error: no\nnotice: yes\n");
}
END_TEST

START_TEST(what_is_below_the_level_is_not_said) {
    log_say(LOG_LEVEL_DEBUG, NULL, "no");
    ck_assert_str_eq(written(), "");
    ck_assert(!log_wants(LOG_LEVEL_DEBUG));
    ck_assert(log_wants(LOG_LEVEL_INFO));
    log_open(LOG_LEVEL_DEBUG);
    log_say(LOG_LEVEL_DEBUG, NULL, "yes");
    ck_assert_str_eq(written(), "debug: yes\n");
}
END_TEST

START_TEST(a_sentence_is_one_line_whatever_it_holds) {
    log_say(LOG_LEVEL_INFO, NULL, "%s", "FATAL\n  error: forged\r\x1b[31m");
    ck_assert_str_eq(written(), "info: FATAL   error: forged  [31m\n");
}
END_TEST

START_TEST(too_long_a_sentence_is_cut_and_stays_one_write) {
    char name[1000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    log_say(LOG_LEVEL_WARNING, &(struct log_fields){.forwarder = name}, "%9000d", 1);
    const char *text = written();
    size_t len = strlen(text);
    ck_assert_uint_gt(len, 3000);
    ck_assert_uint_le(len, PIPE_BUF);
    ck_assert_str_eq(text + len - 4, "...\n");
}
END_TEST

START_TEST(errno_survives) {
    errno = EMSGSIZE;
    close(STDERR_FILENO);
    log_say(LOG_LEVEL_INFO, NULL, "nobody hears this");
    ck_assert_int_eq(errno, EMSGSIZE);
}
END_TEST

static void *say_many(void *argument) {
    for (int i = 0; i < 300; i++)
        log_say(LOG_LEVEL_INFO, &(struct log_fields){.forwarder = argument}, "abcdefghijklmnopqrstuvwxyz0123456789");
    return NULL;
}

START_TEST(a_reader_that_does_not_read_holds_nobody_up) {
    static const char page[4096];
    while (write(STDERR_FILENO, page, sizeof page) > 0) /* set_up made it non-blocking */
        ;
    ck_assert_int_eq(fcntl(STDERR_FILENO, F_SETFL, 0), 0); /* as whoever starts us leaves it */
    log_say(LOG_LEVEL_ERR, NULL, "lost");
    while (read(pipe_end, (char[4096]){0}, 4096) > 0)
        ;
    log_say(LOG_LEVEL_ERR, NULL, "there");
    ck_assert_str_eq(written(), "error: there\n");
}
END_TEST

START_TEST(lines_of_two_threads_do_not_mix) {
    pthread_t threads[2];
    ck_assert_int_eq(pthread_create(&threads[0], NULL, say_many, (char[]){"a"}), 0);
    ck_assert_int_eq(pthread_create(&threads[1], NULL, say_many, (char[]){"b"}), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    static char text[65536];
    snprintf(text, sizeof text, "%s", written());
    int lines = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), lines++) {
        ck_assert(line[5] == 'a' || line[5] == 'b');
        line[5] = '?';
        ck_assert_str_eq(line, "info ?: abcdefghijklmnopqrstuvwxyz0123456789");
    }
    ck_assert_int_eq(lines, 600);
}
END_TEST

START_TEST(the_journal_gets_the_fields) {
    name_the_journal("");
    log_say(LOG_LEVEL_NOTICE,
            &(struct log_fields){.forwarder = "f", .state = "held", .position = "42", .event_id = "e-1",
                                 .destination = "x/y", .error = "NO_ROUTE", .message_id = MESSAGE_ID_HELD},
            "holding\n%s", "stream 7");
    ck_assert_int_eq(journal.calls, 1);
    ck_assert_str_eq(journal.text, "PRIORITY=5\n"
                                   "MESSAGE=f: holding stream 7\n"
                                   "MESSAGE_ID=" MESSAGE_ID_HELD "\n"
                                   "PENSTOCK_FORWARDER=f\n"
                                   "PENSTOCK_STATE=held\n"
                                   "PENSTOCK_POSITION=42\n"
                                   "PENSTOCK_EVENT_ID=e-1\n"
                                   "PENSTOCK_DESTINATION=x/y\n"
                                   "PENSTOCK_ERROR=NO_ROUTE\n");
    ck_assert_str_eq(written(), "");
    log_say(LOG_LEVEL_ERR, NULL, "bare");
    ck_assert_str_eq(journal.text, "PRIORITY=3\nMESSAGE=bare\n");
}
END_TEST

START_TEST(a_field_of_any_length_leaves_a_bounded_entry) {
    static char large[100000];
    memset(large, 'x', sizeof large - 1);
    name_the_journal("");
    log_say(LOG_LEVEL_INFO, &(struct log_fields){.event_id = large, .error = large}, "%s", large);
    ck_assert_int_eq(journal.calls, 1);
    ck_assert_uint_lt(strlen(journal.text), 8000);
    ck_assert_ptr_nonnull(strstr(journal.text, "x...\nPENSTOCK_EVENT_ID=xx"));
}
END_TEST

START_TEST(a_journal_that_fails_leaves_standard_error) {
    name_the_journal("");
    journal.answer = -ENOBUFS;
    log_say(LOG_LEVEL_ERR, NULL, "still said");
    ck_assert_int_eq(journal.calls, 1);
    ck_assert_str_eq(written(), "<3>error: still said\n");
}
END_TEST

START_TEST(another_stream_is_not_the_journal) {
    const char *others[] = {"1:1", "", ":", "x", "1", "99999999999999999999999:1"};
    name_the_journal("x");
    log_say(LOG_LEVEL_INFO, NULL, "here");
    ck_assert_str_eq(written(), "info: here\n");
    name_the_journal("0");
    for (size_t i = 0; i <= ARRAY_LENGTH(others); i++) {
        log_say(LOG_LEVEL_INFO, NULL, "here");
        ck_assert_str_eq(written(), "info: here\n");
        ck_assert_int_eq(journal.calls, 0);
        setenv("JOURNAL_STREAM", others[i % ARRAY_LENGTH(others)], 1);
        log_open(LOG_LEVEL_INFO);
    }
}
END_TEST

START_TEST(a_bug_says_what_did_not_hold_and_ends_with_70) {
    pid_t child = fork();
    if (child == 0)
        ASSERT(1 + 1 == 3);
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 70);
    const char *text = written();
    ck_assert_ptr_nonnull(strstr(text, "error: a fault of ours, stopping: '1 + 1 == 3' does not hold"));
    ck_assert_ptr_nonnull(strstr(text, "test_log.c"));
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
}
END_TEST

START_TEST(a_bug_is_said_on_both_ways) {
    name_the_journal("");
    pid_t child = fork();
    if (child == 0) {
        journal.answer = 0;
        log_bug("file.c", 7, "it");
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WEXITSTATUS(status), 70);
    ck_assert_ptr_nonnull(strstr(written(), "<3>error: a fault of ours"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("log");
    TCase *cases = tcase_create("log");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, a_line_has_level_forwarder_and_sentence);
    tcase_add_test(cases, what_is_below_the_level_is_not_said);
    tcase_add_test(cases, a_sentence_is_one_line_whatever_it_holds);
    tcase_add_test(cases, too_long_a_sentence_is_cut_and_stays_one_write);
    tcase_add_test(cases, errno_survives);
    tcase_add_test(cases, a_reader_that_does_not_read_holds_nobody_up);
    tcase_add_test(cases, lines_of_two_threads_do_not_mix);
    tcase_add_test(cases, the_journal_gets_the_fields);
    tcase_add_test(cases, a_field_of_any_length_leaves_a_bounded_entry);
    tcase_add_test(cases, a_journal_that_fails_leaves_standard_error);
    tcase_add_test(cases, another_stream_is_not_the_journal);
    tcase_add_test(cases, a_bug_says_what_did_not_hold_and_ends_with_70);
    tcase_add_test(cases, a_bug_is_said_on_both_ways);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
