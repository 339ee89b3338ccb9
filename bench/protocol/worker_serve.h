/*
 * The worker's side of worker_protocol.h: an implementation gives these functions, the loop is
 * shared.
 */
#ifndef TANDEM_BENCH_PROTOCOL_WORKER_SERVE_H
#define TANDEM_BENCH_PROTOCOL_WORKER_SERVE_H

#include "bench/protocol/worker_protocol.h"

/*
 * One implementation. `state` is its own. Functions that fail put the reason into `reply`;
 * WORKER_SKIP is for cases that the implementation does not offer. All run in the main thread.
 */
typedef struct worker_implementation {
    const char *name;
    /* Add fields to the greeting: version, configuration. May be NULL. */
    void (*identify)(void *state, worker_text *reply);
    /* Prepare the case of a request line; on success fields may be added to `reply`. */
    worker_answer (*describe)(void *state, const char *request, worker_text *reply);
    /* Run the case once; where `wait` is given, only enqueue it. */
    worker_answer (*enqueue)(void *state, worker_text *reply);
    /* Wait for everything enqueued. NULL where enqueue returns with the work done. */
    worker_answer (*wait)(void *state, worker_text *reply);
    /* Bytes of the output, 0 when there is none. */
    size_t (*output_bytes)(void *state);
    /* Store the output of the last run. */
    worker_answer (*output)(void *state, void *bytes, worker_text *reply);
    /* Release what describe prepared; legal when there is nothing. */
    void (*release)(void *state);
} worker_implementation;

/* Serve until quit or the end of input. Returns the process's exit code. */
int worker_serve(const worker_implementation *implementation, void *state);

#endif
