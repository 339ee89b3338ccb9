/*
 * How `tandem bench` talks to the worker processes that run what it measures.
 *
 * Every implementation, Tandem included, runs in a process of its own, so that a library that
 * crashes, hangs or spins disturbs nobody. Requests come on the worker's standard input, replies go
 * out on its standard output, one line each; the output of a run goes through a shared file that is
 * open as descriptor 3. What a library prints itself goes to standard error, whose last line is
 * given as the reason when the worker dies.
 *
 *   parent                               worker
 *   (starts it)                          ready protocol=1 impl=openblas version=… …
 *   describe suite=gemm m=… n=… …        ok variant=… | skip <reason> | fail <reason>
 *   run samples=S calls=C wait=last      ok <seconds per call> … (S numbers) | fail <reason>
 *   result                               ok bytes=N (now in the shared file) | fail <reason>
 *   quit                                 (exits with 0)
 *
 * `describe` allocates, fills the inputs from the seed, builds kernels and packs what is packed
 * once; it replaces the case before. `run` times S samples of C calls: wait=last enqueues C calls
 * and waits once (pipelined), wait=each waits after each call. `skip` means that the implementation
 * does not offer the case. End of input means quit. Between replies a worker sleeps in read().
 *
 * Values are percent-encoded (blank, control characters and '%'), so that a line splits at blanks.
 * Reasons are the rest of their line.
 */
#ifndef TANDEM_BENCH_PROTOCOL_WORKER_PROTOCOL_H
#define TANDEM_BENCH_PROTOCOL_WORKER_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

enum {
    WORKER_PROTOCOL = 1,
    WORKER_OUTPUT_DESCRIPTOR = 3,
    WORKER_MAX_LINE = 65536, /* room for WORKER_MAX_SAMPLES numbers */
    WORKER_MAX_SAMPLES = 1024,
    WORKER_MAX_TEXT = 1024 /* a request, a reason */
};

typedef enum worker_answer {
    WORKER_OK,
    WORKER_SKIP,
    WORKER_FAIL
} worker_answer;

/* A text that grows to a fixed size; what does not fit is cut. Start from {.length = 0}. */
typedef struct worker_text {
    char text[WORKER_MAX_TEXT];
    size_t length;
} worker_text;

/* Append printf-like text. */
void worker_text_add(worker_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replace the text: for reasons. */
void worker_text_set(worker_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append " key=value", encoded. */
void worker_field_add(worker_text *line, const char *key, const char *value);
void worker_field_add_integer(worker_text *line, const char *key, int64_t value);

/* Value of a field of a line, decoded. Returns 0 and an empty text when the line has none. */
int worker_field(const char *line, const char *key, char *value, size_t size);

/* Whole number of a field, `fallback` when the line has none or it is no number. */
int64_t worker_field_integer(const char *line, const char *key, int64_t fallback);

#endif
