/* One case of the launch suite, as parent and workers see it. */
#ifndef TANDEM_BENCH_CASES_LAUNCH_CASE_H
#define TANDEM_BENCH_CASES_LAUNCH_CASE_H

#include "bench/cases/gemm_case.h"
#include "bench/cases/probe_case.h"

/* What one call of a worker is. */
typedef enum launch_way {
    LAUNCH_KERNEL, /* a kernel that does next to nothing */
    LAUNCH_LIST,   /* so many of them, recorded before */
    LAUNCH_PLAN,   /* tdm_gemm_plan_run of a small product */
    LAUNCH_CALL    /* tdm_gemm of the same, its plan in the cache */
} launch_way;

enum {
    LAUNCH_LIST_COMMANDS = 64
};

/* Whether a case is about the kernel, not about a product. */
int launch_way_is_kernel(launch_way way);

typedef struct launch_case {
    launch_way way;
    gemm_case gemm;   /* LAUNCH_PLAN, LAUNCH_CALL */
    probe_case probe; /* LAUNCH_KERNEL, LAUNCH_LIST */
} launch_case;

void launch_case_write(const launch_case *item, worker_text *line);
int launch_case_read(const char *line, launch_case *item);

#endif
