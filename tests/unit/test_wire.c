/* test_wire: tokens find what is on the wire, once */
#include "unit/unit.h"

#include "flow/wire.h"

static struct wire *wire;

static void set_up(void) {
    ck_assert_int_eq(wire_new(2, &wire), 0);
}

static void tear_down(void) {
    wire_free(wire);
}

START_TEST(a_token_finds_its_delivery) {
    uint64_t a = wire_take(wire, 7, 0), b = wire_take(wire, 8, 3);
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(wire_find(wire, a)->slot, 7);
    ck_assert_uint_eq(wire_find(wire, b)->slot, 8);
    ck_assert_uint_eq(wire_find(wire, b)->destination, 3);
    ck_assert_uint_eq(wire_flying(wire), 2);
    ck_assert(!wire_has_room(wire));
}
END_TEST

START_TEST(a_released_token_finds_nothing_even_when_its_place_is_taken_again) {
    uint64_t a = wire_take(wire, 7, 0);
    wire_release(wire, a);
    uint64_t again = wire_take(wire, 7, 0);
    ck_assert_uint_eq((uint32_t)a, (uint32_t)again);
    ck_assert_ptr_null(wire_find(wire, a));
    ck_assert_ptr_nonnull(wire_find(wire, again));
}
END_TEST

START_TEST(what_was_never_taken_is_not_found) {
    ck_assert_ptr_null(wire_find(wire, 0));
    ck_assert_ptr_null(wire_find(wire, UINT64_MAX));
    ck_assert_ptr_null(wire_find(wire, UINT64_C(1) << 32));
}
END_TEST

START_TEST(ghosts_keep_their_place_until_they_are_released) {
    uint64_t a = wire_take(wire, 7, 0);
    wire_forget_events(wire);
    uint64_t b = wire_take(wire, 8, 0);
    ck_assert_uint_eq(wire_ghosts(wire), 1);
    ck_assert_uint_eq(wire_flying(wire), 1);
    ck_assert(!wire_has_room(wire));
    wire_forget_events(wire);
    ck_assert_uint_eq(wire_ghosts(wire), 2);
    wire_release(wire, a);
    wire_release(wire, b);
    ck_assert_uint_eq(wire_ghosts(wire), 0);
    ck_assert(wire_has_room(wire));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("wire");
    TCase *cases = tcase_create("wire");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, a_token_finds_its_delivery);
    tcase_add_test(cases, a_released_token_finds_nothing_even_when_its_place_is_taken_again);
    tcase_add_test(cases, what_was_never_taken_is_not_found);
    tcase_add_test(cases, ghosts_keep_their_place_until_they_are_released);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
