/* A probe on a device: its kernel, buffers and grid. Used by its worker and by the tests. */
#ifndef TANDEM_BENCH_WORKERS_PROBE_RUN_H
#define TANDEM_BENCH_WORKERS_PROBE_RUN_H

#include "api/device/core.h"
#include "bench/cases/probe_case.h"

typedef struct probe_run {
    tdm_kernel *kernel; /* the device's */
    tdm_buffer *input;  /* NULL: none */
    tdm_buffer *output;
    int width;
    int chains;     /* of fma */
    uint32_t group; /* items */
    uint32_t groups;
} probe_run;

/*
 * Choose the kernel (`forced`: this row) and the grid, fill the input. Blocking. The caller releases what was made, on
 * failure too.
 */
tdm_status probe_run_create(tdm_device *device, tdm_stream *stream, const probe_case *item,
                            const char *forced, probe_run *run);
void probe_run_release(probe_run *run);

/* Enqueue the kernel once. */
tdm_status probe_run_enqueue(const probe_run *run, const probe_case *item, tdm_stream *stream);

/* Additions and multiplications of a call; 0 of a launch. */
int64_t probe_run_work(const probe_run *run, const probe_case *item);

/* The output as probe_case_check wants it. Blocking. */
size_t probe_run_output_bytes(const probe_run *run);
tdm_status probe_run_output(const probe_run *run, tdm_stream *stream, void *bytes);

#endif
