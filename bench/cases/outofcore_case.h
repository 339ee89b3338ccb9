/* One case of the outofcore suite, as parent and workers see it. */
#ifndef TANDEM_BENCH_CASES_OUTOFCORE_CASE_H
#define TANDEM_BENCH_CASES_OUTOFCORE_CASE_H

#include <tandem/outofcore.h>

#include "bench/cases/gemm_case.h"

typedef enum outofcore_way {
    OUTOFCORE_TILED,  /* operands in host memory, within the budget */
    OUTOFCORE_CORE,   /* all operands on the device, the product alone */
    OUTOFCORE_COPIED, /* the same with its copies there and back */
    OUTOFCORE_WAYS
} outofcore_way;

typedef struct outofcore_case {
    gemm_case gemm;
    outofcore_way way;
    double share; /* budget over the operands' bytes */
} outofcore_case;

void outofcore_case_write(const outofcore_case *item, worker_text *line);
int outofcore_case_read(const char *line, outofcore_case *item);

/* "f32 4096x4096x4096 nn in 1/4" */
void outofcore_case_name(const outofcore_case *item, char *text, size_t size);

uint64_t outofcore_case_budget(const outofcore_case *item);

/* What a worker's output begins with, before D: of OUTOFCORE_TILED what the plan says of itself, else zeros. */
typedef struct outofcore_output {
    tdm_outofcore_info info;
    tdm_outofcore_times measured; /* of one more run, with events around each step */
} outofcore_output;

#endif
