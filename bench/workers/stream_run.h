/*
 * Runs a kernel of the memory suite on a device, with its variant, arrays and grid. The suite's
 * worker and the tests use it.
 */
#ifndef TANDEM_BENCH_WORKERS_STREAM_RUN_H
#define TANDEM_BENCH_WORKERS_STREAM_RUN_H

#include "api/device/core.h"
#include "bench/cases/memory_case.h"
#include "kernels/probe/probe_stream_args.h"

/* Parameters of the PROBE_STREAM kernel variants. */
enum {
    STREAM_P_WIDTH = 0,
    STREAM_P_OPERATION = 1,
    STREAM_P_GROUP = 2,
    STREAM_P_TRAVERSAL = 3,
    STREAM_P_PREFETCH = 4,
    STREAM_P_PAST = 5, /* non-temporal stores */
    STREAM_P_EIGHT = 6
};

/* True if a kernel variant performs an operation. */
bool stream_row_does(const tdm_variant *row, memory_operation operation);

/* The form of a kernel, for tests that choose it. */
typedef struct stream_form {
    const char *row;
    int unroll; /* vectors of a work-item at a time: 1, 4 or 8 */
    int ahead;  /* prefetch distance in bytes (gather: of its indices); 0: none */
} stream_form;

typedef struct stream_run {
    tdm_kernel *kernel; /* owned by the device */
    tdm_buffer *a;      /* chase: the cycle; gather: indices into b */
    tdm_buffer *b;      /* NULL if the operation has no second array */
    tdm_buffer *c;      /* the output: an array or sums */
    uint32_t group;     /* work-items */
    uint32_t groups;
    int64_t words; /* words read, for kernels that sum */
    tdm_stream_arg traversal;
    int passes; /* chase */
} stream_run;

/*
 * Chooses the kernel and the grid, and fills the arrays. `forced` is the form; if it is NULL, the
 * form depends on the variant. The call blocks. The caller releases the run, on failure too.
 */
tdm_status stream_run_create(tdm_device *device, tdm_stream *stream, const memory_case *item,
                             const stream_form *forced, stream_run *run);
void stream_run_release(stream_run *run);

/* Enqueues the kernel once. */
tdm_status stream_run_enqueue(const stream_run *run, const memory_case *item, tdm_stream *stream);

/* Returns the bytes that a call moves. */
int64_t stream_run_work(const stream_run *run, const memory_case *item);

/*
 * stream_run_output stores the output in the form that memory_case_check expects. The call blocks.
 */
size_t stream_run_output_bytes(const stream_run *run, const memory_case *item);
tdm_status stream_run_output(const stream_run *run, const memory_case *item, tdm_stream *stream,
                             void *bytes);

#endif
