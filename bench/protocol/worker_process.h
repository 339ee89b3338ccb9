/*
 * The parent's side of worker_protocol.h: starts a worker, sends it requests, and survives its
 * failures.
 */
#ifndef TANDEM_BENCH_PROTOCOL_WORKER_PROCESS_H
#define TANDEM_BENCH_PROTOCOL_WORKER_PROCESS_H

#include "bench/protocol/worker_protocol.h"

typedef struct worker_process worker_process;

typedef struct worker_launch {
    const char *program;          /* path of the executable */
    const char *const *arguments; /* after the program's name, NULL-terminated; may be NULL */
    int show_messages;            /* repeat its standard error on ours after each answer */
} worker_launch;

/*
 * Starts a worker, waits for its greeting and copies it to `greeting`. Returns NULL if the worker
 * cannot be started, does not greet in time or speaks another protocol. `greeting` then holds the
 * reason.
 */
worker_process *worker_start(const worker_launch *launch, double timeout_s, worker_text *greeting);

/*
 * Send the requests of the protocol and wait for the answer. `reply` gets the fields of an ok, or
 * the reason. A worker that dies or does not answer in time is stopped, and all further requests
 * return WORKER_FAIL.
 */
worker_answer worker_describe(worker_process *worker, const char *fields, double timeout_s,
                              worker_text *reply);
worker_answer worker_run(worker_process *worker, int64_t samples, int64_t calls, int wait_each,
                         double timeout_s, double *seconds, worker_text *reply);
/* *bytes points to the mapped output, valid until the next request; NULL: no output. */
worker_answer worker_result(worker_process *worker, double timeout_s, const void **bytes,
                            size_t *size, worker_text *reply);

int worker_is_alive(const worker_process *worker);

/* True if the worker was stopped because an answer did not come in time. */
int worker_was_late(const worker_process *worker);

/*
 * Asks the worker to quit and waits for its end. Returns WORKER_FAIL, with the reason, if it had
 * ended before, exits with a code other than 0, dies, or has to be stopped.
 */
worker_answer worker_quit(worker_process *worker, worker_text *reply);

/* Lets the worker quit, or stops it, and frees its resources. NULL is accepted. */
void worker_stop(worker_process *worker);

#endif
