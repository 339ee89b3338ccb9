/* Tests workers that crash, hang or give wrong replies. Each one has a reason in place of a result,
 * and the others continue. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/harness/bench_runner.h"
#include "tests/support/test_case.h"
#include "tests/support/test_program.h"

static char folder[] = "/tmp/tandem-test-XXXXXX";

static const char greeting[] = "echo 'ready protocol=1 impl=fake version=a%20b'\n";

/* This worker is healthy. It outputs the 2 bytes "ok". It reports 1 ms per call, or CALL_S. */
static const char healthy_loop[] =
    "while read -r word rest; do case $word in\n"
    "describe) echo 'ok variant=kernel%20one' ;;\n"
    "run) n=${rest#samples=}; n=${n%% *}; line=ok\n"
    "  while [ $n -gt 0 ]; do line=\"$line ${CALL_S:-1e-3}\"; n=$((n - 1)); done\n"
    "  echo \"$line\" ;;\n"
    "result) printf ok >/dev/fd/3; echo 'ok bytes=2' ;;\n"
    "quit) exit 0 ;;\n"
    "esac; done\n";

/* Writes a script and makes a contender of it. */
static bench_contender make_contender(const char *name, const char *first, const char *second) {
    bench_contender contender = {.impl = name};
    snprintf(contender.program, sizeof contender.program, "%s/%s", folder, name);
    FILE *const file = fopen(contender.program, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s%s", first, second);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(contender.program, 0700), 0);
    return contender;
}

static int verify_ok(const void *user, const void *bytes, size_t size, double *max_error,
                     worker_text *reason) {
    (void)user;
    *max_error = 0.25;
    if (size == 2 && memcmp(bytes, "ok", 2) == 0)
        return 0;
    worker_text_set(reason, "not ok");
    return -1;
}

static bench_plan plan = {
    .task = {.request = "suite=fake", .verify = verify_ok},
    .rule = {.samples = 3, .seconds = 1},
    .turn_seconds = 0.016,
    .timeout_s = 20, /* times test_time_factor(), see make_folder */
    .label = "fake",
};

static void remove_scripts(bench_contender *contenders, int count) {
    bench_contenders_release(contenders, count);
    for (int i = 0; i < count; i++)
        unlink(contenders[i].program);
}

TEST(a_healthy_worker_is_measured) {
    bench_contender contender = make_contender("healthy", greeting, healthy_loop);
    bench_run_case(&plan, &contender, 1);
    assert_string_equal(contender.reason.text, "");
    assert_int_equal(contender.status, RESULT_OK);
    assert_int_equal(contender.check, RESULT_VERIFIED);
    assert_true(contender.max_error == 0.25);
    assert_string_equal(contender.variant, "kernel one");
    assert_int_equal(contender.calls, 4);
    assert_int_equal(contender.batches, 4);
    assert_int_equal(contender.series.count, 3);
    assert_true(contender.series.values[2] == 1e-3);
    assert_true(fabs(contender.series.seconds - 3 * 16e-3) < 1e-9);
    remove_scripts(&contender, 1);
}

/* A batch takes about 1 ms, or has 4 pipelined calls if these take at most 10 ms. */
TEST(calls_are_divided_into_batches_and_turns) {
    static const struct {
        const char *call_s;
        double turn_seconds;
        int waited;
        int64_t calls, batches;
    } cases[] = {
        {"1e-5", 0.02, 0, 100, 20}, {"3e-4", 0.02, 0, 4, 17},   {"3e-4", 0.02, 1, 4, 17},
        {"6e-4", 0.02, 0, 4, 8},    {"6e-4", 0.02, 1, 2, 17},   {"1.1e-3", 0.02, 0, 4, 5},
        {"1.1e-3", 0.02, 1, 1, 18}, {"2.4e-3", 0.02, 0, 4, 2},  {"3e-3", 0.02, 0, 3, 2},
        {"6e-3", 0.02, 0, 1, 3},    {"65e-3", 0.02, 0, 1, 1},   {"3e-4", 0.001, 0, 4, 1},
        {"6e-4", 0.001, 0, 2, 1},   {"1.1e-3", 0.001, 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench_contender contender = make_contender("healthy", greeting, healthy_loop);
        bench_plan divided = plan;
        divided.turn_seconds = cases[i].turn_seconds;
        divided.task.waited = cases[i].waited;
        setenv("CALL_S", cases[i].call_s, 1);
        bench_run_case(&divided, &contender, 1);
        assert_int_equal(contender.status, RESULT_OK);
        if (contender.calls != cases[i].calls || contender.batches != cases[i].batches)
            fail_msg("case %zu: %lld calls, %lld batches", i, (long long)contender.calls,
                     (long long)contender.batches);
        remove_scripts(&contender, 1);
    }
}

static int verify_never(const void *user, const void *bytes, size_t size, double *max_error,
                        worker_text *reason) {
    (void)user;
    (void)bytes;
    (void)size;
    *max_error = NAN;
    worker_text_set(reason, "its own");
    return -1;
}

/* A contender's own task is requested and checked; the others keep the plan's task. */
TEST(a_contender_may_have_its_own_task) {
    const bench_task own = {.request = "suite=own", .verify = verify_never};
    bench_contender contenders[] = {make_contender("healthy", greeting, healthy_loop),
                                    make_contender("own", greeting, healthy_loop)};
    contenders[1].task = &own;
    bench_run_case(&plan, contenders, 2);
    assert_int_equal(contenders[0].status, RESULT_OK);
    assert_int_equal(contenders[1].status, RESULT_FAILED);
    assert_string_equal(contenders[1].reason.text, "wrong result: its own");
    remove_scripts(contenders, 2);
}

TEST(samples_can_be_bounded) {
    bench_contender contender = make_contender("healthy", greeting, healthy_loop);
    bench_plan bounded = plan;
    bounded.rule.samples = 2;
    bench_run_case(&bounded, &contender, 1);
    assert_int_equal(contender.status, RESULT_OK);
    assert_int_equal(contender.series.count, 2);
    remove_scripts(&contender, 1);
}

/* This is the user data of verify_and_end. That function ends the suite's time `after_s` seconds
 * after the check. */
typedef struct ending {
    bench_plan plan;
    double after_s;
} ending;

static int verify_and_end(const void *user, const void *bytes, size_t size, double *max_error,
                          worker_text *reason) {
    ending *const own = *(ending *const *)user;
    own->plan.deadline_s = bench_now() + own->after_s;
    return verify_ok(NULL, bytes, size, max_error, reason);
}

/* Copies the plan; its time ends after the check of the first result, however long that took. */
static void end_after_check(ending *own, ending *const *self, double after_s) {
    *own = (ending){.plan = plan, .after_s = after_s};
    own->plan.task.verify = verify_and_end;
    own->plan.task.user = self;
}

/* A contender that was measured keeps its results. The others, and later cases, are skipped with a
 * reason. */
TEST(time_that_is_over_ends_a_case_and_begins_none) {
    bench_contender contenders[] = {make_contender("healthy", greeting, healthy_loop),
                                    make_contender("lazy", greeting, "sleep 100\n"),
                                    make_contender("late", greeting, healthy_loop)};
    ending own, *const self = &own;
    end_after_check(&own, &self, 2);
    bench_plan *const bounded = &own.plan;
    bounded->rule.samples = 1000;
    bounded->rule.seconds = 1000;
    bench_run_case(bounded, contenders, 3);
    assert_int_equal(contenders[0].status, RESULT_OK);
    assert_int_equal(contenders[0].series.count, 1); /* one turn */
    assert_int_equal(contenders[1].status, RESULT_SKIPPED);
    assert_non_null(strstr(contenders[1].reason.text, "prepare: no answer within"));
    assert_string_equal(contenders[2].reason.text,
                        "the suite's time is over, the case was not started");
    for (int i = 1; i < 3; i++)
        assert_int_equal(
            strncmp(contenders[i].reason.text, bench_time_is_over, strlen(bench_time_is_over)), 0);
    bench_run_case(bounded, contenders, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(contenders[i].status, RESULT_SKIPPED);
        assert_int_equal(contenders[i].series.count, 0);
    }
    remove_scripts(contenders, 3);
}

/* A wrong result counts as a failure even if the suite's time has ended. */
TEST(a_failure_is_one_when_the_time_is_over) {
    bench_contender contender = make_contender("wrong", greeting,
                                               "read l; echo ok; read l; echo ok 1; read l; "
                                               "printf no >/dev/fd/3; echo 'ok bytes=2'; read l\n");
    ending own, *const self = &own;
    end_after_check(&own, &self, 0);
    bench_run_case(&own.plan, &contender, 1);
    assert_true(own.plan.deadline_s > 0);
    assert_int_equal(contender.status, RESULT_FAILED);
    assert_string_equal(contender.reason.text, "wrong result: not ok");
    remove_scripts(&contender, 1);
}

typedef struct sick_worker {
    const char *name;
    const char *first;
    const char *second;
    const char *reason;
    result_status status;
    double timeout_s; /* 0: the plan's; otherwise multiplied by test_time_factor() */
    double told_s;    /* the seconds that follow the reason, multiplied likewise */
} sick_worker;

static const sick_worker sick_workers[] = {
    {"silent", "exit 0\n", "", "start: the worker ended with exit code 0", RESULT_FAILED, 0, 0},
    {"dies", "echo boo >&2; echo the last word >&2; exit 7\n", "",
     "start: the worker ended with exit code 7: the last word", RESULT_FAILED, 0, 0},
    {"signal", "echo 'ready protocol=1 impl=x'; read -r line; kill -SEGV $$\n", "",
     "prepare: the worker died of signal 11", RESULT_FAILED, 0, 0},
    {"other", "echo 'ready protocol=2 impl=x'\n", healthy_loop,
     "start: the program is not a worker of this version", RESULT_FAILED, 0, 0},
    {"stranger", "echo hello\n", healthy_loop, "start: the program is not a worker of this version",
     RESULT_FAILED, 0, 0},
    {"hangs", "sleep 100\n", "", "start: no answer within ", RESULT_FAILED, 1, 1},
    {"trickles", greeting, "read -r line; while :; do printf x; sleep 0.05; done\n",
     "prepare: no answer within ", RESULT_FAILED, 1, 4},
    {"skips", greeting, "read -r line; echo 'skip no such dtype'; read -r line\n", "no such dtype",
     RESULT_SKIPPED, 0, 0},
    {"fails", greeting, "read -r line; echo 'fail out of luck'; read -r line\n",
     "prepare: out of luck", RESULT_FAILED, 0, 0},
    {"babbles", greeting, "read -r line; echo 'okay then'; read -r line\n",
     "prepare: the worker's reply does not follow the protocol", RESULT_FAILED, 0, 0},
    {"endless", greeting,
     "read -r line; while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done\n",
     "prepare: the reply exceeds the maximum line length", RESULT_FAILED, 0, 0},
    {"times", greeting, "read -r line; echo ok; read -r line; echo 'ok fast'; read -r line\n",
     "first run: the worker did not return the requested number of valid times", RESULT_FAILED, 0,
     0},
    {"many", greeting, "read -r line; echo ok; read -r line; echo 'ok 1 2'; read -r line\n",
     "first run: the worker did not return the requested number of valid times", RESULT_FAILED, 0,
     0},
    {"negative", greeting, "read -r line; echo ok; read -r line; echo 'ok -1'; read -r line\n",
     "first run: the worker did not return the requested number of valid times", RESULT_FAILED, 0,
     0},
    {"wrong", greeting,
     "read -r l; echo ok; read -r l; echo 'ok 1'; read -r l; printf no >/dev/fd/3; echo 'ok "
     "bytes=2'\n"
     "read -r l\n",
     "wrong result: not ok", RESULT_FAILED, 0, 0},
    {"lies", greeting,
     "read -r l; echo ok; read -r l; echo 'ok 1'; read -r l; echo 'ok bytes=4096'; read -r l\n",
     "result: the shared file is shorter than the worker reported", RESULT_FAILED, 0, 0},
};

enum {
    SICK_WORKERS = sizeof sick_workers / sizeof sick_workers[0]
};

TEST(a_sick_worker_loses_its_row_and_nothing_else) {
    for (int i = 0; i < SICK_WORKERS; i++) {
        const sick_worker *const row = &sick_workers[i];
        bench_contender contenders[] = {make_contender("healthy", greeting, healthy_loop),
                                        make_contender(row->name, row->first, row->second),
                                        make_contender("healthy2", greeting, healthy_loop)};
        bench_plan patient = plan;
        if (row->timeout_s > 0)
            patient.timeout_s = row->timeout_s * test_time_factor();
        bench_run_case(&patient, contenders, 3);
        if (contenders[1].status != row->status ||
            strncmp(contenders[1].reason.text, row->reason, strlen(row->reason)) != 0)
            fail_msg("'%s': status %d, %s", row->name, contenders[1].status,
                     contenders[1].reason.text);
        if (row->told_s > 0)
            assert_true(strtod(contenders[1].reason.text + strlen(row->reason), NULL) ==
                        row->told_s * test_time_factor());
        assert_int_equal(contenders[1].series.count, 0);
        assert_int_equal(contenders[0].status, RESULT_OK);
        assert_int_equal(contenders[2].status, RESULT_OK);
        assert_int_equal(contenders[2].series.count, 3);
        remove_scripts(contenders, 3);
    }
}

/* The worker gives right results at first, then it hangs while it is timed. */
TEST(a_worker_that_hangs_later_is_stopped) {
    bench_contender contenders[] = {
        make_contender("later", greeting,
                       "read -r l; echo ok; read -r l; echo 'ok 1e-3'\n"
                       "read -r l; printf ok >/dev/fd/3; echo 'ok bytes=2'\n"
                       "read -r l; echo 'ok 1e-3'; sleep 100\n"),
        make_contender("healthy", greeting, healthy_loop)};
    const time_t start = time(NULL);
    bench_plan impatient = plan;
    impatient.timeout_s = test_time_factor();
    bench_run_case(&impatient, contenders, 2);
    assert_int_equal(contenders[0].status, RESULT_FAILED);
    assert_non_null(strstr(contenders[0].reason.text, "run: no answer within "));
    assert_int_equal(contenders[0].check, RESULT_VERIFIED);
    assert_int_equal(contenders[1].status, RESULT_OK);
    assert_true(time(NULL) - start < 60 * test_time_factor());
    remove_scripts(contenders, 2);
}

/* The first process fails every request. The process that is started next is healthy. */
TEST(a_failed_worker_is_started_afresh_for_the_next_case) {
    char first[512];
    snprintf(first, sizeof first,
             "%sif [ ! -e %s/mark ]; then\ntouch %s/mark\n"
             "while read -r line; do echo 'fail for ever'; done\nfi\n",
             greeting, folder, folder);
    bench_contender contender = make_contender("moody", first, healthy_loop);
    bench_run_case(&plan, &contender, 1);
    assert_int_equal(contender.status, RESULT_FAILED);
    bench_run_case(&plan, &contender, 1);
    assert_int_equal(contender.status, RESULT_OK);
    assert_string_equal(contender.reason.text, "");
    remove_scripts(&contender, 1);
    char mark[128];
    snprintf(mark, sizeof mark, "%s/mark", folder);
    unlink(mark);
}

TEST(a_program_that_is_not_there) {
    bench_contender contenders[] = {make_contender("healthy", greeting, healthy_loop),
                                    {.impl = "absent", .program = "/nonexistent/program"},
                                    {.impl = "unknown", .missing = "not installed"}};
    bench_run_case(&plan, contenders, 3);
    assert_int_equal(contenders[0].status, RESULT_OK);
    assert_int_equal(contenders[1].status, RESULT_FAILED);
    assert_non_null(strstr(contenders[1].reason.text, "start: "));
    assert_int_equal(contenders[2].status, RESULT_SKIPPED);
    assert_string_equal(contenders[2].reason.text, "not installed");
    remove_scripts(contenders, 1);
}

TEST(a_bad_end_is_reported) {
    static const struct {
        const char *name;
        const char *loop;
        const char *reason;
    } rows[] = {
        {"good", "read -r line; exit 0\n", NULL},
        {"leaks", "read -r line; echo 'leaked 8 bytes' >&2; exit 23\n",
         "the worker ended with exit code 23: leaked 8 bytes"},
        {"falls", "read -r line; kill -ABRT $$\n", "the worker died of signal 6"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench_contender contender = make_contender(rows[i].name, greeting, rows[i].loop);
        const worker_launch launch = {.program = contender.program};
        worker_text text = {.length = 0};
        worker_process *const worker = worker_start(&launch, 2, &text);
        assert_non_null(worker);
        const worker_answer answer = worker_quit(worker, &text);
        assert_int_equal(answer, rows[i].reason == NULL ? WORKER_OK : WORKER_FAIL);
        if (rows[i].reason != NULL)
            assert_memory_equal(text.text, rows[i].reason, strlen(rows[i].reason));
        assert_int_equal(worker_quit(worker, &text), WORKER_FAIL);
        worker_stop(worker);
        remove_scripts(&contender, 1);
    }
}

TEST(messages_are_shown_where_they_are_asked_for) {
    for (int show = 0; show <= 1; show++) {
        char text[256];
        bench_contender contender = make_contender("talks",
                                                   "echo first >&2\n"
                                                   "echo 'ready protocol=1 impl=x'\n",
                                                   "read -r line; echo second >&2; exit 7\n");
        contender.show_messages = show;
        FILE *const file = tmpfile();
        fflush(stderr);
        const int saved = dup(STDERR_FILENO);
        assert_true(file != NULL && saved >= 0);
        dup2(fileno(file), STDERR_FILENO);
        bench_run_case(&plan, &contender, 1);
        fflush(stderr);
        dup2(saved, STDERR_FILENO);
        close(saved);
        rewind(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        assert_string_equal(text, show ? "first\nsecond\n" : "");
        assert_string_equal(contender.reason.text,
                            "prepare: the worker ended with exit code 7: second");
        remove_scripts(&contender, 1);
    }
}

TEST(fields_survive_encoding) {
    worker_text line = {.length = 0};
    char value[64];
    worker_text_add(&line, "describe");
    worker_field_add(&line, "devices", "none of these");
    worker_field_add(&line, "device", "a b%20c\td=e\n");
    worker_field_add(&line, "ce", "");
    worker_field_add_integer(&line, "n", -5);
    assert_null(strchr(line.text, '\n'));
    assert_int_equal(worker_field(line.text, "device", value, sizeof value), 1);
    assert_string_equal(value, "a b%20c\td=e\n");
    assert_int_equal(worker_field(line.text, "ce", value, sizeof value), 1);
    assert_string_equal(value, "");
    assert_int_equal(worker_field(line.text, "vice", value, sizeof value), 0);
    assert_int_equal(worker_field_integer(line.text, "n", 9), -5);
    assert_int_equal(worker_field_integer(line.text, "device", 9), 9);
    assert_int_equal(worker_field_integer(line.text, "absent", 9), 9);
    char small[4];
    worker_field(line.text, "device", small, sizeof small);
    assert_string_equal(small, "a b");
    for (int i = 0; i < 200; i++)
        worker_field_add(&line, "long", "0123456789");
    assert_true(strlen(line.text) < sizeof line.text);
}

static int make_folder(void **state) {
    (void)state;
    plan.timeout_s *= test_time_factor();
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

TEST_MAIN(make_folder, remove_folder)
