/* test_quantity: whole numbers, decimals, durations and sizes: text <-> value */
#include "unit/unit.h"

#include "config/quantity.h"

struct sample {
    const char *text;
    int result;
    int64_t value;
};

static void check(int (*read)(struct span, int64_t *), const struct sample *samples, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int64_t value = -1;
        ck_assert_msg(read(span_of(samples[i].text), &value) == samples[i].result, "\"%s\"", samples[i].text);
        if (samples[i].result == 0)
            ck_assert_int_eq(value, samples[i].value);
    }
}

START_TEST(an_integer_is_written_in_one_way) {
    static const struct sample samples[] = {
        {"0", 0, 0},
        {"-5", 0, -5},
        {"9223372036854775807", 0, INT64_MAX},
        {"-9223372036854775808", 0, INT64_MIN},
        {"9223372036854775808", QUANTITY_E_RANGE, 0},
        {"010", QUANTITY_E_FORM, 0},
        {"1_000", QUANTITY_E_FORM, 0},
        {"12:30", QUANTITY_E_FORM, 0},
        {"0x10", QUANTITY_E_FORM, 0},
        {"+1", QUANTITY_E_FORM, 0},
        {"1.0", QUANTITY_E_FORM, 0},
        {"", QUANTITY_E_FORM, 0},
        {"-", QUANTITY_E_FORM, 0},
        {"5 ", QUANTITY_E_FORM, 0},
    };
    check(quantity_read_integer, samples, ARRAY_LENGTH(samples));
}
END_TEST

START_TEST(a_duration_needs_its_unit) {
    static const struct sample samples[] = {
        {"0", 0, 0},
        {"500us", 0, 500},
        {"5ms", 0, 5000},
        {"2 s", 0, 2000000},
        {"3min", 0, 180000000},
        {"1h", 0, INT64_C(3600000000)},
        {"5", QUANTITY_E_UNIT, 0},
        {"5m", QUANTITY_E_UNIT, 0},
        {"5S", QUANTITY_E_UNIT, 0},
        {"5  s", QUANTITY_E_UNIT, 0},
        {"05s", QUANTITY_E_FORM, 0},
        {"1.5s", QUANTITY_E_UNIT, 0},
        {"-1s", QUANTITY_E_FORM, 0},
        {"s", QUANTITY_E_FORM, 0},
        {"9999999999999h", QUANTITY_E_RANGE, 0},
    };
    check(quantity_read_duration, samples, ARRAY_LENGTH(samples));
}
END_TEST

START_TEST(a_size_may_have_a_unit) {
    static const struct sample samples[] = {
        {"17", 0, 17},
        {"17B", 0, 17},
        {"1KiB", 0, 1024},
        {"16MiB", 0, 16777216},
        {"2 GB", 0, 2000000000},
        {"16M", QUANTITY_E_UNIT, 0},
        {"16mib", QUANTITY_E_UNIT, 0},
        {"MiB", QUANTITY_E_FORM, 0},
        {"9999999999GiB", QUANTITY_E_RANGE, 0},
    };
    check(quantity_read_size, samples, ARRAY_LENGTH(samples));
}
END_TEST

START_TEST(a_decimal_is_digits_with_a_point) {
    static const char *const wrong[] = {"", ".5", "1.", "1e3", "-1", "nan", "inf", "0x1", "1,5", "01.5",
                                        "1.00000000000000000000000000000000000000000"};
    double value;
    ck_assert_int_eq(quantity_read_decimal(SPAN_LITERAL("2"), &value), 0);
    ck_assert(value == 2.0);
    ck_assert_int_eq(quantity_read_decimal(SPAN_LITERAL("1.25"), &value), 0);
    ck_assert(value == 1.25);
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        ck_assert_msg(quantity_read_decimal(span_of(wrong[i]), &value) == QUANTITY_E_FORM, "\"%s\"", wrong[i]);
}
END_TEST

static void check_printed(int (*add)(struct buf *, int64_t), int64_t value, const char *text) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100);
    ck_assert_int_eq(add(&b, value), 0);
    ck_assert_int_eq(buf_terminate(&b), 0);
    ck_assert_str_eq(b.data, text);
}

START_TEST(what_is_printed_is_short) {
    check_printed(quantity_add_duration, 0, "0");
    check_printed(quantity_add_duration, 1, "1us");
    check_printed(quantity_add_duration, 1500000, "1500ms");
    check_printed(quantity_add_duration, 60000000, "1min");
    check_printed(quantity_add_duration, INT64_C(7200000000), "2h");
    check_printed(quantity_add_size, 0, "0");
    check_printed(quantity_add_size, 1025, "1025");
    check_printed(quantity_add_size, 1024, "1KiB");
    check_printed(quantity_add_size, 5000000, "5MB");
    check_printed(quantity_add_size, INT64_C(4) << 30, "4GiB");
}
END_TEST

START_TEST(what_is_printed_reads_back_the_same) {
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(100);
        random ^= random << 13, random ^= random >> 7, random ^= random << 17; /* xorshift64 */
        int64_t value = (int64_t)(random >> (1 + random % 60)), back = -1;
        double decimal = (double)(random % 10000) / (double)(1 + random % 977), decimal_back = -1;
        ck_assert_int_eq(i % 2 ? quantity_add_duration(&b, value) : quantity_add_size(&b, value), 0);
        ck_assert_int_eq((i % 2 ? quantity_read_duration : quantity_read_size)(buf_span(&b), &back), 0);
        ck_assert_int_eq(back, value);
        buf_clear(&b);
        ck_assert_int_eq(quantity_add_decimal(&b, decimal), 0);
        ck_assert_int_eq(quantity_read_decimal(buf_span(&b), &decimal_back), 0);
        ck_assert(decimal_back == decimal);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("quantity");
    TCase *cases = tcase_create("quantity");
    tcase_add_test(cases, an_integer_is_written_in_one_way);
    tcase_add_test(cases, a_duration_needs_its_unit);
    tcase_add_test(cases, a_size_may_have_a_unit);
    tcase_add_test(cases, a_decimal_is_digits_with_a_point);
    tcase_add_test(cases, what_is_printed_is_short);
    tcase_add_test(cases, what_is_printed_reads_back_the_same);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
