/*
 * The worker's side of worker_protocol.h. An implementation provides these functions; all share one
 * loop.
 */
#ifndef TANDEM_BENCH_PROTOCOL_WORKER_SERVE_H
#define TANDEM_BENCH_PROTOCOL_WORKER_SERVE_H

#include "bench/protocol/worker_protocol.h"

/*
 * An implementation, with its own `state`. A function that fails puts the reason into `reply`.
 * WORKER_SKIP is for cases that the implementation does not offer. All functions run in the main
 * thread.
 */
typedef struct worker_implementation {
    const char *name;
    /* Adds fields to the greeting: version, configuration. May be NULL. */
    void (*identify)(void *state, worker_text *reply);
    /* Prepares the case of a request line. On success it may add fields to `reply`. */
    worker_answer (*describe)(void *state, const char *request, worker_text *reply);
    /* Runs the case once, or only enqueues it if there is a `wait`. */
    worker_answer (*enqueue)(void *state, worker_text *reply);
    /* Waits for everything enqueued. NULL if the work is done when enqueue returns. */
    worker_answer (*wait)(void *state, worker_text *reply);
    /* Returns the bytes of the output, 0 if there is none. */
    size_t (*output_bytes)(void *state);
    /* Stores the output of the last run. */
    worker_answer (*output)(void *state, void *bytes, worker_text *reply);
    /* Frees what describe prepared. It may also be called when there is nothing to free. */
    void (*release)(void *state);
} worker_implementation;

/* Serves until quit or the end of input. Returns the process's exit code. */
int worker_serve(const worker_implementation *implementation, void *state);

#endif
