/*
 * Memory traffic with a given ratio of bytes read to bytes written, and no computation. The quant
 * suite's worker uses it.
 */
#ifndef TANDEM_BENCH_WORKERS_MIX_RUN_H
#define TANDEM_BENCH_WORKERS_MIX_RUN_H

#include "api/device/core.h"
#include "bench/cases/quant_case.h"
#include "kernels/probe/probe_mix_args.h"

/* Parameters of the PROBE_MIX kernel variants. */
enum {
    MIX_P_WIDTH = 0,
    MIX_P_GROUP = 1,
    MIX_P_TRAVERSAL =
        2, /* 1: each group takes a contiguous run; 2: groups interleave their steps */
    MIX_P_PREFETCH = 3
};

typedef struct mix_run {
    tdm_kernel *kernel; /* owned by the device */
    tdm_buffer *input;
    tdm_buffer *output;
    uint32_t group; /* work-items */
    uint32_t groups;
    int line; /* words of a line, which spans all work-items of a group */
    tdm_mix_arg traversal;
} mix_run;

/*
 * Chooses the kernel and the grid for a QUANT_STREAM case, and fills its input. Blocking. The
 * caller releases the run, on failure too.
 */
tdm_status mix_run_create(tdm_device *device, tdm_stream *stream, const quant_case *item,
                          mix_run *run);
void mix_run_release(mix_run *run);

/* Enqueues the kernel once. */
tdm_status mix_run_enqueue(const mix_run *run, tdm_stream *stream);

/*
 * Stores the output in the form that quant_case_check expects: the words of a line, then the
 * written words. Blocking.
 */
size_t mix_run_output_bytes(const mix_run *run);
tdm_status mix_run_output(const mix_run *run, tdm_stream *stream, void *bytes);

#endif
