/*
 * Runs the kernel probe_mix.cl, which reads and writes memory in a given ratio of bytes and does
 * almost no arithmetic. The quant suite's worker uses it.
 */
#ifndef TANDEM_BENCH_WORKERS_MIX_RUN_H
#define TANDEM_BENCH_WORKERS_MIX_RUN_H

#include "api/device/core.h"
#include "bench/cases/quant_case.h"
#include "kernels/probe/probe_mix_args.h"

/* Indices of the parameters of a PROBE_MIX kernel variant. */
enum {
    MIX_P_WIDTH = 0,
    MIX_P_GROUP = 1,
    MIX_P_TRAVERSAL =
        2, /* 1: the steps of a group are contiguous; 2: the steps of all groups interleave */
    MIX_P_PREFETCH = 3
};

typedef struct mix_run {
    tdm_kernel *kernel; /* owned by the device */
    tdm_buffer *input;
    tdm_buffer *output;
    uint32_t group; /* work-items per group */
    uint32_t groups;
    int line; /* words per line; a line is one vector for each work-item of a group */
    tdm_mix_arg traversal;
} mix_run;

/*
 * Chooses the kernel and the grid for a QUANT_STREAM case, and fills its input. The call blocks.
 * The caller releases the run, even after a failure.
 */
tdm_status mix_run_create(tdm_device *device, tdm_stream *stream, const quant_case *item,
                          mix_run *run);
void mix_run_release(mix_run *run);

/* Enqueues the kernel once. */
tdm_status mix_run_enqueue(const mix_run *run, tdm_stream *stream);

/*
 * mix_run_output stores the output in the form that quant_case_check expects: the number of words
 * per line, then the written words. The call blocks. mix_run_output_bytes returns the size.
 */
size_t mix_run_output_bytes(const mix_run *run);
tdm_status mix_run_output(const mix_run *run, tdm_stream *stream, void *bytes);

#endif
