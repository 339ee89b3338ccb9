/*
 * The protocol between `tandem bench` and the worker processes that run the implementations.
 *
 * Every implementation, Tandem included, runs in a process of its own, so that a library that
 * crashes, hangs or spins disturbs nobody. Requests arrive on the worker's standard input, and
 * replies leave on its standard output, one line each. The output of a run goes through a shared
 * file that is open as descriptor 3. Messages of a library go to standard error, whose last line is
 * reported as the reason if the worker dies.
 *
 *   parent                               worker
 *   (starts it)                          ready protocol=1 impl=openblas version=… …
 *   describe types=… m=… n=… …           ok variant=… | skip <reason> | fail <reason>
 *   run samples=S calls=C wait=last      ok <seconds per call> … (S numbers) | fail <reason>
 *   result                               ok bytes=N (now in the shared file) | fail <reason>
 *   quit                                 (exits with 0)
 *
 * `describe` replaces the previous case: it allocates, fills the inputs from the seed, builds
 * kernels and packs prepacked operands. `run` times S samples of C calls: wait=last enqueues C
 * calls and waits once (pipelined), wait=each waits after each call. `skip` means that the
 * implementation does not offer the case. End of input means quit. Between replies a worker sleeps
 * in read().
 *
 * Values are percent-encoded (blank, control characters and '%'), so that blanks separate the
 * fields of a line. Reasons are the rest of their line.
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

/* A text in a buffer of fixed size. Text that does not fit is cut off. Start from {.length = 0}. */
typedef struct worker_text {
    char text[WORKER_MAX_TEXT];
    size_t length;
} worker_text;

/* Appends printf-like text. */
void worker_text_add(worker_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replaces the text, e.g. by a reason. */
void worker_text_set(worker_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append " key=value", encoded. */
void worker_field_add(worker_text *line, const char *key, const char *value);
void worker_field_add_integer(worker_text *line, const char *key, int64_t value);

/*
 * Decodes the value of a field of a line. Returns 0 and an empty text if the line has no such
 * field.
 */
int worker_field(const char *line, const char *key, char *value, size_t size);

/* Returns the integer value of a field, or `fallback` if the field is missing or not a number. */
int64_t worker_field_integer(const char *line, const char *key, int64_t fallback);

#endif
