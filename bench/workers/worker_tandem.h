/* The program serves as its own worker with the hidden commands `tandem _worker <suite>`. */
#ifndef TANDEM_BENCH_WORKERS_WORKER_TANDEM_H
#define TANDEM_BENCH_WORKERS_WORKER_TANDEM_H

#include <tandem/tandem.h>

#include "bench/protocol/worker_serve.h"

/*
 * A worker that uses the library. Each function gets the worker's state, which starts with a
 * worker_device. The rest of the state is zero before `read`.
 */
typedef struct tandem_worker {
    const char *name;
    size_t bytes; /* size of the state */
    /* Reads the case of a request line. Returns -1 if it cannot be read. */
    int (*read)(void *state, const char *request);
    /* Prepares the case. It may add fields to the reply. */
    tdm_status (*prepare)(void *state, const char *request, worker_text *reply);
    tdm_status (*enqueue)(void *state);
    /* Waits for what was enqueued. NULL: the device's stream is synchronized. */
    tdm_status (*wait)(void *state);
    size_t (*output_bytes)(const void *state); /* size of a prepared case's output */
    tdm_status (*output)(void *state, void *bytes);
    void (*release)(void *state);
    /*
     * Returns the reason why no case can run, or NULL. It is called before a device is opened. May
     * be NULL.
     */
    const char *(*refusal)(void);
} tandem_worker;

/* The device that the first request names. It stays the same for the life of the worker. */
typedef struct worker_device {
    const tandem_worker *worker;
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
} worker_device;

/* Serves until quit. Returns the exit code. */
int tandem_worker_serve(const tandem_worker *worker);

/* Creates a tensor with this content; NULL: zeros. */
tdm_status worker_tensor_create(const worker_device *own, tdm_dtype dtype, int rank,
                                const int64_t *shape, const void *content, size_t bytes,
                                tdm_tensor **tensor);

/*
 * Replaces a stored tensor by a quantized one with these parameters. Destroys `scale` and
 * `zero_point` (which may be NULL).
 */
tdm_status worker_tensor_quantize(tdm_quantization *parameters, tdm_tensor *scale,
                                  tdm_tensor *zero_point, tdm_tensor **tensor);

extern const tandem_worker worker_gemm, worker_memory, worker_quant, worker_elementwise,
    worker_probe, worker_pool, worker_outofcore, worker_memcpy, worker_nn;
extern const tandem_worker
    worker_bare_cuda; /* for the launch suite: enqueues kernels with the bare driver */

/* Runs `tandem _worker SUITE`. */
int worker_command(int argc, char **argv);

#endif
