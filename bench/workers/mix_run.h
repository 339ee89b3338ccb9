/* Memory traffic of so many bytes read for so many written, and nothing else, on a device. Used by the quant suite's worker. */
#ifndef TANDEM_BENCH_WORKERS_MIX_RUN_H
#define TANDEM_BENCH_WORKERS_MIX_RUN_H

#include "api/device/core.h"
#include "bench/cases/quant_case.h"
#include "kernels/probe/probe_mix_args.h"

/* Parameters of the rows of PROBE_MIX. */
enum {
    MIX_P_WIDTH = 0,
    MIX_P_GROUP = 1,
    MIX_P_WALK =
        2, /* 1: a group takes a run of its own, 2: every so many steps as there are groups */
    MIX_P_PREFETCH = 3
};

typedef struct mix_run {
    tdm_kernel *kernel; /* the device's */
    tdm_buffer *input;
    tdm_buffer *output;
    uint32_t group; /* items */
    uint32_t groups;
    int line; /* words of a line: of all items of a group */
    tdm_mix_arg walk;
} mix_run;

/* Choose the kernel and the grid for a case of QUANT_STREAM, and fill its input. Blocking. The caller releases what was made, on failure too. */
tdm_status mix_run_create(tdm_device *device, tdm_stream *stream, const quant_case *item,
                          mix_run *run);
void mix_run_release(mix_run *run);

/* Enqueue the kernel once. */
tdm_status mix_run_enqueue(const mix_run *run, tdm_stream *stream);

/* The output as quant_case_check wants it: the words of a line, then what was written. Blocking. */
size_t mix_run_output_bytes(const mix_run *run);
tdm_status mix_run_output(const mix_run *run, tdm_stream *stream, void *bytes);

#endif
