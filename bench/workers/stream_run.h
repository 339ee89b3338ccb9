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
    STREAM_P_PAST = 5, /* stores go past the caches */
    STREAM_P_EIGHT = 6
};

/* Whether a row does an operation: strides are between single words. */
bool stream_row_does(const tdm_variant *row, memory_operation operation);

/* How a kernel goes about it, where tests say it. */
typedef struct stream_form {
    const char *row;
    int unroll; /* vectors of an item at a time: 1, 4 or 8 */
    int ahead;  /* bytes by which prefetches are ahead, of gather in its places; 0: none */
} stream_form;

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
 * Choose the kernel and the grid (`forced` or NULL: by the kind of device), and fill the arrays. Blocking. The caller releases what was
 * made, on failure too.
 */
tdm_status stream_run_create(tdm_device *device, tdm_stream *stream, const memory_case *item,
                             const stream_form *forced, stream_run *run);
void stream_run_release(stream_run *run);

/* Enqueue the kernel once. */
tdm_status stream_run_enqueue(const stream_run *run, const memory_case *item, tdm_stream *stream);

/* Bytes that a call moves. */
int64_t stream_run_work(const stream_run *run, const memory_case *item);

/* The output as memory_case_check wants it. Blocking. */
size_t stream_run_output_bytes(const stream_run *run, const memory_case *item);
tdm_status stream_run_output(const stream_run *run, const memory_case *item, tdm_stream *stream,
                             void *bytes);

#endif
