/*
 * Describes one GEMM case D = op(A)·op(B), for parent and workers. It has a request line, data made
 * from a seed, and a check of the output.
 *
 * All matrices are dense and row-major: A is m×k (k×m when transposed), B is k×n (n×k), D is m×n.
 * The matrices of a batch follow one another.
 */
#ifndef TANDEM_BENCH_CASES_GEMM_CASE_H
#define TANDEM_BENCH_CASES_GEMM_CASE_H

#include <tandem/device.h>
#include <tandem/outofcore.h>

#include "bench/cases/gemm_types.h"
#include "bench/protocol/worker_protocol.h"

/*
 * The epilogue of D besides rounding: act(sum + bias of the column + residual). A requantized D
 * allows only a bias (s32) and relu. A D that holds the integer sums themselves allows no epilogue.
 */
typedef struct gemm_case_epilogue {
    int bias, residual;
    tdm_activation activation;
} gemm_case_epilogue;

/* The kind of call that is measured. */
typedef enum gemm_way {
    GEMM_BY_PLAN, /* runs a prepared plan */
    GEMM_BY_CALL  /* calls tdm_gemm, whose plan is in the cache */
} gemm_way;

typedef struct gemm_case {
    gemm_types types;
    int64_t m, n, k;
    int64_t batch; /* matrices that one call multiplies; 0 means 1 */
    int transpose_a, transpose_b;
    int prepacked;  /* B is packed before the timing starts */
    int64_t rotate; /* calls cycle through copies of B of this total size in bytes; 0: one B */
    gemm_way way;
    int64_t budget; /* outofcore suite: bytes of device memory; 0 elsewhere */
    gemm_case_epilogue epilogue;
    uint64_t seed;
} gemm_case;

enum {
    GEMM_CASE_MAX_COPIES = 64
};

/*
 * Returns the case in the form of common/op_gemm.h, which defines its work, shapes and error bound.
 */
op_gemm_case gemm_case_operation(const gemm_case *item);

/* Adds the case's fields to a request line. */
void gemm_case_write(const gemm_case *item, worker_text *line);

/* Reads a request line. Returns -1 if fields are missing or out of range. */
int gemm_case_read(const char *line, gemm_case *item);

/*
 * Writes the case's name. Examples:
 *   "f32 512x512x512 nn"
 *   "f32 96*512x512x64 nt": a batch
 *   "f32 1x64x64 nn, 4 Bs": calls cycle through four copies of B
 *   "f16 64x64x64 nn +bias+residual+gelu": with an epilogue
 */
void gemm_case_name(const gemm_case *item, char *text, size_t size);

/* Returns the dtype of an operand, or TDM_DTYPE_NONE if the case has no such operand. */
tdm_dtype gemm_case_dtype(const gemm_case *item, op_gemm_operand operand);

/* Returns the number of matrices in the batch, at least 1. */
int64_t gemm_case_batch(const gemm_case *item);

/*
 * Parses a complete "[BATCH*]MxNxK" into the case. Returns -1 for anything else, or if the shape is
 * too large to be checked.
 */
int gemm_case_parse_shape(const char *word, gemm_case *item);
extern const char gemm_case_shape_rule[]; /* the rule for shapes, for an error message */

/* Return an operand's elements and bytes over the whole batch. A bias counts its single row. */
size_t gemm_case_elements(const gemm_case *item, op_gemm_operand operand);
size_t gemm_case_bytes(const gemm_case *item, op_gemm_operand operand);

/* Returns the number of copies of B, at least 1, through which the case's calls cycle. */
int gemm_case_copies(const gemm_case *item);

/* Returns the bytes of A, B with its scales, D, bias and residual together. */
double gemm_case_operand_bytes(const gemm_case *item);

/*
 * Returns 1 if the case fits into host memory, and into the device's memory if that is separate.
 * Each of `processes` keeps the operands and a packed B. B must also fit into one allocation of the
 * device. A limit that the device does not report (0) is ignored. Otherwise returns 0 and sets the
 * reason.
 */
int gemm_case_fits(const gemm_case *item, int processes, const tdm_device_info *info,
                   worker_text *reason);

/*
 * Fills an operand with the same values in every process. Floats are uniform in [-1, 1), bytes
 * cover their whole range, and the magnitude of an s32 bias is below 2^15.
 */
void gemm_case_fill(const gemm_case *item, op_gemm_operand operand, void *data);

/*
 * Return the quantization parameters of an operand of quantized types: real = scale · (stored −
 * zero point). A has one scale. B has one scale per column and group of steps along K, stored in
 * the dtype of the case's types. The scale of D makes products of random bytes reach both ends of
 * D's range, and sometimes exceed them.
 */
int64_t gemm_case_groups(const gemm_case *item);
float gemm_case_scale(const gemm_case *item, op_gemm_operand operand, int64_t group,
                      int64_t column);
int32_t gemm_case_zero_point(const gemm_case *item, op_gemm_operand operand);

/*
 * Allocates and fills an operand. D is filled with NaN, or with bytes of 0x80 if its dtype is an
 * integer. Returns NULL if memory is short; release with free.
 */
void *gemm_case_create(const gemm_case *item, op_gemm_operand operand);

/* The header of an output of the outofcore suite; D follows it. */
typedef struct outofcore_output {
    tdm_outofcore_info info;
    tdm_outofcore_times measured; /* times of one more run, with events around each step */
} outofcore_output;

/*
 * The expected entries of D. D is cut into squares, and one entry of each square is computed in
 * double. Squares of side 1, which cover every entry, are used up to some millions of products.
 * Larger cases get larger squares. Start from GEMM_ORACLE_INIT.
 */
typedef struct gemm_answer gemm_answer;
typedef struct gemm_oracle {
    gemm_case item;
    gemm_answer *entries;
    size_t count;
} gemm_oracle;

#define GEMM_ORACLE_INIT                                                                           \
    { .entries = NULL }

/*
 * Prepares the oracle for the next case. It computes nothing if the previous case had the same
 * data. Returns -1 if memory is short.
 */
int gemm_oracle_set(gemm_oracle *oracle, const gemm_case *item);
void gemm_oracle_release(gemm_oracle *oracle);

/*
 * Checks an output; it is a bench_verifier (bench_runner.h), and `user` is a gemm_oracle. An exact
 * D must match bit for bit; otherwise the bound of common/op_gemm.h holds. max_error is the
 * greatest |d - d64| / (|A||B|)ij.
 */
int gemm_oracle_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason);

#endif
