/* A kernel of the memory suite on a device: its row, arrays and grid. Used by the suite's worker and by the tests. */
#ifndef TANDEM_BENCH_WORKERS_STREAM_RUN_H
#define TANDEM_BENCH_WORKERS_STREAM_RUN_H

#include "api/device/core.h"
#include "bench/cases/memory_case.h"
#include "kernels/probe/probe_stream_args.h"

/* Parameters of the rows of PROBE_STREAM. */
enum {
    STREAM_P_WIDTH = 0,
    STREAM_P_OPERATION = 1,
    STREAM_P_GROUP = 2,
    STREAM_P_WALK = 3,
    STREAM_P_PREFETCH = 4,
    STREAM_P_EIGHT = 6
};

/* Whether a row does an operation: strides are between single words. */
bool stream_row_does(const tdm_variant *row, memory_operation operation);

typedef struct stream_run {
    tdm_kernel *kernel; /* the device's */
    tdm_buffer *a;      /* chase: the circle; gather: places of b */
    tdm_buffer *b;      /* NULL where the operation has no second array */
    tdm_buffer *c;      /* the output: an array or sums */
    uint32_t group;     /* items */
    uint32_t groups;
    int64_t words; /* that are read, where sums come out */
    tdm_stream_arg walk;
    int passes; /* chase */
} stream_run;

/*
 * Choose the kernel and the grid by the case's setting, whose row is no "best", and fill the arrays. Blocking. The caller
 * releases what was made, on failure too.
 */
tdm_status stream_run_create(tdm_device *device, tdm_stream *stream, const memory_case *item,
                             stream_run *run);
void stream_run_release(stream_run *run);

/* Another setting for the same arrays. */
tdm_status stream_run_set(tdm_device *device, const memory_case *item,
                          const memory_setting *setting, stream_run *run);

/* Enqueue the kernel once. */
tdm_status stream_run_enqueue(const stream_run *run, const memory_case *item, tdm_stream *stream);

/* Bytes that a call moves. */
int64_t stream_run_work(const stream_run *run, const memory_case *item);

/* Work-items at a time, and elements of a vector. */
int64_t stream_run_items(const stream_run *run);
int stream_run_width(const stream_run *run);

/* The output as memory_case_check wants it. Blocking. */
size_t stream_run_output_bytes(const stream_run *run, const memory_case *item);
tdm_status stream_run_output(const stream_run *run, const memory_case *item, tdm_stream *stream,
                             void *bytes);

/*
 * The fastest setting of those that make sense on the device, by the best of a few calls each; `run` is left with it. Blocking.
 */
tdm_status stream_run_find(tdm_device *device, tdm_stream *stream, const memory_case *item,
                           memory_setting *best, stream_run *run);

#endif
