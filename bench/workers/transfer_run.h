/* Copies between host and device, and within the device, of the memory suite. */
#ifndef TANDEM_BENCH_WORKERS_TRANSFER_RUN_H
#define TANDEM_BENCH_WORKERS_TRANSFER_RUN_H

#include <tandem/tandem.h>

#include "bench/cases/memory_case.h"

typedef struct transfer_run {
    tdm_host_buffer *pinned_source, *pinned_target;
    void *pageable_source, *pageable_target;
    const void *host_source; /* either of them */
    void *host_target;
    tdm_buffer *source, *target; /* of the device */
    tdm_stream *second;          /* both: the way back has a stream of its own */
} transfer_run;

/* Allocate and fill. Blocking. The caller releases what was made, on failure too. */
tdm_status transfer_run_create(tdm_device *device, tdm_stream *stream, const memory_case *item,
                               transfer_run *run);
/* Waits for its own stream; the other must have been waited for. */
void transfer_run_release(transfer_run *run);

tdm_status transfer_run_enqueue(const transfer_run *run, const memory_case *item,
                                tdm_stream *stream);
tdm_status transfer_run_wait(const transfer_run *run, tdm_stream *stream);

/* The output as memory_case_check wants it. Blocking. */
size_t transfer_run_output_bytes(const memory_case *item);
tdm_status transfer_run_output(const transfer_run *run, const memory_case *item, tdm_stream *stream,
                               void *bytes);

#endif
