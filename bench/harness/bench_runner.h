/*
 * The core of `tandem bench`: it runs one case at a time and takes samples of all contenders in
 * turn. A contender is Tandem or another library, in its own worker process. A worker that fails
 * loses only its row.
 */
#ifndef TANDEM_BENCH_HARNESS_BENCH_RUNNER_H
#define TANDEM_BENCH_HARNESS_BENCH_RUNNER_H

#include "bench/protocol/worker_process.h"
#include "bench/record/bench_statistics.h"
#include "bench/record/results_json.h"
#include "bench/record/sensors.h"

enum {
    MAX_CONTENDERS = 16,
    MAX_PATH_TEXT = 4096
};

/* The device of a run. Only workers open it, because a context here would keep threads. */
typedef struct bench_device {
    int index;
    tdm_device_info info;
} bench_device;

/* Writes the device to the request of a Tandem worker. */
void bench_device_write(const bench_device *device, worker_text *request);

/* Checks an output. Returns 0 if it is right; otherwise sets the reason. */
typedef int (*bench_verifier)(const void *user, const void *bytes, size_t size, double *max_error,
                              worker_text *reason);

/* The request to a worker, and the check of its output. */
typedef struct bench_task {
    const char *request; /* fields of `describe` */
    bench_verifier verify;
    const void *user; /* passed to `verify` */
    int waited;       /* wait for each call by itself */
} bench_task;

/* The sensors' readings around a contender's turns; NaN: no reading. */
typedef struct bench_energy {
    double joules; /* total of all calls */
    double calls;
    double power_w, temperature_c, clock_mhz; /* after the last turn */
    double throttled;                         /* 1: after any turn */
} bench_energy;

/* A task that the worker has already prepared, and its verified properties. */
typedef struct bench_prepared {
    worker_text request; /* "": nothing */
    char variant[192];
    double work, max_error;
} bench_prepared;

typedef struct bench_contender {
    const char *impl; /* name of its rows */
    char program[MAX_PATH_TEXT];
    const char *arguments[4]; /* NULL-terminated */
    const char *missing;      /* reason why it cannot run at all, or NULL */
    const bench_task *task;   /* its own task instead of the plan's, or NULL */
    const bench_result *row;  /* row fields for its own task; NULL: those of all others */
    int show_messages;        /* as in worker_launch */
    int keeps_task;           /* 1: a case with the same task as before is not prepared again */

    worker_process *worker; /* started at first use, and again after it ended */
    worker_text greeting;
    bench_prepared prepared;

    /* State of the current case. */
    result_status status;
    worker_text reason;
    char variant[192]; /* its name, and the parameters that were forced */
    result_check check;
    double max_error;
    double work;     /* work of a call: field "work" of the answer, else 0 */
    double call_s;   /* approximate seconds per call */
    int64_t calls;   /* in a batch */
    int64_t batches; /* in a turn */
    sample_series series;
    bench_energy energy;
} bench_contender;

typedef struct bench_plan {
    bench_task task;
    stopping_rule rule;
    double turn_seconds; /* approximate duration of a turn's calls */
    double timeout_s;    /* for an answer; building kernels may take several times as long */
    /*
     * Deadline by bench_now; 0: none. After it no case begins, and the running case ends with the
     * samples that it has.
     */
    double deadline_s;
    const sensors *sensors; /* NULL: none */
    const char *label;      /* for the progress line */
} bench_plan;

/* Returns the seconds of the monotonic clock. */
double bench_now(void);

/* The beginning of the reason in rows for which the deadline left no time. */
extern const char bench_time_is_over[];

/* The definition of a pipelined sample, for the environment record. */
extern const char bench_sampling[];

/*
 * Runs one case on every contender, and stores the results in `contenders`. Contenders for which
 * the deadline left no time are skipped, with the reason.
 */
void bench_run_case(const bench_plan *plan, bench_contender *contenders, int count);

/* Ends the workers and frees the samples. A worker that ends badly is named on standard error. */
void bench_contenders_release(bench_contender *contenders, int count);

#endif
