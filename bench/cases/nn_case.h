/*
 * One case of the nn suite, for parent and workers: an operation of neural networks on random
 * tensors. A list of tensors describes the operation. The last of them is its output.
 */
#ifndef TANDEM_BENCH_CASES_NN_CASE_H
#define TANDEM_BENCH_CASES_NN_CASE_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/dtype.h>

#include "bench/cases/quant_case.h"
#include "bench/protocol/worker_protocol.h"

typedef enum nn_operation {
    NN_PREFILL, /* causal attention of `rows` queries and as many keys */
    NN_DECODE,  /* attention of one query */
    NN_RMS,
    NN_LAYER,
    NN_GATHER,
    NN_SCATTER,
    NN_EMBED, /* gathers rows of a quantized table, and dequantizes them */
    NN_ROPE,
    NN_SOFTMAX,
    NN_WHERE,
    NN_COMPARE,
    NN_CONCAT /* joins two halves of each row */
} nn_operation;

/* Lists the operations for the option table, in the order of the enum. */
#define NN_OPERATIONS                                                                              \
    "prefill|decode|rms|layer|gather|scatter|embed|rope|softmax|where|compare|concat"

enum {
    NN_GROUP = 32, /* elements that share a scale */
    NN_MAX_RANK = 4,
    NN_MAX_TENSORS = 4
};

typedef struct nn_case {
    nn_operation operation;
    tdm_dtype dtype;       /* dtype of the output, but for NN_COMPARE, and of inputs */
    tdm_dtype stored;      /* dtype of the cache of NN_DECODE and of the table of NN_EMBED */
    int64_t rows, columns; /* attention: queries and width of a head */
    int64_t heads, kv_heads, keys; /* attention only, else 1 */
    uint64_t seed;
} nn_case;

/* A tensor of type s8 has one f32 scale for each group of NN_GROUP elements of a row. */
typedef struct nn_tensor {
    tdm_dtype dtype;
    int rank;
    int64_t shape[NN_MAX_RANK];
} nn_tensor;

/* Returns -1 for an unknown name. */
int nn_operation_parse(const char *name, nn_operation *operation);
int nn_case_is_attention(const nn_case *item);

/* Writes the case's name: "rms f16 256x1024", "decode f32 s8 32/8x1x128 4096 keys". */
void nn_case_name(const nn_case *item, char *name, size_t size);

void nn_case_write(const nn_case *item, worker_text *line);
/* Returns -1 for a missing or invalid field, and for columns that are no multiple of NN_GROUP. */
int nn_case_read(const char *line, nn_case *item);

/* Sets the tensors of a case, the output last. Returns their number. */
int nn_case_tensors(const nn_case *item, nn_tensor tensors[NN_MAX_TENSORS]);
int64_t nn_tensor_elements(const nn_tensor *tensor);
size_t nn_tensor_bytes(const nn_tensor *tensor); /* without scales */

/* Returns the floating-point operations of NN_PREFILL: those of keys that a query sees. Else 0. */
double nn_case_flops(const nn_case *item);

/*
 * Returns the bytes that a call must read and write, including scales. NN_DECODE counts only the
 * cache, and NN_PREFILL counts none.
 */
double nn_case_traffic(const nn_case *item);

/*
 * Returns a case of the quant suite that computes nothing and moves as many bytes, with nearly the
 * same ratio of bytes read to bytes written.
 */
quant_case nn_case_stream(const nn_case *item);

/*
 * Return the content of a tensor by its number in the list, and the scales of an s8 tensor. The
 * content of an output is all ones, which is NaN for floats. Release with free. NULL: memory is
 * short.
 */
void *nn_case_content(const nn_case *item, int number);
float *nn_case_scales(const nn_tensor *tensor);

/*
 * Checks an output; it is a bench_verifier (bench_runner.h). Every element is compared with a
 * result in double precision. NN_PREFILL compares 64 rows; elements of all others must be within
 * [-1, 1], as a mean of values is.
 */
int nn_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                  worker_text *reason);

#endif
