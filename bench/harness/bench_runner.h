/*
 * The heart of `tandem bench`: one case at a time, every implementation ("entrant") in its worker
 * process, samples taken in turn. A worker that fails loses its row and nothing else.
 */
#ifndef TANDEM_BENCH_HARNESS_BENCH_RUNNER_H
#define TANDEM_BENCH_HARNESS_BENCH_RUNNER_H

#include "bench/protocol/worker_process.h"
#include "bench/record/bench_statistics.h"
#include "bench/record/results_json.h"
#include "bench/record/sensors.h"

enum {
    MAX_ENTRANTS = 16,
    MAX_PATH_TEXT = 4096
};

/* The device of a run. Only the workers open it: a context here would keep threads around. */
typedef struct bench_device {
    int index;
    tdm_device_info info;
} bench_device;

/* Tell Tandem's worker which device is meant. */
void bench_device_write(const bench_device *device, worker_text *request);

/* Checks an output. Returns 0 when right; otherwise the reason is set. */
typedef int (*bench_verifier)(const void *user, const void *bytes, size_t size, double *max_error,
                              worker_text *reason);

/* What a worker is asked to do, and how its output is checked. */
typedef struct bench_task {
    const char *request; /* fields of `describe` */
    bench_verifier verify;
    const void *user; /* for verify */
    int waited;       /* each call is waited for */
} bench_task;

/* What the sensors told around an entrant's turns; NaN: nothing. */
typedef struct bench_energy {
    double joules; /* of all calls together */
    double calls;
    double power_w, temperature_c, clock_mhz; /* after the last turn */
    double throttled;                         /* 1: after any turn */
} bench_energy;

/* What a worker holds ready, and what was found of it. */
typedef struct bench_prepared {
    worker_text request; /* "": nothing */
    char variant[192];
    double work, max_error;
} bench_prepared;

typedef struct bench_entrant {
    const char *impl; /* name of its rows */
    char program[MAX_PATH_TEXT];
    const char *arguments[4]; /* NULL-terminated */
    const char *missing;      /* why it cannot run at all, NULL when it can */
    const bench_task *task;   /* what it runs instead of the plan's task, or NULL */
    const bench_result *row;  /* what its rows say of that task, or NULL: as all others' */
    int show_messages;        /* of worker_launch */
    int keeps_task;           /* a case with the task of the one before is not prepared again */

    worker_process *worker; /* started when first needed, and again after it died */
    worker_text greeting;
    bench_prepared prepared;

    /* Of the present case. */
    result_status status;
    worker_text reason;
    char variant[192]; /* with the parameters that were forced */
    result_check check;
    double max_error;
    double work;     /* of a call: field "work" of its answer, 0 when it has none */
    double call_s;   /* about what a call takes */
    int64_t calls;   /* of a batch */
    int64_t batches; /* of a turn */
    sample_series series;
    bench_energy energy;
} bench_entrant;

typedef struct bench_plan {
    bench_task task;
    stopping_rule rule;
    double turn_seconds; /* calls of a turn take about this long */
    double timeout_s;    /* for an answer; building kernels may take several times as long */
    double
        deadline_s; /* of bench_now: then no case begins, and the one that runs ends with what it has; 0: none */
    const sensors *sensors; /* NULL: none */
    const char *label;      /* for the progress line */
} bench_plan;

/* Seconds of the monotonic clock. */
double bench_now(void);

/* How the reason of a row begins that the deadline left no time for. */
extern const char bench_time_is_over[];

/* What a pipelined sample is, for the environment record. */
extern const char bench_sampling[];

/* Run one case on every entrant; what came out is left in the entrants. What the deadline cuts off is skipped, with the reason. */
void bench_run_case(const bench_plan *plan, bench_entrant *entrants, int count);

/* End the workers and release the samples. A worker that ends badly is named on standard error. */
void bench_entrants_release(bench_entrant *entrants, int count);

#endif
