/* The hidden commands `tandem _worker <suite>`: the program as its own worker. */
#ifndef TANDEM_BENCH_WORKERS_WORKER_TANDEM_H
#define TANDEM_BENCH_WORKERS_WORKER_TANDEM_H

#include <tandem/tandem.h>

#include "bench/protocol/worker_serve.h"

/* The device that the first request names; it stays the same for the life of the worker. */
typedef struct worker_device {
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
} worker_device;

/* Open the device of the field "index" once; it must be the one of the field "selector". */
worker_answer worker_device_open(worker_device *own, const char *request, worker_text *reply);
void worker_device_close(worker_device *own);

/*
 * WORKER_OK for TDM_OK. Otherwise an answer with the library's detail text: WORKER_SKIP for
 * TDM_UNSUPPORTED.
 */
worker_answer worker_library_answer(const char *what, tdm_status status, worker_text *reply);

/* worker_implementation.identify: the library's version. */
void worker_device_identify(void *state, worker_text *reply);

/* For the three below the state of an implementation starts with its worker_device. */

/* worker_implementation.wait: everything enqueued on the device's stream. */
worker_answer worker_device_wait(void *state, worker_text *reply);

/* The implementation of a suite by the library, in the file's own functions of the members' names. */
#define WORKER_TANDEM_IMPLEMENTATION                                                               \
    {                                                                                              \
        .name = "tandem", .identify = worker_device_identify, .describe = describe,                \
        .enqueue = enqueue, .wait = worker_device_wait, .output_bytes = output_bytes,              \
        .output = output, .release = release                                                       \
    }

/* Serve until quit, then close the device. Returns the exit code. */
int worker_device_serve(const worker_implementation *implementation, void *state);

/* Each serves one suite until quit and returns the exit code. */
int worker_tandem_gemm(void);
int worker_tandem_memory(void);
int worker_tandem_quant(void);
int worker_tandem_elementwise(void);
int worker_probe(void);
int worker_tandem_launch(void);
int worker_bare_cuda(void); /* of the launch suite: no launch of Tandem's */
int worker_tandem_pool(void);
int worker_tandem_outofcore(void);
int worker_memcpy(void);

/* `tandem _worker SUITE` */
int worker_command(int argc, char **argv);

#endif
