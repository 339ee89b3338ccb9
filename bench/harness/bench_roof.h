/*
 * A roof is a limit of the device: its rate of multiply-adds or its rate of reading. Probes in
 * worker processes of their own measure the roofs in turn with a suite's cases. Each row can then
 * show how close it comes.
 */
#ifndef TANDEM_BENCH_HARNESS_BENCH_ROOF_H
#define TANDEM_BENCH_HARNESS_BENCH_ROOF_H

#include "bench/cases/memory_case.h"
#include "bench/cases/probe_case.h"
#include "bench/harness/bench_runner.h"

/* Lists the choices of --roof for the option table. */
#define BENCH_ROOF_CHOICES "compute|memory|none"
#define BENCH_ROOF_HELP                                                                            \
    "hardware limits to measure with each case: multiply-adds (compute), reading (memory)"

enum {
    MAX_ROOFS = 2,
    MAX_ROOF_NAME = 64
};

typedef struct bench_roof {
    int computes; /* 1: multiply-adds; 0: reading */
    probe_case probe;
    memory_case reading;
    worker_text request;
    bench_task task;
} bench_roof;

/* Zero-initialised: no roofs. */
typedef struct bench_roofs {
    int count;
    int quick;
    bench_roof roof[MAX_ROOFS];
} bench_roofs;

/*
 * Sets the roofs from a list of BENCH_ROOF_CHOICES; "none" anywhere in the list disables them.
 * `quick`: few steps, so the figures are not reliable.
 */
void bench_roofs_choose(bench_roofs *roofs, const char *list, int quick);

/* Makes contenders[0 … count-1] the workers that measure the roofs. */
void bench_roofs_enter(const bench_roofs *roofs, bench_contender *contenders);

/*
 * Prepares the probes for the next case. `arithmetic` is the dtype of the multiply-adds, and
 * `read_bytes` is the size that a reading probe reads.
 */
void bench_roofs_prepare(bench_roofs *roofs, bench_contender *contenders, tdm_dtype arithmetic,
                         int64_t read_bytes, const bench_device *device);

/* Returns flops (compute) or bytes (memory) per second; NaN if the contender has no result. */
double bench_roof_rate(const bench_contender *contender);

/* Returns the fields of a roof's row; `name` receives the case's name. */
bench_result bench_roof_row(const bench_roof *roof, double work, char name[MAX_ROOF_NAME]);

/*
 * Return the row and the task of a multiply-add probe, for suites that measure it as a case. The
 * item and the texts must outlive the task.
 */
bench_result bench_probe_row(const probe_case *item, double work, char name[MAX_ROOF_NAME]);
bench_task bench_probe_task(const probe_case *item, const bench_device *device,
                            worker_text *request);

#endif
