/*
 * Roofs: limits of the device (multiply-adds, reading) that are measured in turn with what a suite is
 * about, by probes in a worker of their own, so that each row can say how near it comes.
 */
#ifndef TANDEM_BENCH_HARNESS_BENCH_ROOF_H
#define TANDEM_BENCH_HARNESS_BENCH_ROOF_H

#include "bench/cases/memory_case.h"
#include "bench/cases/probe_case.h"
#include "bench/harness/bench_runner.h"

/* For the option table: the choices of --roof. */
#define BENCH_ROOF_CHOICES "compute|memory|none"
#define BENCH_ROOF_HELP "limits to measure beside each case: multiply-adds, reading"

enum {
    MAX_ROOFS = 2,
    MAX_ROOF_NAME = 64
};

typedef struct bench_roof {
    int computes; /* else it reads */
    probe_case probe;
    memory_case reading;
    worker_text request;
    bench_task task;
} bench_roof;

/* Zero-initialised: none. */
typedef struct bench_roofs {
    int count;
    int quick;
    bench_roof roof[MAX_ROOFS];
} bench_roofs;

/* From a list of BENCH_ROOF_CHOICES; "none" anywhere makes it none. `quick`: not to be relied upon. */
void bench_roofs_choose(bench_roofs *roofs, const char *list, int quick);

/* Make entrants[0 … count-1] the roofs' workers. */
void bench_roofs_enter(const bench_roofs *roofs, bench_entrant *entrants);

/*
 * What the probes do beside the next case: `arithmetic`, f32 or s8, is that of the case, and `read_bytes` the
 * size of what it reads.
 */
void bench_roofs_prepare(bench_roofs *roofs, bench_entrant *entrants, tdm_dtype arithmetic,
                         int64_t read_bytes, const bench_device *device);

/* Flops (compute) or bytes (memory) per second; NaN when the entrant has no result. */
double bench_roof_rate(const bench_entrant *entrant);

/* What a roof's rows say of it; `name` receives the case's name. */
bench_result bench_roof_row(const bench_roof *roof, double work, char name[MAX_ROOF_NAME]);

/* The same of a probe's multiply-adds, and its task, for suites that are about it. The item and the texts must outlive the task. */
bench_result bench_probe_row(const probe_case *item, double work, char name[MAX_ROOF_NAME]);
bench_task bench_probe_task(const probe_case *item, const bench_device *device,
                            worker_text *request);

#endif
