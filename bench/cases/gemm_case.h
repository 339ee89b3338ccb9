/*
 * One GEMM case D = op(A)·op(B), as parent and workers see it: its request line, its data from the
 * seed, and the check of an output.
 *
 * All matrices are dense and row-major: A is m×k (k×m when transposed), B is k×n (n×k), D is m×n; those of
 * a batch follow one another.
 */
#ifndef TANDEM_BENCH_CASES_GEMM_CASE_H
#define TANDEM_BENCH_CASES_GEMM_CASE_H

#include <tandem/device.h>
#include <tandem/outofcore.h>

#include "bench/cases/gemm_types.h"
#include "bench/protocol/worker_protocol.h"

/*
 * What the store of D does beside rounding: act(sum + bias of the column + residual). Of sums that are requantized bias (of s32)
 * and relu alone, of sums that are the output nothing.
 */
typedef struct gemm_case_epilogue {
    int bias, residual;
    tdm_activation activation;
} gemm_case_epilogue;

/* A call is one of these. */
typedef enum gemm_way {
    GEMM_BY_PLAN, /* its plan runs */
    GEMM_BY_CALL  /* tdm_gemm, its plan in the cache */
} gemm_way;

typedef struct gemm_case {
    gemm_types types;
    int64_t m, n, k;
    int64_t batch; /* matrices that one call multiplies; 0 is 1 */
    int transpose_a, transpose_b;
    int prepacked;  /* B is packed before the timing starts */
    int64_t rotate; /* calls take copies of B in turn that have so many bytes together; 0: one B */
    gemm_way way;
    int64_t budget; /* of the outofcore suite: bytes of device memory; 0 elsewhere */
    gemm_case_epilogue epilogue;
    uint64_t seed;
} gemm_case;

enum {
    GEMM_CASE_MAX_COPIES = 64
};

/* The case as tests and benchmarks describe GEMM: its work, shapes and error bound. */
op_gemm_case gemm_case_operation(const gemm_case *item);

/* Add the case's fields to a request line. */
void gemm_case_write(const gemm_case *item, worker_text *line);

/* Read a request line; -1 when fields are missing or out of range. */
int gemm_case_read(const char *line, gemm_case *item);

/* "f32 512x512x512 nn", of a batch "f32 96*512x512x64 nt", where calls take four copies of B in turn "f32 1x64x64 nn, 4 Bs", with
 * an epilogue "f16 64x64x64 nn +bias+residual+gelu" */
void gemm_case_name(const gemm_case *item, char *text, size_t size);

/* What an operand is stored in; TDM_DTYPE_NONE: there is no such operand. */
tdm_dtype gemm_case_dtype(const gemm_case *item, op_gemm_operand operand);

/* Matrices of the batch, at least 1. */
int64_t gemm_case_batch(const gemm_case *item);

/* "[BATCH*]MxNxK" in full into the case; -1 when it is something else, or too large to be checked. */
int gemm_case_parse_shape(const char *word, gemm_case *item);
extern const char gemm_case_shape_rule[]; /* what a shape must be, for a refusal */

/* Elements and bytes of an operand, of the whole batch; of a bias its only row. */
size_t gemm_case_elements(const gemm_case *item, op_gemm_operand operand);
size_t gemm_case_bytes(const gemm_case *item, op_gemm_operand operand);

/* Copies of B, at least 1, that the case's calls take in turn. */
int gemm_case_copies(const gemm_case *item);

/* Bytes of A, B with its scales, D, bias and residual together. */
double gemm_case_operand_bytes(const gemm_case *item);

/*
 * Whether the case fits into the host's memory, and the device's where that is another, where so many processes keep the operands and a
 * packed B each, and B into one allocation of the device. What the device does not tell (0) is no limit. Otherwise 0, and the reason is set.
 */
int gemm_case_fits(const gemm_case *item, int processes, const tdm_device_info *info,
                   worker_text *reason);

/* An operand's values, the same in every process: floats uniform in [-1, 1), bytes over their whole range, a bias of s32 in [-2^15, 2^15). */
void gemm_case_fill(const gemm_case *item, op_gemm_operand operand, void *data);

/*
 * The quantization parameters of an operand of quantized types: real = scale · (stored − zero point). A has one scale, B one
 * for each column and group of steps along K; its scale is a number of the dtype that the types say. That of D is such that
 * products of random bytes reach both ends of its range, and go beyond them now and then.
 */
int64_t gemm_case_groups(const gemm_case *item);
float gemm_case_scale(const gemm_case *item, op_gemm_operand operand, int64_t group,
                      int64_t column);
int32_t gemm_case_zero_point(const gemm_case *item, op_gemm_operand operand);

/*
 * An operand, allocated and filled (D: with what no product is, NaN or almost the least integer). NULL when memory is short; release
 * with free.
 */
void *gemm_case_create(const gemm_case *item, op_gemm_operand operand);

/* An output within a budget begins with this, before D. */
typedef struct outofcore_output {
    tdm_outofcore_info info;
    tdm_outofcore_times measured; /* of one more run, with events around each step */
} outofcore_output;

/*
 * What D must be: an exact entry in double in every square that D is cut into, whose side is 1 (every entry) up to some millions of
 * products. Start from GEMM_ORACLE_INIT.
 */
typedef struct gemm_answer gemm_answer;
typedef struct gemm_oracle {
    gemm_case item;
    gemm_answer *entries;
    size_t count;
} gemm_oracle;

#define GEMM_ORACLE_INIT                                                                           \
    { .entries = NULL }

/* Prepares the oracle for the next case, and computes nothing where its data are those of the case before. -1 when memory is short. */
int gemm_oracle_set(gemm_oracle *oracle, const gemm_case *item);
void gemm_oracle_release(gemm_oracle *oracle);

/*
 * For bench_runner.h; `user` is a gemm_oracle: every bit where D is exact, otherwise within the bound of common/op_gemm.h. max_error is
 * the greatest |d - d64| / (|A||B|)ij.
 */
int gemm_oracle_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason);

#endif
