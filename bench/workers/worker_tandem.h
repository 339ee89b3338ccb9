/* The hidden commands `tandem _worker <suite>`: the program as its own worker. */
#ifndef TANDEM_BENCH_WORKERS_WORKER_TANDEM_H
#define TANDEM_BENCH_WORKERS_WORKER_TANDEM_H

#include <tandem/tandem.h>

#include "bench/protocol/worker_serve.h"

/* A worker that uses the library; each function gets its state, which starts with a worker_device and is zero but for that before `read`. */
typedef struct tandem_worker {
    const char *name;
    size_t bytes; /* of the state */
    /* The case of a request line: -1 when it cannot be read. */
    int (*read)(void *state, const char *request);
    /* Prepare it; fields may be added to the reply. */
    tdm_status (*prepare)(void *state, const char *request, worker_text *reply);
    tdm_status (*enqueue)(void *state);
    /* Wait for what was enqueued. NULL: for the device's stream. */
    tdm_status (*wait)(void *state);
    size_t (*output_bytes)(const void *state); /* of a prepared case */
    tdm_status (*output)(void *state, void *bytes);
    void (*release)(void *state);
    /* Why no case can run, asked before a device is opened; NULL where nothing is against it. NULL: never asked. */
    const char *(*refusal)(void);
} tandem_worker;

/* The device that the first request names; it stays the same for the life of the worker. */
typedef struct worker_device {
    const tandem_worker *worker;
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
} worker_device;

/* Serve until quit. Returns the exit code. */
int tandem_worker_serve(const tandem_worker *worker);

/* A tensor with this content, NULL for zeros. */
tdm_status worker_tensor_create(const worker_device *own, tdm_dtype dtype, int rank,
                                const int64_t *shape, const void *content, size_t bytes,
                                tdm_tensor **tensor);

/* In place of a stored tensor the same with these parameters; `scale` and `zero_point` (or NULL) are released. */
tdm_status worker_tensor_quantize(tdm_quantization *parameters, tdm_tensor *scale,
                                  tdm_tensor *zero_point, tdm_tensor **tensor);

extern const tandem_worker worker_gemm, worker_memory, worker_quant, worker_elementwise,
    worker_probe, worker_pool, worker_outofcore, worker_memcpy;
extern const tandem_worker worker_bare_cuda; /* of the launch suite: no launch of Tandem's */

/* `tandem _worker SUITE` */
int worker_command(int argc, char **argv);

#endif
