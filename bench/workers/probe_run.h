/*
 * Runs a probe on a device, with its kernel, buffers and grid. The probe's worker and the tests use
 * it.
 */
#ifndef TANDEM_BENCH_WORKERS_PROBE_RUN_H
#define TANDEM_BENCH_WORKERS_PROBE_RUN_H

#include "api/device/core.h"
#include "bench/cases/probe_case.h"

typedef struct probe_run {
    tdm_kernel *kernel; /* owned by the device */
    tdm_buffer *input;  /* NULL: none */
    tdm_buffer *output;
    int width;
    int chains;     /* PROBE_FMA only */
    uint32_t group; /* work-items */
    uint32_t groups;
} probe_run;

/*
 * Chooses the kernel (or the variant `forced`) and the grid, and fills the input. The call blocks.
 * The caller releases the run, on failure too.
 */
tdm_status probe_run_create(tdm_device *device, tdm_stream *stream, const probe_case *item,
                            const char *forced, probe_run *run);
void probe_run_release(probe_run *run);

/* Enqueues the kernel once. */
tdm_status probe_run_enqueue(const probe_run *run, const probe_case *item, tdm_stream *stream);

/* Returns the additions and multiplications of a call; 0 for a launch. */
int64_t probe_run_work(const probe_run *run, const probe_case *item);

/* probe_run_output stores the output in the form that probe_case_check expects. The call blocks. */
size_t probe_run_output_bytes(const probe_run *run);
tdm_status probe_run_output(const probe_run *run, tdm_stream *stream, void *bytes);

#endif
