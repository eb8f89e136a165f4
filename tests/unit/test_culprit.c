/* test_culprit: what is said of a gap that waits */
#include "unit/unit.h"

#include "forwarder/culprit.h"

static char text[2048];

static struct source_culprit some(void) {
    return (struct source_culprit){.first = 5, .last = 9, .gaps = 1, .since_us = 1000000, .known = true, .pid = 7731,
                                   .application = "billing", .user = "app", .state = "idle in transaction",
                                   .began_wall_us = INT64_C(1764496800000000)};
}

static size_t reason(const struct source_culprit *c) {
    return culprit_reason(c, 13000000, text, sizeof text);
}

START_TEST(a_session_is_named_with_all_that_is_known) {
    struct source_culprit c = some();
    size_t about = reason(&c);
    ck_assert_str_eq(text, "positions 5 to 9 may still be filled by pid 7731 (billing, user app); its session is 'idle in "
                           "transaction'; it began 2025-11-30T10:00:00Z; open for 12 s; all other events go on");
    ck_assert_uint_eq(about, strlen("positions 5 to 9 may still be filled by pid 7731 (billing, user app)"));
    culprit_resumes(&c, text, sizeof text);
    ck_assert_str_eq(text, "when pid 7731 ends its transaction");
}
END_TEST

START_TEST(a_prepared_transaction_is_named_by_its_gid) {
    struct source_culprit c = {.first = 5, .last = 5, .gaps = 3, .since_us = 1000000, .known = true, .user = "app",
                               .prepared = "order 7"};
    reason(&c);
    ck_assert_msg(strstr(text, "position 5 may still be filled by prepared transaction 'order 7' (user app); 2 more gaps wait;"),
                  "%s", text);
    culprit_resumes(&c, text, sizeof text);
    ck_assert(strstr(text, "ROLLBACK PREPARED"));
}
END_TEST

START_TEST(who_drew_a_position_is_not_claimed) {
    struct source_culprit c = some();
    c.holders = 1;
    reason(&c);
    ck_assert_msg(strstr(text, "00:00Z; that it drew them is not known, only that no other can have; open for"), "%s", text);
    culprit_resumes(&c, text, sizeof text);
    ck_assert_str_eq(text, "when pid 7731 ends its transaction");
    c.last = c.first;
    c.holders = 3;
    reason(&c);
    ck_assert_msg(strstr(text, "; that it drew it is not known: it was seen first of the 3 that may have; open for"), "%s", text);
    culprit_resumes(&c, text, sizeof text);
    ck_assert_str_eq(text, "when the 3 transactions that may have drawn it have ended, at the latest");
}
END_TEST

START_TEST(a_start_says_what_it_waits_for_and_since_when) {
    struct source_culprit c = {.starts = true, .gaps = 100050, .holders = 1, .holder = "3/157", .since_us = 1000000};
    size_t about = culprit_start(&c, 13000000, text, sizeof text);
    ck_assert_str_eq(text, "100050 ranges of positions below the start are missing, more than can be watched: it waits until the "
                           "transaction that may still fill them has ended: 1, first of them 3/157 (virtualtransaction of "
                           "pg_locks); for 12 s");
    ck_assert_uint_lt(about, strlen(text));
    culprit_resumes(&c, text, sizeof text);
    ck_assert(strstr(text, "when they have ended"));
}
END_TEST

START_TEST(what_is_not_known_is_not_guessed) {
    struct source_culprit c = {.first = INT64_MIN, .last = 9, .gaps = 2, .since_us = 1000000};
    reason(&c);
    ck_assert_msg(strstr(text, "positions below 10 may still be filled by a transaction that writes to the table; 1 more"), "%s",
                  text);
    c = some();
    snprintf(c.grant, sizeof c.grant, "GRANT pg_read_all_stats TO relay;");
    c.state[0] = '\0';
    c.began_wall_us = 0;
    reason(&c);
    ck_assert_msg(strstr(text, "pid 7731") && !strstr(text, "session"), "%s", text);
    ck_assert_msg(strstr(text, "hidden from us: GRANT pg_read_all_stats TO relay;"), "%s", text);
}
END_TEST

START_TEST(a_position_that_was_not_drawn_has_nobody_to_blame) {
    struct source_culprit c = {.first = 5, .last = 9, .gaps = 1, .since_us = 1000000, .undrawn = true, .full = true};
    reason(&c);
    ck_assert_msg(strstr(text, "not drawn from the table's sequence yet; nothing more is read: gaps.max is reached"), "%s", text);
    culprit_resumes(&c, text, sizeof text);
    ck_assert(strstr(text, "setval"));
}
END_TEST

START_TEST(texts_are_cut_where_they_do_not_fit) {
    struct source_culprit c = some();
    char small[20];
    size_t about = culprit_reason(&c, 13000000, small, sizeof small);
    ck_assert_uint_le(about, strlen(small));
    ck_assert_str_eq(small, "positions 5 to 9 ma");
}
END_TEST

START_TEST(the_snapshot_has_it_in_parts) {
    struct source_culprit c = some();
    struct forwarder_culprit f;
    culprit_fill(&c, &f);
    ck_assert_str_eq(f.kind, "transaction");
    ck_assert_int_eq(f.pid, 7731);
    ck_assert_str_eq(f.session, "idle in transaction");
    ck_assert_int_eq(f.began_wall_us, c.began_wall_us);
    struct source_culprit other = some();
    ck_assert(culprit_same(&c, &other));
    other.pid = 1;
    ck_assert(!culprit_same(&c, &other));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("culprit");
    TCase *cases = tcase_create("culprit");
    tcase_add_test(cases, a_session_is_named_with_all_that_is_known);
    tcase_add_test(cases, a_prepared_transaction_is_named_by_its_gid);
    tcase_add_test(cases, who_drew_a_position_is_not_claimed);
    tcase_add_test(cases, a_start_says_what_it_waits_for_and_since_when);
    tcase_add_test(cases, what_is_not_known_is_not_guessed);
    tcase_add_test(cases, a_position_that_was_not_drawn_has_nobody_to_blame);
    tcase_add_test(cases, texts_are_cut_where_they_do_not_fit);
    tcase_add_test(cases, the_snapshot_has_it_in_parts);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
