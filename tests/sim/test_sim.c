/* test_sim: the pure cores together through many thousands of schedules */
#include "unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "sim/world.h"

/* PENSTOCK_SIM_SCHEDULES: how many; PENSTOCK_SIM_SEED: the first, or the only
 * one if no number is said: then its shortest trace is printed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SCHEDULES 20000
#else
#define SCHEDULES 200000
#endif
#define WORKERS 2

static struct world world;

/* What a worker was at when it failed, in memory that its parent sees. */
struct progress {
    uint64_t seed;
    uint64_t done;
    bool failed;
};

static void run_share(struct progress *progress, uint64_t first, uint64_t count, uint64_t worker) {
    for (uint64_t i = worker; i < count && !progress->failed; i += WORKERS) {
        progress->seed = first + i;
        struct world_schedule schedule = {.seed = progress->seed, .steps = UINT32_MAX};
        progress->failed = !world_run(&world, &schedule, NULL);
        progress->done++;
    }
}

static void *shared(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    return memory;
}

/* In a process of its own: an assertion ends that one only. `trace` may be NULL. */
static bool survives(const struct world_schedule *schedule, char *trace) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (!trace && !freopen("/dev/null", "w", stderr))
            _exit(1);
        _exit(world_run(&world, schedule, trace) ? 0 : 1);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    return status == 0;
}

/* Leaves out every kind of action without which it still fails, then finds the fewest steps. */
static struct world_schedule shorten(struct world_schedule schedule) {
    for (int i = 0; i < ACT_COUNT; i++) {
        struct world_schedule shorter = schedule;
        shorter.left_out |= UINT64_C(1) << i;
        if (!survives(&shorter, NULL))
            schedule = shorter;
    }
    for (uint32_t steps = 1; steps < WORLD_STEPS_MAX; steps++) {
        struct world_schedule shorter = schedule;
        shorter.steps = steps;
        if (!survives(&shorter, NULL))
            return shorter;
    }
    return schedule;
}

static void show(uint64_t seed) {
    struct world_schedule schedule = {.seed = seed, .steps = UINT32_MAX};
    if (survives(&schedule, NULL))
        return;
    schedule = shorten(schedule);
    char *trace = shared(WORLD_TRACE_MAX);
    printf("schedule %" PRIu64 " fails, shortest (%" PRIu32 " steps, without %#" PRIx64 "):\n", seed, schedule.steps,
           schedule.left_out);
    survives(&schedule, trace);
    printf("%sagain: PENSTOCK_SIM_SEED=%" PRIu64 "\n", trace, seed);
    fflush(stdout);
}

static uint64_t from_environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

START_TEST(no_schedule_breaks_a_promise) {
    uint64_t first = from_environment("PENSTOCK_SIM_SEED", 1);
    uint64_t count = from_environment("PENSTOCK_SIM_SCHEDULES", getenv("PENSTOCK_SIM_SEED") ? 1 : SCHEDULES);
    struct progress *progress = shared(WORKERS * sizeof(*progress));
    pid_t workers[WORKERS];
    fflush(stdout);
    for (uint64_t i = 0; i < WORKERS; i++) {
        workers[i] = fork();
        if (workers[i] == 0) {
            run_share(&progress[i], first, count, i);
            _exit(progress[i].failed);
        }
    }
    uint64_t done = 0;
    int failed = 0;
    for (int i = 0; i < WORKERS; i++) {
        int status = 1;
        waitpid(workers[i], &status, 0);
        done += progress[i].done;
        if (status != 0 && failed++ == 0)
            show(progress[i].seed);
    }
    printf("%" PRIu64 " schedules from number %" PRIu64 "\n", done, first);
    ck_assert_int_eq(failed, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sim");
    TCase *cases = tcase_create("sim");
    tcase_set_timeout(cases, 0);
    tcase_add_test(cases, no_schedule_breaks_a_promise);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
