/*
 * One case of the elementwise suite, for parent and workers: y = op(x), y = a op b, or a type
 * conversion.
 */
#ifndef TANDEM_BENCH_CASES_ELEMENTWISE_CASE_H
#define TANDEM_BENCH_CASES_ELEMENTWISE_CASE_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/ops.h>

#include "bench/cases/quant_case.h"
#include "bench/protocol/worker_protocol.h"

typedef enum elementwise_kind {
    ELEMENTWISE_UNARY,
    ELEMENTWISE_BINARY,
    ELEMENTWISE_CONVERT
} elementwise_kind;

typedef struct elementwise_case {
    elementwise_kind kind;
    int op;          /* a tdm_unary or tdm_binary */
    tdm_dtype dtype; /* dtype of the inputs */
    tdm_dtype to;    /* dtype of the output; differs only for conversions */
    int64_t count;   /* elements */
    uint64_t seed;
} elementwise_case;

/* Lists the operations for the option table: "neg|abs|…|add|…|convert". */
#define ELEMENTWISE_CHOICE(name, value, text, ...) text "|"
#define ELEMENTWISE_CHOICES                                                                        \
    TDM_UNARY_LIST(ELEMENTWISE_CHOICE) TDM_BINARY_LIST(ELEMENTWISE_CHOICE) "convert"

/* Sets kind and op. Returns -1 for an unknown name. */
int elementwise_operation_parse(const char *name, elementwise_case *item);

/* Writes the case's name: "relu f16 1048576", "convert f32 bf16 1048576". */
void elementwise_case_name(const elementwise_case *item, char *name, size_t size);

void elementwise_case_write(const elementwise_case *item, worker_text *line);
int elementwise_case_read(const char *line, elementwise_case *item);

int elementwise_case_inputs(const elementwise_case *item);

/* Return the bytes of one input, and of the output. */
size_t elementwise_case_input_bytes(const elementwise_case *item);
size_t elementwise_case_output_bytes(const elementwise_case *item);

/* Returns the bytes that a call reads and writes. */
double elementwise_case_traffic(const elementwise_case *item);

/*
 * Returns a case of the quant suite that computes nothing. It moves as many bytes as this case,
 * with the same ratio of bytes read to bytes written.
 */
quant_case elementwise_case_stream(const elementwise_case *item);

/*
 * Returns the content of input 0 or 1: random numbers in [-1.5, 1.5) within the operation's domain.
 * Release with free. Returns NULL if memory is short.
 */
void *elementwise_case_input(const elementwise_case *item, int input);

/*
 * Checks an output; it is a bench_verifier (bench_runner.h). Every element must be within the error
 * bounds of common/op_elementwise.h, rounded to the output's type.
 */
int elementwise_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                           worker_text *reason);

#endif
