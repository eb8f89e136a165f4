/* bare_kafka: the two libraries alone read a table and publish it: the yardstick of tests/bench/run --read and --kafka */
/* Keyset pages in binary, the next one asked for when one has come; the messages
 * that penstockd makes of them (binary mode, key from streamid). Every report is
 * waited for. Without a broker it only reads. */
#include <inttypes.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_MS 30000
#define US_PER_DAY INT64_C(86400000000)
#define EPOCH_DAYS 10957 /* from 1970 to PostgreSQL's 2000 */

/* In the order of the statement. */
enum { POSITION, ID, SOURCE, TYPE, TIME, STREAMID, STREAMVERSION, DATA, COLUMNS };

#define PAGE                                                                                                         \
    "SELECT position, id, source, type, time, streamid, streamversion, data::text FROM event WHERE position > $1"     \
    " ORDER BY position LIMIT $2"

static void die(const char *what, const char *why) {
    fprintf(stderr, "bare_kafka: %s: %s\n", what, why);
    exit(1);
}

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Not getrusage's, which counts what forked us, too. */
static long peak_kilobytes(void) {
    char line[256];
    long peak = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "VmHWM: %ld", &peak) != 1)
        ;
    if (f)
        fclose(f);
    return peak;
}

static int64_t read_int8(const char *bytes) {
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | (unsigned char)bytes[i];
    return (int64_t)bits;
}

/* The table. ---------------------------------------------------------------- */

static void ask(PGconn *pg, int64_t position, const char *page_rows) {
    char after[24];
    const char *const values[] = {after, page_rows};
    snprintf(after, sizeof after, "%" PRId64, position);
    if (!PQsendQueryPrepared(pg, "page", 2, values, NULL, NULL, 1))
        die("asking for a page", PQerrorMessage(pg));
}

static PGresult *answer(PGconn *pg) {
    PGresult *page = PQgetResult(pg);
    if (PQresultStatus(page) != PGRES_TUPLES_OK)
        die("a page", PQerrorMessage(pg));
    while (PQgetResult(pg))
        ;
    return page;
}

static PGconn *open_table(const char *conninfo) {
    static const Oid types[] = {20 /* int8 */, 20};
    PGconn *pg = PQconnectdb(conninfo);
    if (PQstatus(pg) != CONNECTION_OK)
        die("connecting to the database", PQerrorMessage(pg));
    /* As the forwarder has it: for 60 partitions planning costs more than the page. */
    PQclear(PQexec(pg, "SET plan_cache_mode = force_generic_plan"));
    PGresult *prepared = PQprepare(pg, "page", PAGE, 2, types);
    if (PQresultStatus(prepared) != PGRES_COMMAND_OK)
        die("preparing", PQerrorMessage(pg));
    PQclear(prepared);
    return pg;
}

/* The broker. --------------------------------------------------------------- */

struct producer {
    rd_kafka_t *rk;
    rd_kafka_topic_t *topic;
    rd_kafka_queue_t *reports;
    int in_flight_max, in_flight;
    uint64_t confirmed;
};

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        die(name, why);
}

static void open_producer(struct producer *p, const char *brokers, const char *topic, int in_flight, const char *linger) {
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", brokers);
    set(conf, "enable.idempotence", "true");
    set(conf, "acks", "all");
    set(conf, "message.timeout.ms", "0");
    set(conf, "linger.ms", linger);
    set(conf, "socket.nagle.disable", "true");
    set(conf, "partitioner", "murmur2_random");
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR);
    p->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!p->rk)
        die("making a producer", why);
    p->topic = rd_kafka_topic_new(p->rk, topic, NULL);
    p->reports = rd_kafka_queue_get_main(p->rk);
    p->in_flight_max = in_flight;
}

static void take_reports(struct producer *p, int wait_ms) {
    rd_kafka_event_t *event = rd_kafka_queue_poll(p->reports, wait_ms);
    if (!event && wait_ms > 0)
        die("waiting for reports", "none came");
    for (; event; event = rd_kafka_queue_poll(p->reports, 0)) {
        const rd_kafka_message_t *m;
        while ((m = rd_kafka_event_message_next(event))) {
            if (m->err)
                die("a report", rd_kafka_err2str(m->err));
            p->in_flight--;
            p->confirmed++;
        }
        rd_kafka_event_destroy(event);
    }
}

/* The events. --------------------------------------------------------------- */

/* RFC 3339; days to a date as in Howard Hinnant's civil_from_days. */
static void time_text(char text[40], int64_t us) {
    int64_t days = us / US_PER_DAY + EPOCH_DAYS, rest = us % US_PER_DAY;
    int64_t z = days + 719468, era = z / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153, month = mp < 10 ? mp + 3 : mp - 9;
    snprintf(text, 40, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", (int)(yoe + era * 400 + (month <= 2)), (int)month,
             (int)(doy - (153 * mp + 2) / 5 + 1), (int)(rest / INT64_C(3600000000)), (int)(rest / 60000000 % 60),
             (int)(rest / 1000000 % 60), (int)(rest % 1000000));
}

static rd_kafka_vu_t header(const char *name, const char *value, int len) {
    return (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_HEADER, .u.header = {.name = name, .val = value, .size = len}};
}

static rd_kafka_vu_t column(PGresult *page, int row, int column, const char *name) {
    return header(name, PQgetvalue(page, row, column), PQgetlength(page, row, column));
}

static void produce(struct producer *p, PGresult *page, int row) {
    char position[24], version[24], time[40];
    int position_len = snprintf(position, sizeof position, "%" PRId64, read_int8(PQgetvalue(page, row, POSITION)));
    int version_len = snprintf(version, sizeof version, "%" PRId64, read_int8(PQgetvalue(page, row, STREAMVERSION)));
    time_text(time, read_int8(PQgetvalue(page, row, TIME)));
    rd_kafka_vu_t parts[] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = p->topic},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY,
         .u.mem = {PQgetvalue(page, row, STREAMID), (size_t)PQgetlength(page, row, STREAMID)}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {PQgetvalue(page, row, DATA), (size_t)PQgetlength(page, row, DATA)}},
        header("content-type", "application/json", 16),
        header("ce_specversion", "1.0", 3),
        column(page, row, ID, "ce_id"),
        column(page, row, SOURCE, "ce_source"),
        column(page, row, TYPE, "ce_type"),
        header("ce_time", time, (int)strlen(time)),
        header("ce_position", position, position_len),
        column(page, row, STREAMID, "ce_streamid"),
        header("ce_streamversion", version, version_len),
    };
    rd_kafka_error_t *error;
    while (p->in_flight >= p->in_flight_max)
        take_reports(p, POLL_MS);
    error = rd_kafka_produceva(p->rk, parts, sizeof parts / sizeof parts[0]);
    if (error)
        die("producing", rd_kafka_error_string(error));
    p->in_flight++;
}

static size_t look_at(PGresult *page, int row) {
    size_t bytes = 0;
    for (int i = 0; i < COLUMNS; i++)
        bytes += (size_t)PQgetlength(page, row, i) + (size_t)(PQgetvalue(page, row, i)[0] & 1);
    return bytes;
}

static uint64_t run(PGconn *pg, const char *page_rows, struct producer *p) {
    uint64_t events = 0;
    size_t seen = 0;
    ask(pg, 0, page_rows);
    for (;;) {
        PGresult *page = answer(pg);
        int rows = PQntuples(page);
        if (rows == 0)
            break;
        ask(pg, read_int8(PQgetvalue(page, rows - 1, POSITION)), page_rows);
        for (int i = 0; i < rows; i++) {
            if (p->rk)
                produce(p, page, i);
            else
                seen += look_at(page, i);
        }
        if (p->rk)
            take_reports(p, 0);
        PQclear(page);
        events += (uint64_t)rows;
    }
    while (p->in_flight > 0)
        take_reports(p, POLL_MS);
    return seen || p->confirmed ? events : 0;
}

int main(int argc, char **argv) {
    struct producer producer = {.rk = NULL};
    if (argc != 3 && argc != 7)
        die("usage", "bare_kafka CONNINFO PAGE_ROWS [BROKERS TOPIC IN_FLIGHT LINGER_MS]");
    PGconn *pg = open_table(argv[1]);
    if (argc == 7)
        open_producer(&producer, argv[3], argv[4], (int)strtol(argv[5], NULL, 10), argv[6]);
    double began = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t events = run(pg, argv[2], &producer);
    began = seconds_of(CLOCK_MONOTONIC) - began;
    cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"events\": %" PRIu64 ", \"seconds\": %.3f, \"cpu_seconds\": %.3f, \"rss_bytes\": %ld}\n", events, began, cpu,
           peak_kilobytes() * 1024);
    if (producer.rk) {
        rd_kafka_topic_destroy(producer.topic);
        rd_kafka_queue_destroy(producer.reports);
        rd_kafka_destroy(producer.rk);
    }
    PQfinish(pg);
    return 0;
}
