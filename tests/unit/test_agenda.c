/* test_agenda: what is due first comes first, whatever was added and removed */
#include "unit/unit.h"

#include "base/clock.h"
#include "flow/agenda.h"
#include "sim/random.h"

#define COUNT 50

START_TEST(an_empty_agenda_has_no_deadline) {
    struct agenda *a;
    ck_assert_int_eq(agenda_new(1, &a), 0);
    ck_assert_int_eq(agenda_deadline_us(a), CLOCK_NEVER);
    agenda_add(a, 0, 5);
    ck_assert_int_eq(agenda_deadline_us(a), 5);
    agenda_remove(a, 0);
    ck_assert_int_eq(agenda_deadline_us(a), CLOCK_NEVER);
    agenda_add(a, 0, 7);
    agenda_clear(a);
    ck_assert_int_eq(agenda_deadline_us(a), CLOCK_NEVER);
    agenda_free(a);
}
END_TEST

/* Against an array that is looked through. */
START_TEST(the_first_is_the_earliest_of_all) {
    struct random random = {.state = 1};
    struct agenda *a;
    int64_t due_us[COUNT];
    for (int i = 0; i < COUNT; i++)
        due_us[i] = CLOCK_NEVER;
    ck_assert_int_eq(agenda_new(COUNT, &a), 0);
    for (int step = 0; step < 20000; step++) {
        uint32_t number = random_below(&random, COUNT);
        bool there = due_us[number] != CLOCK_NEVER;
        due_us[number] = there ? CLOCK_NEVER : random_below(&random, 100);
        if (there)
            agenda_remove(a, number);
        else
            agenda_add(a, number, due_us[number]);
        int64_t earliest_us = CLOCK_NEVER;
        for (int i = 0; i < COUNT; i++)
            earliest_us = due_us[i] < earliest_us ? due_us[i] : earliest_us;
        ck_assert_int_eq(agenda_deadline_us(a), earliest_us);
        if (earliest_us != CLOCK_NEVER)
            ck_assert_int_eq(due_us[agenda_first(a)], earliest_us);
    }
    agenda_free(a);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("agenda");
    TCase *cases = tcase_create("agenda");
    tcase_add_test(cases, an_empty_agenda_has_no_deadline);
    tcase_add_test(cases, the_first_is_the_earliest_of_all);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
