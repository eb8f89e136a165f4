/* test_kafka_topics: what is known of topics, which are looked at when, and what users hear of it */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "sink/kafka_findings.h"
#include "sink/kafka_options.h"
#include "sink/kafka_topics.h"
#include "unit/fail_alloc.h"

#define S CLOCK_US_PER_S
#define MANY 1000

static struct kafka_topics *topics;
static struct sink_options options;
static struct option_property properties[] = {
    {(char *)"bootstrap.servers", {SECRET_INLINE, (char *)"k1:9092,k2:9092"}},
    {(char *)"sasl.username", {SECRET_INLINE, (char *)"shop"}},
    {(char *)"security.protocol", {SECRET_INLINE, (char *)"sasl_ssl"}},
};
static struct kafka_connection connection;
static const struct span named[] = {SPAN_LITERAL("orders"), SPAN_LITERAL("bills"), SPAN_LITERAL("orders")};

static struct sink_setup setup_with(size_t named_count) {
    options = (struct sink_options){.max_message_bytes = 1000000};
    connection.properties = (struct option_properties){properties, ARRAY_LENGTH(properties)};
    return (struct sink_setup){
        .forwarder = "shop",
        .connection_name = "kafka",
        .connection = &connection,
        .options = &options,
        .named = named,
        .named_count = named_count,
    };
}

static void begin(size_t named_count) {
    struct sink_setup setup = setup_with(named_count);
    ck_assert_int_eq(kafka_topics_new(&setup, &topics), 0);
}

static void tear_down(void) {
    kafka_topics_free(topics);
    topics = NULL;
}

static struct kafka_topic fit(const char *name) {
    return (struct kafka_topic){
        .name = span_of(name),
        .partitions = 6,
        .replicas = 3,
        .described = true,
        .max_message_bytes = 1048588,
        .min_insync = 2,
    };
}

static struct kafka_topic unfit(const char *name, enum kafka_topic_state state) {
    struct kafka_topic topic = {.name = span_of(name), .state = state};
    snprintf(topic.reason, sizeof topic.reason, "Broker: No");
    return topic;
}

static void learn(struct kafka_topic topic, uint32_t brokers, int64_t now_us) {
    kafka_topics_learn(topics, &topic, 1, brokers, now_us);
}

static const struct kafka_topic *find(const char *name, int64_t now_us) {
    return kafka_topics_find(topics, span_of(name), now_us);
}

/* The names that would be asked for, in any order, and no others. */
static void assert_picked(int64_t now_us, size_t count, const char *const *names) {
    struct span picked[MANY];
    ck_assert_uint_eq(kafka_topics_pick(topics, now_us, picked, MANY), count);
    for (size_t i = 0; i < count; i++) {
        bool found = false;
        for (size_t j = 0; j < count; j++)
            found |= span_is(picked[j], names[i]);
        ck_assert_msg(found, "%s", names[i]);
    }
}
#define ASSERT_PICKED(now_us, ...)                                                      \
    assert_picked((now_us), ARRAY_LENGTH(((const char *[]){__VA_ARGS__})), (const char *[]){__VA_ARGS__})
#define ASSERT_NOTHING_PICKED(now_us) assert_picked((now_us), 0, NULL)

/* The next notice has all these pieces; none: there is no notice. */
static void assert_notice(bool warning, size_t count, const char *const *pieces) {
    struct sink_notice notice;
    if (count == 0) {
        ck_assert_msg(!kafka_topics_notice(topics, &notice), "%s", notice.text);
        return;
    }
    ck_assert(kafka_topics_notice(topics, &notice));
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(strstr(notice.text, pieces[i]) != NULL, "'%s' is not in: %s", pieces[i], notice.text);
    ck_assert_msg(notice.warning == warning, "%s", notice.text);
}
#define ASSERT_WARNING(...) \
    assert_notice(true, ARRAY_LENGTH(((const char *[]){__VA_ARGS__})), (const char *[]){__VA_ARGS__})
#define ASSERT_REMARK(...) \
    assert_notice(false, ARRAY_LENGTH(((const char *[]){__VA_ARGS__})), (const char *[]){__VA_ARGS__})
#define ASSERT_NO_NOTICE() assert_notice(false, 0, NULL)

/* What is looked at, and when. -------------------------------------------- */

START_TEST(what_the_rules_name_is_asked_for_at_the_start) {
    begin(3);
    ck_assert(!kafka_topics_ready(topics));
    ck_assert_int_le(kafka_topics_deadline_us(topics), 0);
    ASSERT_PICKED(0, "orders", "bills");
    learn(fit("orders"), 1, 0);
    ck_assert(!kafka_topics_ready(topics));
    ASSERT_PICKED(0, "bills");
    learn(unfit("bills", KAFKA_TOPIC_MISSING), 1, 0);
    ck_assert(kafka_topics_ready(topics));
    ASSERT_NOTHING_PICKED(0);
}
END_TEST

START_TEST(without_named_topics_it_is_ready_and_has_nothing_to_ask) {
    begin(0);
    ck_assert(kafka_topics_ready(topics));
    ck_assert_int_eq(kafka_topics_deadline_us(topics), CLOCK_NEVER);
    ASSERT_NOTHING_PICKED(0);
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(another_is_asked_for_when_the_first_event_goes_there) {
    begin(0);
    ck_assert_ptr_null(find("a", 7));
    ck_assert_ptr_null(find("a", 8));
    ck_assert_int_eq(kafka_topics_deadline_us(topics), 7);
    ASSERT_PICKED(8, "a");
    learn(fit("a"), 1, 9);
    const struct kafka_topic *topic = find("a", 10);
    ck_assert_ptr_nonnull(topic);
    ck_assert(span_is(topic->name, "a"));
    ck_assert_int_eq(topic->state, KAFKA_TOPIC_FIT);
    ck_assert_int_eq(topic->partitions, 6);
    ck_assert_int_eq(topic->looked_us, 9);
    ck_assert_int_eq(topic->max_message_bytes, 1048588);
    ASSERT_NOTHING_PICKED(10);
}
END_TEST

START_TEST(what_was_learned_outlives_what_the_look_handed_over) {
    begin(0);
    find("a", 0);
    char name[] = "a";
    learn(fit(name), 1, 0);
    name[0] = 'x';
    ck_assert(span_is(find("a", 0)->name, "a"));
}
END_TEST

START_TEST(one_that_fits_is_looked_at_again_while_it_is_in_use) {
    begin(1);
    find("used", 0);
    find("unused", 0);
    learn(fit("orders"), 1, 1 * S);
    learn(fit("used"), 1, 1 * S);
    learn(fit("unused"), 1, 1 * S);
    ASSERT_NOTHING_PICKED(1 * S);
    ck_assert_ptr_nonnull(find("used", 2 * S));
    ck_assert_int_eq(kafka_topics_deadline_us(topics), 1 * S + KAFKA_TOPICS_FRESH_US);
    ASSERT_NOTHING_PICKED(KAFKA_TOPICS_FRESH_US);
    ASSERT_PICKED(1 * S + KAFKA_TOPICS_FRESH_US, "orders", "used");
}
END_TEST

START_TEST(an_old_answer_serves_until_there_is_a_new_one) {
    begin(0);
    find("a", 0);
    learn(fit("a"), 1, 1 * S);
    ck_assert_int_eq(kafka_topics_deadline_us(topics), CLOCK_NEVER);
    int64_t later_us = 10 * KAFKA_TOPICS_FRESH_US;
    ASSERT_NOTHING_PICKED(later_us);
    ck_assert_ptr_nonnull(find("a", later_us));
    ck_assert_int_le(kafka_topics_deadline_us(topics), later_us);
    ASSERT_PICKED(later_us, "a");
}
END_TEST

START_TEST(one_that_does_not_fit_is_asked_for_ever_later) {
    enum kafka_topic_state state = _i ? KAFKA_TOPIC_REFUSED : KAFKA_TOPIC_MISSING;
    begin(1);
    int64_t now_us = 0;
    static const int64_t waits_ms[] = {500, 1000, 2000, 4000, 5000, 5000};
    for (size_t i = 0; i < ARRAY_LENGTH(waits_ms); i++) {
        learn(unfit("orders", state), 1, now_us);
        ck_assert_int_eq(find("orders", now_us)->state, state);
        ck_assert_str_eq(find("orders", now_us)->reason, "Broker: No");
        ck_assert_int_eq(kafka_topics_deadline_us(topics), now_us + waits_ms[i] * CLOCK_US_PER_MS);
        now_us = kafka_topics_deadline_us(topics);
        ASSERT_PICKED(now_us, "orders");
    }
    learn(fit("orders"), 1, now_us);
    learn(unfit("orders", state), 1, now_us);
    ck_assert_int_eq(kafka_topics_deadline_us(topics), now_us + KAFKA_TOPICS_AGAIN_US);
}
END_TEST

START_TEST(one_whose_configuration_is_not_known_is_asked_for_sooner) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    topic.described = false;
    learn(topic, 1, 0);
    ck_assert_int_eq(kafka_topics_deadline_us(topics), KAFKA_TOPICS_UNDESCRIBED_US);
}
END_TEST

START_TEST(a_look_takes_along_what_is_due_soon) {
    begin(0);
    for (int i = 0; i < 3; i++)
        find((const char *[]){"a", "b", "c"}[i], 0);
    learn(fit("a"), 1, 0);
    learn(fit("b"), 1, 29 * S);
    learn(fit("c"), 1, 31 * S);
    find("a", 40 * S);
    find("b", 40 * S);
    find("c", 40 * S);
    ASSERT_NOTHING_PICKED(KAFKA_TOPICS_FRESH_US - 1);
    ASSERT_PICKED(KAFKA_TOPICS_FRESH_US, "a", "b");
}
END_TEST

START_TEST(no_look_is_asked_for_more_than_it_can_take) {
    begin(0);
    char name[16];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "t%d", i);
        find(name, 0);
    }
    struct span picked[3];
    for (int left = 5; left > 0; left -= 3) {
        uint32_t count = kafka_topics_pick(topics, 0, picked, 3);
        ck_assert_uint_eq(count, left < 3 ? left : 3);
        for (uint32_t i = 0; i < count; i++) {
            snprintf(name, sizeof name, "%.*s", SPAN_ARGS(picked[i]));
            learn(fit(name), 1, 0);
            picked[i] = SPAN_ABSENT;
        }
    }
    ASSERT_NOTHING_PICKED(0);
}
END_TEST

START_TEST(a_doubt_forgets_what_is_known_but_does_not_ask_at_wire_speed) {
    begin(1);
    learn(fit("orders"), 1, 1 * S);
    kafka_topics_doubt(topics, named[0], 1 * S + 1);
    ck_assert_ptr_null(find("orders", 1 * S + 1));
    ck_assert(kafka_topics_ready(topics));
    ck_assert_int_eq(kafka_topics_deadline_us(topics), 1 * S + KAFKA_TOPICS_AGAIN_US);
    ASSERT_NOTHING_PICKED(1 * S + 1);
    ASSERT_PICKED(1 * S + KAFKA_TOPICS_AGAIN_US, "orders");
    learn(fit("orders"), 1, 2 * S);
    kafka_topics_doubt(topics, named[0], 9 * S);
    ASSERT_PICKED(9 * S, "orders");
    kafka_topics_doubt(topics, SPAN_LITERAL("never heard of"), 9 * S);
    ASSERT_PICKED(9 * S, "orders");
}
END_TEST

START_TEST(one_that_may_not_be_written_to_is_left_alone_whatever_a_look_finds) {
    begin(1);
    learn(fit("orders"), 1, 1 * S);
    kafka_topics_refuse(topics, named[0], "Broker: Topic authorization failed", 2 * S);
    ck_assert_int_eq(find("orders", 2 * S)->state, KAFKA_TOPIC_REFUSED);
    ck_assert_str_eq(find("orders", 2 * S)->reason, "Broker: Topic authorization failed");
    int64_t end_us = 2 * S + KAFKA_TOPICS_REFUSED_US;
    learn(fit("orders"), 1, end_us - 1);
    ck_assert_int_eq(find("orders", end_us - 1)->state, KAFKA_TOPIC_REFUSED);
    ASSERT_NOTHING_PICKED(end_us - 1);
    ASSERT_PICKED(end_us, "orders");
    learn(fit("orders"), 1, end_us);
    ck_assert_int_eq(find("orders", end_us)->state, KAFKA_TOPIC_FIT);
    ASSERT_NO_NOTICE(); /* the event that waits says so */
    kafka_topics_refuse(topics, SPAN_LITERAL("never heard of"), "no", end_us);
    ASSERT_NOTHING_PICKED(end_us);
}
END_TEST

START_TEST(while_it_may_not_be_written_to_no_look_would_tell_more) {
    begin(1);
    learn(fit("orders"), 1, 1 * S);
    kafka_topics_refuse(topics, named[0], "no", 2 * S);
    int64_t end_us = 2 * S + KAFKA_TOPICS_REFUSED_US;
    kafka_topics_review(topics, named[0], 10 * S);
    ck_assert_int_eq(kafka_topics_deadline_us(topics), end_us);
    ASSERT_NOTHING_PICKED(end_us - 1);
}
END_TEST

/* Refused at `now_us`: until when? */
static int64_t refuse_at(int64_t now_us) {
    learn(fit("orders"), 1, now_us);
    kafka_topics_refuse(topics, named[0], "no", now_us);
    return kafka_topics_deadline_us(topics);
}

/* Each attempt ends an instance, and so disturbs all that is under way. */
START_TEST(each_time_that_it_still_may_not_be_written_to_it_is_left_alone_for_twice_as_long) {
    begin(1);
    int64_t wait_us = KAFKA_TOPICS_REFUSED_US, end_us = refuse_at(2 * S);
    for (int i = 0; i < 20; i++) {
        int64_t now_us = end_us + 2 * S;
        end_us = refuse_at(now_us);
        wait_us = 2 * wait_us < KAFKA_TOPICS_REFUSED_MAX_US ? 2 * wait_us : KAFKA_TOPICS_REFUSED_MAX_US;
        ck_assert_int_eq(end_us, now_us + wait_us);
        kafka_topics_refuse(topics, named[0], "no", now_us + S); /* of the same attempt: another message */
        ck_assert_int_eq(kafka_topics_deadline_us(topics), end_us);
    }
    int64_t later_us = end_us + wait_us; /* it was written to meanwhile */
    ck_assert_int_eq(refuse_at(later_us), later_us + KAFKA_TOPICS_REFUSED_US);
}
END_TEST

START_TEST(the_smallest_limit_is_that_of_a_topic_that_is_known) {
    begin(2);
    ck_assert_int_eq(kafka_topics_smallest_limit(topics), 0);
    learn(fit("orders"), 1, 0);
    ck_assert_int_eq(kafka_topics_smallest_limit(topics), 1048588);
    struct kafka_topic topic = fit("bills");
    topic.max_message_bytes = 5000;
    learn(topic, 1, 0);
    ck_assert_int_eq(kafka_topics_smallest_limit(topics), 5000);
    topic.described = false;
    topic.max_message_bytes = 0;
    learn(topic, 1, 0);
    ck_assert_int_eq(kafka_topics_smallest_limit(topics), 1048588);
    learn(unfit("orders", KAFKA_TOPIC_MISSING), 1, 0);
    ck_assert_int_eq(kafka_topics_smallest_limit(topics), 0);
}
END_TEST

/* Its bounds. -------------------------------------------------------------- */

static void find_number(int number, int64_t now_us) {
    char name[16];
    snprintf(name, sizeof name, "t%d", number);
    find(name, now_us);
}

START_TEST(what_was_not_used_the_longest_is_forgotten) {
    begin(2);
    for (int i = 0; i < KAFKA_TOPICS_MAX; i++)
        find_number(i, i);
    learn(fit("t0"), 1, KAFKA_TOPICS_MAX);
    learn(fit("t1"), 1, KAFKA_TOPICS_MAX);
    ck_assert_ptr_nonnull(find("t0", KAFKA_TOPICS_MAX));
    ck_assert_ptr_null(find("one more", KAFKA_TOPICS_MAX)); /* t1 was the one */
    ck_assert_ptr_nonnull(find("t0", KAFKA_TOPICS_MAX));
    learn(fit("t1"), 1, KAFKA_TOPICS_MAX); /* an answer for one that was forgotten meanwhile */
    learn(fit("one more"), 1, KAFKA_TOPICS_MAX);
    ck_assert_ptr_nonnull(find("one more", KAFKA_TOPICS_MAX + 1));
    ck_assert_ptr_null(find("t1", KAFKA_TOPICS_MAX + 1));

    learn(fit("orders"), 1, KAFKA_TOPICS_MAX);
    for (int i = 0; i < 100; i++)
        find_number(KAFKA_TOPICS_MAX + i, KAFKA_TOPICS_MAX + 2);
    ck_assert_ptr_nonnull(find("orders", KAFKA_TOPICS_MAX + 2)); /* not used at all, but the rules name it */
}
END_TEST

/* A look is started when the deadline says so, and then has something to ask. */
START_TEST(something_is_due_exactly_when_the_deadline_says_so) {
    begin(2);
    uint32_t random = 1;
    struct span picked[MANY];
    int64_t now_us = 0;
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525 + 1013904223;
        char name[16];
        snprintf(name, sizeof name, "t%u", (random >> 8) % 5);
        switch (random >> 29) {
        case 0:
            kafka_topics_doubt(topics, span_of(name), now_us);
            break;
        case 1:
            kafka_topics_refuse(topics, span_of(name), "no", now_us);
            break;
        case 2:
            now_us += (random >> 16 & 63) * S;
            break;
        case 3:
            kafka_topics_review(topics, span_of(name), now_us);
            break;
        default:
            find(name, now_us);
        }
        bool due = kafka_topics_deadline_us(topics) <= now_us;
        uint32_t count = kafka_topics_pick(topics, now_us, picked, MANY);
        ck_assert_int_eq(due, count > 0);
        for (uint32_t p = 0; p < count; p++) {
            snprintf(name, sizeof name, "%.*s", SPAN_ARGS(picked[p]));
            learn(random & 64 ? fit(name) : unfit(name, KAFKA_TOPIC_MISSING), 1, now_us);
            ck_assert(span_is(picked[p], name));
        }
    }
}
END_TEST

START_TEST(the_longest_name_is_kept_whole) {
    begin(0);
    char name[KAFKA_TOPIC_MAX + 1] = {0};
    memset(name, 'x', KAFKA_TOPIC_MAX);
    find(name, 0);
    learn(fit(name), 1, 0);
    ck_assert(span_is(find(name, 0)->name, name));
    struct kafka_topic topic = fit(name);
    topic.max_message_bytes = 1000;
    learn(topic, 1, 0);
    ASSERT_REMARK(name, "--entity-name xxx", "--add-config max.message.bytes=");
    ck_assert_bug(kafka_topics_find(topics, SPAN_LITERAL(""), 0));
    ck_assert_bug(kafka_topics_find(topics, (struct span){name, KAFKA_TOPIC_MAX + 1}, 0));
}
END_TEST

START_TEST(no_memory_is_a_no_and_the_next_call_tries_again) {
    struct sink_setup setup = setup_with(2);
    FAIL_ALLOC_EACH(n) {
        struct kafka_topics *t = NULL;
        int r = kafka_topics_new(&setup, &t);
        if (fail_alloc_end()) {
            ck_assert_int_eq(r, -ENOMEM);
        } else {
            ck_assert_int_eq(r, 0);
            kafka_topics_free(t);
        }
    }
    begin(0);
    fail_alloc_begin(1);
    const struct kafka_topic *topic = find("a", 0);
    fail_alloc_end();
    ck_assert_ptr_null(topic);
    ASSERT_NOTHING_PICKED(0);
    ck_assert_ptr_null(find("a", 0));
    ASSERT_PICKED(0, "a");
}
END_TEST

START_TEST(nothing_is_allocated_for_a_topic_that_is_known) {
    begin(0);
    find("a", 0);
    learn(fit("a"), 1, 0);
    fail_alloc_begin(0);
    for (int i = 0; i < 1000; i++)
        find("a", i);
    learn(fit("a"), 1, 1000);
    fail_alloc_end();
    ck_assert_uint_eq(fail_alloc_count(), 0);
}
END_TEST

/* What users hear. ---------------------------------------------------------- */

START_TEST(a_missing_topic_is_said_once_with_what_to_do) {
    begin(2);
    learn(fit("orders"), 1, 0);
    learn(unfit("bills", KAFKA_TOPIC_MISSING), 1, 0);
    ASSERT_WARNING("topic 'bills' does not exist (Broker: No)",
                   "kafka-topics.sh --bootstrap-server k1:9092,k2:9092 --command-config FILE --create --topic bills");
    ASSERT_NO_NOTICE();
    learn(unfit("bills", KAFKA_TOPIC_MISSING), 1, 1 * S);
    ASSERT_NO_NOTICE();
    learn(fit("bills"), 1, 2 * S);
    ASSERT_REMARK("topic 'bills' is there: publishing to it is tried now");
    ASSERT_NO_NOTICE();
    learn(unfit("bills", KAFKA_TOPIC_MISSING), 1, 3 * S);
    ASSERT_WARNING("topic 'bills' does not exist");
}
END_TEST

START_TEST(a_topic_that_may_not_be_seen_is_said_with_the_right_that_lacks) {
    begin(1);
    learn(unfit("orders", KAFKA_TOPIC_REFUSED), 1, 0);
    ASSERT_WARNING("topic 'orders' may not be seen", "Broker: No", "kafka-acls.sh --bootstrap-server k1:9092,k2:9092",
                   "--allow-principal 'User:shop' --operation Write --operation DescribeConfigs --topic orders");
    learn(unfit("orders", KAFKA_TOPIC_MISSING), 1, 0);
    ASSERT_WARNING("topic 'orders' does not exist");
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(what_was_never_said_needs_no_all_clear) {
    begin(1);
    learn(unfit("orders", KAFKA_TOPIC_MISSING), 1, 0);
    learn(fit("orders"), 1, 0);
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(the_event_that_waits_says_that_its_topic_is_missing_if_only_a_template_names_it) {
    begin(0);
    find("a", 0);
    learn(unfit("a", KAFKA_TOPIC_MISSING), 1, 0);
    ASSERT_NO_NOTICE();
    learn(fit("a"), 1, 0);
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(a_right_that_lacks_to_see_the_configuration_is_a_remark) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    topic.described = false;
    topic.max_message_bytes = 0;
    topic.min_insync = 0;
    topic.forbidden = true;
    snprintf(topic.reason, sizeof topic.reason, "Broker: Topic authorization failed");
    learn(topic, 3, 0);
    ASSERT_REMARK("configuration of topic 'orders' can't be read (Broker: Topic authorization failed)",
                  "--operation DescribeConfigs --topic orders");
    ASSERT_NO_NOTICE();
    learn(topic, 3, 0);
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(no_right_is_named_where_none_lacks) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    topic.described = false;
    topic.max_message_bytes = 0;
    topic.min_insync = 0;
    snprintf(topic.reason, sizeof topic.reason, "Local: Timed out");
    learn(topic, 3, 0);
    ASSERT_REMARK("configuration of topic 'orders' can't be read (Local: Timed out)", "asked for again");
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(what_can_not_be_seen_for_a_while_is_not_said_again_afterwards) {
    begin(1);
    struct kafka_topic seen = fit("orders"), hidden;
    seen.compacted = true;
    seen.max_message_bytes = 1000;
    hidden = seen;
    hidden.described = hidden.compacted = false;
    hidden.max_message_bytes = 0;
    learn(seen, 1, 0);
    ASSERT_REMARK("takes at most 1000 bytes");
    ASSERT_WARNING("is compacted");
    learn(hidden, 1, 0);
    ASSERT_REMARK("can't be read");
    learn(seen, 1, 0);
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(a_topic_that_takes_less_than_we_is_said_again_only_when_it_changes) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    topic.max_message_bytes = 1000000;
    learn(topic, 1, 0);
    ASSERT_NO_NOTICE();
    topic.max_message_bytes = 999999;
    learn(topic, 1, 0);
    ASSERT_REMARK("topic 'orders' takes at most 999999 bytes (max.message.bytes), and max_message_bytes is 1000000",
                  "rejected by name before they are sent",
                  "kafka-configs.sh --bootstrap-server k1:9092,k2:9092 --command-config FILE --alter --entity-type topics "
                  "--entity-name orders --add-config max.message.bytes=2048576");
    learn(topic, 1, 0);
    ASSERT_NO_NOTICE();
    topic.max_message_bytes = 5000;
    learn(topic, 1, 0);
    ASSERT_REMARK("takes at most 5000 bytes");
    learn(fit("orders"), 1, 0);
    ASSERT_NO_NOTICE();
    learn(topic, 1, 0);
    ASSERT_REMARK("takes at most 5000 bytes");
}
END_TEST

START_TEST(one_copy_is_a_warning_where_there_could_be_two) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    topic.replicas = topic.min_insync = 1;
    learn(topic, 1, 0);
    ASSERT_NO_NOTICE();
    learn(topic, 3, 0);
    ASSERT_WARNING("topic 'orders' has one replica in a cluster of 3 brokers", "kafka-reassign-partitions.sh");
    learn(topic, 1, 0); /* two brokers are down */
    learn(topic, 3, 0);
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(a_confirm_by_one_of_several_replicas_is_a_warning) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    topic.min_insync = 1;
    learn(topic, 3, 0);
    ASSERT_WARNING("topic 'orders' confirms what one of its 3 replicas has", "--entity-name orders",
                   "--add-config min.insync.replicas=2");
    topic.min_insync = 2;
    learn(topic, 3, 0);
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(a_compacted_topic_is_a_warning) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    topic.compacted = true;
    learn(topic, 3, 0);
    ASSERT_WARNING("topic 'orders' is compacted", "tombstone");
    learn(topic, 3, 0);
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(what_nobody_has_heard_yet_survives_another_look) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    topic.compacted = true;
    learn(topic, 3, 0);
    learn(topic, 3, 0);
    ASSERT_WARNING("topic 'orders' is compacted");
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(other_partitions_are_a_warning_each_time) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    learn(topic, 3, 0);
    ASSERT_NO_NOTICE();
    topic.partitions = 12;
    learn(topic, 3, 0);
    ASSERT_WARNING("topic 'orders' has 12 partitions, and had 6");
    ASSERT_NO_NOTICE();
    topic.partitions = 24;
    learn(topic, 3, 0);
    ASSERT_WARNING("topic 'orders' has 24 partitions, and had 12");
    learn(topic, 3, 0);
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(a_topic_made_again_with_other_partitions_is_a_warning) {
    begin(1);
    struct kafka_topic topic = fit("orders");
    learn(topic, 3, 0);
    learn(unfit("orders", KAFKA_TOPIC_MISSING), 3, 0);
    ASSERT_WARNING("does not exist");
    topic.partitions = 1;
    learn(topic, 3, 0);
    ASSERT_REMARK("is there: publishing to it is tried now");
    ASSERT_WARNING("topic 'orders' has 1 partition, and had 6");
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(that_templates_name_more_is_said_once) {
    struct sink_setup setup = setup_with(0);
    setup.names_more = true;
    ck_assert_int_eq(kafka_topics_new(&setup, &topics), 0);
    ASSERT_REMARK("only templates name", "when the first event goes there");
    ASSERT_NO_NOTICE();
}
END_TEST

START_TEST(events_can_not_fill_the_log_with_names) {
    begin(1);
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        find(name, 0);
        struct kafka_topic topic = fit(name);
        topic.compacted = true;
        learn(topic, 3, 0);
    }
    int said = 0;
    struct sink_notice notice;
    while (kafka_topics_notice(topics, &notice) && notice.warning)
        said++;
    ck_assert_int_eq(said, 100);
    ck_assert_ptr_nonnull(strstr(notice.text, "from now on it is left out"));
    ASSERT_NO_NOTICE();
    struct kafka_topic topic = fit("orders");
    topic.compacted = true;
    learn(topic, 3, 0);
    ASSERT_WARNING("topic 'orders' is compacted");
}
END_TEST

START_TEST(commands_name_as_many_brokers_as_have_room) {
    struct kafka_cluster cluster;
    struct sink_setup setup = setup_with(0);
    char servers[1200];
    for (size_t len = 0; len < sizeof servers - 1; len = strlen(servers))
        snprintf(servers + len, sizeof servers - len, ", broker.example:9092");
    struct option_property p = {(char *)"bootstrap.servers", {SECRET_INLINE, servers}};
    connection.properties = (struct option_properties){&p, 1};
    kafka_findings_init(&cluster, &setup);
    size_t len = strlen(cluster.tools);
    ck_assert_uint_gt(len, 400);
    ck_assert_str_eq(cluster.tools + len - strlen(",broker.example:9092"), ",broker.example:9092");
    ck_assert_ptr_null(strchr(cluster.tools + strlen("--bootstrap-server "), ' '));
    ck_assert_ptr_null(strstr(cluster.tools, ",,"));
}
END_TEST

START_TEST(a_limit_is_no_news_while_it_and_ours_are_what_they_are_by_default) {
    struct kafka_cluster cluster = {.brokers = 1, .max_message_bytes = 16 * 1024 * 1024};
    struct kafka_topic topic = fit("orders");
    topic.max_message_bytes = 1048588;
    ck_assert_uint_eq(kafka_findings_of(&cluster, &topic) & KAFKA_FOUND(KAFKA_SMALL_LIMIT), 0);
    topic.max_message_bytes = 1048587;
    ck_assert_uint_ne(kafka_findings_of(&cluster, &topic) & KAFKA_FOUND(KAFKA_SMALL_LIMIT), 0);
    topic.max_message_bytes = 1048588;
    cluster.max_message_bytes = 2 * 1024 * 1024;
    ck_assert_uint_ne(kafka_findings_of(&cluster, &topic) & KAFKA_FOUND(KAFKA_SMALL_LIMIT), 0);
}
END_TEST

START_TEST(commands_name_what_the_connection_says) {
    struct kafka_cluster cluster;
    struct sink_setup setup = setup_with(0);
    connection.properties.count = 0;
    kafka_findings_init(&cluster, &setup);
    ck_assert_str_eq(cluster.tools, "--bootstrap-server HOST:9092");
    ck_assert_str_eq(cluster.principal, "User:NAME");
    static struct option_property others[] = {
        {(char *)"metadata.broker.list", {SECRET_INLINE, (char *)" k3:9092 , k4:9092"}},
        {(char *)"sasl.username", {SECRET_FILE, (char *)"/run/user"}},
        {(char *)"security.protocol", {SECRET_INLINE, (char *)"PLAINTEXT"}},
    };
    connection.properties = (struct option_properties){others, ARRAY_LENGTH(others)};
    kafka_findings_init(&cluster, &setup);
    ck_assert_str_eq(cluster.tools, "--bootstrap-server k3:9092,k4:9092");
    ck_assert_str_eq(cluster.principal, "User:NAME");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kafka_topics");
    TCase *looks = tcase_create("looks");
    tcase_add_checked_fixture(looks, NULL, tear_down);
    tcase_add_test(looks, what_the_rules_name_is_asked_for_at_the_start);
    tcase_add_test(looks, without_named_topics_it_is_ready_and_has_nothing_to_ask);
    tcase_add_test(looks, another_is_asked_for_when_the_first_event_goes_there);
    tcase_add_test(looks, what_was_learned_outlives_what_the_look_handed_over);
    tcase_add_test(looks, one_that_fits_is_looked_at_again_while_it_is_in_use);
    tcase_add_test(looks, an_old_answer_serves_until_there_is_a_new_one);
    tcase_add_loop_test(looks, one_that_does_not_fit_is_asked_for_ever_later, 0, 2);
    tcase_add_test(looks, one_whose_configuration_is_not_known_is_asked_for_sooner);
    tcase_add_test(looks, a_look_takes_along_what_is_due_soon);
    tcase_add_test(looks, no_look_is_asked_for_more_than_it_can_take);
    tcase_add_test(looks, a_doubt_forgets_what_is_known_but_does_not_ask_at_wire_speed);
    tcase_add_test(looks, one_that_may_not_be_written_to_is_left_alone_whatever_a_look_finds);
    tcase_add_test(looks, while_it_may_not_be_written_to_no_look_would_tell_more);
    tcase_add_test(looks, each_time_that_it_still_may_not_be_written_to_it_is_left_alone_for_twice_as_long);
    tcase_add_test(looks, the_smallest_limit_is_that_of_a_topic_that_is_known);
    suite_add_tcase(suite, looks);

    TCase *bounds = tcase_create("bounds");
    tcase_add_checked_fixture(bounds, NULL, tear_down);
    tcase_add_test(bounds, what_was_not_used_the_longest_is_forgotten);
    tcase_add_test(bounds, something_is_due_exactly_when_the_deadline_says_so);
    tcase_add_test(bounds, the_longest_name_is_kept_whole);
    tcase_add_test(bounds, no_memory_is_a_no_and_the_next_call_tries_again);
    tcase_add_test(bounds, nothing_is_allocated_for_a_topic_that_is_known);
    suite_add_tcase(suite, bounds);

    TCase *notices = tcase_create("notices");
    tcase_add_checked_fixture(notices, NULL, tear_down);
    tcase_add_test(notices, a_missing_topic_is_said_once_with_what_to_do);
    tcase_add_test(notices, a_topic_that_may_not_be_seen_is_said_with_the_right_that_lacks);
    tcase_add_test(notices, what_was_never_said_needs_no_all_clear);
    tcase_add_test(notices, the_event_that_waits_says_that_its_topic_is_missing_if_only_a_template_names_it);
    tcase_add_test(notices, a_right_that_lacks_to_see_the_configuration_is_a_remark);
    tcase_add_test(notices, no_right_is_named_where_none_lacks);
    tcase_add_test(notices, what_can_not_be_seen_for_a_while_is_not_said_again_afterwards);
    tcase_add_test(notices, a_topic_that_takes_less_than_we_is_said_again_only_when_it_changes);
    tcase_add_test(notices, one_copy_is_a_warning_where_there_could_be_two);
    tcase_add_test(notices, a_confirm_by_one_of_several_replicas_is_a_warning);
    tcase_add_test(notices, a_compacted_topic_is_a_warning);
    tcase_add_test(notices, what_nobody_has_heard_yet_survives_another_look);
    tcase_add_test(notices, other_partitions_are_a_warning_each_time);
    tcase_add_test(notices, a_topic_made_again_with_other_partitions_is_a_warning);
    tcase_add_test(notices, that_templates_name_more_is_said_once);
    tcase_add_test(notices, events_can_not_fill_the_log_with_names);
    tcase_add_test(notices, commands_name_what_the_connection_says);
    tcase_add_test(notices, commands_name_as_many_brokers_as_have_room);
    tcase_add_test(notices, a_limit_is_no_news_while_it_and_ours_are_what_they_are_by_default);
    suite_add_tcase(suite, notices);
    return unit_run(suite);
}
